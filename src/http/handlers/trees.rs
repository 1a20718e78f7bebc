//! The tree handlers show tasks with all below them to clients, cancel them, run their failed parts again, hold them open, and
//! reopen tasks of them.

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use crate::{
    api::{
        problem::Problem,
        task_response::TaskResponse,
        time,
        tree::{
            CancelTreeResponse, ReopenRequest, ReopenResponse, RetryFailedRequest,
            RetryFailedResponse, TreeResponse,
        },
        worker::View,
    },
    flow::{
        base::api,
        stages::tree::{read::NotCompleted, retry::NotRetried},
    },
    http::{
        Api, answer,
        convert::{
            own,
            task_view::{task_response, why_too_late},
            tree_view::{self, Format},
            unknown,
        },
        error::{Code, Error},
        extract::{
            ClientTaskPath, FromQuery, Named, NoBody, NoIfMatch, OptionalJson, Params, TaskPath,
            each, put, view,
        },
    },
    limits::TREE_LEVELS_MAX,
    model::{ids::TaskId, reopen::NotReopened, row::State as RunState},
};

/// Reads a task with the tasks below it, as data or as a picture.
///
/// Each task tells how many children it has, by state. At most 1000 tasks are shown, and `cut` tells where children are left out.
/// Children that have not ended and whose states would be read beyond that bound count as `open`.
#[utoipa::path(get, path = "/v1/tasks/{id}/tree", tag = "tasks", operation_id = "getTree",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("format" = Option<String>, Query, description = "`json`, which is the default, `mermaid`, `dot` or `svg`"),
        ("depth" = Option<usize>, Query, minimum = 0,
            description = "Levels below the task; all by default"),
        ("view" = Option<View>, Query, description = "FULL has results of up to 4 KiB, 256 KiB of them in all, in the format `json`; BASIC is the default")),
    responses(
        (status = 200, description = "The tree, in the format that was asked for",
            content((TreeResponse = "application/json"), (String = "text/plain"), (String = "text/vnd.graphviz"), (String = "image/svg+xml"))),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    Params(query): Params<TreeQuery>,
) -> Result<Response, Error> {
    let nodes = api.service.trees().show(id, query.depth).await?;
    if nodes.is_empty() {
        return Err(Error::task_not_found());
    }
    let typed =
        |media: &'static str, text: String| ([(header::CONTENT_TYPE, media)], text).into_response();
    Ok(match query.format {
        Format::Json => answer::json(&tree_view::response(&nodes, query.view)),
        Format::Mermaid => typed("text/plain; charset=utf-8", tree_view::mermaid(&nodes)),
        Format::Dot => typed("text/vnd.graphviz; charset=utf-8", tree_view::dot(&nodes)),
        Format::Svg => typed("image/svg+xml", tree_view::svg(&nodes)),
    })
}

/// Cancels a task with all below it, and answers.
pub(super) async fn cancelled(api: &Api, id: TaskId) -> Result<Response, Error> {
    let done = api.service.trees().cancel(own::refuse_task(id)?).await?;
    let done = done.ok_or_else(Error::task_not_found)?;
    let (outcome, task) = done.root;
    let body = CancelTreeResponse {
        outcome: outcome.into(),
        reason: (outcome == api::CancelOutcome::TooLate).then(|| why_too_late_of_tree(&task)),
        task: task_response(&task, View::Basic),
        cancelled: done.cancelled,
        cancel_requested: done.requested,
        complete: done.complete,
    };
    Ok((status(done.complete), answer::json(&body)).into_response())
}

