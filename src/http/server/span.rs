//! The span of a request tells operators which call came, how long it took and how it was answered.
//!
//! The handler finds its context in the header `traceparent`, where it finds that of a client otherwise: so the tasks that a
//! request registers are part of its trace.

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode},
};
use opentelemetry::{
    KeyValue,
    global::BoxedSpan,
    trace::{Span as _, SpanKind, Status, Tracer as _},
};

use crate::{http::headers, telemetry::traces};

/// Routes that are asked every few seconds, and tell nothing.
const SILENT: [&str; 4] = ["/livez", "/readyz", "/startupz", "/metrics"];

/// Begins the span of a request, when a collector gets spans.
pub(super) fn begin(method: &'static str, route: &str, request: &mut Request) -> Option<BoxedSpan> {
    if !traces::is_on() || SILENT.contains(&route) {
        return None;
    }
    let parent = traces::context(headers::trace_parent(request.headers()));
    let tracer = traces::tracer();
    let builder = tracer
        .span_builder(format!("{method} {route}"))
        .with_kind(SpanKind::Server)
        .with_attributes([
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route.to_owned()),
        ]);
    let span = tracer.build_with_context(builder, &parent);
    let text = traces::trace_parent(span.span_context());
    if let Ok(value) = HeaderValue::try_from(text) {
        request.headers_mut().insert(headers::TRACE_PARENT, value);
    }
    Some(span)
}

/// Ends the span of a request that was answered. An error of the client is none of the service.
pub(super) fn end(span: Option<BoxedSpan>, status: StatusCode) {
    let Some(mut span) = span else {
        return;
    };
    let number = i64::from(status.as_u16());
    span.set_attribute(KeyValue::new("http.response.status_code", number));
    if status.is_server_error() {
        span.set_status(Status::error(status.to_string()));
    }
    span.end();
}
