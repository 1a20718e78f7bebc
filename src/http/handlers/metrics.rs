//! The metrics handler serves `/metrics` to Prometheus, in its text format.

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};

use crate::{
    api::problem::Problem,
    http::{
        Api,
        error::{Code, Error},
    },
    telemetry::process,
};

/// Media type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The node's metrics.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses(
        (status = 200, description = "Prometheus text format", body = String, content_type = "text/plain"),
        (status = "default", description = "Not shown", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn metrics(State(api): State<Api>) -> Result<Response, Error> {
    let handle = api
        .options
        .prometheus
        .as_ref()
        .ok_or_else(|| Error::new(Code::NotFound, "this node does not record metrics"))?;
    api.service.show_figures().await;
    let text = handle.render() + &process::render();
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
