"""Checks the reader of examples/kafka_message.py against the golden messages of the service."""

import base64
import json
import pathlib
import sys

root = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(root / "examples"))
from kafka_message import TaskMessage, Unreadable, is_signed


def read(golden):
    """What the reader has of a message, by the names of the file; none where it passes it."""
    headers = [(name, value.encode()) for name, value in golden["headers"].items()]
    try:
        message = TaskMessage.read(headers, bytes.fromhex(golden["value"]))
    except Unreadable:
        return None
    return {
        "id": message.id,
        "generation": message.generation,
        "expected_attempt": message.expected_attempt,
        "start_time_ms": round(message.start * 1000),
        "callback": message.callback,
        "max_attempts": message.max_attempts,
        "heartbeat_timeout_ms": round(message.heartbeat_timeout * 1000),
        "payload": None if message.payload is None else base64.b64encode(message.payload).decode(),
        "content_type": message.content_type,
    }


def expected(golden):
    decoded = golden["decoded"]
    if decoded is None:
        return None
    spec = decoded["spec"]
    content = spec["content"] or {"payload": None, "content_type": ""}
    return {name: {**decoded, **spec, **content}[name] for name in read(golden) or ()}


messages = json.loads((root / "tests/golden/kafka_message.json").read_text())["messages"]
for golden in messages:
    if read(golden) != expected(golden):
        sys.exit(f"{golden['name']}: {read(golden)} instead of {expected(golden)}")
if not any(golden["decoded"] for golden in messages) or all(golden["decoded"] for golden in messages):
    sys.exit("the golden file has not messages of both kinds")

key, signature = b"an old key of thirty bytes....", b"v1,HynjlbUhdNO+j1buhBZUe6sSqrxJaz4G3dAFngOrBoQ="
signed = ("tickwheel.mail.normal", b"k1", b"hello", [("tickwheel-signature", signature)])
if not is_signed(key, *signed) or is_signed(key[1:], *signed) or is_signed(key, *signed[:2], b"hallo", signed[3]):
    sys.exit("signatures are not checked as the service makes them")
