"""Servers that answer badly, or not at all: each is a typed error, or what the README says."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tickwheel import AsyncClient, Client, Worker, errors, testing

from .conftest import eventually
from .fakes import Answer, json_answer, problem, server
from .test_coalescing import NOW, task_answer

ID = "01a2279a-aa19-8000-8fda-9b4c8f927dfd"


def get_with(answer: Any, **options: Any) -> Any:
    """What `get` makes of an answer."""
    with server(answer if callable(answer) else lambda *_: answer) as url, Client(url, timeout=2, **options) as client:
        return client.get(ID)


def test_a_server_of_a_later_version_is_understood() -> None:
    later = {**task_answer({"callback": "c", "id": ID}), "state": "hibernating", "mood": {"is": "good"}}
    later["target"] = {"type": "pigeon", "loft": 7}
    task = get_with(json_answer(200, later))
    assert (task.state, task.target) == ("hibernating", {"type": "pigeon", "loft": 7})


def test_a_server_of_an_earlier_version_has_no_such_call() -> None:
    with pytest.raises(errors.NotFound) as missing:
        get_with(problem(404, "no_such_call", False))
    assert missing.value.code == "no_such_call"
    with pytest.raises(errors.UnexpectedAnswer, match="404"):
        get_with((404, {}, b"not here"))


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"content-type": "text/html"}, b"<html>Sign in</html>"),
        (200, {}, b""),
        (200, {}, b"\xff\xfe"),
        json_answer(200, []),
        json_answer(200, {"id": ID}),
        json_answer(200, {**task_answer({"callback": "c", "id": ID}), "attempt": "one"}),
        json_answer(200, {**task_answer({"callback": "c", "id": ID}), "start_time": "tomorrow"}),
        (302, {"location": "http://127.0.0.1:9/"}, b""),
        (418, {}, b"a teapot"),
    ],
)
def test_an_answer_that_is_not_the_services(answer: Answer) -> None:
    with pytest.raises(errors.UnexpectedAnswer) as unexpected:
        get_with(answer)
    assert unexpected.value.server.startswith("http://127.0.0.1:")
    assert not unexpected.value.retryable


def test_an_answer_that_is_compressed_badly() -> None:
    with pytest.raises(errors.UnexpectedAnswer):
        get_with((200, {"content-encoding": "gzip"}, b"no gzip"))


def test_a_connection_that_is_cut_is_tried_again() -> None:
    calls: list[float] = []

    def cut(*_: object) -> None:
        calls.append(time.monotonic())

    with pytest.raises(errors.NoAnswer) as cut_off:
        get_with(cut)
    assert cut_off.value.sent
    assert len(calls) > 3
    with pytest.raises(errors.NoAnswer) as half:
        get_with((200, {"content-length": "100"}, b'{"id"'))
    assert half.value.retryable


def test_nobody_is_there() -> None:
    began = time.monotonic()
    with Client("127.0.0.1:9", timeout=1) as client, pytest.raises(errors.NoAnswer) as refused:
        client.register("c")
    assert not refused.value.sent
    assert 0.4 < time.monotonic() - began < 3


def test_a_server_that_never_answers() -> None:
    with pytest.raises(errors.DeadlineExceeded) as over:
        get_with(lambda *_: time.sleep(3))
    assert over.value.sent
    assert isinstance(over.value, TimeoutError)


def test_a_server_that_answers_in_drops() -> None:
    def drops() -> Iterator[bytes]:
        for _ in range(30):
            time.sleep(0.1)
            yield b" "

    began = time.monotonic()
    with pytest.raises(errors.DeadlineExceeded):
        get_with(lambda *_: (200, {"content-length": "1000"}, drops()))
    assert time.monotonic() - began < 3.5


def test_a_batch_that_fails_leaves_the_results_of_the_others() -> None:
    def respond(method: str, path: str, body: bytes) -> Answer:
        if path == "/v1/ids":
            return json_answer(200, {"time": NOW, "wheels": 16})
        tasks = json.loads(body)["tasks"]
        if len(tasks) < 256:
            return problem(400, "invalid_request", False)
        return json_answer(200, {"results": [{"outcome": "created", "task": task_answer(task)} for task in tasks]})

    with server(respond) as url, Client(url) as client:
        results = client.register_many([{"callback": "c"}] * 300)
    assert [type(one).__name__ for one in results] == ["TaskResponse"] * 256 + ["Refused"] * 44


def test_429_and_503_are_repeated_when_the_service_says() -> None:
    calls: list[float] = []

    def busy(*_: object) -> Answer:
        calls.append(time.monotonic())
        if len(calls) < 3:
            return problem((429, 503)[len(calls) - 1], "overloaded", True, retry_after="1")
        return json_answer(200, task_answer({"callback": "c", "id": ID}))

    with server(busy) as url, Client(url, timeout=5) as client:
        assert client.get(ID).id == ID
    assert all(1 <= later - before < 4 for before, later in itertools.pairwise(calls))


def test_a_storm_of_429_ends_with_the_time_of_the_caller() -> None:
    calls: list[str] = []

    def storm(method: str, path: str, body: bytes) -> Answer:
        calls.append(path)
        return problem(429, "rate_limited", True, retry_after="0")

    async def main(url: str) -> list[Any]:
        async with AsyncClient(url, timeout=1) as client:
            return await asyncio.gather(*(client.register("c") for _ in range(50)), return_exceptions=True)

    with server(storm) as url:
        ended = asyncio.run(main(url))
    assert {type(one) for one in ended} <= {errors.Unavailable, errors.DeadlineExceeded}
    told = [one for one in ended if isinstance(one, errors.Unavailable)]
    assert {(one.code, one.status, one.trace_id is not None) for one in told} == {("rate_limited", 429, True)}
    assert len(calls) < 50  # one asks at a time, and its waits grow


def test_a_storm_of_429_for_tasks_ends_so_too() -> None:
    calls: list[str] = []

    def storm(method: str, path: str, body: bytes) -> Answer:
        if path == "/v1/ids":
            return json_answer(200, {"time": NOW, "wheels": 16})
        calls.append(path)
        return problem(429, "rate_limited", True, retry_after="0")

    with server(storm) as url, Client(url, timeout=1) as client, ThreadPoolExecutor(50) as pool:
        ended = [one.exception() for one in [pool.submit(client.register, "c") for _ in range(50)]]
    assert {type(one) for one in ended} <= {errors.Unavailable, errors.DeadlineExceeded}
    assert len(calls) < 50  # they travel together


def test_a_proxy_whose_server_is_away() -> None:
    answers = [(502, {}, b"Bad Gateway"), json_answer(200, task_answer({"callback": "c", "id": ID}))]
    assert get_with(lambda *_: answers.pop(0)).id == ID


def test_the_next_server_is_asked(service: testing.Service, callback: str) -> None:
    with server(lambda *_: problem(503, "draining", True)) as away:
        for servers in ([away, service.url], f"127.0.0.1:9,{service.url}"):
            with Client(servers, timeout=3) as client:
                began = time.monotonic()
                assert client.register(callback, delay="1h").outcome == "created"
                assert client.register(callback, delay="1h").outcome == "created"
                assert time.monotonic() - began < 2.5  # less than its time: it waits for nothing


def test_a_problem_has_its_fields(client: Client) -> None:
    with pytest.raises(errors.Refused) as refused:
        client.register("c", delay="soon")
    error = refused.value
    assert (error.code, error.status, error.field, error.retryable) == ("invalid_request", 400, "/delay", False)
    assert error.fields[0].detail
    assert error.trace_id
    with pytest.raises(errors.NotFound) as missing:
        client.callbacks.get("unknown")
    assert missing.value.code


@pytest.mark.parametrize(
    "task",
    [
        {"delay": -1},
        {"delay": float("inf")},
        {"delay": True},
        {"start_time": datetime.datetime(2030, 1, 1)},
        {"labels": {"a": object()}},
    ],
)
def test_arguments_that_cannot_be_sent(client: Client, task: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.register("c", **task)


@pytest.mark.parametrize("servers", ["", "ftp://x", "http://", "http://x:0", "http://x:99999", []])
def test_addresses_that_are_none(servers: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        Client(servers)


def test_a_worker_outlives_bad_answers() -> None:
    settled: list[str] = []
    polls: list[int] = []
    answers: list[Answer | None] = [
        (200, {}, b"<html>"),
        problem(429, "overloaded", True, retry_after="0"),
        None,
        problem(403, "forbidden", False),
        json_answer(500, {}),
    ]

    def bad(method: str, path: str, body: bytes) -> Answer | None:
        if path.endswith("/poll"):
            polls.append(1)
            if answers:
                return answers.pop(0)
            if len(settled) > 1:
                time.sleep(0.05)
                return json_answer(200, {"tasks": []})
            task = {"attempt": 1, "callback": "c", "claim_expire_time": NOW, "generation": 0, "heartbeat_timeout": "30s"}
            return json_answer(200, {"tasks": [{**task, "id": ID, "max_attempts": 3, "start_time": NOW, "future": 1}]})
        if path.endswith("/settle"):
            settled.extend(one["outcome"] for one in json.loads(body)["tasks"])
            if len(settled) == 1:
                return 502, {}, b"Bad Gateway"
            return json_answer(200, {"results": [{"status": "ok"} for _ in json.loads(body)["tasks"]]})
        return json_answer(200, {})

    done = threading.Event()
    with server(bad) as url:
        worker = Worker(url, concurrency=1)
        worker.task("c")(done.set)
        with worker:
            assert done.wait(20)
            eventually(lambda: len(settled) > 1)
    assert len(polls) > 5
