//! The page of a schedule shows its times in words, its next and its last runs, and what can be done.

use askama::Template;

use super::{
    rows::written,
    schedules::{to, zone},
    task::{Content, of_json},
};
use crate::{
    api::{
        schedule::{ListRunsResponse, PreviewResponse, RunCause, RunResponse, ScheduleState},
        schedule_response::ScheduleResponse,
    },
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, part},
            states::{self, Shown},
            text::{grouped, visible},
            time,
        },
        visit::Visit,
    },
};

/// Runs that are shown ahead and behind.
const RUNS: usize = 10;

struct Ahead {
    utc: String,
    local: String,
}

struct Run {
    id: String,
    scheduled: String,
    shown: Shown,
    cause: &'static str,
    has_task: bool,
}

#[derive(Template)]
#[template(path = "schedule.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    name: String,
    path: String,
    state: Shown,
    is_live: bool,
    is_paused: bool,
    words: String,
    times: String,
    zone: String,
    to: String,
    to_path: Option<String>,
    pause: Option<String>,
    note: Option<String>,
    details: Vec<(&'static str, String)>,
    ahead: Vec<Ahead>,
    runs: Vec<Run>,
    task: Option<Content>,
}

/// Shows a schedule.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let path = format!("/v1/schedules/{}", visit.part());
    let one: ScheduleResponse = visit.get(&path).await?;
    let runs: ListRunsResponse = visit.get(&format!("{path}/runs?page_size={RUNS}")).await?;
    let ahead = if one.state == ScheduleState::Live {
        visit
            .get::<PreviewResponse>(&format!("{path}/preview?count={RUNS}"))
            .await?
            .run_times
    } else {
        Vec::new()
    };
    let task = one.schedule.task.as_ref();
    let callback = task.and_then(|task| task.callback.as_ref());
    let text = task.map(serde_json::to_string).transpose();
    let text = text.map_err(|error| Failure::internal(error.to_string()))?;
    written(&Page {
        frame: visit.frame(),
        name: visible(&one.name),
        path: format!("/schedules/{}", visit.part()),
        state: states::schedule(one.state),
        is_live: one.state == ScheduleState::Live,
        is_paused: one.state == ScheduleState::Paused,
        words: visible(&one.description),
        times: times(&one),
        zone: zone(&one),
        to: to(task),
        to_path: callback.map(|to| format!("/callbacks/{}", part(to.name()))),
        pause: pause(&one),
        note: one.schedule.note.as_deref().map(visible),
        details: details(&one),
        ahead: ahead
            .iter()
            .map(|run| Ahead {
                utc: time::row(&run.utc),
                local: visible(&run.local),
            })
            .collect(),
        runs: runs.runs.iter().map(line).collect(),
        task: text.as_deref().map(of_json),
    })
}

fn times(one: &ScheduleResponse) -> String {
    let cron = one
        .schedule
        .cron
        .as_ref()
        .map(|cron| cron.texts().join("; "));
    let every = one
        .schedule
        .every
        .as_ref()
        .map(|every| format!("every {}", every.0));
    visible(&cron.or(every).unwrap_or_default())
}

fn pause(one: &ScheduleResponse) -> Option<String> {
    let pause = one.pause.as_ref()?;
    let who = pause
        .who
        .as_deref()
        .map_or_else(String::new, |who| format!(" by {who}"));
    let reason = pause
        .reason
        .as_deref()
        .map_or_else(String::new, |why| format!(": {why}"));
    Some(visible(&format!("paused{who}{reason}")))
}

fn details(one: &ScheduleResponse) -> Vec<(&'static str, String)> {
    let set = &one.schedule;
    let mut all = Vec::new();
    let mut add = |name, text: Option<String>| all.extend(text.map(|text| (name, visible(&text))));
    add(
        "overlap",
        set.overlap
            .map(|overlap| format!("{overlap:?}").to_lowercase()),
    );
    add(
        "missed times",
        set.missed
            .map(|missed| format!("{missed:?}").to_lowercase()),
    );
    add("jitter", set.jitter.as_ref().map(|text| text.0.clone()));
    add("limit", set.limit.map(grouped));
    add("first", set.start_time.as_ref().map(|text| text.0.clone()));
    add("last", set.end_time.as_ref().map(|text| text.0.clone()));
    add(
        "on failure",
        set.pause_on_failure.then(|| "pauses".to_owned()),
    );
    add("runs so far", Some(grouped(one.runs)));
    add("skipped", Some(grouped(one.runs_skipped)));
    add("missed", Some(grouped(one.runs_missed)));
    add("zone data", Some(one.time_zone_version.clone()));
    all
}

fn line(run: &RunResponse) -> Run {
    let shown = match (run.state, run.reason.as_deref()) {
        (Some(state), _) => states::task(state),
        (None, Some("skipped")) => Shown {
            class: "off",
            word: "skipped: another had not ended",
        },
        (None, _) => Shown {
            class: "off",
            word: "not kept any more",
        },
    };
    Run {
        id: run.id.clone(),
        scheduled: time::row(&run.scheduled_time),
        shown,
        cause: match run.cause {
            RunCause::Schedule => "its time",
            RunCause::Trigger => "a person",
            RunCause::Backfill => "a backfill",
        },
        has_task: run.state.is_some(),
    }
}
