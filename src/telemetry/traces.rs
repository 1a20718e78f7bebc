//! The traces tell a collector of OpenTelemetry for operators which requests came, and which attempts followed from them.
//!
//! A request has a span of its own, whose parent is that of its client (`traceparent`). A task that it registers keeps the
//! context of that span. So each attempt, perhaps days later, is a span of the same trace, and the worker gets the context to
//! go on with. Without a collector nothing is made: [`is_on`] is one load. A trace is kept or not where it begins.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::{
    Context,
    global::{self, BoxedTracer},
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};

/// Name of the instrumentation in all spans.
const SCOPE: &str = "tickwheel";

/// Whether a collector gets spans. It changes once, when the process starts.
static ON: AtomicBool = AtomicBool::new(false);

/// Tells whether a collector gets spans.
#[must_use]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Says that there is a collector now.
#[cfg(feature = "cli")]
pub(super) fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}

/// Returns the maker of spans.
#[must_use]
pub fn tracer() -> BoxedTracer {
    global::tracer(SCOPE)
}

/// Returns the context of a `traceparent`; that of a new trace when there is none, or it is not one.
#[must_use]
pub fn context(trace_parent: Option<&str>) -> Context {
    let none = Context::new();
    match trace_parent.and_then(read) {
        Some(parent) => none.with_remote_span_context(parent),
        None => none,
    }
}

/// Writes the context of a span as a `traceparent`, of W3C Trace Context.
#[must_use]
pub fn trace_parent(context: &SpanContext) -> String {
    format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        context.trace_flags() & TraceFlags::SAMPLED,
    )
}

fn read(trace_parent: &str) -> Option<SpanContext> {
    let mut parts = trace_parent.split('-');
    let (_version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_survives_its_text() {
        for text in [
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
        ] {
            let read = read(text).unwrap();
            assert_eq!(trace_parent(&read), text);
            assert_eq!(context(Some(text)).span().span_context(), &read);
        }
        for text in [
            "",
            "00",
            "00-x-y-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(!context(None).span().span_context().is_valid());
    }
}
