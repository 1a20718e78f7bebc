"""A running attempt, as its handler, its heartbeats and its report see it.

The deadline is the worker's half of the lease. The service may hand the task to another worker once the heartbeat timeout has
passed since it recorded the claim or the last heartbeat. The worker stops a margin earlier, by a steady clock that counts from
before the request was sent. A process that was frozen finds its deadline passed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..models import ClaimedTask
from .outcomes import Interrupted, LeaseLost

_MARGIN_MAX = 1.0
Interrupt = Callable[[type[Interrupted]], None]


class Attempt:
    """An attempt. `(id, number)` is the fencing token."""

    def __init__(self, task: ClaimedTask, lease_start: float, limit: float | None) -> None:
        self.task = task
        self.timeout = task.heartbeat_timeout.total_seconds()
        self.deadline = _before(lease_start, self.timeout)
        own = task.attempt_timeout.total_seconds() if task.attempt_timeout else limit
        self.ends = None if own is None else _before(lease_start, own)
        self.progress: Any = None
        self.cancelled = threading.Event()
        """Set when somebody asks to cancel the task."""
        self.next_beat = 0.0
        self.abandoned_at: float | None = None
        """When a handler that took too long and does not stop is left without heartbeats."""
        self.on_done: Callable[[], None] | None = None
        """Called once, when this worker has nothing to do for the attempt any more."""
        self._lock = threading.Lock()
        self._interrupted: type[Interrupted] | None = None
        self._interrupt: Interrupt | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What names it."""
        return self.task.id, self.task.attempt

    @property
    def is_running(self) -> bool:
        """Whether its handler has begun and not ended."""
        with self._lock:
            return self._interrupt is not None

    def extend(self, sent: float, answered: float) -> None:
        """Moves the deadline after a heartbeat.

        An answer that comes behind the deadline moves nothing: another worker may have taken over just before it.
        """
        if answered < self.deadline:
            self.deadline = max(self.deadline, _before(sent, self.timeout))

    def begin(self, interrupt: Interrupt) -> bool:
        """Notes how its handler is interrupted. False when it must not begin: its time is over."""
        now = time.monotonic()
        if now >= self.deadline or (self.ends is not None and now >= self.ends):
            self.interrupt(LeaseLost)
        with self._lock:
            if self._interrupted is not None:
                return False
            self._interrupt = interrupt
        return True

    def interrupt(self, why: type[Interrupted]) -> None:
        """Interrupts the handler, once."""
        with self._lock:
            if self._interrupted is not None:
                return
            self._interrupted = why
            if self._interrupt is not None:
                self._interrupt(why)

    def done(self) -> None:
        """Notes that its end was reported, or that the service comes back to the task by itself."""
        with self._lock:
            on_done, self.on_done = self.on_done, None
        if on_done is not None:
            on_done()

    def end(self) -> type[Interrupted] | None:
        """Notes that its handler has ended. Returns why it was interrupted; nothing interrupts it any more."""
        with self._lock:
            self._interrupt = None
            return self._interrupted


def _before(start: float, length: float) -> float:
    """The end of a time less a margin: for clocks that run at another speed, and for a thread that wakes late."""
    return start + length - min(_MARGIN_MAX, length / 4)
