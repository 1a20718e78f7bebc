//! The page of a task shows its life, its attempts, its payload as it was sent, its relations, and what can be done.

use askama::Template;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    rows::{Row, callback, target, written},
    why,
};
use crate::{
    api::{
        target::TargetResponse,
        task_list::ListTasksResponse,
        task_response::{AttemptResponse, TaskResponse},
        task_state::{TaskState, TreeState},
        text::DurationText,
    },
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, part, with},
            json,
            life::{self, Life},
            query::word,
            states::{self, Shown},
            text::{bounded, grouped, hex, span, visible},
            time,
        },
        visit::Visit,
    },
    limits::{PAGE_HEX_BYTES_MAX, PAGE_TEXT_BYTES_MAX},
};

/// Children that are listed.
const CHILDREN: usize = 20;

/// A text of another one, such as a payload, for a page.
pub(super) struct Content {
    /// Its media type, or what it is.
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) size: String,
    /// The text is short enough to stand open.
    pub(super) is_open: bool,
    /// Bytes that are left out.
    pub(super) left_out: Option<String>,
}

struct Attempt {
    number: u32,
    shown: Shown,
    worker: String,
    claimed: String,
    took: String,
    error: Option<String>,
    answer: Option<String>,
}

/// A line of the details: its name, and its value as HTML.
struct Detail {
    name: &'static str,
    html: String,
}

/// The actions that the task and the reader's rights allow.
#[derive(Default)]
struct Acts {
    run: bool,
    redrive: bool,
    cancel: bool,
    has_children: bool,
    shift: bool,
    redeliver: bool,
    delete: bool,
    retry: bool,
    /// The attempt that a new round follows.
    reopen: Option<u32>,
}

#[derive(Template)]
#[template(path = "task.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    id: String,
    to: String,
    to_path: Option<String>,
    state: Shown,
    tree: Option<&'static str>,
    cancel_requested: bool,
    error: Option<String>,
    life: Life,
    details: Vec<Detail>,
    attempts: Vec<Attempt>,
    dropped: u32,
    payload: Option<Content>,
    payload_hidden: bool,
    result: Option<Content>,
    progress: Option<Content>,
    relations: Vec<Detail>,
    children: Vec<Row>,
    acts: Acts,
    any: bool,
    why: Option<why::Why>,
}

/// Shows a task.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let id = visit.part();
    let task: TaskResponse = visit.get(&format!("/v1/tasks/{id}?view=FULL")).await?;
    let children = children(visit, &task).await?;
    let why = why::of(visit, &task).await?;
    let acts = acts(visit, &task);
    let name = callback(&task.target);
    written(&Page {
        to: target(&task.target),
        to_path: name.map(|name| format!("/callbacks/{}", part(name))),
        state: states::task(task.state),
        tree: tree(task.tree_state),
        cancel_requested: task.cancel_requested,
        error: task
            .error
            .as_deref()
            .map(|error| visible(bounded(error, PAGE_TEXT_BYTES_MAX).0)),
        life: life::of(&task, visit.now),
        details: details(visit, &task),
        attempts: task.attempts.iter().rev().map(attempt).collect(),
        dropped: task.attempts_dropped,
        payload: payload(&task),
        payload_hidden: !visit.rights.payloads,
        result: result(&task),
        progress: task
            .progress
            .as_ref()
            .map(|progress| of_json(progress.get())),
        relations: relations(visit, &task),
        children,
        why,
        any: acts.run
            || acts.redrive
            || acts.cancel
            || acts.shift
            || acts.redeliver
            || acts.delete
            || acts.retry
            || acts.reopen.is_some(),
        acts,
        id: task.id,
        frame: visit.frame(),
    })
}

const fn tree(state: Option<TreeState>) -> Option<&'static str> {
    match state {
        None | Some(TreeState::None) => None,
        Some(TreeState::WaitingForChildren) => Some("its tree goes on"),
        Some(TreeState::Completed) => Some("its tree is completed"),
        Some(TreeState::Faulted) => Some("its tree is faulted"),
        Some(TreeState::Cancelled) => Some("its tree is cancelled"),
    }
}

async fn children(visit: &Visit, task: &TaskResponse) -> Result<Vec<Row>, Failure> {
    if tree(task.tree_state).is_none() || !visit.rights.whole {
        return Ok(Vec::new());
    }
    let path = format!("/v1/tasks?parent={}&page_size={CHILDREN}", visit.part());
    let list: ListTasksResponse = visit.get(&path).await?;
    Ok(list.tasks.iter().map(Row::of).collect())
}

