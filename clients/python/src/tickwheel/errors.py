"""Errors of the client: one class for each thing that a caller can do about it.

TickwheelError
├── InvalidArgument       the call cannot be made from these arguments (also a ValueError)
├── NoAnswer              nobody answered; `sent` tells whether the request may have taken effect
│   └── DeadlineExceeded  not within the caller's time
├── UnexpectedAnswer      an answer that is not this service's: is the address right?
└── ProblemError          the service answered with a problem document
    ├── Refused           the request is wrong: it will never be carried out
    │   ├── NotFound      there is no such thing, or it is gone
    │   ├── Conflict      something else has the name, or was changed meanwhile
    │   └── Forbidden     the API key is missing, unknown, or may not do it
    └── Unavailable       not now: try again later, not before `retry_after`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import FieldError, Problem

__all__ = [
    "Conflict",
    "DeadlineExceeded",
    "Forbidden",
    "InvalidArgument",
    "InvalidSignature",
    "NoAnswer",
    "NotFound",
    "ProblemError",
    "Refused",
    "TickwheelError",
    "Unavailable",
    "UnexpectedAnswer",
    "of_problem",
]


class TickwheelError(Exception):
    """Any error of this package."""

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return False


class InvalidArgument(TickwheelError, ValueError):
    """The call cannot be made from these arguments."""


class InvalidSignature(TickwheelError, ValueError):
    """A request that its secret did not sign, or not lately."""


class NoAnswer(TickwheelError):
    """No server could be reached, or none answered."""

    def __init__(self, server: str, reason: str, *, sent: bool) -> None:
        unknown = "; it is not known whether the request took effect" if sent else ""
        super().__init__(f"no answer from {server}: {reason}{unknown}")
        self.server, self.reason = server, reason
        self.sent = sent
        """Whether the request may have arrived, and so may have taken effect."""

    @property
    def retryable(self) -> bool:
        return True


class DeadlineExceeded(NoAnswer, TimeoutError):
    """The answer did not come within the time that the caller had."""


class UnexpectedAnswer(TickwheelError):
    """An answer that is not one of this service: is the address right, is a proxy in between?"""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"unexpected answer from {server}: {reason}")
        self.server, self.reason = server, reason


class ProblemError(TickwheelError):
    """The service's own refusal (RFC 9457)."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(f"{problem.title}: {problem.detail} [{problem.code}]")
        self.problem = problem
        self.retry_after = retry_after
        """Seconds until the service wants to be asked again, if it says so."""

    @property
    def code(self) -> str:
        """The name of the problem, for programs: `key_taken`, `invalid_request`, ..."""
        return self.problem.code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def fields(self) -> list[FieldError]:
        """What is wrong with which field of the request."""
        return self.problem.errors or []

    @property
    def field(self) -> str | None:
        """The first field that is wrong, as a JSON pointer."""
        return self.fields[0].pointer if self.fields else None

    @property
    def trace_id(self) -> str | None:
        """The id by which the request is found in the service's log and traces."""
        return self.problem.trace_id

    @property
    def existing(self) -> str | None:
        """The id of the task that has the key already (`key_taken`)."""
        return self.problem.existing

    @property
    def retryable(self) -> bool:
        return self.problem.retryable


class Refused(ProblemError):
    """The service understood the request and will never carry it out."""


class NotFound(Refused):
    """There is no such thing, or it has been gone for longer than its retention."""


class Conflict(Refused):
    """Something else has the name, or it was changed meanwhile."""


class Forbidden(Refused):
    """The API key is missing, unknown, or may not do it."""


class Unavailable(ProblemError):
    """The service cannot do it now."""

    @property
    def retryable(self) -> bool:
        return True

    @property
    def outcome_unknown(self) -> bool:
        """Whether the request may have taken effect all the same."""
        return self.code == "outcome_unknown"


_BY_STATUS: dict[int, type[ProblemError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: Conflict,
}


def of_problem(problem: Problem, status: int, retry_after: float | None = None) -> ProblemError:
    """The error for a problem document that was answered with this status."""
    if problem.retryable or status >= 500 or status == 429:
        return Unavailable(problem, retry_after)
    return _BY_STATUS.get(status, Refused)(problem, retry_after)
