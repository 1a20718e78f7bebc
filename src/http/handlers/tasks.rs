//! The task handlers register, read, cancel and move tasks at `/v1/tasks` for clients.

use std::time::Duration;

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    batch::Batch,
    registered::{self, Written},
    trees, why,
};
use crate::{
    api::{
        problem::Problem,
        task_request::{BatchCancelRequest, BatchCreateRequest, RescheduleRequest, TaskRequest},
        task_response::{
            BatchCancelResponse, BatchCancelResult, BatchCreateResponse, CancelResponse,
            RescheduleOutcome, RescheduleResponse, TaskResponse,
        },
        text::DurationText,
        time,
        tree::{CancelRequest, CancelTreeResponse},
        worker::View,
    },
    flow::{
        base::api::{self, CancelOutcome, TaskView},
        life::cancel as flow_cancel,
    },
    http::{
        Api,
        access::{Caller, while_allowed},
        answer,
        convert::{
            action_view::with_outcomes,
            asked, family,
            join::Total,
            json, masked,
            new_task::{Context, new_start},
            own,
            task_view::{
                in_a_tree, reschedule_outcome, task_response, why_too_late, with_attempts,
                with_messages,
            },
        },
        error::{Code, Error},
        extract::{
            BatchOfClient, ClientTaskPath, FromQuery, Gated, IdempotencyKey, IfMatch, IfNoneMatch,
            Json, Named, NoBody, NoIdempotencyKey, NoIfMatch, NoQuery, OfClient, OptionalJson,
            Params, RoomToAnswer, TaskPath, Text, each, put, task_id, unquoted, view,
        },
        headers,
    },
    limits::{CONTENT_BYTES_MAX, WAIT_MAX},
    model::ids::TaskId,
};

