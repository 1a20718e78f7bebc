"""Ids that the client makes, so that a registration that is sent twice is one task.

Start and id of a task are fixed before it is sent. A delay counts by the time of the service (`GET /v1/ids`), never by the
clock of this machine. `docs/keys.md` of the service describes the form of the ids.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import Any

from ._values import milliseconds, read_instant, rfc3339, since_epoch
from .errors import InvalidArgument
from .models import IdsResponse

KNOWN_FOR = 60.0
"""Seconds for which the time of the service is counted on by the steady clock of this machine."""

_CLAIM_TIMEOUT = 60_000
_ROOTS = (1000, 1189, 1414, 1682)
_STEPS = [-(-(5 * _ROOTS[step % 4] * (1 << (step // 4))) // 1000) * 1000 for step in range(64)]
_LINES_MAX = 1024


class IdMaker:
    """What is known of the service, and the last starts of sequences. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._facts: tuple[int, int] | None = None
        self._asked = float("-inf")
        self._valid_for = 0.0
        self._lines: dict[str, int] = {}

    def is_due(self) -> bool:
        """Whether the service is to be asked."""
        return time.monotonic() - self._asked >= self._valid_for

    def learn(self, answer: IdsResponse | None, asked: float) -> None:
        """Takes the answer to a question of the moment `asked`; None when the service does not tell."""
        with self._lock:
            # Its time is that or later, so no task is early.
            self._facts = (answer.wheels, since_epoch(answer.time)) if answer else None
            self._asked = asked
            self._valid_for = KNOWN_FOR
            if answer and answer.valid_for is not None:
                # A service whose clock a test moves says that it is to be asked each time.
                self._valid_for = min(KNOWN_FOR, milliseconds(answer.valid_for) / 1000)

    def fix(self, task: dict[str, Any]) -> bool:
        """Fixes start and id of a request. Tells whether it may be sent twice as it is now."""
        if task.get("id") or task.get("idempotency_key"):
            return True
        with self._lock:
            if self._facts is None:
                return False
            wheels, then = self._facts
            now = then + int(self._passed() * 1000)
            try:
                start = self._start(task, now)
                claim_timeout = milliseconds(task.get("claim_timeout", _CLAIM_TIMEOUT / 1000))
            except (InvalidArgument, ValueError, AttributeError):
                return False  # the service says what is wrong
        if start is None:
            return False
        task.pop("delay", None)
        task["id"], task["start_time"] = make_id(start, claim_timeout, wheels), rfc3339(start)
        return True

    def _passed(self) -> float:
        """Seconds since the question. None count where the service is asked each time: a test moves its clock by the delay."""
        return time.monotonic() - self._asked if self._valid_for > 0 else 0.0

    def _start(self, task: dict[str, Any], now: int) -> int | None:
        """The start of a task; None when the service is to name it."""
        if "kafka" in task or ("start_time" in task and "delay" in task):
            return None  # a record has no row: a repetition may publish it again
        if "start_time" in task:
            start = since_epoch(read_instant(task["start_time"]))
            # A start that has passed means now, and an expiry counts from there.
            return start if start >= now else None
        if "delay" in task:
            return now + milliseconds(task["delay"])
        return self._in_line(task.get("ordering_key"), now)

    def _in_line(self, key: str | None, now: int) -> int:
        """Tasks of a sequence that start at once follow each other by a millisecond: they run in the order of the calls."""
        if key is None:
            return now
        if len(self._lines) >= _LINES_MAX:
            self._lines = {name: last for name, last in self._lines.items() if last >= now}
        start = max(now, self._lines.get(key, -1) + 1)
        self._lines[key] = start
        return start


def make_id(start: int, claim_timeout: int, wheels: int) -> str:
    """Makes the id of a task that starts at `start` (milliseconds since 1970)."""
    step = next((bits for bits, length in enumerate(_STEPS) if length >= claim_timeout), 63)
    random = int.from_bytes(os.urandom(9), "big")
    wheel = (random >> 56) % max(wheels, 1)
    low = (0b10 << 62) | (step << 56) | (random & ((1 << 56) - 1))
    return str(uuid.UUID(int=(start << 80) | (8 << 76) | (wheel << 64) | low))
