"""Reads what the service writes to Kafka: a `tickwheel.v1.TaskMessage` in protobuf (`docs/kafka-message.md`).

No library of protobuf is needed: a worker uses a few fields, and skips all others. Later versions add some.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = b"application/protobuf;type=tickwheel.v1.TaskMessage"
SIGNATURE = "tickwheel-signature"

Headers = Iterable[tuple[str, bytes | None]]
_Fields = Mapping[tuple[int, int], int | bytes]

_NUMBER, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
# Payload, media type and trace are read here; a content with more is answered with the claim.
_READ_HERE = {(1, _BYTES), (2, _BYTES), (6, _BYTES)}


class Unreadable(Exception):
    """A record that a worker has to pass over: of a later format, unsigned, or no task."""


@dataclass(frozen=True)
class Content:
    """What a task carries."""

    payload: bytes
    content_type: str
    trace_parent: str | None


@dataclass(frozen=True)
class TaskMessage:
    """The part of a message that a worker needs. It says that an attempt is due; the right to run it is the claim."""

    id: str
    generation: int
    expected_attempt: int
    start: float
    """Seconds since 1970: not to be claimed before."""
    callback: str
    max_attempts: int
    heartbeat_timeout: float
    """Seconds."""
    content: Content | None
    """None where the claim has to bring it."""

    @classmethod
    def read(cls, headers: Headers, value: bytes) -> TaskMessage:
        """Reads the headers and the value of a record.

        Raises:
            Unreadable: it is to be passed over.
        """
        kind = dict(headers).get("content-type")
        if kind != CONTENT_TYPE:
            raise Unreadable(f"its content-type is {kind!r}")
        message = _fields(value)
        spec = _fields(_bytes(message, 6))
        task = _bytes(message, 1)
        if len(task) != 16 or (1, _BYTES) not in spec:
            raise Unreadable("it has no id, or is of no callback")
        start = _number(message, 4)
        return cls(
            id=str(uuid.UUID(bytes=task)),
            generation=_number(message, 2),
            expected_attempt=_number(message, 3),
            start=(start - (1 << 64) if start >> 63 else start) / 1000,
            callback=_text(_bytes(_fields(_bytes(spec, 1)), 1)),
            max_attempts=_number(spec, 5),
            heartbeat_timeout=_number(spec, 8) / 1000,
            content=_content(_fields(_bytes(spec, 12))) if (12, _BYTES) in spec else None,
        )


def check_signature(key: bytes, topic: str, name: bytes | None, value: bytes | None, headers: Headers) -> None:
    """Checks that a service with this key has written a record: its topic, its key (`name`) and its value.

    Raises:
        Unreadable: it has not.
    """
    name = name or b""
    signed = topic.encode() + b"\n" + str(len(name)).encode() + b"\n" + name + (value or b"")
    code = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    if not hmac.compare_digest(b"v1," + code, dict(headers).get(SIGNATURE) or b""):
        raise Unreadable("it has no signature of the service")


def _content(fields: _Fields) -> Content | None:
    if not fields.keys() <= _READ_HERE:
        return None
    return Content(_bytes(fields, 1), _text(_bytes(fields, 2)), _text(_bytes(fields, 6)) or None)


def _fields(data: bytes) -> _Fields:
    """The fields of a message by number and wire type; of a repeated field the last one."""
    found: dict[tuple[int, int], int | bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if tag >> 3 == 0:
            raise Unreadable("it has a field of number 0")
        if wire == _NUMBER:
            found[tag >> 3, wire], at = _varint(data, at)
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED_64, _FIXED_32):
            length = 8 if wire == _FIXED_64 else 4
        else:
            raise Unreadable(f"it has a field of wire type {wire}")
        if at + length > len(data):
            raise Unreadable("it is cut")
        found[tag >> 3, wire] = data[at : at + length]
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & ((1 << 64) - 1), at
    raise Unreadable("it ends within a number")


def _number(fields: _Fields, number: int) -> int:
    value = fields.get((number, _NUMBER), 0)
    return value if isinstance(value, int) else 0


def _bytes(fields: _Fields, number: int) -> bytes:
    value = fields.get((number, _BYTES), b"")
    return value if isinstance(value, bytes) else b""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Unreadable("it has a text that is not UTF-8") from None
