//! The health handlers tell orchestrators whether the node runs, can work, and was ever ready.
//!
//! `/livez` checks nothing, `/readyz` the parts that the node needs for its work, `/startupz` whether it has
//! been ready once. An orchestrator that restarts on `/livez` must not restart a node because a store is
//! away.

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::Api;

/// Whether the node can do its work, condition by condition.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
struct Readiness {
    /// Every condition holds.
    pub ready: bool,
    /// The conditions.
    pub checks: Vec<ReadinessCheck>,
}

/// One condition.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
struct ReadinessCheck {
    /// The name of the condition.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// Why it does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The process runs.
#[utoipa::path(get, path = "/livez", tag = "health", operation_id = "livez",
    responses((status = 200, description = "The process runs", body = String, content_type = "text/plain")))]
pub(in crate::http) async fn livez() -> &'static str {
    "ok\n"
}

/// The node can do its work.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "readyz",
    params(("verbose" = Option<String>, Query, description = "Answer with every condition, as JSON")),
    responses(
        (status = 200, description = "Ready; JSON with verbose, else text",
            content((Readiness = "application/json"), (String = "text/plain"))),
        (status = 503, description = "Not ready; JSON with verbose, else text",
            content((Readiness = "application/json"), (String = "text/plain")))))]
pub(in crate::http) async fn readyz(State(api): State<Api>, uri: Uri) -> Response {
    let checks = checks(&api);
    let ready = checks.iter().all(|check| check.ok);
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let body = if pairs.any(|pair| pair.split('=').next() == Some("verbose")) {
        crate::http::answer::json(&Readiness { ready, checks })
    } else if ready {
        "ok\n".into_response()
    } else {
        not_ready(&checks).into_response()
    };
    answer(ready, body)
}

fn checks(api: &Api) -> Vec<ReadinessCheck> {
    let stopping = api.options.stopping.is_cancelled();
    let goes_on = ReadinessCheck {
        name: "process".to_owned(),
        ok: !stopping,
        problem: stopping.then(|| "it was told to stop".to_owned()),
    };
    let parts = api.service.readiness().into_iter();
    let parts = parts.map(|check| ReadinessCheck {
        name: check.name.to_owned(),
        ok: check.problem.is_none(),
        problem: check.problem,
    });
    parts.chain([goes_on]).collect()
}

/// The node has been ready once.
#[utoipa::path(get, path = "/startupz", tag = "health", operation_id = "startupz",
    responses(
        (status = 200, description = "It has been ready", body = String, content_type = "text/plain"),
        (status = 503, description = "Still starting", body = String, content_type = "text/plain")))]
pub(in crate::http) async fn startupz(State(api): State<Api>) -> Response {
    let started = api.service.started();
    let text = if started { "ok\n" } else { "starting\n" };
    answer(started, text.into_response())
}

fn not_ready(checks: &[ReadinessCheck]) -> String {
    let mut text = "not ready\n".to_owned();
    for check in checks {
        if let Some(problem) = &check.problem {
            text.push_str(&format!("{}: {problem}\n", check.name));
        }
    }
    text
}

fn answer(good: bool, body: Response) -> Response {
    if good {
        return body;
    }
    let retry = [(header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, retry, body).into_response()
}
