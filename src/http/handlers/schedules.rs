//! The schedule handlers set, change, list and preview schedules at `/v1/schedules` for clients, and start runs at their wish.
//!
//! An entity tag follows what was set, not where the schedule stands: a client that has read a schedule can replace it whatever
//! runs have started since.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    jobs, registered,
    schedule_query::{RunsQuery, SchedulesQuery},
};
use crate::{
    api::{
        job::JobResponse,
        problem::Problem,
        schedule::{
            BackfillRequest, DeleteScheduleResponse, ListRunsResponse, PauseRequest,
            ScheduleRequest,
        },
        schedule_response::{ListSchedulesResponse, ScheduleResponse},
        task_request::TaskRequest,
        task_response::TaskResponse,
    },
    flow::{
        life::asked::RequestMark,
        stages::schedules::desk::{Changed, Order, Outcome, Precondition},
    },
    http::{
        Api,
        access::Caller,
        answer,
        convert::{masked, schedule, schedule_view},
        error::{Code, Error},
        extract::{
            AnnouncedJson, CallerKey, Named, NoBody, NoIfMatch, OfClient, Params, SchedulePath,
            Text, context,
        },
        headers::{self, Preconditions},
    },
    model::{
        job::Job,
        schedule::life::{Pause, Schedule},
    },
};

/// Reads a schedule: what was set, where it stands, its times in words and its next times.
#[utoipa::path(get, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "getSchedule",
    params(("name" = String, Path, description = "The schedule")),
    responses(
        (status = 200, description = "The schedule", body = ScheduleResponse, headers(("etag" = String))),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    caller: Caller,
) -> Result<Response, Error> {
    let schedule = there(&api, &name).await?;
    let shown = seen(&caller, response(&api, &name, &schedule));
    Ok(tagged(StatusCode::OK, &schedule, &shown))
}

/// Leaves out payloads and credentials of the task, and of those that follow it, for callers who see none.
fn seen(caller: &Caller, schedule: ScheduleResponse) -> ScheduleResponse {
    let mut schedule = caller.seen(schedule, masked::schedule);
    if !caller.sees_payloads()
        && let Some(task) = &mut schedule.schedule.task
    {
        hide_payloads(task);
    }
    schedule
}

/// Leaves out the payloads of a task at every level. A request is only so many levels deep.
fn hide_payloads(task: &mut TaskRequest) {
    (task.payload, task.payload_base64) = (None, None);
    let actions = task.actions.iter_mut().flatten();
    actions.for_each(|action| action.payload = None);
    for check in task.checks.iter_mut().flatten() {
        let deeds = check.then.iter_mut().chain(&mut check.otherwise);
        deeds.for_each(|deed| deed.payload = None);
    }
    let follows = task
        .then
        .iter_mut()
        .flatten()
        .map(|follow| &mut *follow.task);
    for below in task.children.iter_mut().flatten().chain(follows) {
        hide_payloads(below);
    }
}