fn acts(visit: &Visit, task: &TaskResponse) -> Acts {
    let rights = visit.rights;
    if !rights.produce {
        return Acts::default();
    }
    let waits = matches!(task.state, TaskState::Scheduled | TaskState::Retrying);
    let dead = task.state == TaskState::Dead;
    let is_http = matches!(task.target, TargetResponse::Http { .. });
    let tracked = task.target.is_tracked();
    let in_tree = task.parent.is_some() || task.tree_state.is_some();
    let ran_well = matches!(
        task.state,
        TaskState::Succeeded | TaskState::WaitingForChildren
    );
    let tree_goes_on = task.tree_state == Some(TreeState::WaitingForChildren);
    Acts {
        run: waits,
        redrive: dead,
        cancel: (states::is_open(task.state) && (tracked || waits)) || tree_goes_on,
        has_children: tree(task.tree_state).is_some() && rights.whole,
        shift: waits,
        redeliver: is_http && !states::is_open(task.state),
        delete: dead && rights.operate,
        retry: task.tree_state == Some(TreeState::Faulted) && rights.whole,
        reopen: (rights.whole && ran_well && in_tree).then_some(task.attempt),
    }
}

fn attempt(attempt: &AttemptResponse) -> Attempt {
    let claimed = attempt.claim_time.as_ref().and_then(time::read);
    let ended = attempt.end_time.as_ref().and_then(time::read);
    let took = claimed.zip(ended);
    Attempt {
        number: attempt.attempt,
        shown: states::attempt(attempt.outcome.as_deref()),
        worker: attempt.worker.as_deref().map_or_else(String::new, visible),
        claimed: time::of(attempt.claim_time.as_ref()),
        took: took.map_or_else(|| "–".to_owned(), |(from, to)| span(to.since(from))),
        error: attempt.error.as_deref().map(visible),
        answer: attempt.status.map(|status| {
            let text = attempt
                .response
                .as_deref()
                .map_or_else(String::new, visible);
            format!("HTTP {status}\n{text}")
        }),
    }
}

/// Escapes a text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// Writes a link; the path is one of these pages.
pub(super) fn link(visit: &Visit, path: &str, text: &str) -> String {
    let (base, path) = (&visit.head.base, escaped(path));
    format!("<a href=\"{base}{path}\"><bdi>{}</bdi></a>", escaped(text))
}

fn found(visit: &Visit, name: &str, value: &str) -> String {
    link(visit, &with("/tasks", "q", &word(name, value)), value)
}

fn details(visit: &Visit, task: &TaskResponse) -> Vec<Detail> {
    let mut all = Vec::new();
    let mut add = |name, html: Option<String>| {
        all.extend(html.map(|html| Detail { name, html }));
    };
    let text = |text: &String| format!("<bdi>{}</bdi>", escaped(text));
    let long = |text: &DurationText| escaped(&text.0);
    add("start", Some(time::of(Some(&task.start_time))));
    if task.effective_start_time != task.start_time {
        add(
            "next start",
            Some(time::of(Some(&task.effective_start_time))),
        );
    }
    add("key", task.key.as_ref().map(text));
    add("sequence", task.ordering_key.as_ref().map(text));
    add(
        "collection",
        task.collection
            .as_ref()
            .map(|name| found(visit, "collection", name)),
    );
    add(
        "priority",
        Some(format!("{:?}", task.priority).to_lowercase()),
    );
    add(
        "attempts",
        Some(format!("{} of {}", task.attempt, task.max_attempts)),
    );
    add("worker", task.worker.as_ref().map(text));
    add("reason", task.reason.as_ref().map(text));
    add(
        "generation",
        (task.generation > 0).then(|| task.generation.to_string()),
    );
    for (name, value) in &task.labels {
        let label = word("label", &format!("{name}={value}"));
        let shown = format!("{name}={value}");
        add(
            "label",
            Some(link(visit, &with("/tasks", "q", &label), &shown)),
        );
    }
    add("claim timeout", task.claim_timeout.as_ref().map(long));
    add(
        "heartbeat timeout",
        task.heartbeat_timeout.as_ref().map(long),
    );
    add("attempt timeout", task.attempt_timeout.as_ref().map(long));
    add("expires after", task.expire_after.as_ref().map(long));
    add("kept for", task.retention.as_ref().map(long));
    add("kept when dead", task.dead_retention.as_ref().map(long));
    add("request", request(&task.target));
    all
}

/// Returns the request of a task that is delivered over HTTP.
fn request(target: &TargetResponse) -> Option<String> {
    match target {
        TargetResponse::Http { url, method, .. } => {
            Some(format!("{} <bdi>{}</bdi>", escaped(method), escaped(url)))
        }
        TargetResponse::Callback { .. } | TargetResponse::Kafka { .. } => None,
    }
}

