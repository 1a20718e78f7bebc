"""Concurrent calls travel together, and each caller has its own error, deadline and cancellation."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tickwheel import AsyncClient, Client, errors

from .fakes import Answer, json_answer, problem, server

NOW = "2026-01-01T00:00:00Z"


def task_answer(task: dict[str, Any]) -> dict[str, Any]:
    """A task as the service shows it."""
    fixed = {"attempt": 0, "create_time": NOW, "effective_start_time": NOW, "generation": 0, "max_attempts": 10}
    target = {"type": "callback", "name": task["callback"]}
    return {**fixed, "priority": "normal", "start_time": NOW, "state": "scheduled", "target": target, "id": task["id"]}


class Recorder:
    """A service that takes its time, and remembers who came together."""

    def __init__(self, seconds: float = 0.1) -> None:
        self.seconds = seconds
        self.batches: list[list[dict[str, Any]]] = []
        self.bytes: list[int] = []
        self.busy = threading.Lock()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.refuse: Callable[[dict[str, Any]], bool] = lambda task: False

    def __call__(self, method: str, path: str, body: bytes) -> Answer:
        if path == "/v1/ids":
            return json_answer(200, {"time": NOW, "wheels": 16})
        tasks = [json.loads(body)] if path == "/v1/tasks" else json.loads(body)["tasks"]
        assert self.busy.acquire(blocking=False), "two requests at once"
        try:
            self.batches.append(tasks)
            self.bytes.append(len(body))
            time.sleep(self.seconds)
            assert self.may_answer.wait(30)
        finally:
            self.busy.release()
        if any(map(self.refuse, tasks)):
            return problem(400, "invalid_request", False)
        if path == "/v1/tasks":
            return json_answer(201, task_answer(tasks[0]))
        return json_answer(200, {"results": [{"outcome": "created", "task": task_answer(task)} for task in tasks]})


def test_threads_that_come_meanwhile_are_the_next_batch() -> None:
    recorder = Recorder()
    with server(recorder) as url, Client(url) as client, ThreadPoolExecutor(40) as pool:
        tasks = list(pool.map(lambda n: client.register("c", n), range(40)))
    assert len({task.id for task in tasks}) == 40
    assert len(recorder.batches) <= 3
    assert sum(map(len, recorder.batches)) == 40


def test_coroutines_that_come_meanwhile_are_the_next_batch() -> None:
    recorder = Recorder()

    async def main(url: str) -> None:
        async with AsyncClient(url) as client:
            await client.register("c", "ids are known now", delay="1h")
            recorder.may_answer.clear()
            calls = [asyncio.ensure_future(client.register("c", n, delay="1h")) for n in range(600)]
            for _ in range(20):  # until each of them waits for an answer, however slow the machine is
                await asyncio.sleep(0)
            recorder.may_answer.set()
            await asyncio.gather(*calls)

    with server(recorder) as url:
        asyncio.run(main(url))
    assert [len(batch) for batch in recorder.batches] == [1, 256, 256, 88]
    assert [task["payload"] for batch in recorder.batches[1:] for task in batch] == list(range(600))


def test_a_batch_has_a_mebibyte_at_most() -> None:
    recorder = Recorder()

    async def main(url: str) -> None:
        async with AsyncClient(url) as client:
            await asyncio.gather(*(client.register("c", "x" * 300_000) for _ in range(8)))
            await client.register("c", "y" * 2_000_000)  # alone, it goes as it is

    with server(recorder) as url:
        asyncio.run(main(url))
    assert max(len(batch) for batch in recorder.batches) == 3
    assert max(recorder.bytes[:-1]) < 1 << 20


def test_a_lonely_caller_waits_for_nothing() -> None:
    recorder = Recorder(0)
    with server(recorder) as url, Client(url) as client:
        client.register("c")
        began = time.monotonic()
        for _ in range(50):
            client.register("c")
        assert time.monotonic() - began < 2.5  # with a timer of 50 ms it would be that
    assert [len(batch) for batch in recorder.batches] == [1] * 51


def test_each_caller_has_its_own_error() -> None:
    recorder = Recorder()
    recorder.refuse = lambda task: task["payload"] == 7

    def register(client: Client, n: int) -> object:
        try:
            return client.register("c", n).id
        except errors.Refused as error:
            return error.code

    with server(recorder) as url, Client(url) as client, ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda n: register(client, n), range(12)))
    assert results[7] == "invalid_request"
    assert len({*results}) == 12


def test_each_thread_has_its_own_deadline() -> None:
    recorder = Recorder(1)
    with server(recorder) as url, Client(url) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.register, "c", 0, timeout=5)
        time.sleep(0.2)
        short = pool.submit(client.register, "c", 1, timeout=0.3)
        long = pool.submit(client.register, "c", 2, timeout=5)
        began = time.monotonic()
        with pytest.raises(errors.DeadlineExceeded) as over:
            short.result()
        assert 0.2 < time.monotonic() - began < 0.8
        assert not over.value.sent
        assert first.result().id != long.result().id
    assert [task["payload"] for batch in recorder.batches for task in batch] == [0, 2]


def test_a_thread_whose_sender_ran_out_of_time_is_sent_again() -> None:
    recorder = Recorder(0.6)
    with server(recorder) as url, Client(url) as client, ThreadPoolExecutor(4) as pool:
        client.register("c", "ids are known now")
        first = pool.submit(client.register, "c", 0, timeout=5)
        time.sleep(0.1)
        leader = pool.submit(client.register, "c", 1, timeout=0.9)  # sends the next batch, with 0.4 s left for it
        time.sleep(0.05)
        follower = pool.submit(client.register, "c", 2, timeout=10)
        assert first.result().id
        with pytest.raises(errors.DeadlineExceeded) as over:
            leader.result()
        assert over.value.sent
        time.sleep(0.3)  # the fake takes one request at a time
        ids = {task["id"] for batch in recorder.batches for task in batch if task["payload"] == 2}
        assert {follower.result().id} == ids


def test_a_cancelled_coroutine_leaves_the_others_alone() -> None:
    recorder = Recorder(0.3)

    async def main(url: str) -> None:
        async with AsyncClient(url) as client:
            calls = [asyncio.create_task(client.register("c", n)) for n in range(4)]
            await asyncio.sleep(0.15)  # the first is under way
            calls[0].cancel()
            calls[2].cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            cancelled = [isinstance(one, asyncio.CancelledError) for one in results]
            assert cancelled == [True, False, True, False]
            with pytest.raises(errors.DeadlineExceeded):
                await client.register("c", 4, timeout=0.1)

    with server(recorder) as url:
        asyncio.run(main(url))


def test_cancels_travel_together(client: Client, callback: str) -> None:
    made = client.register_many([{"callback": callback, "delay": "1h"}] * 30)
    ids = [task.id for task in made if not isinstance(task, Exception)]
    with ThreadPoolExecutor(30) as pool:
        assert {answer.outcome for answer in pool.map(client.cancel, ids)} == {"cancelled"}


def test_tasks_of_a_sequence_run_in_the_order_of_the_calls(client: Client, callback: str) -> None:
    tasks = [client.register(callback, n, ordering_key="one") for n in range(20)]
    starts = [task.start_time for task in tasks]
    assert starts == sorted(starts)
    assert len({*starts}) == 20
