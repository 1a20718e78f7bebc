//! The dead letter handlers list, count, redrive and delete dead tasks at `/v1/dead-letters` for the people who look after
//! them.

use axum::{
    extract::State,
    http::{StatusCode, Uri},
    response::Response,
};
use serde::Deserialize;

use super::{batch::Batch, jobs};
use crate::{
    api::{
        dead_letter::{
            DeadLetter, DeadLetterGroup, ListDeadLettersResponse, RedriveOutcome, RedriveRequest,
            RedriveResponse, RedriveResult,
        },
        job::{JobFilter, JobKind, JobRequest, JobResponse},
        problem::Problem,
        text::shorten,
        worker::View,
    },
    flow::{
        base::{
            api::{TaskView, VisibleState},
            tables::letters::{Scope, Spot},
        },
        life::erase::Erased,
        stages::letters::{
            desk::{Listed, Preview, Redriven},
            walk::{Group, Wanted},
        },
    },
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            self, Callbacks, Violations, dead_letter_token as token, json, own,
            task_view::{in_a_tree, task_response},
        },
        error::{Code, Error},
        extract::{
            CallerKey, FromQuery, Named, NoBody, NoIfMatch, OfClient, Params, RoomToAnswer,
            TaskPath, Text, each_once, page_size, put, task_id,
        },
    },
    limits::{LIST_TASKS_DEFAULT, LIST_TASKS_MAX},
    model::{error_class::error_class, ids::TaskId},
};

