"""The worker."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

from .._compat import Self
from .._sync.client import Client
from .._values import Duration, seconds
from ..errors import InvalidArgument
from .engine import Engine
from .handler import Handler
from .job import Job
from .kafka.source import KafkaSource
from .signals import Stop, restore

Function = Callable[[], object] | Callable[[Any], object] | Callable[[Any, Job], object]
F = TypeVar("F", bound=Function)


class Worker:
    """Runs functions for the tasks of callbacks.

        worker = Worker("http://localhost:7420")

        @worker.task("greet")
        def greet(greeting: Greeting) -> str:
            return f"hello {greeting.name}"

        worker.run()

    A handler gets the payload, read as the type of its first parameter, and a `Job` if it takes a second one. What it returns is
    the result of the task. It raises `Retry`, `Fail` or `Snooze` to end otherwise; any other exception is a retry by the rule
    of the task. Functions run in threads, coroutines on an event loop. A task may run again after a crash or a lost lease, with
    a higher `attempt`.

    Args:
        servers, api_key, verify: as those of `Client`.
        name: of this process; made of host and process by default.
        concurrency: how many handlers of each callback run at once, unless its own says otherwise.
        version: of the program, shown with the callback.
        drain_timeout: how long handlers may go on once the worker is told to stop; then they are interrupted, and their tasks
            are given back.
        source: where tasks come from: polls of the service by default, or `tickwheel.kafka.KafkaSource`.

    Raises:
        InvalidArgument: an address that is none, or a concurrency below one.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        api_key: str | None = None,
        verify: ssl.SSLContext | bool = True,
        name: str | None = None,
        concurrency: int = 10,
        version: str | None = None,
        drain_timeout: Duration = 20,
        source: KafkaSource | None = None,
    ) -> None:
        self.name = name or f"python-{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._client = Client(servers, api_key=api_key, verify=verify)
        self._concurrency = _checked(concurrency)
        self._version = version
        self._drain_timeout = seconds(drain_timeout)
        self._source = source
        self._handlers: dict[str, Handler] = {}
        self._engine: Engine | None = None
        self._stop: Stop | None = None

    def task(self, callback: str, *, concurrency: int | None = None, attempt_timeout: Duration | None = None) -> Callable[[F], F]:
        """Registers a function as the handler of a callback, and leaves it as it is.

        `attempt_timeout` interrupts an attempt whose task has no limit of its own; it is tried again.

        Raises:
            InvalidArgument: the callback has a handler, or the function cannot be one.
        """
        limit = None if attempt_timeout is None else seconds(attempt_timeout)
        count = self._concurrency if concurrency is None else _checked(concurrency)

        def register(function: F) -> F:
            if callback in self._handlers:
                raise InvalidArgument(f"{callback!r} has a handler already")
            self._handlers[callback] = Handler(callback, function, count, limit)
            return function

        return register

    def run(self) -> None:
        """Runs until SIGTERM, SIGINT or `stop`.

        The first signal takes no more tasks, gives back what has not begun, and waits for what runs; no attempt is spent. A
        second one ends the process at once.
        """
        stop = self._stop = Stop()
        before = stop.on_signals()
        try:
            self.start()
            stop.wait()
        finally:
            self._finish()
            restore(before)
            self._stop = None
            stop.close()

    def stop(self) -> None:
        """Lets `run` return, from any thread. One that was started by `start` is stopped here."""
        if self._stop is not None:
            self._stop.set()
        else:
            self._finish()

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begins to work in threads, and returns. Coroutines run on `loop`, or on a loop in a thread of its own.

        Raises:
            InvalidArgument: it runs already, or has no handlers.
        """
        if self._engine is not None:
            raise InvalidArgument("the worker runs already")
        if not self._handlers:
            raise InvalidArgument("the worker has no handlers: decorate a function with @worker.task(...)")
        self._engine = Engine(self._client, self.name, self._version, self._handlers.values(), loop, self._source)

    def _finish(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop(self._drain_timeout)
        self._client.close()
        self._client = self._client.sibling()  # it may be started again

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finish()

    async def __aenter__(self) -> Self:
        """Runs beside a program of `asyncio`, such as a web server; coroutines run on its loop."""
        self.start(asyncio.get_running_loop())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self._finish)


def _checked(concurrency: int) -> int:
    if concurrency < 1:
        raise InvalidArgument("the concurrency must be at least 1")
    return concurrency
