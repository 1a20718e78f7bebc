"""What a worker does with handlers, leases and a service that is away."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import threading
import time

import pydantic
import pytest

from tickwheel import Client, Job, LeaseLost, Worker, testing
from tickwheel.errors import InvalidArgument

from .conftest import eventually


@dataclasses.dataclass
class Line:
    product: str
    count: int = 1


@dataclasses.dataclass
class Order:
    id: int
    lines: list[Line]
    note: str | None = None


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(gt=0)


ORDER = {"id": 1, "lines": [{"product": "tea"}]}


def test_payloads_and_results_have_types(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    def order(order: Order) -> Order:
        assert order == Order(1, [Line("tea")])
        return dataclasses.replace(order, note="seen")

    @worker.task(callback + "-pydantic")
    async def invoice(invoice: Invoice) -> Invoice:
        return Invoice(number=invoice.number + 1)

    with worker:
        result = client.wait(client.register(callback, ORDER).id, 5).result
        assert result == {"id": 1, "lines": [{"product": "tea", "count": 1}], "note": "seen"}
        assert client.wait(client.register(callback + "-pydantic", Invoice(number=1)).id, 5).result == {"number": 2}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"id": "1", "lines": []}, "the payload is not a Order: '1' where a whole number is expected (at id)"),
        ({"id": 1, "lines": [{}]}, "the payload is not a Order: it is missing (at lines[0].product)"),
        ([], "the payload is not a Order: a list where an object is expected"),
        (None, "the payload is not a Order: None where an object is expected"),
    ],
)
def test_a_payload_that_does_not_fit_fails_its_task(
    client: Client, worker: Worker, callback: str, payload: object, reason: str
) -> None:
    @worker.task(callback)
    def order(order: Order) -> None:
        raise AssertionError("it is not called")

    @worker.task(callback + "-pydantic")
    def invoice(invoice: Invoice) -> None:
        raise AssertionError("it is not called")

    with worker:
        task = client.wait(client.register(callback, payload).id, 5)
        assert (task.state, task.attempt, task.error) == ("failed", 1, reason)
        other = client.wait(client.register(callback + "-pydantic", {"number": 0}).id, 5)
        assert other.state == "failed"
        assert "greater than 0" in (other.error or "")


@pytest.mark.parametrize("result", [object(), float("nan"), "x" * (1 << 20)])
def test_a_result_that_is_of_no_use_fails_its_task(client: Client, worker: Worker, callback: str, result: object) -> None:
    @worker.task(callback)
    def run() -> object:
        return result

    with worker:
        task = client.wait(client.register(callback).id, 5)
    assert task.state == "failed"
    assert "the handler is done, but its result" in (task.error or "")


def test_handlers_that_cannot_be_called_are_refused(worker: Worker) -> None:
    def three(a: object, b: object, c: object) -> None: ...
    def unknown(payload: threading.Lock) -> None: ...
    def two_jobs(a: Job, b: Job) -> None: ...

    for function in (three, unknown, two_jobs):
        with pytest.raises(InvalidArgument):
            worker.task("x")(function)  # type: ignore[type-var]
    worker.task("x")(lambda: None)
    with pytest.raises(InvalidArgument, match="has a handler already"):
        worker.task("x")(lambda: None)
    with pytest.raises(InvalidArgument):
        worker.task("y", concurrency=0)
    with pytest.raises(InvalidArgument, match="no handlers"):
        Worker().start()


def test_concurrency_is_by_callback(client: Client, worker: Worker, callback: str) -> None:
    limits = {callback: 2, callback + "-async": 7}
    most, running = dict.fromkeys(limits, 0), dict.fromkeys(limits, 0)
    lock, full = threading.Lock(), asyncio.Event()

    def enter(name: str, by: int) -> None:
        with lock:
            running[name] += by
            most[name] = max(most[name], running[name])

    @worker.task(callback, concurrency=2)
    def narrow(_: object, job: Job) -> None:
        enter(job.callback, 1)
        eventually(lambda: most[job.callback] == 2)
        enter(job.callback, -1)

    @worker.task(callback + "-async", concurrency=7)
    async def wide(_: object, job: Job) -> None:
        enter(job.callback, 1)
        if most[job.callback] == 7:
            full.set()
        await full.wait()
        enter(job.callback, -1)

    with worker:
        ids = [client.register(name).id for name in limits for _ in range(20)]
        for id in ids:
            assert client.wait(id, 30).state == "succeeded"
    assert most == limits


def test_an_attempt_that_takes_too_long_is_interrupted(client: Client, worker: Worker, callback: str) -> None:
    raised: list[BaseException] = []

    @worker.task(callback, attempt_timeout=1)
    def run(_: object, job: Job) -> int:
        try:
            while job.attempt == 1:
                time.sleep(0.01)
        except BaseException as error:
            raised.append(error)
            raise
        return job.attempt

    @worker.task(callback + "-async")
    async def run_async(_: object, job: Job) -> int:
        if job.attempt == 1:
            await asyncio.sleep(60)
        return job.attempt

    with worker:
        task = client.register(callback, retry={"initial": "50ms"})
        other = client.register(callback + "-async", retry={"initial": "50ms"}, attempt_timeout="1s")
        assert client.wait(task.id, 10).result == 2
        assert client.wait(other.id, 10).result == 2
    assert [type(one).__name__ for one in raised] == ["TimedOut"]
    assert (client.get(task.id).attempts or [])[0].error == "the attempt took longer than its time"


def test_a_handler_that_never_returns_does_not_keep_the_worker(client: Client, service: testing.Service, callback: str) -> None:
    begun, stuck = threading.Event(), threading.Event()
    worker = Worker(service.url, drain_timeout=0.1)

    @worker.task(callback)
    def run() -> None:
        begun.set()
        stuck.wait(20)  # in C: an exception from outside comes behind it

    with worker:
        client.register(callback)
        assert begun.wait(5)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    stuck.set()


def test_a_handler_that_cannot_be_interrupted_loses_its_lease(client: Client, worker: Worker, callback: str) -> None:
    stuck = threading.Event()

    @worker.task(callback, attempt_timeout=1)
    def run(_: object, job: Job) -> int:
        if job.attempt == 1:
            stuck.wait(30)  # in C: an exception from outside comes behind it
        return job.attempt

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        assert client.wait(task.id, 15).result == 2
        stuck.set()


def test_a_lost_lease_cancels_the_handler(client: Client, worker: Worker, callback: str) -> None:
    began = threading.Event()
    raised: list[BaseException] = []

    @worker.task(callback)
    def run(_: object, job: Job) -> None:
        began.set()
        try:
            for _ in range(1000):
                time.sleep(0.01)
        except LeaseLost as error:
            raised.append(error)
            raise

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        assert began.wait(5)
        # Somebody else settles the attempt, so that it is not this worker's any more.
        settled = client.worker.settle(worker.name, [{"id": task.id, "attempt": 1, "outcome": "succeeded", "result": 7}])
        assert settled[0].status == "ok"
        eventually(lambda: raised, 5)
    assert client.get(task.id).result == 7


def test_a_blocked_event_loop_costs_no_lease(client: Client, worker: Worker, callback: str) -> None:
    @worker.task(callback)
    async def run(_: object, job: Job) -> int:
        time.sleep(4)  # noqa: ASYNC251
        return job.attempt

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        assert client.wait(task.id, 10).result == 1


def test_an_extension_that_holds_the_lock_of_the_interpreter(client: Client, worker: Worker, callback: str) -> None:
    sleep = ctypes.PyDLL(None).usleep  # PyDLL holds the lock during a call

    @worker.task(callback)
    def run(_: object, job: Job) -> int:
        for _ in range(4):
            sleep(1_400_000)  # the bound of the README: half of 3 s
            time.sleep(0.1)
        return job.attempt

    with worker:
        task = client.register(callback, heartbeat_timeout="3s")
        time.sleep(6.5)
        assert client.wait(task.id, 10).result == 1


def test_coroutines_run_on_the_loop_of_the_program(client: Client, worker: Worker, callback: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        @worker.task(callback)
        async def run() -> bool:
            return asyncio.get_running_loop() is loop

        async with worker:
            task = await asyncio.to_thread(client.register, callback)
            assert (await asyncio.to_thread(client.wait, task.id, 5)).result is True

    asyncio.run(main())


def test_a_worker_outlives_its_service(callback: str) -> None:
    worker: Worker | None = None
    with testing.service() as first:
        worker = Worker(first.url)

        @worker.task(callback)
        def run() -> str:
            return "done"

        worker.start()
        assert first.client.wait(first.client.register(callback).id, 5).result == "done"
    time.sleep(0.5)
    try:
        with testing.service(listen=first.url.removeprefix("http://")) as second:
            assert second.client.wait(second.client.register(callback).id, 15).result == "done"
    finally:
        worker.stop()
