//! The task handlers register, read, cancel and move tasks at `/v1/tasks` for clients.

use std::time::Duration;

use axum::{
    extract::{Path, Query, Request, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use super::{
    batch::Batch,
    query::{path_id, refuse_query, task_id, unquoted},
    registered::{self, Written},
    trees,
};
use crate::{
    api::{
        problem::Problem,
        task_request::{BatchCancelRequest, BatchCreateRequest, RescheduleRequest, TaskRequest},
        task_response::{
            BatchCancelResponse, BatchCancelResult, BatchCreateResponse, CancelResponse,
            RescheduleOutcome, RescheduleResponse, TaskResponse,
        },
        text::{DurationText, shorten},
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
        body,
        convert::{
            Violations,
            action::with_outcomes,
            asked,
            join::Total,
            json, masked,
            new_task::{Context, new_start},
            own,
            task_view::{
                in_a_tree, reschedule_outcome, task_response, why_too_late, with_attempts,
            },
            unknown,
        },
        error::{Code, Error},
        headers,
    },
    limits::{BATCH_REQUEST_BYTES_MAX, CONTENT_BYTES_MAX, REQUEST_BYTES_MAX, WAIT_MAX},
    model::{ids::TaskId, topic_names::TOPIC_PREFIX},
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
    request: Request,
) -> Result<Response, Error> {
    if let Err(refused) = api.admission.is_open(false) {
        return Err(body::refuse(&api, request, REQUEST_BYTES_MAX, refused).await);
    }
    refuse_query(request.uri())?;
    let key = headers::idempotency_key(request.headers())?;
    let context = context(&api, request.headers());
    let caller = Caller::of(&request);
    let text = body::read_text(&api, request, REQUEST_BYTES_MAX).await?;
    let mut task: TaskRequest = json::read(&text)?;
    caller.allows_request(&task)?;
    let key = caller.in_space(asked::mark(task.idempotency_key.take(), key)?);
    let shape = api.service.shape();
    let task = asked::read(task, text.as_bytes(), key, &context, shape)?;
    // An id may be that of a task of another callback, which the registration would replace.
    Box::pin(caller.allows_tasks(&api, task.own_id())).await?;
    let mut admitted = api.admission.registration(task.tasks(), text.len())?;
    // A slow store must not fill the room for bodies. The task has room of its own from here on.
    drop(text);
    let registered = registered::register_one(&api, task).await;
    let registered =
        registered.ok_or_else(|| Error::new(Code::Internal, "the service gave no answer"))?;
    if registered.is_registered() {
        admitted.registered();
    }
    registered::respond(registered)
}

/// Registers up to 1000 tasks. One bad task fails only itself.
#[utoipa::path(post, path = "/v1/tasks:batchCreate", tag = "tasks", operation_id = "batchCreateTasks",
    request_body = BatchCreateRequest,
    responses(
        (status = 200, description = "One result per task, in order; `store_full` and `registration_unknown` are errors of items", body = BatchCreateResponse),
        (status = "default", description = "Nothing registered", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn batch_create(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call<'a> {
        #[serde(borrow)]
        tasks: json::Items<'a>,
    }
    /// A [`BatchCreateResponse`].
    #[derive(Serialize)]
    struct Answer {
        results: Vec<Written>,
    }

    if let Err(refused) = api.admission.is_open(true) {
        return Err(body::refuse(&api, request, BATCH_REQUEST_BYTES_MAX, refused).await);
    }
    api.answers.is_open()?;
    refuse_query(request.uri())?;
    headers::refuse_idempotency_key(request.headers())?;
    let context = context(&api, request.headers());
    let caller = Caller::of(&request);
    let text = body::read_text(&api, request, BATCH_REQUEST_BYTES_MAX).await?;
    let call: Call<'_> = json::read(&text)?;
    let mut admitted = api.admission.registration(call.tasks.0.len(), text.len())?;
    let shape = api.service.shape();
    let mut waited_for = Total::default();
    let batch = Batch::read(&call.tasks.0, |item| {
        let mut task: TaskRequest = json::read_item(item)?;
        caller.allows_request(&task)?;
        waited_for.count(&task)?;
        let key = caller.in_space(asked::mark(task.idempotency_key.take(), None)?);
        asked::read(task, item.get().as_bytes(), key, &context, shape)?.single()
    });
    drop(text);
    let ids = batch.good().filter_map(asked::Read::own_id);
    Box::pin(caller.allows_tasks(&api, ids)).await?;
    let results: Vec<Written> = batch
        .answer(async |tasks: Vec<asked::Read>| Box::pin(registered::register(&api, tasks)).await)
        .await;
    if results.iter().any(|result| result.is_registered) {
        admitted.registered();
    }
    Ok(crate::http::answer::json(&Answer { results }))
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
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    request: Request,
) -> Result<Response, Error> {
    let id = path_id(id)?;
    let mut query = ReadQuery::read(&uri)?;
    let caller = Caller::of(&request);
    query.view = caller.view(query.view);
    let request_headers = request.headers();
    let view = match query.view {
        View::Basic => api::View::Basic,
        View::Full => api::View::Full,
    };
    let task = match query.wait {
        None => api.service.get(id, view).await,
        Some(wait) => {
            let ended = async {
                tokio::select! {
                    task = api.service.get_when_terminal(id, view, wait) => task,
                    // A node that stops does not keep clients waiting.
                    () = api.options.shutdown.cancelled() => api.service.get(id, view).await,
                }
            };
            while_allowed(&api, &caller, ended).await?
        }
    }?
    .ok_or_else(Error::task_not_found)?;
    let standings = api
        .service
        .outcomes()
        .of(&task, api.options.time.now())
        .await?;
    let shown = with_outcomes(with_attempts(&task, query.view), &task, standings);
    let shown = caller.seen(shown, masked::task);
    let answer = crate::http::answer::json_text(&shown)?;
    let etag = headers::etag_of_answer(&task, &answer);
    if headers::if_none_match(request_headers, &etag)? {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    Ok(([(header::ETAG, etag)], crate::http::answer::json_of(answer)).into_response())
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
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let id = own::refuse_task(path_id(id)?)?;
    headers::refuse_if_match(request.headers())?;
    let caller = Caller::of(&request);
    let wish: CancelRequest = body::read_or_default(&api, request, REQUEST_BYTES_MAX).await?;
    if wish.tree {
        caller.allows_trees()?;
        return trees::cancelled(&api, id).await;
    }
    cancelled(
        api.service
            .cancel(id)
            .await?
            .ok_or_else(Error::task_not_found)?,
    )
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
    request: Request,
) -> Result<Response, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call<'a> {
        #[serde(borrow)]
        ids: json::Items<'a>,
    }

    api.answers.is_open()?;
    headers::refuse_if_match(request.headers())?;
    let caller = Caller::of(&request);
    let text = body::read_text(&api, request, REQUEST_BYTES_MAX).await?;
    let call: Call<'_> = json::read(&text)?;
    let batch = Batch::read(&call.ids.0, |item| {
        own::refuse_task(task_id(&json::read_text_item(item)?)?)
    });
    let expected = api.answers.expect(call.ids.0.len())?;
    drop(text);
    caller.allows_tasks(&api, batch.good().copied()).await?;
    let results = batch
        .answer(async |ids: Vec<TaskId>| api.service.cancel_all(&ids).await)
        .await;
    let answer = crate::http::answer::json(&BatchCancelResponse { results });
    drop(expected);
    Ok(answer)
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
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let id = own::refuse_task(path_id(id)?)?;
    let condition = headers::if_match(request.headers())?;
    let text = body::read_text(&api, request, REQUEST_BYTES_MAX).await?;
    let start = new_start(&json::read(&text)?, api.options.time.now())?;
    drop(text);
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
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let id = own::refuse_task(path_id(id)?)?;
    let condition = headers::if_match(request.headers())?;
    body::read_nothing(&api, request, REQUEST_BYTES_MAX).await?;
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
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    let id = own::refuse_task(path_id(id)?)?;
    let condition = headers::if_match(request.headers())?;
    body::read_nothing(&api, request, REQUEST_BYTES_MAX).await?;
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
    (
        [(header::ETAG, headers::etag(task))],
        crate::http::answer::json(body),
    )
        .into_response()
}

fn context(api: &Api, headers: &HeaderMap) -> Context {
    Context {
        now: api.options.time.now(),
        content_bytes_max: api.options.content_bytes_max,
        has_kafka: api.options.has_kafka,
        own_topics: api.service.queue_name(TOPIC_PREFIX),
        has_mail: api.options.has_mail,
        trace_parent: headers::trace_parent(headers).map(str::to_owned),
    }
}

/// The query of a read.
#[derive(Debug)]
struct ReadQuery {
    wait: Option<Duration>,
    view: View,
}

impl ReadQuery {
    fn read(uri: &Uri) -> Result<Self, Error> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
        let mut query = Self {
            wait: None,
            view: View::Basic,
        };
        let mut violations = Violations::default();
        for (name, value) in pairs.0 {
            match name.as_str() {
                "wait" => query.wait = violations.take("?wait", wait(value)),
                "view" => {
                    query.view = violations.take("?view", view(&value)).unwrap_or(query.view);
                }
                _ => {
                    let detail = unknown("query parameter", &name, &["wait", "view"]);
                    violations.add(format!("?{}", shorten(&name)), detail);
                }
            }
        }
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

fn view(text: &str) -> Result<View, String> {
    match text {
        "BASIC" => Ok(View::Basic),
        "FULL" => Ok(View::Full),
        _ => Err("must be BASIC or FULL".to_owned()),
    }
}
