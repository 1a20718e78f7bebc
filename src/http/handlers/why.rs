//! The handlers of causes tell clients why a task, or a time of a schedule, does not run.

use axum::{extract::State, http::Uri, response::Response};

use super::schedules::there;
use crate::{
    api::{
        problem::Problem,
        schedule_why::ScheduleWhyResponse,
        text::InstantText,
        time,
        why::{CauseCode, WhyResponse},
    },
    flow::base::api::{TaskView, View},
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            schedule_why::{self, Asked},
            why::{code, why_response},
        },
        error::Error,
        extract::{FromQuery, Named, NoQuery, Params, SchedulePath, TaskPath, each, put, unquoted},
    },
    limits::RUN_LISTED,
    model::{
        ids::TaskId,
        schedule::why::{self, Seen, What},
        time::Millis,
    },
};

/// Tells why a task does not run, or what became of it.
///
/// The causes come in the order of time, with one sentence about the first. They are computed by the rules that hold the task. A
/// cause that only the memory of another node knows is not `certain`, and names that node.
#[utoipa::path(get, path = "/v1/tasks/{id}/why", tag = "tasks", operation_id = "explainTask",
    params(("id" = String, Path, description = "The task's id")),
    responses(
        (status = 200, description = "The causes: at least one", body = WhyResponse),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn task(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    _: NoQuery,
    caller: Caller,
) -> Result<Response, Error> {
    Ok(answer::json(&explained(&api, &caller, id).await?))
}

/// Tells why a task does not run, as a caller may see it.
///
/// # Errors
/// There is no such task, or the store is away.
pub(in crate::http) async fn explained(
    api: &Api,
    caller: &Caller,
    id: TaskId,
) -> Result<WhyResponse, Error> {
    let why = api.service.why(id).await?;
    let why = why.ok_or_else(Error::task_not_found)?;
    Ok(why_response(&why, &|callback| caller.covers(callback)))
}

/// Returns the first thing that keeps a task from running; none for one that runs or has ended.
///
/// # Errors
/// The store is away.
pub(in crate::http) async fn waiting_for(
    api: &Api,
    task: &TaskView,
) -> Result<Option<CauseCode>, Error> {
    if task.state.is_terminal() {
        return Ok(None);
    }
    let why = api.service.why(task.id).await?;
    let first = why.and_then(|why| why.causes.first().map(|cause| code(&cause.what)));
    Ok(first.filter(|code| !code.is_end() && *code != CauseCode::Running))
}

/// Tells why a schedule has no run at a time, or which run it has.
#[utoipa::path(get, path = "/v1/schedules/{name}/why", tag = "schedules", operation_id = "explainSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("time" = Option<String>, Query, description = "The time, RFC 3339 with an offset; by default the last of its times that has passed, or else the next")),
    responses(
        (status = 200, description = "The cause, or the run", body = ScheduleWhyResponse),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn schedule(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    Params(query): Params<WhyQuery>,
) -> Result<Response, Error> {
    Ok(answer::json(
        &explained_time(&api, &name, query.time).await?,
    ))
}

/// Tells why a schedule has no run at a time; without one, at the last of its times that has passed, or else at the next.
///
/// # Errors
/// There is no such schedule, or the store is away.
pub(in crate::http) async fn explained_time(
    api: &Api,
    name: &str,
    time: Option<Millis>,
) -> Result<ScheduleWhyResponse, Error> {
    let schedule = there(api, name).await?;
    let (desk, now) = (api.service.schedules(), api.options.time.now());
    let plan = desk.plan(name, &schedule)?;
    let time = time
        .or_else(|| plan.last(schedule.anchor(), now))
        .or_else(|| plan.next(now))
        .unwrap_or(now);
    let listed = desk.runs_at(name, time).await?;
    let what = why::cause(
        time,
        &Seen {
            schedule: &schedule,
            plan: &plan,
            listed: &listed,
            kept: RUN_LISTED,
            now,
        },
    );
    let task = match what {
        What::Started(Some(id)) => api.service.get(id, View::Basic).await?,
        _ => None,
    };
    Ok(schedule_why::response(&Asked {
        name,
        schedule: &schedule,
        plan: &plan,
        time,
        now,
        what: &what,
        task: task.as_ref(),
    }))
}

/// The query of the causes of a schedule.
#[derive(Debug)]
pub(in crate::http) struct WhyQuery {
    time: Option<Millis>,
}

impl FromQuery for WhyQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self { time: None };
        let violations = each(uri, &["time"], |name, value| {
            let read = || time::instant(&InstantText(value)).map_err(|detail| unquoted(&detail));
            (name == "time").then(|| put(&mut query.time, read()))
        })?;
        violations.finish().map(|()| query)
    }
}
