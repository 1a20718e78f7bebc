"""Workers that are told to stop, are killed, or are frozen."""

from __future__ import annotations

import signal
import time

import pytest

import tickwheel
from tickwheel import Client, testing

from .conftest import eventually
from .processes import worker


def register(client: Client, callback: str, count: int, max_attempts: int = 10) -> list[str]:
    one: tickwheel.requests.TaskRequest = {"callback": callback, "heartbeat_timeout": "3s", "max_attempts": max_attempts}
    tasks = client.register_many([one] * count)
    return [task.id for task in tasks if not isinstance(task, Exception)]


def test_sigterm_under_load_spends_no_attempt(service: testing.Service, client: Client, callback: str) -> None:
    # With a single attempt each, one that is spent would be the end of its task.
    ids = register(client, callback, 60, max_attempts=1)
    with worker(service.url, callback, 0.2) as first:
        first.said("end", 4)
        first.signal(signal.SIGTERM)
        assert first.ended() == 0
    assert first.lines[-1] == "stopped"
    assert first.count("begin") == first.count("end") < 60
    with worker(service.url, callback, 0.01, 16):
        tasks = [client.wait(id, 20) for id in ids]
    assert {task.state for task in tasks} == {"succeeded"}


def test_what_came_while_it_stopped_is_given_back_at_once(service: testing.Service, client: Client, callback: str) -> None:
    with worker(service.url, callback, 1.5, 1) as first, worker(service.url, callback, 0.01, 1) as second:
        (long,) = register(client, callback, 1)
        eventually(lambda: client.get(long).state == "processing")
        stopping, other = (first, second) if first.count("begin") else (second, first)
        stopping.signal(signal.SIGTERM)
        began = time.monotonic()
        for id in register(client, callback, 20):
            assert client.wait(id, 5).state == "succeeded"
        assert time.monotonic() - began < 5
        assert other.process.poll() is None
        assert stopping.ended() == 0
        assert client.get(long).state == "succeeded"


def test_handlers_that_take_too_long_are_given_back(service: testing.Service, client: Client, callback: str) -> None:
    (id,) = register(client, callback, 1)
    (other,) = register(client, callback + "-async", 1)
    with worker(service.url, callback, 60, drain=1) as slow:
        slow.said("begin", 2)
        slow.signal(signal.SIGTERM)
        assert slow.ended(20) == 0
    assert {line.split()[-1] for line in slow.lines if line.startswith("interrupted")} == {"Stopped", "CancelledError"}
    for one in (id, other):
        outcome = (client.get(one).attempts or [])[-1]
        assert outcome.outcome == "snoozed"


def test_a_second_signal_stops_at_once(service: testing.Service, client: Client, callback: str) -> None:
    register(client, callback, 1)
    with worker(service.url, callback, 60) as slow:
        slow.said("begin")
        slow.signal(signal.SIGTERM)
        time.sleep(0.3)
        began = time.monotonic()
        slow.signal(signal.SIGTERM)
        assert slow.ended() == -signal.SIGTERM
        assert time.monotonic() - began < 3  # not the ten seconds that handlers have


@pytest.mark.parametrize("kind", ["", "-async"])
def test_kill_9_runs_again_at_the_heartbeat_timeout(service: testing.Service, client: Client, callback: str, kind: str) -> None:
    with worker(service.url, callback, 60) as first:
        (id,) = register(client, callback + kind, 1)
        first.said("begin")
        with worker(service.url, callback, 0.01) as second:
            began = time.monotonic()
            first.process.kill()
            second.said("begin", within=10)
            assert 1 < time.monotonic() - began < 6
            task = client.wait(id, 5)
    assert (task.state, task.attempt) == ("succeeded", 2)


def test_a_worker_that_is_frozen_for_less_than_its_lease_keeps_it(
    service: testing.Service, client: Client, callback: str
) -> None:
    with worker(service.url, callback, 4) as frozen:
        (id,) = register(client, callback, 1)
        frozen.said("begin")
        time.sleep(1)
        frozen.signal(signal.SIGSTOP)
        time.sleep(1)
        frozen.signal(signal.SIGCONT)
        task = client.wait(id, 10)
    assert (task.state, task.attempt) == ("succeeded", 1)
    assert frozen.count("interrupted") == 0


@pytest.mark.parametrize(("kind", "raised"), [("", "LeaseLost"), ("-async", "CancelledError")])
def test_a_worker_that_is_frozen_for_longer_is_interrupted(
    service: testing.Service, client: Client, callback: str, kind: str, raised: str
) -> None:
    with worker(service.url, callback, 8) as frozen:
        (id,) = register(client, callback + kind, 1)
        frozen.said("begin")
        frozen.signal(signal.SIGSTOP)
        with worker(service.url, callback, 0.01) as other:
            assert client.wait(id, 10).state == "succeeded"
            other.said("end")
        frozen.signal(signal.SIGCONT)
        frozen.said("interrupted", within=3)
        time.sleep(0.2)
    assert frozen.lines[-1].split()[-1] == raised
    assert frozen.count("end") == 0
    assert client.get(id).attempt >= 2  # a poll of the frozen worker may have got it in between
