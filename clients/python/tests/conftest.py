"""What the tests share: one service for all of them, and names that no other test uses."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

import tickwheel
from tickwheel import testing

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def service() -> Iterator[testing.Service]:
    """A service that all tests use."""
    with testing.service(test_clock=False) as running:
        yield running


@pytest.fixture
def client(service: testing.Service) -> Iterator[tickwheel.Client]:
    """A client with connections of its own."""
    with tickwheel.Client(service.url) as one:
        yield one


@pytest.fixture
def callback(request: pytest.FixtureRequest) -> str:
    """The name of a callback that no other test has."""
    return f"{request.function.__name__}-{os.getpid()}-{next(_numbers)}"[-60:]


@pytest.fixture
def worker(service: testing.Service) -> Iterator[tickwheel.Worker]:
    """A worker that a test starts itself; it is stopped behind it."""
    one = tickwheel.Worker(service.url, drain_timeout=5)
    yield one
    one.stop()


def eventually(true: Callable[[], object], within: float = 30) -> None:
    """Waits until something is true."""
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)
