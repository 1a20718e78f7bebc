"""Values of Python as JSON for the service: requests, payloads, results."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections.abc import Mapping
from typing import Any

from ._values import duration_text, instant_text
from .errors import InvalidArgument

DURATIONS = frozenset(
    (
        "attempt_timeout",
        "children_within",
        "by",
        "catch_up_window",
        "claim_timeout",
        "dead_retention",
        "delay",
        "every",
        "expire_after",
        "heartbeat_timeout",
        "initial",
        "jitter",
        "max",
        "retention",
        "settle_within",
        "timeout",
        "wait",
    )
)
"""The fields of requests that hold durations; a test compares them with the description of the API."""


def dumps(value: Any) -> str:
    """Writes JSON without spaces.

    Raises:
        InvalidArgument: something in it is no JSON.
    """
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"it cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    """What JSON has no form of, in one that its reader takes back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):  # a model of Pydantic, which this package does not need
        return value.model_dump(mode="json")
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return duration_text(value)
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def request(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A request as it is sent: durations and times as texts, a payload of bytes as base64; fields of None are left out.

    Fields are in the order of their names, since an idempotency key stands for the bytes of a request.
    """
    made: dict[str, Any] = {}
    for name, value in sorted(fields.items()):
        if value is None:
            continue
        if name == "payload":
            made.update(content(value))
        else:
            made[name] = _field(name, value)
    return made


def _field(name: str, value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return instant_text(value)
    if name in DURATIONS and isinstance(value, (datetime.timedelta, int, float)):
        return duration_text(value)
    if name in ("labels", "headers") and isinstance(value, Mapping):
        return dict(value)  # names of the user's own
    if isinstance(value, (list, tuple)):
        return [item(one) for one in value]
    return item(value)


def item(value: Any) -> Any:
    """A part of a request: an object as it is sent, any other value as it is."""
    if isinstance(value, Mapping):
        return request(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # An answer that is sent back, such as the task of a schedule.
        return request({field.name.removesuffix("_"): getattr(value, field.name) for field in dataclasses.fields(value)})
    return value


def content(payload: Any) -> dict[str, Any]:
    """The fields of a request that carry a payload."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return {"payload_base64": base64.b64encode(payload).decode()}
    return {"payload": payload}
