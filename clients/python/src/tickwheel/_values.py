"""Durations and instants, as Python has them and as the service writes them."""

from __future__ import annotations

import datetime
import math
import re
from typing import TypeAlias

from .errors import InvalidArgument

Duration: TypeAlias = "datetime.timedelta | float | str"
"""A duration: a `timedelta`, seconds, or a text of the service such as `"90s"` or `"1h30m"`."""

Instant: TypeAlias = "datetime.datetime | str"
"""A time: a `datetime` with a time zone, or a text such as `"2030-01-31T09:00:00Z"`."""

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+)(ms|s|m|h|d)")
_FRACTION = re.compile(r"\.(\d+)")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def milliseconds(value: Duration) -> int:
    """Whole milliseconds of a duration, rounded up: nothing comes early.

    Raises:
        InvalidArgument: it is negative, no number, or a text that is no duration of plain units.
    """
    if isinstance(value, str):
        parts = _PART.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            raise InvalidArgument(f'{value!r} is not a duration such as "90s", "1h30m" or "250ms"')
        return sum(int(number) * _MILLISECONDS[unit] for number, unit in parts)
    if isinstance(value, datetime.timedelta):
        whole = -(-value // _MILLISECOND)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        # A millionth of a millisecond is what floats add by themselves: 0.003 * 1000 is 3, not 4.
        whole = math.ceil(round(value * 1000, 6))
    else:
        raise InvalidArgument(f"{value!r} is not a duration: give a timedelta, seconds, or a text such as '90s'")
    if whole < 0:
        raise InvalidArgument(f"{value!r} is a negative duration")
    return whole


def duration_text(value: Duration) -> str:
    """A duration as the service reads it. The service itself judges a text."""
    if isinstance(value, str):
        return value
    whole = milliseconds(value)
    return f"{whole // 1000}s" if whole % 1000 == 0 else f"{whole}ms"


def seconds(value: Duration) -> float:
    """Seconds of a duration."""
    return milliseconds(value) / 1000


def read_duration(text: str) -> datetime.timedelta:
    """Reads a duration that the service wrote."""
    return datetime.timedelta(milliseconds=milliseconds(text))


def instant_text(value: Instant) -> str:
    """A time as the service reads it. The service itself judges a text.

    Raises:
        InvalidArgument: a `datetime` without a time zone, which would mean another time on another machine.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime.datetime):
        raise InvalidArgument(f"{value!r} is not a time: give a datetime or a text such as '2030-01-31T09:00:00Z'")
    if value.utcoffset() is None:
        raise InvalidArgument(f"{value!r} has no time zone: give it one, such as tzinfo=datetime.timezone.utc")
    return rfc3339(since_epoch(value))


def since_epoch(value: datetime.datetime) -> int:
    """Milliseconds since 1970, rounded up: nothing comes early."""
    return -(-(value - _EPOCH) // _MILLISECOND)


def rfc3339(at: int) -> str:
    """Writes milliseconds since 1970 as the service does."""
    try:
        time = _EPOCH + datetime.timedelta(milliseconds=at)
    except OverflowError:
        raise InvalidArgument("the time lies behind the year 9999") from None
    return time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def read_instant(text: str) -> datetime.datetime:
    """Reads a time that the service wrote; finer fractions than microseconds are cut."""
    # Python 3.10 reads neither `Z` nor fractions of other lengths than three and six.
    plain = _FRACTION.sub(lambda found: "." + found[1][:6].ljust(6, "0"), text)
    time = datetime.datetime.fromisoformat(plain.removesuffix("Z") + "+00:00" if plain.endswith("Z") else plain)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return time