/// Creates a schedule, or replaces what is set for it as a whole. Runs that were decided on before and have not begun are
/// withdrawn: from the answer on none of them begins. Runs that were counted stay counted.
#[utoipa::path(put, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "setSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("if-match" = Option<String>, Header, description = "Only if it still has this ETag"),
        ("if-none-match" = Option<String>, Header, description = "`*`: only if it does not exist yet"),
        ("idempotency-key" = Option<String>, Header, description = "Repetitions of the request with this key are one change")),
    request_body = ScheduleRequest,
    responses(
        (status = 200, description = "Replaced, or it was so already", body = ScheduleResponse, headers(("etag" = String))),
        (status = 201, description = "Created", body = ScheduleResponse, headers(("etag" = String))),
        (status = 412, description = "It has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not set", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn set(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    condition: Preconditions,
    CallerKey(key): CallerKey,
    caller: Caller,
    text: Text<OfClient>,
) -> Result<Response, Error> {
    let id = change_id(&api, &name, "put", key);
    let asked: ScheduleRequest = text.read()?;
    if let Some(task) = &asked.task {
        caller.allows_request(task)?;
    }
    let _held = api.admission.contents(text.len())?;
    drop(text);
    // One that another has set meanwhile is not replaced.
    let holds = |there: Option<&Schedule>| {
        let may = there.is_none_or(|there| caller.allows_schedule(&there.spec.task).is_ok());
        may && holds(&condition)(there)
    };
    let changed = put(&api, &name, &asked, id, &holds).await?;
    answered(&api, &name, changed)
}

/// Sets a schedule.
pub(super) async fn put(
    api: &Api,
    name: &str,
    asked: &ScheduleRequest,
    id: u128,
    holds: Precondition<'_>,
) -> Result<Changed, Error> {
    let desk = api.service.schedules();
    let spec = schedule::schedule(name, asked, desk, &context(api))?;
    let paused = asked.paused.then(|| Pause {
        since: api.options.time.now(),
        ..Pause::default()
    });
    Ok(desk.put(name, spec, paused, id, holds).await?)
}

/// Deletes a schedule. Its runs that have not begun are withdrawn; those that have go on.
#[utoipa::path(delete, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "deleteSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("if-match" = Option<String>, Header, description = "Only if it still has this ETag")),
    responses(
        (status = 200, description = "Deleted", body = DeleteScheduleResponse),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "It has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not deleted", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    condition: Preconditions,
    CallerKey(key): CallerKey,
    _: NoBody,
) -> Result<Response, Error> {
    let id = change_id(&api, &name, "delete", key);
    let (desk, holds) = (api.service.schedules(), holds(&condition));
    match desk.order(&name, &Order::Delete, id, &holds).await? {
        Changed::Now(outcome) | Changed::Created(outcome) => {
            Ok(answer::json(&DeleteScheduleResponse {
                generation: outcome.schedule.generation,
                runs_cancelled: outcome.withdrawn,
                runs_started: outcome.started,
            }))
        }
        other => answered(&api, &name, other),
    }
}

/// Pauses a schedule: it starts no runs until it is resumed, and the times meanwhile are not missed. Runs that have not begun are
/// withdrawn.
#[utoipa::path(post, path = "/v1/schedules/{name}/pause", tag = "schedules", operation_id = "pauseSchedule",
    params(("name" = String, Path, description = "The schedule")),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, description = "It is paused", body = ScheduleResponse, headers(("etag" = String))),
        (status = 409, description = "`schedule_ended`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not paused", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn pause(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    _: NoIfMatch,
    CallerKey(key): CallerKey,
    AnnouncedJson(asked): AnnouncedJson<PauseRequest>,
) -> Result<Response, Error> {
    let id = change_id(&api, &name, "pause", key);
    let order = schedule::pause(asked)?;
    let desk = api.service.schedules();
    let changed = desk.order(&name, &order, id, &|_| true).await?;
    answered(&api, &name, changed)
}

/// Lets a paused schedule go on, from the next of its times.
#[utoipa::path(post, path = "/v1/schedules/{name}/resume", tag = "schedules", operation_id = "resumeSchedule",
    params(("name" = String, Path, description = "The schedule")),
    responses(
        (status = 200, description = "It goes on, or has ended", body = ScheduleResponse, headers(("etag" = String))),
        (status = "default", description = "It does not go on", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn resume(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    _: NoIfMatch,
    CallerKey(key): CallerKey,
    _: NoBody,
) -> Result<Response, Error> {
    let id = change_id(&api, &name, "resume", key);
    let desk = api.service.schedules();
    let changed = desk.order(&name, &Order::Resume, id, &|_| true).await?;
    answered(&api, &name, changed)
}

/// Starts a run now, also while the schedule is paused. It is not counted, and no change of the schedule withdraws it.
#[utoipa::path(post, path = "/v1/schedules/{name}/trigger", tag = "schedules", operation_id = "triggerSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("idempotency-key" = Option<String>, Header, description = "Repetitions of the request with this key are one run")),
    responses(
        (status = 201, description = "The task", body = TaskResponse),
        (status = 200, description = "The task of an earlier request with this key", body = TaskResponse),
        (status = "default", description = "Not started", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn trigger(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    _: NoIfMatch,
    CallerKey(key): CallerKey,
    _: NoBody,
) -> Result<Response, Error> {
    let schedule = there(&api, &name).await?;
    // The key of a schedule is another than the same key of a task.
    let mark = key.map(|key| RequestMark {
        key: format!("schedule/{name}/{:032x}", xxh3_128(key.as_bytes())),
        hash: xxh3_128(name.as_bytes()),
    });
    let desk = api.service.schedules();
    let answer = desk.trigger(&name, &schedule, mark).await?;
    registered::respond(registered::Registration::Asked(Ok(answer)))
}

/// Starts a run for each time of a schedule in a span that has passed, as a job: it can be watched, paused and ended as every
/// job. Its runs are not counted, and no change of the schedule withdraws them.
#[utoipa::path(post, path = "/v1/schedules/{name}/backfill", tag = "schedules", operation_id = "backfillSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("idempotency-key" = Option<String>, Header, description = "Repetitions of the request with this key are one job")),
    request_body = BackfillRequest,
    responses(
        (status = 202, description = "Begun", body = JobResponse, headers(("location" = String))),
        (status = 200, description = "The same request had begun it before", body = JobResponse),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not begun", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn backfill(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    _: NoIfMatch,
    CallerKey(key): CallerKey,
    text: Text<OfClient>,
) -> Result<Response, Error> {
    let asked: BackfillRequest = text.read()?;
    let schedule = there(&api, &name).await?;
    let time = &api.options.time;
    let drawn = (time.now(), time.random_uuid().as_u128());
    let desk = api.service.schedules();
    let job = schedule::backfill(&name, &asked, &schedule, desk, drawn)?;
    let key = key.map(|key| xxh3_128(format!("backfill\0{name}\0{key}").as_bytes()));
    let job = Job {
        request: key.is_some().then(|| xxh3_128(text.as_bytes())),
        ..job
    };
    drop(text);
    jobs::registered(api.service.jobs().register(key, job).await?)
}

/// Lists schedules by name.
#[utoipa::path(get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    params(
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 100 is 100"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page", body = ListSchedulesResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(query): Params<SchedulesQuery>,
) -> Result<Response, Error> {
    let (page, next_page_token) = page(&api, query).await?;
    let shown = page
        .iter()
        .map(|(name, schedule)| seen(&caller, response(&api, name, schedule)));
    Ok(answer::json(&ListSchedulesResponse {
        schedules: shown.collect(),
        next_page_token,
    }))
}

/// Reads the page of schedules that a query asks for, and the token of the next one.
pub(super) async fn page(
    api: &Api,
    query: SchedulesQuery,
) -> Result<(Vec<(String, Schedule)>, Option<String>), Error> {
    let desk = api.service.schedules();
    let (page, next) = desk.list(query.after.as_deref(), query.size).await?;
    Ok((page, next.map(|name| URL_SAFE_NO_PAD.encode(name))))
}

/// Lists the runs of a schedule with their tasks, the newest first: those to come that were decided on, those that have begun or
/// ended, and those that were skipped. A run is listed for 30 days.
#[utoipa::path(get, path = "/v1/schedules/{name}/runs", tag = "schedules", operation_id = "listScheduleRuns",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 100 is 100"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page", body = ListRunsResponse),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn runs(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    Params(query): Params<RunsQuery>,
) -> Result<Response, Error> {
    there(&api, &name).await?;
    let (after, desk) = (query.after.map(Into::into), api.service.schedules());
    let (runs, next) = desk.runs(&name, after, query.size).await?;
    Ok(answer::json(&ListRunsResponse {
        runs: runs.iter().map(schedule_view::run_response).collect(),
        next_page_token: next.map(|place| URL_SAFE_NO_PAD.encode(place)),
    }))
}

pub(super) async fn there(api: &Api, name: &str) -> Result<Schedule, Error> {
    let schedule = api.service.schedules().get(name).await?;
    schedule.ok_or_else(|| not_found(name))
}

fn not_found(name: &str) -> Error {
    let detail = format!("there is no schedule `{name}`");
    Error::new(Code::ScheduleNotFound, detail)
}

/// The id of a change: the same for repetitions that carry a key.
fn change_id(api: &Api, name: &str, verb: &str, key: Option<String>) -> u128 {
    key.map_or_else(
        || api.options.time.random_uuid().as_u128(),
        |key| xxh3_128(format!("{verb}\0{name}\0{key}").as_bytes()),
    )
}

fn holds(condition: &Preconditions) -> impl Fn(Option<&Schedule>) -> bool + Send + Sync {
    |schedule| condition.hold(schedule.map(etag).as_deref())
}

fn etag(schedule: &Schedule) -> String {
    headers::etag_of_schedule(&schedule.spec)
}

fn response(api: &Api, name: &str, schedule: &Schedule) -> ScheduleResponse {
    let desk = api.service.schedules();
    let plan = desk.plan(name, schedule).ok();
    let (now, version) = (api.options.time.now(), desk.zones().version());
    schedule_view::schedule_response(name, schedule, plan.as_ref(), version, now)
}

fn answered(api: &Api, name: &str, changed: Changed) -> Result<Response, Error> {
    let of = |outcome: &Outcome| ScheduleResponse {
        runs_cancelled: Some(outcome.withdrawn),
        runs_started: Some(outcome.started),
        ..response(api, name, &outcome.schedule)
    };
    match changed {
        Changed::Created(outcome) => {
            let mut response = tagged(StatusCode::CREATED, &outcome.schedule, &of(&outcome));
            if let Ok(location) = format!("/v1/schedules/{name}").parse() {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
        Changed::Now(outcome) => Ok(tagged(StatusCode::OK, &outcome.schedule, &of(&outcome))),
        Changed::Same(schedule) => Ok(tagged(
            StatusCode::OK,
            &schedule,
            &ScheduleResponse {
                runs_cancelled: Some(0),
                runs_started: Some(0),
                ..response(api, name, &schedule)
            },
        )),
        Changed::Absent => Err(not_found(name)),
        Changed::OtherRequest => Err(Error::new(
            Code::IdempotencyKeyReused,
            "the key was used for the last change of the schedule, with other settings: use another key",
        )),
        Changed::Mismatch(None) => Err(Error::new(
            Code::PreconditionFailed,
            format!("there is no schedule `{name}`"),
        )),
        Changed::Mismatch(Some(schedule)) => Err(Error::new(
            Code::PreconditionFailed,
            format!("the schedule's ETag is {} now", etag(&schedule)),
        )),
        Changed::Ended(_) => Err(Error::new(
            Code::ScheduleEnded,
            format!("the times or the limit of the schedule `{name}` are used up"),
        )),
    }
}

fn tagged(status: StatusCode, schedule: &Schedule, body: &impl Serialize) -> Response {
    let mut headers = HeaderMap::new();
    if let Ok(tag) = etag(schedule).parse() {
        headers.insert(header::ETAG, tag);
    }
    (status, headers, answer::json(body)).into_response()
}
