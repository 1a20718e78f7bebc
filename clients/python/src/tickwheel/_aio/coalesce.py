"""Calls of concurrent coroutines, sent together."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from .. import _tracing
from .._batch import Entry, take
from ..errors import DeadlineExceeded

R = TypeVar("R")
Send = Callable[[list[bytes], float], Awaitable[list["R | Exception"]]]


class AsyncCoalescer(Generic[R]):
    """Sends what concurrent coroutines give it, as one request after the other.

    There is no timer behind it: the first item is sent at once, and what comes meanwhile is the next batch. A caller that is
    cancelled, or runs out of time, takes its item out of the queue; the others do not notice.
    """

    def __init__(self, send: Send[R]) -> None:
        self._send = send
        self._waiting: deque[Entry[R]] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def call(self, item: bytes, limit: float) -> R:
        """Sends an item within `limit` seconds. Returns its result, or raises its error."""
        answered: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        entry: Entry[R] = Entry(item, time.monotonic() + limit, _tracing.headers(), answered)
        self._waiting.append(entry)
        if self._sender is None:
            # In an empty context: what it sends is not of the trace of this caller alone.
            sender: asyncio.Task[None] = contextvars.Context().run(asyncio.create_task, self._run())
            self._sender = sender
        try:
            return await asyncio.wait_for(answered, limit)
        except asyncio.TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise  # the answer of the request, not the end of this caller's time
            sent = entry not in self._waiting
            raise DeadlineExceeded("the server", "nothing came in time", sent=sent) from None
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._send_next()
        finally:
            self._sender = None

    async def _send_next(self) -> None:
        batch = take(self._waiting)
        limit = max(max(entry.left for entry in batch), 0)
        with _tracing.within(batch[0].trace):
            try:
                results: list[Any] = await self._send([entry.item for entry in batch], limit)
            except BaseException as error:
                results = [error] * len(batch)
                if not isinstance(error, Exception):  # cancelled, with the loop
                    for entry in batch:
                        entry.signal.cancel()
                    raise
        for entry, result in zip(batch, results, strict=True):
            if entry.signal.done():
                continue
            if isinstance(result, Exception):
                entry.signal.set_exception(result)
            else:
                entry.signal.set_result(result)
