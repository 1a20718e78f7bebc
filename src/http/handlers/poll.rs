//! The poll handlers hand out due tasks at `/v1/worker/poll` for workers that ask for them.

use std::convert::Infallible;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;

use crate::{
    api::{
        poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
        problem::Problem,
    },
    flow::stages::poll::{ClaimBatch, Refusal},
    http::{
        Api,
        access::{Caller, while_allowed},
        answer,
        convert::{own, read_poll::poll_request, worker_calls::worker_name},
        error::{Code, Error},
        extract::{RoomToAnswer, WorkerJson},
    },
    limits::POLL_PAUSE,
};

/// Waits for due tasks and claims them. The worker that gets a task has the exclusive right to run it.
///
/// The answer comes at once when a task is due, or with an empty list when the wait is over. A task is
/// released again when the connection is gone before the answer is written.
#[utoipa::path(post, path = "/v1/worker/poll", tag = "worker", operation_id = "poll",
    request_body = PollRequest,
    responses(
        (status = 200, description = "The tasks, claimed", body = PollResponse),
        (status = 429, description = "A limit of the node is reached", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Nothing could be claimed, or the node does not answer polls", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Nothing claimed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn poll(
    State(api): State<Api>,
    _: RoomToAnswer,
    caller: Caller,
    WorkerJson(call): WorkerJson<PollRequest>,
) -> Result<Response, Error> {
    let request = poll_request(call)?;
    for callback in &request.callbacks {
        own::refuse_callback("/callbacks", callback)?;
        caller.allows_callback(callback)?;
    }
    let polled = while_allowed(&api, &caller, api.service.poll(request));
    let handout = match polled.await? {
        Ok(handout) => handout,
        // Idle connections of workers that cannot wait here must not keep out others.
        Err(refusal @ Refusal::TooMany(_)) => {
            let close = [(header::CONNECTION, "close")];
            return Ok((close, Error::from(refusal)).into_response());
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let text = answer::json_text(&PollResponse::from(&handout))?;
    // If there is no room for the answer, its tasks are released.
    let text = api.answers.count(text.into())?;
    Ok(accepted(handout, text))
}

/// Ends the polls of a worker that wait at this node.
///
/// They are answered at once, with the tasks that were being claimed for them, or with none. A worker calls
/// it when it stops: tasks that arrive on a broken connection would wait for their claims to run out. A key that is
/// limited to callbacks ends only polls of these.
#[utoipa::path(post, path = "/v1/worker/leave", tag = "worker", operation_id = "leave",
    request_body = LeaveRequest,
    responses(
        (status = 200, description = "No poll of the worker waits", body = LeaveResponse),
        (status = "default", description = "Not done", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn leave(
    State(api): State<Api>,
    caller: Caller,
    WorkerJson(call): WorkerJson<LeaveRequest>,
) -> Result<Response, Error> {
    worker_name(&call.worker)?;
    let covers = |callback: &str| caller.covers(callback);
    api.service.dismiss(&call.worker, covers);
    Ok(answer::json(&LeaveResponse {}))
}

/// An answer that releases its tasks when the connection is gone before it is written.
fn accepted(handout: ClaimBatch, text: Bytes) -> Response {
    let length = HeaderValue::from(text.len());
    let written = async move {
        drop(handout.accept());
        Ok::<_, Infallible>(text)
    };
    let mut response = Body::from_stream(stream::once(written)).into_response();
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CONTENT_LENGTH, length);
    response
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let code = match refusal {
            Refusal::Fault(fault) => return fault.into(),
            Refusal::NoRole => Code::RoleMissing,
            Refusal::TooMany(_) => Code::TooManyRequests,
            Refusal::Stopping => Code::Unavailable,
        };
        Self {
            retry_after: Some(POLL_PAUSE),
            ..Self::new(code, detail)
        }
    }
}
