"""The kit for tests: a service that ends with its test, however that ends."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tickwheel import testing

from .conftest import eventually
from .processes import program

STARTS = """
import time
from tickwheel import testing
with testing.service() as service:
    print(service.pid, service.directory, flush=True)
    time.sleep(60)
"""


def test_it_starts_soon_and_leaves_nothing() -> None:
    began = time.monotonic()
    with testing.service() as service:
        assert time.monotonic() - began < 5  # some tenths of a second on a quiet machine
        assert service.client.register("greet").id
        assert "ready on" in service.log
    assert not service.directory.exists()
    assert not runs(service.pid)


def test_two_are_two() -> None:
    with testing.service() as one, testing.service() as two:
        one.client.register("greet", delay="1h")
        assert list(two.client.list(callback="greet")) == []


@pytest.mark.parametrize("signal", [9, 15])
def test_a_test_that_is_killed_leaves_nothing(signal: int) -> None:
    with program("-c", STARTS) as test:
        test.said("")
        eventually(lambda: test.lines)
        pid, directory = test.lines[0].split()
        test.signal(signal)
        test.ended()
    eventually(lambda: not runs(int(pid)))
    eventually(lambda: not Path(directory).exists())


def test_a_service_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(testing.ServiceFailed, match="--no-such-flag"), testing.service(arguments=["--no-such-flag"]):
        pass
    with pytest.raises(testing.ServiceFailed, match="cannot be started"), testing.service(program="/no/such/program"):
        pass
    monkeypatch.delenv("TICKWHEEL_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(testing.ServiceFailed, match="TICKWHEEL_BIN"):
        testing.find_program()


def runs(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
        state = re.search(r"State:\s(\w)", Path(f"/proc/{pid}/status").read_text())
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state is not None and state[1] != "Z"
