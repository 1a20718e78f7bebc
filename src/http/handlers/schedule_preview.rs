//! The preview handlers show the times of schedules for clients, also of those that are not stored.

use axum::{extract::State, response::Response};

use super::{schedule_query::Times, schedules::there};
use crate::{
    api::{
        problem::Problem,
        schedule::{PreviewResponse, ScheduleRequest},
        target::CallbackTarget,
        task_request::TaskRequest,
    },
    http::{
        Api, answer,
        convert::{schedule, schedule_view},
        error::Error,
        extract::{Json, Named, Params, SchedulePath, context},
    },
    model::{schedule::life::Schedule, time::Millis},
};

/// Shows the times of a schedule in words, in its zone and in UTC. It need not be live.
#[utoipa::path(get, path = "/v1/schedules/{name}/preview", tag = "schedules", operation_id = "previewSchedule",
    params(
        ("name" = String, Path, description = "The schedule"),
        ("count" = Option<usize>, Query, minimum = 1, maximum = 100, description = "So many times; 10 by default"),
        ("from" = Option<String>, Query, description = "From this time on; now by default. The runs that `limit` leaves count from there")),
    responses(
        (status = 200, description = "Its times", body = PreviewResponse),
        (status = 404, description = "`schedule_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not shown", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn preview(
    State(api): State<Api>,
    Named(name): Named<SchedulePath>,
    Params(times): Params<Times>,
) -> Result<Response, Error> {
    let schedule = there(&api, &name).await?;
    shown(&api, &name, &schedule, (times.from, times.count))
}

/// Checks a schedule and shows its times, without storing it.
#[utoipa::path(post, path = "/v1/schedules:preview", tag = "schedules", operation_id = "checkSchedule",
    params(
        ("name" = Option<String>, Query, description = "The name that the schedule is to have: `H` follows from it"),
        ("count" = Option<usize>, Query, minimum = 1, maximum = 100, description = "So many times; 10 by default"),
        ("from" = Option<String>, Query, description = "From this time on; now by default. The runs that `limit` leaves count from there")),
    request_body = ScheduleRequest,
    responses(
        (status = 200, description = "Its times", body = PreviewResponse),
        (status = "default", description = "It would be refused so", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn preview_of(
    State(api): State<Api>,
    Params(times): Params<Times>,
    Json(mut asked): Json<ScheduleRequest>,
) -> Result<Response, Error> {
    // The times do not depend on it.
    let any_task = || TaskRequest {
        callback: Some(CallbackTarget::Name("preview".to_owned())),
        ..TaskRequest::default()
    };
    asked.task.get_or_insert_with(any_task);
    let desk = api.service.schedules();
    let spec = schedule::schedule(&times.name, &asked, desk, &context(&api))?;
    let draft = desk.draft(spec);
    shown(&api, &times.name, &draft, (times.from, times.count))
}

fn shown(
    api: &Api,
    name: &str,
    schedule: &Schedule,
    times: (Millis, usize),
) -> Result<Response, Error> {
    let desk = api.service.schedules();
    let plan = desk.plan(name, schedule)?;
    let version = desk.zones().version();
    let preview = schedule_view::preview(name, schedule, &plan, version, times);
    Ok(answer::json(&preview))
}
