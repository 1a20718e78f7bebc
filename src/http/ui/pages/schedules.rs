//! The page of schedules lists them with their times in words and the next run.

use askama::Template;

use super::rows::written;
use crate::{
    api::{
        schedule::ScheduleState,
        schedule_response::{ListSchedulesResponse, ScheduleResponse},
        task_request::TaskRequest,
        text::InstantText,
    },
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, part, with},
            states::{self, Shown},
            text::{grouped, short, visible},
            time,
        },
        visit::Visit,
    },
    limits::PAGE_LIST_ROWS_MAX,
};

struct Line {
    name: String,
    path: String,
    state: Shown,
    words: String,
    zone: String,
    to: String,
    next: String,
    runs: String,
    why: Option<String>,
}

#[derive(Template)]
#[template(path = "schedules.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    lines: Vec<Line>,
    next: Option<String>,
}

/// Shows the schedules.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let mut path = format!("/v1/schedules?page_size={PAGE_LIST_ROWS_MAX}");
    if let Some(token) = visit.parameter("page") {
        path = with(&path, "page_token", &token);
    }
    let list: ListSchedulesResponse = visit.get(&path).await?;
    let next = list.next_page_token.as_deref();
    written(&Page {
        frame: visit.frame(),
        lines: list.schedules.iter().map(line).collect(),
        next: next.map(|token| with("/schedules", "page", token)),
    })
}

/// Returns where the runs of a schedule go.
pub(super) fn to(task: Option<&TaskRequest>) -> String {
    let callback = task.and_then(|task| task.callback.as_ref());
    let http = task.and_then(|task| task.http.as_ref());
    match (callback, http) {
        (Some(callback), _) => visible(callback.name()),
        (None, Some(http)) => short(&http.url, 60),
        (None, None) => "a topic".to_owned(),
    }
}

/// Returns the zone of a schedule.
pub(super) fn zone(one: &ScheduleResponse) -> String {
    let zone = one.schedule.time_zone.as_deref();
    visible(zone.unwrap_or("UTC"))
}

fn line(one: &ScheduleResponse) -> Line {
    let next = one.next_run_times.first();
    // Its text has the offset, and may have the zone behind it.
    let next = next.map(|text| text.split('[').next().unwrap_or_default().trim().to_owned());
    let pause = one.pause.as_ref();
    Line {
        name: visible(&one.name),
        path: format!("/schedules/{}", part(&one.name)),
        state: states::schedule(one.state),
        words: visible(&one.description),
        zone: zone(one),
        to: to(one.schedule.task.as_ref()),
        next: match (one.state, next) {
            (ScheduleState::Live, Some(next)) => time::row(&InstantText(next)),
            _ => time::none(),
        },
        runs: grouped(one.runs),
        why: pause.and_then(|pause| pause.reason.as_deref()).map(visible),
    }
}
