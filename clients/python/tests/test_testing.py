"""The kit for tests: a service that ends with its test, however that ends."""

from __future__ import annotations

import datetime
import os
import re
import time
from pathlib import Path

import pytest

from tickwheel import Worker, testing
from tickwheel.errors import NotFound, Refused

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


def test_three_days_pass_within_a_test() -> None:
    with testing.service() as service:
        client, seen = service.client, list[tuple[str, datetime.datetime]]()
        worker = Worker(service.url)

        @worker.task("remind")
        def remind(payload: dict[str, str]) -> None:
            seen.append((payload["to"], client.clock.read().time))
            if payload["to"] == "ada":
                client.register("remind", {"to": "grace"}, delay="6h")

        began = service.now
        client.register("remind", {"to": "ada"}, delay=datetime.timedelta(days=3))
        with worker:
            waits = service.advance(days=2, hours=23)
            assert (waits.fired, seen) == (0, [])
            fires = service.advance(datetime.timedelta(hours=7))
        assert (fires.fired, fires.unsettled, fires.waiting) == (2, 0, 0)
        late = [at - began - datetime.timedelta(hours=hours) for (_, at), hours in zip(seen, (72, 78), strict=True)]
        assert [to for to, _ in seen] == ["ada", "grace"]
        assert all(datetime.timedelta() <= one < datetime.timedelta(minutes=1) for one in late), late


def test_a_clock_of_a_service_without_one_is_not_moved(service: testing.Service) -> None:
    with pytest.raises(NotFound, match="--test-clock"):
        service.advance(days=1)


def test_a_task_that_no_worker_takes_waits_and_a_jump_goes_forward_only() -> None:
    with testing.service() as service:
        service.client.register("nobody", delay="1h")
        passed = service.advance(hours=2)
        assert (passed.fired, passed.waiting, passed.unsettled) == (1, 1, 0)
        service.jump(service.now + datetime.timedelta(days=1))
        with pytest.raises(Refused, match="forward only"):
            service.jump(service.now - datetime.timedelta(days=2))


def runs(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
        state = re.search(r"State:\s(\w)", Path(f"/proc/{pid}/status").read_text())
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state is not None and state[1] != "Z"