/// Lists dead tasks, newest first, page by page.
///
/// A dead task has used up its attempts. It stays here for 30 days, or longer if its `retention` says so, until it is
/// redriven or deleted. One request looks at a bounded number of dead tasks, so a page of a list with `error` may be empty.
/// Only the absence of `next_page_token` says that the list has ended.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "listDeadLetters",
    params(
        ("callback" = Option<String>, Query,
            description = "Only tasks of this callback; with `*` at its end, such as `mail.*`, of those whose names begin so"),
        ("error" = Option<String>, Query,
            description = "Only tasks with this class of error, as groups show it; a whole error stands for its class"),
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 1000 is 1000"),
        ("page_token" = Option<String>, Query,
            description = "`next_page_token` of the page before, with the same filters")),
    responses(
        (status = 200, description = "A page", body = ListDeadLettersResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Params(query): Params<LettersQuery>,
) -> Result<Response, Error> {
    let behind = spot(query.page_token.as_deref(), "?page_token", &query.wanted)?;
    let desk = api.service.dead_letters();
    let page = desk.list(&query.wanted, behind, query.page_size).await?;
    Ok(answer::json(&ListDeadLettersResponse {
        dead_letters: page.letters.into_iter().map(Into::into).collect(),
        next_page_token: page.next.map(|next| token::write(&query.wanted, next)),
    }))
}

/// Counts dead tasks by callback and class of error, the largest group first.
///
/// The class of an error is its first line, in which `#` stands for each number.
#[utoipa::path(get, path = "/v1/dead-letters:groups", tag = "dead letters", operation_id = "groupDeadLetters",
    params(("callback" = Option<String>, Query,
        description = "Only tasks of this callback; with `*` at its end, such as `mail.*`, of those whose names begin so")),
    responses(
        (status = 200, description = "The groups", body = Vec<DeadLetterGroup>),
        (status = "default", description = "Not counted", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn groups(
    State(api): State<Api>,
    Params(GroupsQuery(wanted)): Params<GroupsQuery>,
) -> Result<Response, Error> {
    let counted = api.service.dead_letters().groups(&wanted).await?;
    let groups = counted.groups.into_iter();
    let groups: Vec<DeadLetterGroup> = groups.map(|group| shown(group, counted.cut)).collect();
    Ok(answer::json(&groups))
}

/// Makes dead tasks run again, each with all its attempts: up to 1000 ids at once, or those of a filter by a job.
///
/// Each id is answered at its place; a task that was redriven before is `not_dead`. With `callback` or `error` the answer is a
/// job: see `/v1/jobs`.
#[utoipa::path(post, path = "/v1/dead-letters/redrive", tag = "dead letters", operation_id = "redriveDeadLetters",
    params(("idempotency-key" = Option<String>, Header,
        description = "Repetitions of a filter with this key are one job, as long as the job can be read")),
    request_body = RedriveRequest,
    responses(
        (status = 200, description = "With ids: what was done. With a filter: the same request had registered the job before", body = RedriveResponse),
        (status = 202, description = "With a filter: the job", body = JobResponse, headers(("location" = String))),
        (status = "default", description = "Nothing done", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn redrive(
    State(api): State<Api>,
    _: RoomToAnswer,
    _: NoIfMatch,
    caller: Caller,
    CallerKey(key): CallerKey,
    text: Text<OfClient>,
) -> Result<Response, Error> {
    match Call::read(&text)? {
        Call::Ids(items, dry_run) => {
            let expected = api.answers.expect(items.len())?;
            let batch = Batch::read(&items, |item| task_id(&json::read_text_item(item)?));
            let texts = items.iter().map(|item| json::read_text_item(item));
            let ids = texts.map(|text| shorten(&text.unwrap_or_default()));
            let ids: Vec<String> = ids.collect();
            drop(text);
            caller.allows_tasks(&api, batch.good().copied()).await?;
            let response = of_ids(&api, batch, ids, dry_run).await?;
            drop(expected);
            Ok(answer::json(&response))
        }
        Call::Filter(asked) => {
            caller.allows_filter(asked.filter.callback.as_deref())?;
            jobs::register(&api, &asked, (key, &text)).await
        }
    }
}

/// Deletes a dead task for good: its payload, labels, result and error are erased, and it is found no more.
///
/// A repeated call answers 404.
#[utoipa::path(delete, path = "/v1/dead-letters/{id}", tag = "dead letters", operation_id = "deleteDeadLetter",
    params(("id" = String, Path, description = "The task's id")),
    responses(
        (status = 204, description = "Deleted"),
        (status = "default", description = "Not deleted", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn delete(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<StatusCode, Error> {
    match api.service.dead_letters().delete(id).await? {
        Erased::Done => Ok(StatusCode::NO_CONTENT),
        Erased::Unknown => Err(Error::task_not_found()),
        Erased::Left(task) => {
            let state = task.state.name();
            let detail = format!("the task of this id is no dead letter: it is {state}");
            Err(Error::new(Code::TaskNotFound, detail))
        }
    }
}

async fn of_ids(
    api: &Api,
    batch: Batch<TaskId>,
    ids: Vec<String>,
    dry_run: bool,
) -> Result<RedriveResponse, Error> {
    let desk = api.service.dead_letters();
    if dry_run {
        return Ok(previewed(&desk.preview(&batch.all()?).await?));
    }
    let mut results: Vec<RedriveResult> = batch
        .answer(async |ids: Vec<TaskId>| desk.redrive(&ids).await)
        .await;
    for (result, id) in results.iter_mut().zip(ids) {
        result.id = id;
    }
    let count = |outcome| {
        let same = results.iter().filter(|result| result.outcome == outcome);
        same.count() as u64
    };
    Ok(RedriveResponse {
        redriven: count(Some(RedriveOutcome::Redriven)),
        not_dead: count(Some(RedriveOutcome::NotDead)),
        failed: count(None) + count(Some(RedriveOutcome::Blocked)),
        results,
        ..RedriveResponse::default()
    })
}

fn previewed(preview: &Preview) -> RedriveResponse {
    let sample = preview.sample.iter();
    RedriveResponse {
        dry_run: true,
        matching: Some(preview.tasks),
        sample: sample
            .map(|task| task_response(task, View::Basic))
            .collect(),
        ..RedriveResponse::default()
    }
}

impl From<Listed> for DeadLetter {
    fn from(Listed { letter, task, .. }: Listed) -> Self {
        Self {
            id: letter.id.to_string(),
            callback: letter.callback,
            error: letter.error,
            attempt: letter.attempts,
            end_time: letter.spot.time.into(),
            task: task.map(|task| task_response(&task, View::Basic)),
        }
    }
}

fn shown(group: Group, cut: bool) -> DeadLetterGroup {
    DeadLetterGroup {
        callback: group.callback,
        error: group.error,
        tasks: group.tasks,
        oldest: group.oldest.into(),
        newest: group.newest.into(),
        at_least: cut,
    }
}

impl From<Redriven> for RedriveResult {
    fn from(answer: Redriven) -> Self {
        match answer {
            Ok(Some((false, task))) if is_of_tree(&task) => in_a_tree(&task).into(),
            Ok(Some((redriven, task))) => Self {
                outcome: Some(match task.state {
                    _ if redriven => RedriveOutcome::Redriven,
                    VisibleState::Dead => RedriveOutcome::Blocked,
                    _ => RedriveOutcome::NotDead,
                }),
                task: Some(task_response(&task, View::Basic)),
                ..Self::default()
            },
            Ok(None) => Error::task_not_found().into(),
            Err(fault) => Error::from(fault).into(),
        }
    }
}

/// Tells whether a task stays dead since its end counts in a tree.
fn is_of_tree(task: &TaskView) -> bool {
    task.state == VisibleState::Dead && task.spec.kin.is_some()
}

impl From<Error> for RedriveResult {
    fn from(error: Error) -> Self {
        Self {
            error: Some(error.problem_of_item()),
            ..Self::default()
        }
    }
}

/// A redrive as it was read.
enum Call<'a> {
    /// These at once, or only shown.
    Ids(Vec<&'a serde_json::value::RawValue>, bool),
    /// The job that redrives those of a filter.
    Filter(Box<JobRequest>),
}

impl<'a> Call<'a> {
    fn read(text: &'a str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body<'a> {
            #[serde(borrow)]
            ids: Option<json::Items<'a>>,
            callback: Option<String>,
            error: Option<String>,
            rate_per_second: Option<f64>,
            #[serde(default)]
            dry_run: bool,
        }

        let body: Body<'a> = json::read(text)?;
        let is_filter = body.callback.is_some() || body.error.is_some();
        let refused = |pointer, detail| Err(Error::field(Code::InvalidRequest, pointer, detail));
        match body.ids {
            Some(_) if is_filter => {
                refused("/ids", "excludes `callback` and `error`: give one kind")
            }
            Some(_) if body.rate_per_second.is_some() => refused(
                "/rate_per_second",
                "is for `callback` and `error`: ids are redriven at once",
            ),
            Some(json::Items(ids)) => Ok(Self::Ids(ids, body.dry_run)),
            None if !is_filter => refused(
                "",
                "give `ids`, or `callback` or `error`: nothing says which tasks are meant",
            ),
            None => {
                let mut violations = Violations::default();
                let callback = body.callback.map(convert::name);
                let callback = callback.and_then(|name| violations.take("/callback", name));
                violations.finish()?;
                if let Some(callback) = &callback {
                    own::refuse_callback("/callback", callback)?;
                }
                let filter = JobFilter {
                    callback,
                    error: body.error,
                    ..JobFilter::default()
                };
                Ok(Self::Filter(Box::new(JobRequest {
                    rate_per_second: body.rate_per_second,
                    dry_run: body.dry_run,
                    ..JobRequest::new(JobKind::Redrive, filter)
                })))
            }
        }
    }
}

/// Reads the callbacks of a query.
fn scope(text: String) -> Result<Scope, String> {
    Ok(match convert::callbacks(text)? {
        Callbacks::One(name) => Scope::Callback(name),
        Callbacks::Beginning(beginning) => Scope::Beginning(beginning),
    })
}

/// An empty token asks for the first page.
fn spot(text: Option<&str>, pointer: &str, wanted: &Wanted) -> Result<Option<Spot>, Error> {
    let text = text.filter(|text| !text.is_empty());
    let read = text.map(|text| token::read(text, wanted)).transpose();
    read.map_err(|detail| Error::field(Code::InvalidRequest, pointer, detail))
}

/// The query of a list.
pub(in crate::http) struct LettersQuery {
    wanted: Wanted,
    page_size: usize,
    page_token: Option<String>,
}

impl FromQuery for LettersQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let known = ["callback", "error", "page_size", "page_token"];
        let (mut of, mut error): (_, Option<String>) = (Scope::All, None);
        let (mut size, mut page_token): (_, Option<String>) = (LIST_TASKS_DEFAULT, None);
        let violations = each_once(uri, &known, |name, value| {
            Some(match name {
                "callback" => put(&mut of, scope(value)),
                "error" => put(&mut error, Ok(value)),
                "page_size" => put(&mut size, page_size(&value, LIST_TASKS_MAX)),
                "page_token" => put(&mut page_token, Ok(value)),
                _ => return None,
            })
        })?;
        violations.finish()?;
        Ok(Self {
            wanted: Wanted {
                scope: of,
                error: error.as_deref().map(error_class),
            },
            page_size: size,
            page_token,
        })
    }
}

/// The query of a count.
pub(in crate::http) struct GroupsQuery(Wanted);

impl FromQuery for GroupsQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut of = Scope::All;
        let violations = each_once(uri, &["callback"], |name, value| {
            (name == "callback").then(|| put(&mut of, scope(value)))
        })?;
        violations.finish()?;
        Ok(Self(Wanted {
            scope: of,
            error: None,
        }))
    }
}
