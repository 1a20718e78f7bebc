"""Traces with OpenTelemetry, and none of it where that is not installed."""

from __future__ import annotations

import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tickwheel import Client, Worker

from .conftest import eventually
from .processes import program

WITHOUT = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from tickwheel import _tracing
assert _tracing.headers() is _tracing.headers() and not _tracing.headers()
print("without")
"""


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_one_trace_from_the_producer_to_the_attempt(
    spans: InMemorySpanExporter, client: Client, worker: Worker, callback: str
) -> None:
    inside: list[int] = []

    @worker.task(callback)
    def run() -> None:
        inside.append(trace.get_current_span().get_span_context().trace_id)

    @worker.task(callback + "-async")
    async def run_async() -> None:
        inside.append(trace.get_current_span().get_span_context().trace_id)

    with worker:
        with trace.get_tracer("test").start_as_current_span("order") as span:
            ids = [client.register(name).id for name in (callback, callback + "-async")]
        for id in ids:
            assert client.wait(id, 5).state == "succeeded"
        eventually(lambda: len(spans.get_finished_spans()) == 3)
    assert inside == [span.get_span_context().trace_id] * 2
    attempt = next(one for one in spans.get_finished_spans() if one.name == f"run {callback}")
    assert attempt.attributes is not None
    assert attempt.attributes["tickwheel.task.id"] == ids[0]


def test_it_costs_nothing_without() -> None:
    with program("-c", WITHOUT) as one:
        assert one.ended() == 0, one.errors
    assert one.lines == ["without"]
    assert "opentelemetry" in sys.modules
