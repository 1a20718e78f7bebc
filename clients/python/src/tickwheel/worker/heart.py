"""The heartbeats of all running attempts, from a thread of their own.

Handlers that block their threads, or the event loop, do not keep it from its work. A C extension that holds the interpreter's
lock does: such a call must be shorter than half of the `heartbeat_timeout` of the tasks that run beside it. A beat goes out
each quarter of that time, so one may be lost and one late before a lease is in danger.
"""

from __future__ import annotations

import logging
import random
import threading
import time

from .._sync.client import Client
from ..errors import TickwheelError
from ..models import HeartbeatResult
from .attempt import Attempt
from .outcomes import LeaseLost, TimedOut

log = logging.getLogger("tickwheel.worker")

_BEATS_PER_TIMEOUT = 4
_CALL_MAX = 5.0
_CALL_MIN = 0.05
_BATCH_MAX = 1000
# How long a handler that took too long has for its `finally`.
_STOP_LIMIT = 2.0


class Heart:
    """Keeps attempts alive, and interrupts those that are lost or take too long."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client, self._worker = client, worker
        self._changed = threading.Condition()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._wakes = float("inf")
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="tickwheel-heartbeat", daemon=True)
        self._thread.start()

    def add(self, attempt: Attempt) -> None:
        """Keeps an attempt alive from now on."""
        # Attempts that were claimed together are spread, so that they do not stay together for ever.
        attempt.next_beat = time.monotonic() + attempt.timeout / _BEATS_PER_TIMEOUT * random.uniform(0.5, 1)
        with self._changed:
            self._attempts[attempt.key] = attempt
            if _due(attempt) < self._wakes:
                self._changed.notify()

    def remove(self, attempt: Attempt) -> None:
        """Lets go of an attempt."""
        with self._changed:
            self._attempts.pop(attempt.key, None)
        attempt.done()

    def attempts(self) -> list[Attempt]:
        """Those that are kept alive."""
        with self._changed:
            return list(self._attempts.values())

    def stop(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(_CALL_MAX)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = time.monotonic()
                due = self._judge(now)
                if not due:
                    self._wakes = min((_due(one) for one in self._attempts.values()), default=float("inf"))
                    self._changed.wait(None if self._wakes == float("inf") else max(self._wakes - now, 0.001))
                    self._wakes = float("-inf")
                    continue
                earliest = min(one.deadline for one in self._attempts.values())
            try:
                self._beat(due, earliest)
            except Exception:
                log.exception("heartbeats go on after an error")

    def _judge(self, now: float) -> list[Attempt]:
        """Interrupts attempts whose time is over. Returns those whose beat is due, or nearly so."""
        due = []
        for attempt in list(self._attempts.values()):
            if now >= attempt.deadline:
                log.warning("task %s, attempt %s: no heartbeat reached the service, its lease is over", *attempt.key)
                del self._attempts[attempt.key]
                attempt.interrupt(LeaseLost)
                attempt.done()
            elif now + attempt.timeout / 32 >= attempt.next_beat:
                due.append(attempt)
            if attempt.ends is not None and now >= attempt.ends:
                attempt.ends = None  # its heart beats on until its report has arrived
                attempt.abandoned_at = now + _STOP_LIMIT
                attempt.interrupt(TimedOut)
            elif attempt.abandoned_at is not None and now >= attempt.abandoned_at:
                attempt.abandoned_at = None
                if attempt.is_running:
                    log.error("task %s, attempt %s: took too long and cannot be interrupted: its lease runs out", *attempt.key)
                    self._attempts.pop(attempt.key, None)
                    attempt.done()
        due = [one for one in due if one.key in self._attempts]
        return due[:_BATCH_MAX] if any(now >= one.next_beat for one in due) else []

    def _beat(self, attempts: list[Attempt], earliest: float) -> None:
        sent = time.monotonic()
        cycle = min(one.timeout for one in attempts) / _BEATS_PER_TIMEOUT
        # Not beyond the next deadline: whoever has to be interrupted then is.
        limit = max(_CALL_MIN, min(cycle, _CALL_MAX, earliest - sent))
        items = []
        for one in attempts:
            item = {"id": one.task.id, "attempt": one.task.attempt}
            items.append(item if one.progress is None else {**item, "progress": one.progress})
        try:
            results = self._client.worker.heartbeat(self._worker, items, limit=limit)  # type: ignore[arg-type]
        except TickwheelError as error:
            log.warning("heartbeats were not answered: %s", error)
            results = []
        answered = time.monotonic()
        if len(results) != len(attempts):
            for one in attempts:
                one.next_beat = answered + one.timeout / 16
            return
        for one, result in zip(attempts, results, strict=True):
            self._answered(one, result, sent, answered)

    def _answered(self, attempt: Attempt, result: HeartbeatResult, sent: float, answered: float) -> None:
        if result.status == "lost":
            log.warning("task %s, attempt %s: the lease is lost (%s)", *attempt.key, result.reason)
            self.remove(attempt)
            attempt.interrupt(LeaseLost)
            return
        if result.status == "error":
            attempt.next_beat = answered + attempt.timeout / 16
            return
        if result.status == "cancel_requested":
            attempt.cancelled.set()
        attempt.extend(sent, answered)
        attempt.next_beat = sent + attempt.timeout / _BEATS_PER_TIMEOUT


def _due(attempt: Attempt) -> float:
    """When something is to be done for an attempt."""
    return min(at for at in (attempt.next_beat, attempt.deadline, attempt.ends, attempt.abandoned_at) if at is not None)
