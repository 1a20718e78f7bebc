"""The programs of the README, as they stand there."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tickwheel import Client, testing

from .processes import program

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = dict(re.findall(r"<!-- runs: (\w+) -->\n```python\n(.*?)```", README, re.S))


def lines(name: str) -> int:
    """How many lines a program has, without empty ones."""
    return sum(bool(line.strip()) for line in BLOCKS[name].splitlines())


def test_a_producer_of_three_lines_and_a_worker_of_ten(service: testing.Service, client: Client) -> None:
    assert (lines("producer"), lines("worker")) == (3, 10)
    with program("-c", BLOCKS["worker"], TICKWHEEL_SERVER=service.url) as worker:
        with program("-c", BLOCKS["producer"], TICKWHEEL_SERVER=service.url) as producer:
            assert producer.ended() == 0, producer.errors
        task = next(client.list(callback="greet"))
        assert client.wait(task.id, 10).result == "hello Ada"
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0, worker.errors


def test_the_same_with_coroutines(service: testing.Service, client: Client) -> None:
    with program("-c", BLOCKS["coroutines"], TICKWHEEL_SERVER=service.url) as both:
        assert both.ended() == 0, both.errors
    assert both.lines == ["hello Ada"]


@pytest.mark.parametrize("name", sorted(set(BLOCKS) - {"producer", "worker", "coroutines"}))
def test_the_other_programs(service: testing.Service, name: str) -> None:
    with program("-c", BLOCKS[name], TICKWHEEL_SERVER=service.url) as one:
        assert one.ended() == 0, one.errors


def test_each_program_is_run() -> None:
    assert len(re.findall("```python", README)) == len(BLOCKS)
