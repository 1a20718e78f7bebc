"""What a worker does with messages of Kafka. Real servers are met by `tests/clients/kafka_python`."""

from __future__ import annotations

import base64
import datetime
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tickwheel.models import ClaimedTask
from tickwheel.worker.handler import fill
from tickwheel.worker.kafka.line import Line, Waiting
from tickwheel.worker.kafka.message import Content, TaskMessage, Unreadable, check_signature
from tickwheel.worker.kafka.offsets import Offsets

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "kafka_message.json"
MESSAGES: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["messages"]
PLACE = ("tickwheel.mail.normal", 1)


def read(golden: dict[str, Any]) -> TaskMessage:
    headers = [(name, value.encode()) for name, value in golden["headers"].items()]
    return TaskMessage.read(headers, bytes.fromhex(golden["value"]))


@pytest.mark.parametrize("golden", MESSAGES, ids=lambda one: one["name"])
def test_the_golden_messages_are_read_and_those_of_other_formats_are_passed(golden: dict[str, Any]) -> None:
    wanted = golden["decoded"]
    if wanted is None:
        with pytest.raises(Unreadable):
            read(golden)
        return
    message, spec = read(golden), wanted["spec"]
    assert (message.id, message.generation, message.expected_attempt) == (
        wanted["id"],
        wanted["generation"],
        wanted["expected_attempt"],
    )
    assert round(message.start * 1000) == wanted["start_time_ms"]
    assert (message.callback, message.max_attempts) == (spec["callback"], spec["max_attempts"])
    assert round(message.heartbeat_timeout * 1000) == spec["heartbeat_timeout_ms"]
    if message.content is not None:
        assert base64.b64encode(message.content.payload).decode() == spec["content"]["payload"]
        assert message.content.content_type == spec["content"]["content_type"]


def test_messages_of_both_kinds_are_golden() -> None:
    assert {golden["decoded"] is None for golden in MESSAGES} == {True, False}


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_cut_message_is_passed(cut: int) -> None:
    golden = next(one for one in MESSAGES if one["decoded"])
    with pytest.raises(Unreadable):
        read({**golden, "value": golden["value"][: -2 * cut]})


def test_a_signature_belongs_to_the_key_of_the_service_and_to_the_whole_record() -> None:
    key, headers = (
        b"an old key of thirty bytes....",
        [("tickwheel-signature", b"v1,HynjlbUhdNO+j1buhBZUe6sSqrxJaz4G3dAFngOrBoQ=")],
    )
    check_signature(key, PLACE[0], b"k1", b"hello", headers)
    for wrong in ((key[1:], b"hello", headers), (key, b"hallo", headers), (key, b"hello", [])):
        with pytest.raises(Unreadable):
            check_signature(wrong[0], PLACE[0], b"k1", wrong[1], wrong[2])


def test_a_mark_passes_no_message_that_is_not_done() -> None:
    offsets = Offsets()
    for offset in (5, 6, 7):
        offsets.received(PLACE, offset)
    offsets.done(PLACE, 6)
    assert offsets.to_commit() == {}
    offsets.done(PLACE, 5)
    assert offsets.to_commit() == {PLACE: 7}
    offsets.committed({PLACE: 7})
    assert offsets.to_commit() == {}
    offsets.failed([PLACE])
    assert offsets.to_commit() == {PLACE: 7}
    offsets.done(PLACE, 7)
    assert offsets.to_commit() == {PLACE: 8}
    offsets.forget([PLACE])
    assert offsets.to_commit() == {}


def waiting(topic: str, start: float) -> Waiting:
    message = TaskMessage("x", 0, 0, start, "mail", 3, 60, Content(b"1", "application/json", None))
    return Waiting((topic, 0), 0, b"1", message)


def test_what_is_due_is_claimed_by_priority_and_no_more_than_handlers_are_free() -> None:
    line, now = Line(2), time.time()
    for topic, start in (("a.low", now - 9), ("a.high", now - 1), ("a.normal", now - 5), ("a.high", now + 60)):
        line.hold(waiting(topic, start))
    assert line.room() < 0
    assert [one.place[0] for one in line.take()] == ["a.high", "a.normal"]
    line.free()
    assert [one.place[0] for one in line.take()] == ["a.low"]
    line.drop({("a.high", 0)})
    assert line.room() == 2
    line.close()
    assert line.take() == []


def test_a_content_is_filled_in_as_the_service_shows_it() -> None:
    now, minute = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(minutes=1)
    for content, payload, coded in (
        (Content(b'{"a": 1}', "application/json", "00-1"), {"a": 1}, None),
        (Content(b"\xff", "image/png", None), None, "/w=="),
        (Content(b"{", "application/problem+json; charset=utf-8", None), None, "ew=="),
    ):
        task = ClaimedTask(
            id="x",
            attempt=1,
            callback="mail",
            claim_expire_time=now,
            generation=0,
            heartbeat_timeout=minute,
            max_attempts=3,
            start_time=now,
        )
        fill(task, content)
        assert (task.payload, task.payload_base64, task.traceparent) == (payload, coded, content.trace_parent)
