"""Calls of concurrent threads, sent together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
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
        entry: Entry[R] = Entry(item, time.monotonic() + limit, _tracing.headers())
        with self._lock:
            self._waiting.append(entry)
            leads = not self._is_led
            self._is_led = True
            if not leads:
                entry.signal = threading.Event()
        try:
            while entry.result is None:
                if leads or self._woken(entry):
                    self._lead(entry)
                    leads = False
        except BaseException:  # such as KeyboardInterrupt while it waits
            self._leave(entry)
            raise
        if isinstance(entry.result, Exception):
            raise entry.result.with_traceback(None)
        return entry.result

    def _woken(self, entry: Entry[R]) -> bool:
        """Waits for a result, or to be the one that sends, which is True."""
        if not entry.signal.wait(max(entry.left, 0)):
            with self._lock:
                is_waiting = entry in self._waiting
                if is_waiting and not (self._is_led and self._waiting[0] is entry and entry.signal.is_set()):
                    self._waiting.remove(entry)
                    raise DeadlineExceeded("the server", "other requests were under way", sent=False)
                if not is_waiting and entry.result is None:
                    raise DeadlineExceeded("the server", "nothing came in time", sent=True)
        if entry.result is not None:
            return False
        entry.signal.clear()
        return True

    def _lead(self, own: Entry[R]) -> None:
        """Sends a batch that begins with this caller's item, then lets the next one lead."""
        with self._lock:
            batch = take(self._waiting)
        limit = max(own.left, 0)
        try:
            results = self._send([entry.item for entry in batch], limit)
        except BaseException:
            self._end(batch, [None] * len(batch), own)
            raise
        self._end(batch, list(results), own)

    def _end(self, batch: list[Entry[R]], results: list[R | Exception | None], own: Entry[R]) -> None:
        again = []
        for entry, result in zip(batch, results, strict=True):
            out_of_time = result is None or isinstance(result, NoAnswer)
            if entry is not own and out_of_time and entry.left > 0:
                again.append(entry)  # the time of its sender was over, not its own
                continue
            entry.result = result
            if entry.signal is not None:
                entry.signal.set()
        with self._lock:
            self._waiting.extendleft(reversed(again))
            self._pass_on()

    def _pass_on(self) -> None:
        """Lets the first that waits lead."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            first = self._waiting[0]
            if first.signal is None:
                first.signal = threading.Event()
            first.signal.set()

    def _leave(self, entry: Entry[R]) -> None:
        with self._lock:
            if entry in self._waiting:
                was_to_lead = self._waiting[0] is entry and entry.signal is not None and entry.signal.is_set()
                self._waiting.remove(entry)
                if was_to_lead:
                    self._pass_on()
