//! The gate answers for a node that is not connected yet, and says what the node waits for.
//!
//! It answers from the first moment: liveness is true, readiness false with the reason, everything else 503
//! with Retry-After. Once the node is open, every request goes to its router.

use std::convert::Infallible;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::http::error::{Code, Error};

#[derive(Debug, Clone)]
enum Phase {
    /// Not connected yet, with the reason.
    Waiting(String),
    /// Connected.
    Open(Router),
}

/// The gate's handle: says what the node waits for, and opens it.
#[derive(Debug)]
pub struct Gate(watch::Sender<Phase>);

impl Gate {
    /// Returns a closed gate and the router that stands in front of it.
    pub fn closed(reason: &str) -> (Self, Router) {
        let (sender, receiver) = watch::channel(Phase::Waiting(reason.to_owned()));
        (
            Self(sender),
            Router::new().fallback(pass).with_state(receiver),
        )
    }

    /// Says what the node waits for now.
    pub fn waits_for(&self, reason: String) {
        self.0.send_replace(Phase::Waiting(reason));
    }

    /// Lets every request through to this router.
    pub fn open(&self, router: Router) {
        self.0.send_replace(Phase::Open(router));
    }
}

async fn pass(State(phase): State<watch::Receiver<Phase>>, request: Request<Body>) -> Response {
    let phase = phase.borrow().clone();
    match phase {
        Phase::Open(router) => {
            let answered: Result<Response, Infallible> = router.oneshot(request).await;
            answered.into_response()
        }
        Phase::Waiting(reason) => waiting(request.uri().path(), &reason),
    }
}

fn waiting(path: &str, reason: &str) -> Response {
    let retry = [(header::RETRY_AFTER, "1")];
    match path {
        "/livez" => "ok\n".into_response(),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            retry,
            format!("not ready\nstore: {reason}\n"),
        )
            .into_response(),
        "/startupz" => (StatusCode::SERVICE_UNAVAILABLE, retry, "starting\n").into_response(),
        _ => {
            let problem = Error::new(Code::Unavailable, format!("the node is starting: {reason}"));
            (retry, problem).into_response()
        }
    }
}