/// Registers a task. Once the call is answered, the task is durable and will start.
#[utoipa::path(post, path = "/v1/tasks", tag = "tasks", operation_id = "createTask",
    params(("idempotency-key" = Option<String>, Header,
        description = "Marks the request: for a day, the same key with the same body is one task. 1 to 255 printable ASCII characters, quoted or not")),
    request_body = TaskRequest,
    responses(
        (status = 201, description = "Registered", body = TaskResponse, headers(
            ("location" = String, description = "Path of the task"),
            ("etag" = String, description = "For If-Match"))),
        (status = 200, description = "Registered before, by the same request or with the same key and `on_conflict` ignore: the task as it is now", body = TaskResponse),
        (status = 404, description = "`parent_not_found`, `dependency_not_found`: a task that it names is not known", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`key_taken`: the key names the live task in `existing`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`unusable_id`, `unusable_key`: they cannot name this task. `unusable_action`: it cannot be done. `unusable_then`: the task cannot follow. `unusable_after`: it cannot wait so. `idempotency_key_reused`: the key belongs to another request",
            body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "`registration_unknown`: it may have been registered", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`store_full`: the store has no room for new tasks", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not registered", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn create(
    State(api): State<Api>,
    Gated((_, IdempotencyKey(key), context, caller, text)): Gated<NewTaskParts, false>,
) -> Result<Response, Error> {
    let mut task: TaskRequest = text.read()?;
    caller.allows_request(&task)?;
    let key = caller.in_space(asked::mark(task.idempotency_key.take(), key)?);
    let last_of = family::completed_by(&task);
    let task = asked::read(task, text.as_bytes(), key, &context, api.service.shape())?;
    // An id may be that of a task of another callback, which the registration would replace.
    caller.allows_tasks(&api, task.own_id()).await?;
    let mut admitted = api.admission.registration(task.tasks(), text.len())?;
    // A slow store must not fill the room for bodies. The task has room of its own from here on.
    drop(text);
    let registered = registered::register_one(&api, task, last_of).await?;
    if registered.is_registered() {
        admitted.registered();
    }
    registered::respond(registered)
}

/// The parts of a request that registers a task.
type NewTaskParts = (NoQuery, IdempotencyKey, Context, Caller, Text<OfClient>);

/// Registers up to 1000 tasks. One bad task fails only itself.
#[utoipa::path(post, path = "/v1/tasks:batchCreate", tag = "tasks", operation_id = "batchCreateTasks",
    request_body = BatchCreateRequest,
    responses(
        (status = 200, description = "One result per task, in order; `store_full` and `registration_unknown` are errors of items", body = BatchCreateResponse),
        (status = "default", description = "Nothing registered", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn batch_create(
    State(api): State<Api>,
    Gated((_, _, _, context, caller, text)): Gated<NewTasksParts, true>,
) -> Result<Response, Error> {
    let call: BatchCreateCall<'_> = text.read()?;
    let mut admitted = api.admission.registration(call.tasks.0.len(), text.len())?;
    let batch = read_batch(&api, &caller, &context, &call.tasks.0);
    drop(text);
    let ids = batch.good().filter_map(|(task, _)| task.own_id());
    caller.allows_tasks(&api, ids).await?;
    let results: Vec<Written> = batch
        .answer(async |tasks: Vec<LastOf>| Box::pin(registered::register_last(&api, tasks)).await)
        .await;
    if results.iter().any(|result| result.is_registered) {
        admitted.registered();
    }
    Ok(answer::json(&BatchCreateAnswer { results }))
}

/// The parts of a request that registers tasks.
type NewTasksParts = (
    RoomToAnswer,
    NoQuery,
    NoIdempotencyKey,
    Context,
    Caller,
    Text<BatchOfClient>,
);

/// A registration, and the parent of which it says that it is the last child.
type LastOf = (asked::Read, Option<TaskId>);

/// A [`BatchCreateRequest`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchCreateCall<'a> {
    #[serde(borrow)]
    tasks: json::Items<'a>,
}

/// A [`BatchCreateResponse`].
#[derive(Serialize)]
struct BatchCreateAnswer {
    results: Vec<Written>,
}

fn read_batch(api: &Api, caller: &Caller, context: &Context, items: &[&RawValue]) -> Batch<LastOf> {
    let shape = api.service.shape();
    let mut waited_for = Total::default();
    Batch::read(items, |item| {
        let mut task: TaskRequest = json::read_item(item)?;
        caller.allows_request(&task)?;
        waited_for.count(&task)?;
        let key = caller.in_space(asked::mark(task.idempotency_key.take(), None)?);
        let last_of = family::completed_by(&task);
        let task = asked::read(task, item.get().as_bytes(), key, context, shape)?;
        Ok((task.single()?, last_of))
    })
}

/// Reads a task, at once or when it has ended.
#[utoipa::path(get, path = "/v1/tasks/{id}", tag = "tasks", operation_id = "getTask",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("wait" = Option<String>, Query, description = "Answer when the task has ended, or after this duration (at most 60s)"),
        ("view" = Option<View>, Query, description = "FULL returns the payload, too; BASIC is the default"),
        ("if-none-match" = Option<String>, Header, description = "Answer 304 when the answer would still have this ETag")),
    responses(
        (status = 200, description = "The task", body = TaskResponse,
            headers(("etag" = String, description = "Of this answer: for If-None-Match and If-Match"))),
        (status = 304, description = "Unchanged"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    Params(query): Params<ReadQuery>,
    caller: Caller,
    known: IfNoneMatch,
) -> Result<Response, Error> {
    let view = caller.view(query.view);
    let task = match query.wait {
        None => api.service.get(id, stored(view)).await,
        Some(wait) => when_ended(&api, &caller, (id, view), wait).await?,
    }?
    .ok_or_else(Error::task_not_found)?;
    let mut shown = told(&api, &task, view).await?;
    if view == View::Full {
        shown.waiting_for = why::waiting_for(&api, &task).await?;
    }
    let shown = caller.seen(shown, masked::task);
    let text = answer::json_text(&shown)?;
    let etag = headers::etag_of_answer(&task, &text);
    if known.names(&etag)? {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    Ok(([(header::ETAG, etag)], answer::json_of(text)).into_response())
}

/// Shows a task with all that is told of it elsewhere: how its actions went, and the last messages of its attempts.
async fn told(api: &Api, task: &TaskView, view: View) -> Result<TaskResponse, Error> {
    let attempts = task.history.attempts.iter().map(|attempt| attempt.attempt);
    let attempts: Vec<u32> = attempts.collect();
    let (standings, messages) = futures_util::future::try_join(
        api.service.outcomes().of(task, api.options.time.now()),
        api.service.messages(task.id, &attempts),
    )
    .await?;
    let shown = with_messages(with_attempts(task, view), &messages);
    Ok(with_outcomes(shown, (task, view), standings))
}

/// Returns what is read of a task for a view of it.
const fn stored(view: View) -> api::View {
    match view {
        View::Basic => api::View::Basic,
        View::Full => api::View::Full,
    }
}

/// Reads a task when it has ended, or after a time.
async fn when_ended(
    api: &Api,
    caller: &Caller,
    (id, view): (TaskId, View),
    wait: Duration,
) -> Result<Result<Option<TaskView>, api::Fault>, Error> {
    let view = stored(view);
    let ended = async {
        tokio::select! {
            task = api.service.get_when_terminal(id, view, wait) => task,
            // A node that stops does not keep clients waiting.
            () = api.options.shutdown.cancelled() => api.service.get(id, view).await,
        }
    };
    while_allowed(api, caller, ended).await
}

/// Cancels a task. The answer says whether the cancel or the firing won.
#[utoipa::path(post, path = "/v1/tasks/{id}/cancel", tag = "tasks", operation_id = "cancelTask",
    params(("id" = String, Path, description = "The task's id")),
    request_body(content = Option<CancelRequest>, description = "With `tree`, all tasks below it are cancelled, too, and its tree ends as `cancelled`"),
    responses(
        (status = 200, description = "Who won; with `tree`: all tasks below it were told", body = CancelTreeResponse),
        (status = 202, description = "With `tree`: more tasks are left below it. The service goes on by itself, and so does the same request", body = CancelTreeResponse),
        (status = "default", description = "Not cancelled", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn cancel(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    _: NoIfMatch,
    caller: Caller,
    OptionalJson(wish): OptionalJson<CancelRequest>,
) -> Result<Response, Error> {
    if wish.tree {
        caller.allows_trees()?;
        return trees::cancelled(&api, id).await;
    }
    let done = api.service.cancel(id).await?;
    cancelled(done.ok_or_else(Error::task_not_found)?)
}

/// Answers a cancel.
pub(super) fn cancelled((outcome, task): (CancelOutcome, TaskView)) -> Result<Response, Error> {
    let is_late = outcome == CancelOutcome::TooLate;
    let answer = CancelResponse {
        outcome: outcome.into(),
        reason: is_late.then(|| why_too_late(&task)),
        task: task_response(&task, View::Basic),
    };
    Ok(tagged(&task, &answer))
}

/// Cancels up to 1000 tasks. One bad id fails only itself. Each answer says whether the cancel or the firing
/// won.
#[utoipa::path(post, path = "/v1/tasks:batchCancel", tag = "tasks", operation_id = "batchCancelTasks",
    request_body = BatchCancelRequest,
    responses(
        (status = 200, description = "One result per id, in order", body = BatchCancelResponse),
        (status = "default", description = "Nothing cancelled", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn batch_cancel(
    State(api): State<Api>,
    _: RoomToAnswer,
    _: NoIfMatch,
    caller: Caller,
    text: Text<OfClient>,
) -> Result<Response, Error> {
    let call: BatchCancelCall<'_> = text.read()?;
    let batch = Batch::read(&call.ids.0, |item| {
        own::refuse_task(task_id(&json::read_text_item(item)?)?)
    });
    let expected = api.answers.expect(call.ids.0.len())?;
    drop(text);
    caller.allows_tasks(&api, batch.good().copied()).await?;
    let results = batch
        .answer(async |ids: Vec<TaskId>| api.service.cancel_all(&ids).await)
        .await;
    let answer = answer::json(&BatchCancelResponse { results });
    drop(expected);
    Ok(answer)
}

/// A [`BatchCancelRequest`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchCancelCall<'a> {
    #[serde(borrow)]
    ids: json::Items<'a>,
}

impl From<flow_cancel::Answer> for BatchCancelResult {
    fn from(answer: flow_cancel::Answer) -> Self {
        match answer {
            Ok(Some((outcome, task))) => Self {
                reason: (outcome == CancelOutcome::TooLate).then(|| why_too_late(&task)),
                outcome: Some(outcome.into()),
                task: Some(task_response(&task, View::Basic)),
                error: None,
            },
            Ok(None) => Error::task_not_found().into(),
            Err(fault) => Error::from(fault).into(),
        }
    }
}

impl From<Error> for BatchCancelResult {
    fn from(error: Error) -> Self {
        Self {
            error: Some(error.problem_of_item()),
            ..Self::default()
        }
    }
}

/// Moves the start of a task that is not running. The answer says whether the move or the firing won.
#[utoipa::path(post, path = "/v1/tasks/{id}/reschedule", tag = "tasks", operation_id = "rescheduleTask",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("if-match" = Option<String>, Header, description = "Only if the task still has this ETag")),
    request_body = RescheduleRequest,
    responses(
        (status = 200, description = "Who won", body = RescheduleResponse),
        (status = 412, description = "The task has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not moved", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn reschedule(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    IfMatch(condition): IfMatch,
    Json(wish): Json<RescheduleRequest>,
) -> Result<Response, Error> {
    let start = new_start(&wish, api.options.time.now())?;
    let moved = api.service.reschedule(id, start, condition).await?;
    restarted(moved)
}

/// Starts a task now, if it is not running already and has not ended. A dead task runs again, with its
/// attempts counted afresh.
#[utoipa::path(post, path = "/v1/tasks/{id}/run", tag = "tasks", operation_id = "runTask",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("if-match" = Option<String>, Header, description = "Only if the task still has this ETag")),
    responses(
        (status = 200, description = "Who won", body = RescheduleResponse),
        (status = 409, description = "`in_a_tree`: it is dead, and its end counts in its tree; see retry-failed", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The task has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not started", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn run(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    IfMatch(condition): IfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    restarted(api.service.run(id, condition).await?)
}

/// Delivers a task over HTTP again, at once. One that waits, or is dead, is run. One that has ended otherwise stays as it is, and
/// the task of the answer is a copy of it, whose message has the `webhook-id` of the first.
#[utoipa::path(post, path = "/v1/tasks/{id}/redeliver", tag = "tasks", operation_id = "redeliverTask",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("if-match" = Option<String>, Header, description = "Only if the task still has this ETag")),
    responses(
        (status = 200, description = "Who won, and the task that is delivered", body = RescheduleResponse),
        (status = 409, description = "`in_a_tree`: it is dead, and its end counts in its tree; see retry-failed", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "The task has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not delivered", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn redeliver(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    IfMatch(condition): IfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    // It may register a task, with a content of any size.
    api.admission.is_open(false)?;
    let _admitted = api.admission.registration(1, CONTENT_BYTES_MAX)?;
    let again = api.service.redeliver(id, condition).await?;
    if again.is_none() && api.service.get(id, api::View::Basic).await?.is_some() {
        let detail =
            "the task is not delivered over HTTP: `run` starts a task that waits or is dead";
        return Err(Error::new(Code::InvalidRequest, detail));
    }
    restarted(again)
}

/// Answers a move or a run.
pub(super) fn restarted(
    moved: Option<(api::RescheduleOutcome, TaskView)>,
) -> Result<Response, Error> {
    let (outcome, task) = moved.ok_or_else(Error::task_not_found)?;
    if outcome == api::RescheduleOutcome::InTree {
        return Err(in_a_tree(&task));
    }
    let outcome = reschedule_outcome(outcome).ok_or_else(|| {
        let detail = format!("the task's ETag is {} now", headers::etag(&task));
        Error::new(Code::PreconditionFailed, detail)
    })?;
    let answer = RescheduleResponse {
        reason: (outcome == RescheduleOutcome::TooLate).then(|| why_too_late(&task)),
        outcome,
        task: task_response(&task, View::Basic),
    };
    Ok(tagged(&task, &answer))
}

fn tagged(task: &TaskView, body: &impl Serialize) -> Response {
    ([(header::ETAG, headers::etag(task))], answer::json(body)).into_response()
}

/// The query of a read.
#[derive(Debug)]
pub(in crate::http) struct ReadQuery {
    wait: Option<Duration>,
    view: View,
}

impl FromQuery for ReadQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self {
            wait: None,
            view: View::Basic,
        };
        let violations = each(uri, &["wait", "view"], |name, value| {
            Some(match name {
                "wait" => put(&mut query.wait, wait(value)),
                "view" => put(&mut query.view, view(&value)),
                _ => return None,
            })
        })?;
        violations.finish().map(|()| query)
    }
}

fn wait(text: String) -> Result<Duration, String> {
    let wait = time::duration(&DurationText(text), Duration::ZERO);
    let wait = wait.map_err(|detail| unquoted(&detail))?;
    if wait > WAIT_MAX {
        let max = WAIT_MAX.as_secs();
        return Err(format!("must be at most {max}s; ask again after it"));
    }
    Ok(wait)
}
