"""Calls of concurrent threads, sent together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .. import _tracing
from .._batch import Entry, take
from ..errors import DeadlineExceeded, NoAnswer

R = TypeVar("R")
Send = Callable[[list[bytes], float], list["R | Exception"]]


class Coalescer(Generic[R]):
    """Sends what concurrent threads give it, as one request after the other.

    There is no thread and no timer behind it. The first caller sends at once, itself. Callers that come meanwhile form the
    next batch, and the first of them sends that. An item is sent again, in another batch, when the caller that sent it ran
    out of time and its own caller did not: items are such that twice is once.
    """

    def __init__(self, send: Send[R]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._waiting: deque[Entry[R]] = deque()
        self._is_led = False

    def call(self, item: bytes, limit: float) -> R:
        """Sends an item within `limit` seconds. Returns its result, or raises its error."""
        entry: Entry[R] = Entry(item, time.monotonic() + limit, _tracing.headers(), threading.Event())
        try:
            with self._lock:
                self._waiting.append(entry)
                if not self._is_led:
                    self._pass_on()
            while entry.result is None:
                if entry.leads:
                    self._lead(entry)
                else:
                    self._wait(entry)
        finally:
            self._leave(entry)
        if isinstance(entry.result, Exception):
            raise entry.result.with_traceback(None)
        return entry.result

    def _wait(self, entry: Entry[R]) -> None:
        """Waits for a result, or to be the one that sends."""
        if entry.signal.wait(max(entry.left, 0)):
            entry.signal.clear()
            return
        with self._lock:
            if entry.leads or entry.result is not None:
                return
            sent = entry not in self._waiting
        raise DeadlineExceeded("the server", "other requests were under way" if not sent else "nothing came in time", sent=sent)

    def _lead(self, own: Entry[R]) -> None:
        """Sends a batch that begins with this caller's item."""
        batch: list[Entry[R]] = []
        results: list[R | Exception] = []
        try:
            with self._lock:
                batch = take(self._waiting)
            results = self._send([entry.item for entry in batch], max(own.left, 0))
        finally:
            self._end(batch, results or [None] * len(batch), own)

    def _end(self, batch: list[Entry[R]], results: Sequence[R | Exception | None], own: Entry[R]) -> None:
        """Hands the results out, and lets the next caller lead."""
        again = []
        for entry, result in zip(batch, results, strict=True):
            out_of_time = result is None or isinstance(result, NoAnswer)
            if entry is not own and out_of_time and entry.left > 0:
                again.append(entry)  # the time of its sender was over, not its own
                continue
            entry.result = result
            entry.signal.set()
        with self._lock:
            self._waiting.extendleft(reversed(again))
            own.leads = False
            self._pass_on()

    def _pass_on(self) -> None:
        """Lets the first that waits lead. The lock is held."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].signal.set()

    def _leave(self, entry: Entry[R]) -> None:
        """Takes an item back that is not sent, also behind a `KeyboardInterrupt`."""
        with self._lock:
            if entry in self._waiting:
                self._waiting.remove(entry)
            if entry.leads:
                entry.leads = False
                self._pass_on()
