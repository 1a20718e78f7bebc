//! The pages of jobs show bulk work with its progress, and stop it.

use askama::Template;

use super::rows::{Row, written};
use crate::{
    api::job::{JobResponse, JobState, ListJobsResponse},
    http::ui::{
        gate::Failure,
        parts::{
            chart,
            frame::{Frame, with},
            query::word,
            states::{self, Shown},
            text::{grouped, visible},
            time,
        },
        visit::Visit,
    },
    limits::PAGE_LIST_ROWS_MAX,
};

struct Line {
    id: String,
    kind: &'static str,
    dry_run: bool,
    state: Shown,
    about: String,
    done: String,
    failed: String,
    skipped: String,
    total: String,
    gauge: String,
    created: String,
    ended: String,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "jobs.html", config = "src/http/ui/askama.toml")]
struct List {
    frame: Frame,
    lines: Vec<Line>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "job.html", config = "src/http/ui/askama.toml")]
struct One {
    frame: Frame,
    job: Line,
    rate: String,
    goes_on: bool,
    is_paused: bool,
    /// A dry run that is over can be done in earnest.
    can_do: bool,
    sample: Vec<Row>,
    times: Vec<String>,
    search: String,
}

/// Shows the jobs, the newest first.
pub(in crate::http::ui) async fn list(visit: &Visit) -> Result<String, Failure> {
    let mut path = format!("/v1/jobs?page_size={PAGE_LIST_ROWS_MAX}");
    if let Some(token) = visit.parameter("page") {
        path = with(&path, "page_token", &token);
    }
    let list: ListJobsResponse = visit.get(&path).await?;
    let next = list.next_page_token.as_deref();
    written(&List {
        frame: visit.frame(),
        lines: list.jobs.iter().map(line).collect(),
        next: next.map(|token| with("/jobs", "page", token)),
    })
}

/// Shows a job.
pub(in crate::http::ui) async fn one(visit: &Visit) -> Result<String, Failure> {
    let job: JobResponse = visit.get(&format!("/v1/jobs/{}", visit.part())).await?;
    let sample = job.sample.iter().flatten();
    let times = job.sample_times.iter().flatten();
    written(&One {
        frame: visit.frame(),
        rate: job.rate_per_second.map_or_else(
            || "as fast as it can".to_owned(),
            |rate| format!("{rate} a second at most"),
        ),
        goes_on: !job.state.has_ended(),
        is_paused: job.state == JobState::Paused,
        can_do: job.dry_run && job.state == JobState::Completed && job.schedule.is_none(),
        sample: sample.map(Row::of).collect(),
        times: times.map(|text| time::of(Some(text))).collect(),
        search: with("/tasks", "q", &words(&job)),
        job: line(&job),
    })
}

/// Writes the filter of a job as a query of the search box.
fn words(job: &JobResponse) -> String {
    let filter = &job.filter;
    let mut words = Vec::new();
    let mut add = |name, value: Option<&str>| words.extend(value.map(|value| word(name, value)));
    add("callback", filter.callback.as_deref());
    add("collection", filter.collection.as_deref());
    add(
        "state",
        filter.state.map(crate::api::task_state::TaskState::name),
    );
    add("error", filter.error.as_deref());
    add(
        "from",
        filter.start_time_from.as_ref().map(|text| text.0.as_str()),
    );
    add(
        "to",
        filter.start_time_to.as_ref().map(|text| text.0.as_str()),
    );
    for (name, value) in filter.labels.iter().flatten() {
        add("label", Some(&format!("{name}={value}")));
    }
    words.join(" ")
}

fn line(job: &JobResponse) -> Line {
    let worked = job.done + job.failed + job.skipped;
    let total = job.total_estimate;
    let class = if job.failed > 0 { "warn" } else { "run" };
    let of_schedule = job
        .schedule
        .as_deref()
        .map(|name| format!("schedule {name}"));
    let about = of_schedule.unwrap_or_else(|| words(job));
    Line {
        id: job.id.clone(),
        kind: job.kind.name(),
        dry_run: job.dry_run,
        state: states::job(job.state),
        about: if about.is_empty() {
            "every task".to_owned()
        } else {
            visible(&about)
        },
        done: grouped(job.done),
        failed: grouped(job.failed),
        skipped: grouped(job.skipped),
        total: total.map_or_else(|| "not known yet".to_owned(), grouped),
        gauge: total.map_or_else(String::new, |total| {
            let seen = if job.dry_run { total } else { worked };
            chart::gauge(seen, total, class, "Tasks that were worked on")
        }),
        created: time::row(&job.create_time),
        ended: job.end_time.as_ref().map_or_else(String::new, time::row),
        error: job.error.as_deref().map(visible),
    }
}
