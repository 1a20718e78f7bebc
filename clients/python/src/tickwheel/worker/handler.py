"""A handler: how a function gets its payload, and what its end means."""

from __future__ import annotations

import base64
import inspect
import json
import traceback
import typing
from collections.abc import Callable
from typing import Any

from .. import _decode, _encode
from .._values import duration_text
from ..errors import InvalidArgument
from ..models import ClaimedTask
from .attempt import Attempt
from .job import Job
from .kafka.message import Content
from .outcomes import Fail, Interrupted, Result, Retry, Snooze, Stopped, TimedOut

RESULT_BYTES_MAX = 1 << 20
ERROR_CHARS_MAX = 4096
Report = dict[str, Any]


class Handler:
    """A function for the tasks of a callback.

    Raises:
        InvalidArgument: its parameters are not a payload, a `Job`, or both, or their types are not ones of JSON.
    """

    def __init__(self, callback: str, function: Callable[..., Any], concurrency: int, attempt_timeout: float | None) -> None:
        self.callback, self.function = callback, function
        self.concurrency, self.attempt_timeout = concurrency, attempt_timeout
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self._arguments = _arguments(callback, function)

    def call(self, attempt: Attempt) -> Any:
        """Calls the function: its value, or a coroutine.

        Raises:
            Fail: the payload does not fit.
        """
        return self.function(*(argument(attempt) for argument in self._arguments))


def _arguments(callback: str, function: Callable[..., Any]) -> list[Callable[[Attempt], Any]]:
    """How each argument is made of an attempt."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidArgument(f"the handler of {callback!r} cannot be understood: {error}") from error
    needed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    jobs = [place for place, one in enumerate(needed) if hints.get(one.name) is Job or place == 1]
    if len(needed) > 2 or len(jobs) > 1 or len(needed) - len(jobs) > 1:
        raise InvalidArgument(f"the handler of {callback!r} takes a payload, a Job, or both: {inspect.signature(function)}")
    return [Job if place in jobs else _payload_reader(callback, hints.get(one.name, Any)) for place, one in enumerate(needed)]


def _payload_reader(callback: str, wanted: Any) -> Callable[[Attempt], Any]:
    if wanted is bytes:
        return lambda attempt: _raw(attempt.task)
    validate = _validator(callback, wanted)

    def read(attempt: Attempt) -> Any:
        task = attempt.task
        try:
            if task.payload_base64 is None:
                return validate(task.payload)
            return validate(json.loads(_raw(task)) if wanted is not Any else _raw(task))
        except ValueError as error:
            name = getattr(wanted, "__name__", str(wanted))
            raise Fail(f"the payload is not a {name}: {error}") from None

    return read


def _raw(task: ClaimedTask) -> bytes:
    if task.payload_base64 is not None:
        return base64.b64decode(task.payload_base64)
    return b"" if task.payload is None else _encode.dumps(task.payload).encode()


def _validator(callback: str, wanted: Any) -> Callable[[Any], Any]:
    """What reads a payload: Pydantic for its models, else this package."""
    if wanted is not Any and _is_of_pydantic(wanted):
        from pydantic import TypeAdapter

        return TypeAdapter(wanted).validate_python  # its errors are ValueErrors
    try:
        _decode.check(wanted)
    except (TypeError, NameError) as error:
        raise InvalidArgument(f"the payload of {callback!r}: {error}") from None
    return lambda value: _decode.payload(wanted, value)


def _is_of_pydantic(wanted: Any) -> bool:
    return hasattr(wanted, "__pydantic_validator__") or any(map(_is_of_pydantic, typing.get_args(wanted)))


def fill(task: ClaimedTask, content: Content) -> None:
    """Gives a claimed task the content of its message, as the service shows contents."""
    essence = content.content_type.partition(";")[0].strip().lower()
    task.content_type = content.content_type or None
    task.traceparent = content.trace_parent
    if essence == "application/json" or essence.endswith("+json"):
        try:
            task.payload = json.loads(content.payload)
            return
        except ValueError:
            pass  # it is shown as bytes
    task.payload_base64 = base64.b64encode(content.payload).decode()


def succeeded(value: Any) -> Report:
    """The report of a handler that returned."""
    if value is None:
        return {"outcome": "succeeded"}
    if isinstance(value, (bytes, bytearray)):
        value = Result(bytes(value))
    if isinstance(value, Result):
        if len(value.data) > RESULT_BYTES_MAX:
            return _too_large(len(value.data))
        data = base64.b64encode(value.data).decode()
        return {"outcome": "succeeded", "result_base64": data, "result_content_type": value.content_type}
    try:
        text = _encode.dumps(value)
    except InvalidArgument as error:
        return {"outcome": "failed", "error": f"the handler is done, but its result is of no use: {error}"}
    size = len(text.encode())
    return _too_large(size) if size > RESULT_BYTES_MAX else {"outcome": "succeeded", "result": json.loads(text)}


def raised(error: BaseException) -> Report:
    """The report of a handler that raised."""
    if isinstance(error, Snooze):
        return {"outcome": "snoozed", "delay": duration_text(error.delay)}
    if isinstance(error, Fail):
        return {"outcome": "failed", "error": _cut(str(error))}
    if isinstance(error, Retry):
        delay = {} if error.delay is None else {"delay": duration_text(error.delay)}
        return {"outcome": "retry", "error": _cut(str(error)), **delay}
    return {"outcome": "retry", "error": _cut(_described(error))}


def interrupted(why: type[Interrupted]) -> Report | None:
    """The report of a handler that was interrupted; None when another worker may run the task by now."""
    if why is TimedOut:
        return {"outcome": "retry", "error": "the attempt took longer than its time"}
    if why is Stopped:
        return give_back()
    return None


def give_back() -> Report:
    """The report that lets others run a task at once, without counting an attempt."""
    return {"outcome": "snoozed", "delay": "0s"}


def _too_large(size: int) -> Report:
    error = (
        f"the handler is done, but its result has {size} bytes and the limit is {RESULT_BYTES_MAX}: "
        "store it elsewhere and return its address"
    )
    return {"outcome": "failed", "error": error}


def _described(error: BaseException) -> str:
    """An error in one line, so that equal ones are one group of dead letters; then where it was raised."""
    lines = traceback.format_exception(error, limit=-5)
    return f"{lines[-1].strip()}\n{''.join(lines[:-1])}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= ERROR_CHARS_MAX else text[: ERROR_CHARS_MAX - 1] + "…"
