"""Reads the messages to workers that Tickwheel writes to Kafka: a `tickwheel.v1.TaskMessage` in protobuf.

The contract is docs/kafka-message.md. No library of protobuf is needed: a worker uses a dozen fields, and skips all others.
"""

import base64
import hashlib
import hmac
import uuid
from dataclasses import dataclass

CONTENT_TYPE = b"application/protobuf;type=tickwheel.v1.TaskMessage"


class Unreadable(Exception):
    """A record that this worker must pass over: of a later format, or no task."""


def is_signed(key, topic, name, value, headers):
    """Tells whether a service with this key has written a record: its topic, its key (`name`) and its value."""
    name = name or b""
    signed = topic.encode() + b"\n" + str(len(name)).encode() + b"\n" + name + (value or b"")
    code = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return hmac.compare_digest(b"v1," + code, dict(headers or []).get("tickwheel-signature") or b"")


def varint(data, at):
    number, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise Unreadable("it ends within a number")
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return number & (1 << 64) - 1, at


def fields(data):
    """The fields of a protobuf message as {(number, wire type): value}; of a repeated field the last one."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            if wire == 2:
                length, at = varint(data, at)
            elif wire in (1, 5):
                length = {1: 8, 5: 4}[wire]
            else:
                raise Unreadable(f"it has a field of wire type {wire}")
            value, at = data[at : at + length], at + length
            if at > len(data):
                raise Unreadable("it is cut")
        if tag >> 3 == 0:
            raise Unreadable("it has a field of number 0")
        found[tag >> 3, wire] = value
    return found


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def text(data):
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("it has a text that is not UTF-8") from error


@dataclass(frozen=True)
class TaskMessage:
    """What a worker needs of a `tickwheel.v1.TaskMessage`. All other fields are skipped: later versions add some."""

    id: str
    generation: int
    expected_attempt: int
    start: float  # seconds since 1970
    callback: str
    max_attempts: int
    heartbeat_timeout: float  # seconds
    payload: bytes | None  # none: its claim brings it
    content_type: str

    @classmethod
    def read(cls, headers, value):
        kind = dict(headers or []).get("content-type")
        if kind != CONTENT_TYPE:
            raise Unreadable(f"its content-type is {kind}")
        message = fields(value or b"")
        spec = fields(message.get((6, 2), b""))
        task = message.get((1, 2), b"")
        if len(task) != 16 or (1, 2) not in spec:
            raise Unreadable("it has no id, or is of no callback")
        content = fields(spec[12, 2]) if (12, 2) in spec else None
        return cls(
            id=str(uuid.UUID(bytes=task)),
            generation=message.get((2, 0), 0),
            expected_attempt=message.get((3, 0), 0),
            start=signed(message.get((4, 0), 0)) / 1000,
            callback=text(fields(spec[1, 2]).get((1, 2), b"")),
            max_attempts=spec.get((5, 0), 0),
            heartbeat_timeout=spec.get((8, 0), 0) / 1000,
            payload=None if content is None else content.get((1, 2), b""),
            content_type="" if content is None else text(content.get((2, 2), b"")),
        )
