"""A call of the API: its request, and how its answer is read. Both clients send the same ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from . import _decode, _encode
from .errors import NoAnswer, ProblemError, TickwheelError, Unavailable, UnexpectedAnswer, of_problem
from .models import Problem

T = TypeVar("T", covariant=True)

_QUOTED_MAX = 200
_PLACE = re.compile(r"{(\w+)}")
# What a proxy answers whose server is away.
_PROXY = (502, 503, 504)


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the call has done what it was to do."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Call(Generic[T]):
    """A call. Operation, method and path are those of `schemas/openapi.json`; a test compares them."""

    operation: str
    method: str
    path: str
    answer: Any
    """The type of the answer: a model, `str` for a text, or None for an answer without a body."""
    path_values: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Any = None
    """A value that JSON has a form of, or JSON that is written already; None is no body."""
    repeatable: bool = False
    """Whether sending it twice does no harm."""
    wait: float = 0
    """Seconds that the service is asked to wait, on top of the time limit."""
    accepts: tuple[int, ...] = ()
    """Statuses besides 2xx whose body is an answer, too."""

    def within(self, server: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """The arguments of a request of `httpx2` to this server."""
        own = {name: value for name, value in self.headers.items() if value is not None}
        path = _PLACE.sub(lambda place: quote(self.path_values[place[1]], safe=""), self.path)
        request: dict[str, Any] = {"method": self.method, "url": server + path, "headers": {**headers, **own}}
        query = {name: _query_text(value) for name, value in self.query.items() if value is not None}
        if query:
            request["params"] = query
        if self.body is not None:
            request["content"] = self.body if isinstance(self.body, bytes) else _encode.dumps(self.body).encode()
            request["headers"]["content-type"] = "application/json"
        return request

    def check(self, server: str, answer: Answer) -> None:
        """Checks that the body of an answer is what was asked for.

        Raises:
            TickwheelError: it is that of a failure.
        """
        if not answer.is_success and answer.status not in self.accepts:
            raise failure(server, answer)

    def read(self, server: str, answer: Answer) -> T:
        """Reads an answer.

        Raises:
            TickwheelError: it is no success, or cannot be read.
        """
        self.check(server, answer)
        if self.answer is None:
            return None  # type: ignore[return-value]
        if self.answer is str:
            return answer.body.decode(errors="replace")  # type: ignore[return-value]
        try:
            value: T = _decode.answer(self.answer, json.loads(answer.body))
        except ValueError as error:
            raise UnexpectedAnswer(server, f"{error} in {_quoted(answer.body)}") from None
        return value

    def with_page(self, token: str) -> Call[T]:
        """The same call for another page of its list."""
        return replace(self, query={**self.query, "page_token": token})


def failure(server: str, answer: Answer) -> TickwheelError:
    """The error for an answer that is no success."""
    try:
        problem = _decode.answer(Problem, json.loads(answer.body))
    except ValueError:
        reason = f"status {answer.status}: {_quoted(answer.body)}"
        if answer.status in _PROXY:
            return NoAnswer(server, reason, sent=True)
        return UnexpectedAnswer(server, reason)
    return of_problem(problem, answer.status, retry_after(answer.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`; a date is not what this service sends."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def may_be_repeated(call: Call[Any], error: TickwheelError) -> bool:
    """Whether a failed call may be sent once more as it is, and may then succeed."""
    if isinstance(error, NoAnswer):
        return call.repeatable or not error.sent
    if isinstance(error, Unavailable):
        # Refused at the door, so it did not happen.
        refused = error.status in (429, 503) and not error.outcome_unknown
        return error.problem.retryable and (refused or call.repeatable)
    return False


def asks_another_server(call: Call[Any], error: TickwheelError) -> bool:
    """Whether another server may answer at once."""
    elsewhere = isinstance(error, NoAnswer) or (isinstance(error, ProblemError) and error.status == 503)
    return elsewhere and may_be_repeated(call, error)


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quoted(body: bytes) -> str:
    return repr(body[:_QUOTED_MAX].decode(errors="replace"))
