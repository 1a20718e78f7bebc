"""JSON as values of Python types: of the answers of the service, and of payloads of handlers.

A reader is made once for each type, from its annotations. Unknown fields are skipped: a producer may be newer than its
worker, and a service than its client. In answers unknown words of an enumeration pass for the same reason.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import types
import typing
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ._values import read_duration, read_instant

Reader = Callable[[Any], Any]


class Mismatch(ValueError):
    """A value that does not fit its type, and where it stands."""

    def __init__(self, reason: str) -> None:
        self.reason, self.path = reason, list[str]()
        super().__init__(reason)

    def within(self, place: str) -> Mismatch:
        """The same, one level up."""
        self.path.insert(0, place)
        return self

    def __str__(self) -> str:
        path = ".".join(self.path).replace(".[", "[")
        return f"{self.reason} (at {path})" if path else self.reason


def answer(wanted: Any, value: Any) -> Any:
    """Reads an answer of the service.

    Raises:
        Mismatch: it is not of this type.
    """
    return _reader(wanted, False)(value)


def check(wanted: Any) -> None:
    """Checks that payloads can be read as a type, with all that it is made of.

    Raises:
        TypeError: they cannot.
    """
    seen: set[Any] = set()
    left = [wanted]
    while left:
        one = left.pop()
        if one in seen or one is Ellipsis or get_origin(one) is Literal:
            continue
        seen.add(one)
        _reader(one, True)
        left += get_args(one)[: 1 if get_origin(one) is typing.Annotated else None]
        if dataclasses.is_dataclass(one) or typing.is_typeddict(one):
            left += typing.get_type_hints(one).values()


def payload(wanted: Any, value: Any) -> Any:
    """Reads a payload, each value of exactly the type that is asked for.

    Raises:
        Mismatch: it is not of this type.
    """
    return _reader(wanted, True)(value)


@lru_cache(maxsize=1024)
def _reader(wanted: Any, strict: bool) -> Reader:
    if wanted is Any or wanted is object or isinstance(wanted, TypeVar):
        return _as_it_is
    if wanted is None or wanted is type(None):
        return _none
    if isinstance(wanted, type) and wanted in _SIMPLE:
        return _SIMPLE[wanted]
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _object(wanted, strict)
    if typing.is_typeddict(wanted):
        return _typed_dict(wanted, strict)
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return _literal(parts) if strict else _as_it_is
    if origin is typing.Annotated:
        return _reader(parts[0], strict)
    if origin in (Union, types.UnionType):
        return _union(parts, strict)
    if origin in (list, tuple, set, frozenset) or wanted in (list, tuple, set, frozenset):
        return _sequence(origin or wanted, parts, strict)
    if origin is dict or wanted is dict:
        return _mapping(parts, strict)
    if isinstance(wanted, type) and hasattr(wanted, "__members__"):
        return _enumeration(wanted)
    raise TypeError(f"{wanted!r} is not a type that JSON can be read as")


def _as_it_is(value: Any) -> Any:
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"{_named(value)} where nothing is expected")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Mismatch(f"{_named(value)} where a number is expected")
    return float(value)


def _exactly(wanted: type, name: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not wanted:
            raise Mismatch(f"{_named(value)} where {name} is expected")
        return value

    return read


def _text_as(parse: Callable[[str], Any], name: str) -> Reader:
    def read(value: Any) -> Any:
        try:
            if isinstance(value, str):
                return parse(value)
        except ValueError:
            pass
        raise Mismatch(f"{_named(value)} where {name} is expected")

    return read


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(text) from None


_SIMPLE: dict[type, Reader] = {
    str: _exactly(str, "a text"),
    int: _exactly(int, "a whole number"),
    bool: _exactly(bool, "true or false"),
    float: _number,
    datetime.datetime: _text_as(read_instant, "a time such as 2030-01-31T09:00:00Z"),
    datetime.date: _text_as(datetime.date.fromisoformat, "a date such as 2030-01-31"),
    datetime.timedelta: _text_as(read_duration, 'a duration such as "90s"'),
    uuid.UUID: _text_as(uuid.UUID, "a UUID"),
    decimal.Decimal: _text_as(_decimal, 'a number as a text, such as "1.50"'),
}


def _literal(words: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        if value not in words:
            raise Mismatch(f"{_named(value)} where one of {', '.join(map(repr, words))} is expected")
        return value

    return read


def _enumeration(wanted: Any) -> Reader:
    def read(value: Any) -> Any:
        try:
            return wanted(value)
        except ValueError:
            raise Mismatch(f"{value!r} is no {wanted.__name__}") from None

    return read


def _sequence(kind: Any, parts: tuple[Any, ...], strict: bool) -> Reader:
    by_place = kind is tuple and parts and parts[-1] is not Ellipsis
    readers = [_reader(part, strict) for part in parts if part is not Ellipsis] or [_as_it_is]

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch(f"{_named(value)} where a list is expected")
        if by_place and len(value) != len(readers):
            raise Mismatch(f"a list of {len(value)} where {len(readers)} items are expected")
        items = []
        for place, one in enumerate(value):
            try:
                items.append(readers[place if by_place else 0](one))
            except Mismatch as error:
                raise error.within(f"[{place}]") from None
        return items if kind is list else kind(items)

    return read


def _mapping(parts: tuple[Any, ...], strict: bool) -> Reader:
    if parts and parts[0] not in (str, Any, object):
        raise TypeError(f"the names of an object in JSON are texts, not {parts[0]!r}")
    item = _reader(parts[1] if parts else Any, strict)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"{_named(value)} where an object is expected")
        items = {}
        for name, one in value.items():
            try:
                items[name] = item(one)
            except Mismatch as error:
                raise error.within(name) from None
        return items

    return read


def _union(parts: tuple[Any, ...], strict: bool) -> Reader:
    if type(None) in parts:
        others = tuple(part for part in parts if part is not type(None))
        inner = _reader(others[0], strict) if len(others) == 1 else _union(others, strict)
        return lambda value: None if value is None else inner(value)
    readers = [_reader(part, True) for part in parts]
    lenient = [_reader(part, strict) for part in parts]

    def read(value: Any) -> Any:
        reasons = []
        for one in [*readers, *lenient]:
            try:
                return one(value)
            except Mismatch as error:
                reasons.append(error)
        if strict:
            raise reasons[0]
        return value  # a kind that a later version has

    return read


def _fields(wanted: Any) -> dict[str, tuple[str, Any, bool]]:
    """Of each name in JSON: its name in Python, its type, and whether it has to be there."""
    hints = typing.get_type_hints(wanted)
    fields = {}
    for field in dataclasses.fields(wanted):
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init:
            # `in_` and `else_` are words of Python.
            fields[field.name.removesuffix("_")] = (field.name, hints[field.name], needed)
    return fields


def _object(wanted: Any, strict: bool) -> Reader:
    fields: dict[str, tuple[str, Reader]] = {}
    needed: set[str] = set()

    def prepare() -> None:  # at the first use, since types may contain themselves
        for name, (python, hint, is_needed) in _fields(wanted).items():
            fields[name] = (python, _reader(hint, strict))
            if is_needed:
                needed.add(name)

    def read(value: Any) -> Any:
        if not fields:
            prepare()
        if not isinstance(value, dict):
            raise Mismatch(f"{_named(value)} where an object is expected")
        return wanted(**_members(value, fields, needed))

    return read


def _members(value: dict[str, Any], fields: dict[str, tuple[str, Reader]], needed: set[str]) -> dict[str, Any]:
    members = {}
    for name, one in value.items():
        known = fields.get(name)
        if known is None:
            continue
        try:
            members[known[0]] = known[1](one)
        except Mismatch as error:
            raise error.within(name) from None
    missing = needed - value.keys()
    if missing:
        raise Mismatch("it is missing").within(min(missing))
    return members


def _typed_dict(wanted: Any, strict: bool) -> Reader:
    fields: dict[str, tuple[str, Reader]] = {}

    def read(value: Any) -> Any:
        if not fields:  # at the first use, since types may contain themselves
            fields.update({name: (name, _reader(hint, strict)) for name, hint in typing.get_type_hints(wanted).items()})
        if not isinstance(value, dict):
            raise Mismatch(f"{_named(value)} where an object is expected")
        return _members(value, fields, set(wanted.__required_keys__))

    return read


def _named(value: Any) -> str:
    """A value as an error names it: its kind, and a little of it."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