/// Runs the failed part of a tree again: the task and all below it that failed, died or expired, and the children that were
/// cancelled because the own run of their parent did not succeed.
///
/// The tree goes on in another round, and so do the trees above it that have ended. Each ends once more, and its end is told once
/// more. One request runs up to 1000 tasks again.
#[utoipa::path(post, path = "/v1/tasks/{id}/retry-failed", tag = "tasks", operation_id = "retryFailed",
    params(("id" = String, Path, description = "The task's id")),
    request_body(content = Option<RetryFailedRequest>, description = "None, or what the answer before said"),
    responses(
        (status = 200, description = "All of the tree was looked at", body = RetryFailedResponse),
        (status = 202, description = "More is left: send the request again with the `failed_before` of this answer", body = RetryFailedResponse),
        (status = 409, description = "`tree_not_ended`: it goes on. `nothing_failed`: nothing of it failed. `tree_cancelled`: it was cancelled as a whole", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`not_in_a_tree`: `run` starts a dead task again", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not done", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn retry_failed(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    _: NoIfMatch,
    OptionalJson(wish): OptionalJson<RetryFailedRequest>,
) -> Result<Response, Error> {
    let before = wish.failed_before.as_ref().map(time::instant).transpose();
    let before =
        before.map_err(|detail| Error::field(Code::InvalidRequest, "/failed_before", detail))?;
    let retried = api.service.retries().retry(id, before).await?;
    let done = retried.ok_or_else(Error::task_not_found)?;
    let done = done.map_err(why_not)?;
    let task = api.service.get(id, api::View::Basic).await?;
    let task = task.ok_or_else(Error::task_not_found)?;
    let body = RetryFailedResponse {
        task: task_response(&task, View::Basic),
        retried: done.retried,
        left: done.left,
        complete: done.next.is_none(),
        failed_before: done.next.map(Into::into),
    };
    Ok((status(done.next.is_none()), answer::json(&body)).into_response())
}

/// Says that all children of a task were added, whose tree `children_within` holds open for them: it ends as others do.
///
/// More children may be added as long as the tree goes on. A repetition has the same answer, also behind the end of the tree.
#[utoipa::path(post, path = "/v1/tasks/{id}/children-complete", tag = "tasks", operation_id = "completeChildren",
    params(("id" = String, Path, description = "The task's id")),
    responses(
        (status = 200, description = "The task. Its tree is held open no longer", body = TaskResponse),
        (status = 409, description = "`tree_ended`: the time had passed, and the tree has ended. `tree_cancelled`: it was cancelled", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`unusable_parent`: the task has no `children_within`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not noted", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn children_complete(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    let noted = api.service.trees().complete(id, None).await?;
    let noted = noted.ok_or_else(Error::task_not_found)?;
    noted.map_err(|why| match why {
        NotCompleted::NotHeld => Error::new(
            Code::UnusableParent,
            "the tree of the task is not held open for children: register the task with `children_within` for that",
        ),
        NotCompleted::Ended => Error::new(
            Code::TreeEnded,
            "the tree has ended, since the time of its `children_within` had passed",
        ),
        NotCompleted::Cancelled => Error::new(Code::TreeCancelled, "the tree was cancelled"),
    })?;
    let task = api.service.get(id, api::View::Basic).await?;
    let task = task.ok_or_else(Error::task_not_found)?;
    Ok(answer::json(&task_response(&task, View::Basic)))
}

/// Lets a task of a tree that has succeeded begin a new round: it runs again at once, and its tree and those above go on.
///
/// Its next end is told and followed once more. Tasks that waited for it and were let go stay so. A repetition finds the task
/// reopened, and answers the same.
#[utoipa::path(post, path = "/v1/tasks/{id}/reopen", tag = "tasks", operation_id = "reopenTask",
    params(("id" = String, Path, description = "The task's id")),
    request_body(content = Option<ReopenRequest>, description = "None, or the attempt that is its last one"),
    responses(
        (status = 200, description = "It is open", body = ReopenResponse),
        (status = 409, description = "`not_succeeded`: it goes on, or has ended otherwise. `other_attempt`: the attempt is not its last one. `tree_cancelled`: its tree was cancelled. `key_taken`: another task has its key. `tree_ended`: a task above it is not kept any more", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`not_in_a_tree`: it has neither a parent nor children", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not reopened", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn reopen(
    State(api): State<Api>,
    Named(id): Named<ClientTaskPath>,
    _: NoIfMatch,
    OptionalJson(wish): OptionalJson<ReopenRequest>,
) -> Result<Response, Error> {
    reopened(&api, id, wish.attempt, None).await
}

/// Reopens a task, for a client or for the worker that had its last attempt.
pub(super) async fn reopened(
    api: &Api,
    id: TaskId,
    attempt: Option<u32>,
    worker: Option<&str>,
) -> Result<Response, Error> {
    let done = api.service.retries().reopen(id, attempt, worker).await?;
    done.ok_or_else(Error::task_not_found)?
        .map_err(why_not_reopened)?;
    let task = api.service.get(id, api::View::Basic).await?;
    let task = task.ok_or_else(Error::task_not_found)?;
    let task = task_response(&task, View::Basic);
    Ok(answer::json(&ReopenResponse { task }))
}

fn why_not_reopened(why: NotReopened) -> Error {
    let detail = match why {
        NotReopened::NoTree => return why_not(NotRetried::NoTree),
        NotReopened::Cancelled => return why_not(NotRetried::Cancelled),
        NotReopened::OtherAttempt(last) => {
            let detail = format!("the last attempt of the task is {last}");
            return Error::new(Code::OtherAttempt, detail);
        }
        NotReopened::OtherWorker => {
            let detail = "another worker had the last attempt of the task";
            return Error::new(Code::OtherAttempt, detail);
        }
        NotReopened::KeyTaken => {
            let detail = "another task has the key: register the work anew, or wait until that task has ended";
            return Error::new(Code::KeyTaken, detail);
        }
        NotReopened::Gone => {
            let detail = "the tree has ended, and the content of the task or a task above it is not kept any more: register it anew";
            return Error::new(Code::TreeEnded, detail);
        }
        NotReopened::State(state) => match state {
            RunState::New | RunState::Claimed | RunState::Retrying => {
                "the task goes on: it can be reopened when it has succeeded"
            }
            RunState::Cancelled => "the task was cancelled: register it anew",
            RunState::Failed | RunState::Dead | RunState::Expired | RunState::Succeeded => {
                "the task has failed, died or expired: `retry-failed` runs it again"
            }
        },
    };
    Error::new(Code::NotSucceeded, detail)
}

/// Returns the status of an answer: more of the tree is left where it is not complete.
const fn status(complete: bool) -> StatusCode {
    if complete {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    }
}

/// Says why a task could not be cancelled with all below it.
fn why_too_late_of_tree(task: &api::TaskView) -> String {
    match task.tree {
        Some(tree) => format!("its tree has ended: it is {}", tree.outcome.name()),
        None if task.spec.is_parent() => "its tree has just ended".to_owned(),
        None => why_too_late(task),
    }
}

fn why_not(why: NotRetried) -> Error {
    let (code, detail) = match why {
        NotRetried::NoTree => (
            Code::NotInATree,
            "the task has no children and no parent: `run` starts it again if it is dead",
        ),
        NotRetried::GoesOn => (
            Code::TreeNotEnded,
            "the task, or something below it, has not ended: try again when it has, or cancel it first",
        ),
        NotRetried::Cancelled => (
            Code::TreeCancelled,
            "the task was cancelled with all below it, or a task above it was: nothing of that runs again; register it anew",
        ),
        NotRetried::KeyTaken => (
            Code::KeyTaken,
            "another task has the key of the root of the tree: wait until it has ended, or cancel it",
        ),
        NotRetried::NothingFailed => (
            Code::NothingFailed,
            "the task has ended with all below it, and nothing of it failed, died or expired",
        ),
    };
    Error::new(code, detail)
}

/// The query of a read.
#[derive(Debug)]
pub(in crate::http) struct TreeQuery {
    format: Format,
    depth: usize,
    view: View,
}

impl FromQuery for TreeQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let (mut format, mut depth, mut of) = (Format::Json, usize::MAX, View::Basic);
        let violations = each(uri, &["format", "depth", "view"], |name, value| {
            Some(match name {
                "format" => {
                    let read = Format::named(&value);
                    let wrong = || unknown("format", &value, &Format::NAMES);
                    put(&mut format, read.ok_or_else(wrong))
                }
                "depth" => put(&mut depth, levels(&value)),
                "view" => put(&mut of, view(&value)),
                _ => return None,
            })
        })?;
        violations.finish().map(|()| Self {
            format,
            depth,
            view: of,
        })
    }
}

fn levels(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| {
        format!(
            "must be a whole number; trees made by one request have up to {TREE_LEVELS_MAX} levels"
        )
    })
}
