"""Connections that are cut while tasks are registered: no task twice, none lost."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel import AsyncClient, Client, errors, testing

from .fakes import proxy


class Cuts:
    """Cuts most registrations, before or behind the request."""

    def __init__(self, seed: int, share: float) -> None:
        self.random, self.share = random.Random(seed), share
        self.lock, self.count = threading.Lock(), 0

    def __call__(self, path: str) -> str:
        with self.lock:
            if not path.startswith("/v1/tasks") or self.random.random() > self.share:
                return ""
            self.count += 1
            return self.random.choice(["before", "after", "after"])


def check(service: testing.Service, callback: str, ids: list[str]) -> None:
    """Each registration is one task, and there is no other."""
    found = [task.id for task in service.client.list(callback=callback, page_size=1000)]
    assert len(ids) == len({*ids})
    assert sorted(found) == sorted(ids)


@pytest.mark.parametrize("cuts", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_threads(service: testing.Service, callback: str, cuts: int) -> None:
    cut = Cuts(1, 0.5)
    ids: list[str] = []

    def register(url: str) -> None:
        with Client(url, timeout=60) as client:
            while cut.count < cuts:
                ids.append(client.register(callback, len(ids), delay="1d").id)

    with proxy(service.url, cut) as url, ThreadPoolExecutor(32) as pool:
        for done in [pool.submit(register, url) for _ in range(32)]:
            done.result()
    assert cut.count >= cuts
    check(service, callback, ids)


def test_threads_that_share_a_client(service: testing.Service, callback: str) -> None:
    cut = Cuts(3, 0.5)
    with proxy(service.url, cut) as url, Client(url, timeout=60) as client, ThreadPoolExecutor(32) as pool:
        ids = [task.id for task in pool.map(lambda n: client.register(callback, n, delay="1d"), range(500))]
    assert cut.count > 5
    check(service, callback, ids)


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_coroutines_that_share_a_client(service: testing.Service, callback: str, rounds: int) -> None:
    cut = Cuts(2, 0.5)

    async def main(url: str) -> list[str]:
        ids: list[str] = []
        async with AsyncClient(url, timeout=60) as client:
            for _ in range(rounds):
                made = await asyncio.gather(*(client.register(callback, n, delay="1d") for n in range(50)))
                ids += [task.id for task in made]
        return ids

    with proxy(service.url, cut) as url:
        ids = asyncio.run(main(url))
    assert cut.count > rounds / 2
    check(service, callback, ids)


def test_what_may_not_be_repeated_says_that_it_may_have_happened(service: testing.Service, callback: str) -> None:
    task = service.client.register(callback, delay="1h")
    with proxy(service.url, lambda path: "after" if path.endswith("/run") else "") as url, Client(url) as client:
        with pytest.raises(errors.NoAnswer) as cut:
            client.run(task.id)
        assert cut.value.sent
        assert client.get(task.id).state == "enqueued"
