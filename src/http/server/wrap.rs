//! The wrapper surrounds every request for the server: it checks its host, counts and times it, counts its answer, adds the trace
//! id to errors, and answers panics.
//!
//! It is one layer and not several, because the router clones and allocates for each layer and each request.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt as _;
use metrics::{SharedString, counter, histogram};
use opentelemetry::global::BoxedSpan;

use super::span;
use crate::{
    http::{
        Api, access,
        error::{Code, Error},
        headers, hosts,
        trace::Trace,
    },
    time_source::Moment,
};

/// Route of requests that no route matches; their paths would be labels without bound.
const UNMATCHED: &str = "unmatched";

/// Answers a request and sees to all that every request needs.
pub(in crate::http) async fn wrap(
    State(api): State<Api>,
    mut request: Request,
    next: Next,
) -> Response {
    let seen = Seen::of(&api, &mut request);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match hosts::check(&api, &request) {
        Ok(()) => {
            let answering = access::answer(&api, seen.route.as_deref(), request, next);
            let answering = AssertUnwindSafe(seen.trace.over(answering)).catch_unwind();
            let answer = answering.await.unwrap_or_else(panicked);
            api.answers.hold(is_read, answer)
        }
        Err(refused) => refused.into_response(),
    };
    seen.finish(&api, answer)
}

/// The parts of a request that are needed when it is answered.
struct Seen {
    begun: Moment,
    method: &'static str,
    route: Option<Arc<str>>,
    trace: Trace,
    span: Option<BoxedSpan>,
}

impl Seen {
    fn of(api: &Api, request: &mut Request) -> Self {
        let method = method_name(request.method());
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.map(|path| api.rules.path(path.as_str()));
        let named = route.as_deref().unwrap_or(UNMATCHED);
        let span = span::begin(method, named, request);
        let given = headers::trace_parent(request.headers()).and_then(headers::trace_id);
        Self {
            begun: api.options.time.moment(),
            method,
            span,
            route,
            trace: Trace::new(given, &api.options.time),
        }
    }

    fn route(&self) -> &str {
        self.route.as_deref().unwrap_or(UNMATCHED)
    }

    /// Writes the problem document of an error, and counts and times the request.
    fn finish(mut self, api: &Api, mut answer: Response) -> Response {
        if let Some(error) = answer.extensions_mut().remove::<Error>() {
            self.explain(api, error, &mut answer);
        }
        span::end(self.span.take(), answer.status());
        let status = status_name(answer.status());
        let took = api.options.time.moment().since(self.begun);
        let unmatched = SharedString::const_str(UNMATCHED);
        let route = self.route.map_or(unmatched, SharedString::from);
        counter!("tickwheel_http_requests_total", "route" => route.clone(), "method" => self.method, "status" => status)
            .increment(1);
        histogram!("tickwheel_http_request_duration_seconds", "route" => route).record(took);
        answer
    }

    fn explain(&self, api: &Api, error: Error, answer: &mut Response) {
        let trace_id = self.trace.id();
        let (method, route) = (self.method, self.route());
        let (code, detail) = (error.code.name(), &error.detail);
        let is_outage = matches!(error.code, Code::Unavailable | Code::StoreFull);
        let told = if is_outage {
            api.outages.say(api.options.time.moment())
        } else {
            error.code.status().is_server_error().then_some(0)
        };
        if let Some(others) = told {
            tracing::warn!(%trace_id, method, route, code, detail, others, "request failed");
        } else {
            tracing::debug!(%trace_id, method, route, code, detail, "request refused");
        }
        // Headers of the first answer (such as Allow) stay; length and type are those of the new one.
        let (parts, body) = error.respond(Some(trace_id)).into_parts();
        answer.headers_mut().remove(header::CONTENT_LENGTH);
        answer.headers_mut().extend(parts.headers);
        *answer.body_mut() = body;
    }
}

/// Turns a panic into an answer; the panic itself is in the log.
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(reason, "a request handler panicked");
    drop(panic);
    Error::new(Code::Internal, "the service has a bug; see its log").into_response()
}

/// Returns a method's name for a label; unknown methods are text of the client, so they share one name.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Returns a status for a label; those of nearly all answers cost no allocation.
fn status_name(status: StatusCode) -> SharedString {
    SharedString::const_str(match status {
        StatusCode::OK => "200",
        StatusCode::CREATED => "201",
        StatusCode::NO_CONTENT => "204",
        StatusCode::BAD_REQUEST => "400",
        StatusCode::NOT_FOUND => "404",
        StatusCode::CONFLICT => "409",
        StatusCode::TOO_MANY_REQUESTS => "429",
        StatusCode::SERVICE_UNAVAILABLE => "503",
        other => return other.as_str().to_owned().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_status_is_its_number() {
        for code in 100..1000 {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(&*status_name(status), code.to_string());
        }
    }

    #[test]
    fn a_panic_is_an_answer_that_tells_nothing_of_the_inside() {
        for panic in [
            Box::new("secret") as Box<dyn Any + Send>,
            Box::new("secret".to_owned()),
            Box::new(7),
        ] {
            let response = panicked(panic);
            assert_eq!(response.status(), 500);
            let error = response.extensions().get::<Error>().unwrap();
            assert_eq!(error.code, Code::Internal);
            assert!(!error.detail.contains("secret"));
        }
    }
}
