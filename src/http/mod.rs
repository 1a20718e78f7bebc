//! The HTTP API: thin handlers, one file per resource, over [`Service`].
//!
//! Promises: every answer that is not a success is a problem document (RFC 9457); bad input is a 4xx that names the
//! field and the limit, never a 5xx and never a hang; a list call answers every item at its place. What a request means
//! is decided in [`dto`], which errors there are in [`error`]; nothing else is decided here.

mod admission;
mod answers;
mod batch;
mod body;
pub mod docs;
pub mod dto;
pub mod error;
mod files;
pub mod gate;
mod headers;
pub mod health;
mod hosts;
mod leftover;
mod list;
mod metrics;
mod observe;
mod pace;
mod page;
mod poll;
mod serve;
mod stall;
mod stats;
mod tasks;
mod traffic;
mod turns;
mod worker;

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::header,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use self::{
    admission::Admission,
    answers::Answers,
    error::{Code, Error},
};
pub use self::{hosts::Hosts, serve::serve};
use crate::{flow::service::Service, limits::CONTENT_BYTES_MAX_DEFAULT, time_source::TimeSource};

/// What the API needs beside the service.
#[derive(Clone)]
pub struct Options {
    /// The node's clocks.
    pub time: TimeSource,
    /// Where metrics are rendered; none answers `/metrics` with 404.
    pub prometheus: Option<PrometheusHandle>,
    /// Largest content of a task, encoded.
    pub content_bytes_max: usize,
    /// Whether there is a Kafka that `kafka` targets can go to.
    pub has_kafka: bool,
    /// Whether the store is reached over a network: then a registration may take longer before fewer are let in.
    pub store_is_far: bool,
    /// The host names by which clients reach the node; on loopback by default.
    pub hosts: Hosts,
    /// Ends long polls when the node stops.
    pub shutdown: CancellationToken,
}

impl Options {
    /// Returns options without metrics, with the default limit.
    #[must_use]
    pub fn new(time: TimeSource, shutdown: CancellationToken) -> Self {
        Self {
            time,
            prometheus: None,
            content_bytes_max: CONTENT_BYTES_MAX_DEFAULT,
            has_kafka: true,
            store_is_far: false,
            hosts: Hosts::default(),
            shutdown,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("content_bytes_max", &self.content_bytes_max)
            .finish_non_exhaustive()
    }
}

/// What every handler is handed.
#[derive(Debug, Clone)]
struct Api {
    service: Arc<Service>,
    options: Arc<Options>,
    admission: Arc<Admission>,
    answers: Arc<Answers>,
    refusals: Arc<hosts::Refusals>,
}

/// Returns the whole API.
pub fn router(service: Arc<Service>, options: Options) -> Router {
    let api = Api {
        service,
        admission: Arc::new(Admission::new(options.time.clone(), options.store_is_far)),
        answers: Arc::default(),
        refusals: Arc::default(),
        options: Arc::new(options),
    };
    Router::new()
        .merge(tasks::routes())
        .merge(worker::routes())
        .merge(stats::routes())
        .merge(page::routes())
        .merge(health::routes())
        .route("/metrics", get(metrics::metrics))
        .merge(docs::routes())
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(middleware::from_fn_with_state(api.clone(), answers::hold))
        .layer(middleware::from_fn_with_state(api.clone(), hosts::check))
        .layer(middleware::from_fn_with_state(
            api.clone(),
            observe::observe,
        ))
        .with_state(api)
}

async fn unknown_path(request: Request) -> Error {
    let path = dto::shorten(request.uri().path());
    let detail = format!("there is no `{path}`; /openapi.json lists what there is");
    Error::new(Code::NotFound, detail)
}

// The router adds the Allow header.
async fn wrong_method(request: Request) -> Error {
    let path = dto::shorten(request.uri().path());
    let detail = format!("`{path}` does not take {}", request.method());
    Error::new(Code::MethodNotAllowed, detail)
}

/// Writes an answer as JSON.
fn json(body: &impl Serialize) -> Response {
    json_text(body).map_or_else(IntoResponse::into_response, json_of)
}

/// Writes the text of an answer.
///
/// # Errors
/// When it cannot be written, which is a bug.
fn json_text(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| {
        let detail = format!("the answer cannot be written as JSON: {error}");
        Error::new(Code::Internal, detail)
    })
}

fn json_of(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
