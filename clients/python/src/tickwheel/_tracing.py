"""Traces, when OpenTelemetry is installed; without it, an empty dictionary a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import context as _context
    from opentelemetry import propagate as _propagate
    from opentelemetry import trace as _trace

    _tracer: Any = _trace.get_tracer("tickwheel")
except ImportError:  # not installed
    _tracer = None

_NONE: Mapping[str, str] = {}


def headers() -> Mapping[str, str]:
    """The headers that carry the current span to the service, which keeps it with the task."""
    if _tracer is None or not _trace.get_current_span().get_span_context().is_valid:
        return _NONE
    carrier: dict[str, str] = {}
    _propagate.inject(carrier)
    return carrier


@contextmanager
def within(carrier: Mapping[str, str]) -> Iterator[None]:
    """Goes on with the span whose headers these are."""
    if not carrier:
        yield
        return
    token = _context.attach(_propagate.extract(carrier))
    try:
        yield
    finally:
        _context.detach(token)


@contextmanager
def attempt(callback: str, task: str, number: int, parent: str | None) -> Iterator[None]:
    """A span of an attempt, in the trace of the registration."""
    if _tracer is None:
        yield
        return
    context = _propagate.extract({"traceparent": parent}) if parent else _context.get_current()
    attributes = {"tickwheel.task.id": task, "tickwheel.callback": callback, "tickwheel.attempt": number}
    with _tracer.start_as_current_span(f"run {callback}", context, kind=_trace.SpanKind.CONSUMER, attributes=attributes):
        yield
