//! The page of callbacks lists those that are set up, have due tasks, or have tasks that come next.

use askama::Template;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::rows::{callback, written};
use crate::{
    api::{
        callback::{CallbackActivity, CallbackResponse, GateState, ListCallbacksResponse},
        stats::StatsResponse,
        task_list::ListTasksResponse,
    },
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, part, with},
            text::{grouped, visible},
            time,
        },
        visit::Visit,
    },
    limits::PAGE_LIST_ROWS_MAX,
};

/// Callbacks that are read at once.
const READS_AT_ONCE: usize = 8;

/// The nearest tasks whose callbacks are shown, too.
const TASKS_LOOKED_AT: usize = 200;

struct Line {
    name: String,
    path: String,
    gate: &'static str,
    gate_class: &'static str,
    workers: String,
    no_worker: bool,
    ready: String,
    oldest: String,
    running: String,
    retrying: String,
    held: String,
    dead: String,
    late: String,
}

#[derive(Template)]
#[template(path = "callbacks.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    lines: Vec<Line>,
    next: Option<String>,
}

/// Shows the callbacks.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let token = visit.parameter("page");
    let mut path = format!("/v1/callbacks?page_size={PAGE_LIST_ROWS_MAX}");
    if let Some(token) = &token {
        path = with(&path, "page_token", token);
    }
    let listed: ListCallbacksResponse = visit.get(&path).await?;
    let names = listed.callbacks.iter().map(|one| one.name.clone());
    let mut names: Vec<String> = names.collect();
    if token.is_none() {
        names.extend(others(visit).await?);
        names.sort();
        names.dedup();
    }
    let reads = stream::iter(names).map(|name| async move {
        let path = format!("/v1/callbacks/{}", part(&name));
        match visit.get::<CallbackResponse>(&path).await {
            Ok(callback) => Ok(Some(callback)),
            // It has gone meanwhile, or is another's.
            Err(failure) if failure.status.is_client_error() => Ok(None),
            Err(failure) => Err(failure),
        }
    });
    let found: Vec<Option<CallbackResponse>> = reads.buffered(READS_AT_ONCE).try_collect().await?;
    let next = listed.next_page_token.as_deref();
    written(&Page {
        frame: visit.frame(),
        lines: found.iter().flatten().map(line).collect(),
        next: next.map(|token| with("/callbacks", "page", token)),
    })
}

/// Returns callbacks for which nothing is set: those with due tasks, and those of the nearest tasks.
pub(super) async fn others(visit: &Visit) -> Result<Vec<String>, Failure> {
    if !visit.rights.whole {
        return Ok(visit.who.callbacks.clone().unwrap_or_default());
    }
    let path = format!("/v1/tasks?page_size={TASKS_LOOKED_AT}");
    let tasks: ListTasksResponse = visit.get(&path).await?;
    let of_tasks = tasks.tasks.iter().filter_map(|task| callback(&task.target));
    let mut names: Vec<String> = of_tasks.map(str::to_owned).collect();
    if visit.rights.look {
        let stats: StatsResponse = visit.get("/v1/stats").await?;
        names.extend(
            stats
                .unclaimed
                .callbacks
                .into_iter()
                .map(|one| one.callback),
        );
    }
    Ok(names)
}

/// Returns how a gate is shown.
pub(super) const fn gate(state: GateState) -> (&'static str, &'static str) {
    match state {
        GateState::Open => ("good", "open"),
        GateState::Paused => ("warn", "paused"),
        GateState::Dropping => ("bad", "dropping"),
    }
}

fn line(one: &CallbackResponse) -> Line {
    let (gate_class, gate) = gate(one.gate);
    let figure = |of: fn(&CallbackActivity) -> u64| {
        let figure = one.activity.as_ref().map(of);
        figure.map_or_else(|| "–".to_owned(), grouped)
    };
    let activity = one.activity.as_ref();
    let workers = activity.map_or(0, |activity| activity.workers.len());
    let ready = activity.map_or(0, |activity| activity.ready);
    let is_http = one
        .configuration
        .http
        .as_ref()
        .is_some_and(|http| http.url.is_some());
    let oldest = activity.and_then(|activity| activity.oldest_due_time.as_ref());
    let late = activity.and_then(|activity| activity.lateness);
    Line {
        name: visible(&one.name),
        path: format!("/callbacks/{}", part(&one.name)),
        gate,
        gate_class,
        workers: if is_http {
            "delivered".to_owned()
        } else {
            workers.to_string()
        },
        no_worker: workers == 0 && ready > 0 && !is_http,
        ready: figure(|activity| activity.ready),
        oldest: oldest
            .and_then(time::read)
            .map_or_else(String::new, time::ago),
        running: figure(|activity| activity.running),
        retrying: figure(|activity| activity.retrying),
        held: figure(|activity| activity.held),
        dead: figure(|activity| activity.dead),
        late: late.map_or_else(|| "–".to_owned(), |late| format!("{} ms", late.p99_ms)),
    }
}
