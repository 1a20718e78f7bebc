"""Clients in forked processes, and the client for coroutines beside that for threads."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings

import pytest

from tickwheel import AsyncClient, Client, errors, models, testing


def test_a_client_works_on_in_a_process_that_is_forked(client: Client, callback: str) -> None:
    stop = threading.Event()
    ids: list[str] = []

    def register() -> None:
        while not stop.is_set():
            ids.append(client.register(callback, "parent", delay="1d").id)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that threads run is the point
            child = os.fork()
        if child == 0:
            try:
                for _ in range(5):
                    client.register(callback, "child", delay="1d", timeout=5)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 5
    stop.set()
    for thread in threads:
        thread.join()
    found = [task.id for task in client.list(callback=callback, page_size=1000)]
    assert len(found) == len(ids) + 25
    assert {*ids} < {*found}


def test_the_client_for_coroutines(service: testing.Service, callback: str) -> None:
    async def main() -> None:
        async with AsyncClient(service.url) as client:
            task = await client.register(callback, {"n": 1}, delay="1h", key="k", on_conflict="ignore")
            assert (await client.get(task.id)).payload == {"n": 1}
            found = await client.find(callback, "k")
            assert found is not None
            assert [one.id async for one in client.list(callback=callback, page_size=1)] == [found.id]
            assert (await client.reschedule(task.id, delay=60)).outcome == "rescheduled"
            assert (await client.cancel(task.id)).outcome == "cancelled"
            assert (await client.wait(task.id, 1)).state == "cancelled"
            many = await client.register_many([{"callback": callback, "delay": "1h"}] * 300)
            ids = [one.id for one in many if isinstance(one, models.TaskResponse)]
            assert len({*ids}) == 300
            assert {one.outcome for one in await client.cancel_many(ids) if isinstance(one, models.CancelTreeResponse)} == {
                "cancelled"
            }
            await client.schedules.set(callback, every="1h", task={"callback": callback})
            assert callback in [one.name async for one in client.schedules.list()]
            await client.schedules.delete(callback)
            assert len(b"".join([piece async for piece in client.cluster.backup()])) > 1000
            with pytest.raises(errors.NotFound):
                await client.jobs.get("01a2279a-aa19-8000-8fda-9b4c8f927dfd")
            assert (await client.worker.poll("w", [callback], wait=0)).tasks == []

    asyncio.run(main())


def test_a_client_is_configured_by_the_environment(service: testing.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWHEEL_SERVER", service.url)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # is not for a service of one's own network
    with Client() as client:
        assert client.access.whoami().name
    monkeypatch.setenv("TICKWHEEL_API_KEY", "no\nkey")
    with pytest.raises(errors.InvalidArgument):
        Client()
