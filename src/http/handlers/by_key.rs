//! The key handlers read, cancel and move tasks for clients that know a task by its callback and its key.

use axum::{extract::State, response::Response};

use super::tasks::{cancelled, restarted};
use crate::{
    api::{
        problem::Problem,
        task_request::{KeyRequest, KeyRescheduleRequest, RescheduleRequest},
        task_response::{CancelResponse, RescheduleResponse},
    },
    http::{
        Api,
        access::Caller,
        convert::{Violations, any_callback, checked_name, new_task::new_start, own},
        error::Error,
        extract::{IfMatch, Json, NoIfMatch},
    },
    model::ids::TaskId,
};

/// Cancels the task that a key names.
#[utoipa::path(post, path = "/v1/tasks:cancel", tag = "tasks", operation_id = "cancelTaskByKey",
    request_body = KeyRequest,
    responses(
        (status = 200, description = "Who won", body = CancelResponse),
        (status = 404, description = "`key_not_found`: no task has the key", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not cancelled", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn cancel(
    State(api): State<Api>,
    _: NoIfMatch,
    caller: Caller,
    Json(named): Json<KeyRequest>,
) -> Result<Response, Error> {
    caller.allows_callback(&named.callback)?;
    let id = known(&api, &named.callback, &named.key).await?;
    let done = api.service.cancel(id).await?;
    cancelled(done.ok_or_else(Error::key_not_found)?)
}

/// Moves the start of the task that a key names.
#[utoipa::path(post, path = "/v1/tasks:reschedule", tag = "tasks", operation_id = "rescheduleTaskByKey",
    params(("if-match" = Option<String>, Header, description = "Only if the task still has this ETag")),
    request_body = KeyRescheduleRequest,
    responses(
        (status = 200, description = "Who won", body = RescheduleResponse),
        (status = 404, description = "`key_not_found`: no task has the key", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The task has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not moved", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn reschedule(
    State(api): State<Api>,
    IfMatch(condition): IfMatch,
    caller: Caller,
    Json(named): Json<KeyRescheduleRequest>,
) -> Result<Response, Error> {
    caller.allows_callback(&named.callback)?;
    let wish = RescheduleRequest {
        start_time: named.start_time,
        delay: named.delay,
    };
    let start = new_start(&wish, api.options.time.now())?;
    let id = known(&api, &named.callback, &named.key).await?;
    let moved = api.service.reschedule(id, start, condition).await?;
    restarted(Some(moved.ok_or_else(Error::key_not_found)?))
}

/// Starts the task that a key names now. A dead one runs again.
#[utoipa::path(post, path = "/v1/tasks:run", tag = "tasks", operation_id = "runTaskByKey",
    params(("if-match" = Option<String>, Header, description = "Only if the task still has this ETag")),
    request_body = KeyRequest,
    responses(
        (status = 200, description = "Who won", body = RescheduleResponse),
        (status = 404, description = "`key_not_found`: no task has the key", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`in_a_tree`: it is dead, and its end counts in its tree; see retry-failed", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The task has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not started", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn run(
    State(api): State<Api>,
    IfMatch(condition): IfMatch,
    caller: Caller,
    Json(named): Json<KeyRequest>,
) -> Result<Response, Error> {
    caller.allows_callback(&named.callback)?;
    let id = known(&api, &named.callback, &named.key).await?;
    let moved = api.service.run(id, condition).await?;
    restarted(Some(moved.ok_or_else(Error::key_not_found)?))
}

/// Returns the task that a key names.
async fn known(api: &Api, callback: &str, key: &str) -> Result<TaskId, Error> {
    let mut violations = Violations::default();
    violations.take("/callback", any_callback(callback.to_owned()));
    violations.take("/key", checked_name(key.to_owned()));
    violations.finish()?;
    own::refuse_callback("/callback", callback)?;
    let id = api.service.id_by_key(callback, key).await?;
    id.ok_or_else(Error::key_not_found)
}
