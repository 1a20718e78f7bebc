"""How an attempt ends, other than by a result: a handler raises one of these.

Any other exception is a retry by the rule of the task, with the exception as its error.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._values import Duration

__all__ = ["Fail", "Interrupted", "LeaseLost", "Result", "Retry", "Snooze", "Stopped", "TimedOut"]


class Retry(Exception):
    """Failed: try again, after `delay` or else by the rule of the task. It counts as an attempt."""

    def __init__(self, error: object = "asked for another attempt", *, delay: Duration | None = None) -> None:
        super().__init__(str(error))
        self.delay = delay


class Fail(Exception):
    """Failed: trying again is of no use."""

    def __init__(self, error: object) -> None:
        super().__init__(str(error))


class Snooze(Exception):
    """Not now: run again after `delay`. It does not count as an attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


@dataclass(frozen=True)
class Result:
    """A result of bytes, such as `Result(png, "image/png")`; a handler may return any other value as JSON."""

    data: bytes
    content_type: str = "application/octet-stream"


class Interrupted(BaseException):
    """Raised inside of a handler in a thread, at its next step in Python: stop, and let it through.

    A handler that is a coroutine gets `asyncio.CancelledError` instead. `finally` and `with` are run as always.
    """


class LeaseLost(Interrupted):
    """The service may have given the task to another worker: nothing that this attempt does counts any more."""


class TimedOut(Interrupted):
    """The attempt took longer than its time: it is tried again."""


class Stopped(Interrupted):
    """The worker stops and waited long enough: the task is given back, and no attempt is spent."""
