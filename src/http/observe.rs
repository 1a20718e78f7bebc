//! What happens around every request: it is counted and timed, errors get the trace id, panics become answers.

use std::any::Any;

use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};
use metrics::{counter, histogram};

use super::{
    Api,
    error::{Code, Error},
    headers,
};

/// Route of requests that no route matches; their paths would be labels without bound.
const UNMATCHED: &str = "unmatched";

/// Counts, times and finishes a request.
pub(super) async fn observe(State(api): State<Api>, request: Request, next: Next) -> Response {
    let time = &api.options.time;
    let begun = time.moment();
    let method = method_name(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| UNMATCHED.to_owned(), |path| path.as_str().to_owned());
    let trace_id = headers::trace_parent(request.headers())
        .and_then(headers::trace_id)
        .map(str::to_owned);

    let mut response = next.run(request).await;
    if let Some(error) = response.extensions_mut().remove::<Error>() {
        let trace_id = trace_id.unwrap_or_else(|| time.random_uuid().simple().to_string());
        if error.code.status().is_server_error() {
            let (code, detail) = (error.code.name(), &error.detail);
            tracing::warn!(%trace_id, method, route, code, detail, "request failed");
        } else {
            let (code, detail) = (error.code.name(), &error.detail);
            tracing::debug!(%trace_id, method, route, code, detail, "request refused");
        }
        let finished = error.respond(Some(trace_id));
        // Headers of the first answer (such as Allow) stay; length and type are those of the new one.
        let (parts, body) = finished.into_parts();
        response
            .headers_mut()
            .remove(axum::http::header::CONTENT_LENGTH);
        response.headers_mut().extend(parts.headers);
        *response.body_mut() = body;
    }

    let status = response.status().as_str().to_owned();
    let took = time.moment().since(begun);
    counter!("tickwheel_http_requests_total", "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    histogram!("tickwheel_http_request_duration_seconds", "route" => route).record(took);
    response
}

/// Turns a panic into an answer; the panic itself is in the log.
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(reason, "a request handler panicked");
    drop(panic);
    Error::new(Code::Internal, "the service has a bug; see its log").into_response()
}

/// Methods are the client's text, too.
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

#[cfg(test)]
mod tests {
    use super::*;

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
