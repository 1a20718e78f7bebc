"""Durations, times, ids, and values of JSON as types."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import time
import uuid
from typing import Any, Literal, TypedDict

import pytest

from tickwheel import _decode, _encode
from tickwheel._backoff import Backoff
from tickwheel._ids import IdMaker, make_id
from tickwheel._values import duration_text, instant_text, milliseconds, read_duration, read_instant, rfc3339
from tickwheel.errors import InvalidArgument
from tickwheel.models import IdsResponse

UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (0, 0),
        (0.003, 3),
        (0.0031, 4),
        (1.5, 1500),
        (datetime.timedelta(microseconds=1), 1),
        (datetime.timedelta(days=10_000), 864_000_000_000),
        ("1h30m", 5_400_000),
        ("250ms", 250),
        ("3d", 259_200_000),
    ],
)
def test_durations_are_rounded_up(value: Any, whole: int) -> None:
    assert milliseconds(value) == whole
    assert read_duration(duration_text(value)) == datetime.timedelta(milliseconds=whole)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, None, "", "5", "5 s", "-5s", [], datetime.timedelta(-1)])
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        milliseconds(value)


def test_times_have_a_zone_and_milliseconds() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    assert instant_text(datetime.datetime(2030, 1, 31, 9, 0, 0, 250_001, berlin)) == "2030-01-31T08:00:00.251Z"
    for text in ("2030-01-31T08:00:00Z", "2030-01-31T08:00:00.0Z", "2030-01-31T09:00:00.000000000+01:00"):
        assert read_instant(text) == datetime.datetime(2030, 1, 31, 8, tzinfo=UTC)
    assert read_instant("9999-12-31T23:59:59.9999Z").year == 9999
    with pytest.raises(InvalidArgument):
        instant_text(datetime.datetime(2030, 1, 1))
    with pytest.raises(InvalidArgument):
        rfc3339(1 << 60)
    with pytest.raises(ValueError, match="no time zone"):
        read_instant("2030-01-31T08:00:00")


def test_ids_carry_start_wheel_and_look_step() -> None:
    # The step 15 (68 s) is the one for the default claim timeout of 60 s: docs/keys.md.
    for claim_timeout, step in ((60_000, 15), (5000, 0), (5001, 1), (10**9, 63)):
        number = uuid.UUID(make_id(1_800_000_000_000, claim_timeout, 16)).int
        assert number >> 80 == 1_800_000_000_000
        assert (number >> 76) & 0xF == 8
        assert (number >> 64) & 0xFFF < 16
        assert (number >> 62) & 3 == 2
        assert (number >> 56) & 63 == step


def test_a_delay_counts_by_the_clock_of_the_service() -> None:
    maker, then = IdMaker(), datetime.datetime(2035, 1, 1, tzinfo=UTC)
    maker.learn(IdsResponse(time=then, wheels=16), time.monotonic())
    task = {"callback": "c", "delay": "90s"}
    assert maker.fix(task)
    late = read_instant(task["start_time"]) - then - datetime.timedelta(seconds=90)
    assert datetime.timedelta() <= late < datetime.timedelta(seconds=5)
    assert uuid.UUID(task["id"]).int >> 80 == round(read_instant(task["start_time"]).timestamp() * 1000)
    assert not maker.is_due()
    # A service whose clock a test moves is asked each time, and moved by the delay it reaches the start.
    maker.learn(IdsResponse(time=then, wheels=16, valid_for=datetime.timedelta()), time.monotonic() - 0.05)
    assert maker.is_due()
    task = {"callback": "c", "delay": "90s"}
    assert maker.fix(task)
    assert read_instant(task["start_time"]) == then + datetime.timedelta(seconds=90)


def test_tasks_that_the_service_has_to_name_are_left_as_they_are() -> None:
    maker = IdMaker()
    assert not maker.fix({"callback": "c"})
    maker.learn(IdsResponse(time=datetime.datetime.now(UTC), wheels=16), time.monotonic())
    for task in (
        {"kafka": {"topic": "t"}},
        {"callback": "c", "start_time": "tomorrow"},
        {"callback": "c", "start_time": "2020-01-01T00:00:00Z"},
        {"callback": "c", "delay": "soon"},
        {"callback": "c", "delay": "1s", "start_time": "2090-01-01T00:00:00Z"},
    ):
        before = json.dumps(task)
        assert not maker.fix(task)
        assert json.dumps(task) == before
    marked = {"callback": "c", "delay": "1s", "idempotency_key": "k"}
    assert maker.fix(marked)
    assert "id" not in marked


class Colour(enum.Enum):
    RED = "red"


class Named(TypedDict, total=False):
    name: str
    inner: Named


@dataclasses.dataclass
class Everything:
    text: str
    colour: Colour
    size: Literal["s", "m"]
    at: datetime.datetime
    day: datetime.date
    wait: datetime.timedelta
    id: uuid.UUID
    price: decimal.Decimal
    pair: tuple[int, str]
    many: tuple[int, ...]
    tags: set[str]
    named: Named
    either: int | list[int]
    by_name: dict[str, float]
    children: list[Everything] = dataclasses.field(default_factory=list)


EVERYTHING = Everything(
    text="ä",
    colour=Colour.RED,
    size="m",
    at=datetime.datetime(2030, 1, 1, 12, 0, 0, 5, UTC),
    day=datetime.date(2030, 1, 1),
    wait=datetime.timedelta(milliseconds=1500),
    id=uuid.UUID(int=1),
    price=decimal.Decimal("1.50"),
    pair=(1, "x"),
    many=(1, 2, 3),
    tags={"a"},
    named={"inner": {"name": "n"}},
    either=[1],
    by_name={"a": 1.0},
)


def test_what_is_written_is_read_back() -> None:
    whole = dataclasses.replace(EVERYTHING, children=[EVERYTHING])
    _decode.check(Everything)
    assert _decode.payload(Everything, json.loads(_encode.dumps(whole))) == whole


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": 1}, "1 where a text is expected (at text)"),
        ({"colour": "blue"}, "'blue' is no Colour (at colour)"),
        ({"size": "l"}, "'l' where one of 's', 'm' is expected (at size)"),
        ({"at": "2030-01-01"}, "'2030-01-01' where a time such as 2030-01-31T09:00:00Z is expected (at at)"),
        ({"pair": [1]}, "a list of 1 where 2 items are expected (at pair)"),
        ({"pair": ["x", 1]}, "'x' where a whole number is expected (at pair[0])"),
        ({"price": "much"}, "'much' where a number as a text, such as \"1.50\" is expected (at price)"),
        ({"named": {"inner": {"name": 1}}}, "1 where a text is expected (at named.inner.name)"),
        ({"by_name": {"a": "x"}}, "'x' where a number is expected (at by_name.a)"),
        ({"children": [{}]}, "it is missing (at children[0].at)"),
        ({"text": None}, "None where a text is expected (at text)"),
    ],
)
def test_what_does_not_fit_says_where(change: dict[str, Any], reason: str) -> None:
    value = {**json.loads(_encode.dumps(EVERYTHING)), "unknown": 1, **change}
    with pytest.raises(_decode.Mismatch) as mismatch:
        _decode.payload(Everything, value)
    assert str(mismatch.value) == reason


def test_types_that_json_has_no_form_of_are_found_before() -> None:
    @dataclasses.dataclass
    class Bad:
        inner: list[dict[int, str]]

    for wanted in (Bad, list[object | complex], dict[int, str], type):
        with pytest.raises(TypeError):
            _decode.check(wanted)


def test_waits_grow_and_are_spread() -> None:
    backoff = Backoff()
    waits = [backoff.failed() for _ in range(50)]
    assert min(waits) >= 0.1
    assert 0.5 < max(waits) <= 5
    assert len({*waits[5:]}) > 40
    assert 30 <= backoff.failed(1000) <= 30.2
    assert 3 <= backoff.failed(3) <= 5
    backoff.succeeded()
    assert backoff.failed() == 0.1
    assert 3 <= backoff.failed(3) <= 3.2