fn relations(visit: &Visit, task: &TaskResponse) -> Vec<Detail> {
    let task_link = |id: &String| link(visit, &format!("/tasks/{}", part(id)), id);
    let mut all = Vec::new();
    let mut add = |name, html: String| all.push(Detail { name, html });
    if let Some(parent) = &task.parent {
        add("child of", task_link(parent));
    }
    if let Some(previous) = &task.previous {
        add("follows", task_link(&previous.id));
    }
    if let Some(name) = &task.schedule {
        let path = format!("/schedules/{}", part(name));
        add("run of", link(visit, &path, name));
        add("stands for", time::of(task.scheduled_time.as_ref()));
    }
    if let Some(after) = &task.after {
        let open = after.open.map_or_else(String::new, |open| {
            format!(", {} not ended", grouped(u64::from(open)))
        });
        add(
            "waits for",
            format!("{} tasks{open}", grouped(u64::from(after.tasks))),
        );
        let ids = if after.open_ids.is_empty() {
            &after.ids
        } else {
            &after.open_ids
        };
        for id in ids.iter().take(CHILDREN) {
            add("", task_link(id));
        }
        if let Some(deadline) = &after.deadline {
            add("until", time::of(Some(deadline)));
        }
    }
    for follow in &task.then {
        let states = follow
            .states
            .iter()
            .map(|state| format!("{state:?}").to_lowercase());
        let states: Vec<String> = states.collect();
        let to = follow
            .task
            .callback
            .as_ref()
            .map_or("another task", |to| to.name());
        let html = match &follow.id {
            Some(id) => task_link(id),
            None => format!("<bdi>{}</bdi>", escaped(to)),
        };
        add(
            "then",
            format!("{html} when {}", escaped(&states.join(" or "))),
        );
    }
    all
}

/// Shows JSON in lines.
pub(super) fn of_json(raw: &str) -> Content {
    let (text, left_out) = bounded(raw, PAGE_TEXT_BYTES_MAX);
    let text = if left_out == 0 {
        json::laid_out(text)
    } else {
        text.to_owned()
    };
    content("JSON".to_owned(), visible(&text), raw.len(), left_out)
}

fn of_base64(encoded: &str, kind: &str) -> Content {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let readable = str::from_utf8(&bytes)
        .ok()
        .filter(|_| kind.starts_with("text/"));
    match readable {
        Some(text) => {
            let (shown, left_out) = bounded(text, PAGE_TEXT_BYTES_MAX);
            content(kind.to_owned(), visible(shown), bytes.len(), left_out)
        }
        None => {
            let shown = bytes
                .get(..bytes.len().min(PAGE_HEX_BYTES_MAX))
                .unwrap_or_default();
            content(
                kind.to_owned(),
                hex(shown),
                bytes.len(),
                bytes.len() - shown.len(),
            )
        }
    }
}

fn content(kind: String, text: String, size: usize, left_out: usize) -> Content {
    const OPEN_LINES: usize = 40;
    Content {
        kind,
        is_open: text.lines().count() <= OPEN_LINES,
        text,
        size: format!("{} bytes", grouped(size as u64)),
        left_out: (left_out > 0).then(|| grouped(left_out as u64)),
    }
}

fn payload(task: &TaskResponse) -> Option<Content> {
    let media = task
        .content_type
        .as_deref()
        .unwrap_or("application/octet-stream");
    let json = task.payload.as_ref().map(|raw| of_json(raw.get()));
    let bytes = task.payload_base64.as_deref();
    json.or_else(|| bytes.map(|encoded| of_base64(encoded, media)))
}

fn result(task: &TaskResponse) -> Option<Content> {
    let media = task
        .result_content_type
        .as_deref()
        .unwrap_or("application/octet-stream");
    let json = task.result.as_ref().map(|raw| of_json(raw.get()));
    let bytes = task.result_base64.as_deref();
    json.or_else(|| bytes.map(|encoded| of_base64(encoded, media)))
}

/// Returns the payload of a task as it was sent, with its media type.
pub(in crate::http::ui) async fn sent(visit: &Visit) -> Result<(String, Vec<u8>), Failure> {
    let id = visit.part();
    let task: TaskResponse = visit.get(&format!("/v1/tasks/{id}?view=FULL")).await?;
    if let Some(raw) = &task.payload {
        return Ok(("json".to_owned(), raw.get().as_bytes().to_vec()));
    }
    let bytes = task
        .payload_base64
        .as_deref()
        .map(|encoded| STANDARD.decode(encoded));
    match bytes {
        Some(Ok(bytes)) => Ok(("bin".to_owned(), bytes)),
        _ => Err(Failure::not_found(
            "the task has no payload, or your key does not show it",
        )),
    }
}
