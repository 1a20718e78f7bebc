//! The page of a callback shows its workers, figures, limits and gates, and has the forms to change them.

use std::borrow::Cow;

use askama::Template;
use serde_json::{Map, Value};

use super::{callbacks, rows::written};
use crate::{
    api::callback::{CallbackActivity, CallbackResponse, GateState},
    http::ui::{
        gate::Failure,
        parts::{
            chart,
            form::Field,
            frame::{Frame, with},
            query::word,
            text::{grouped, span, visible},
            time,
        },
        visit::Visit,
    },
};

/// The members of an answer that are settings, which a change sends back.
pub(in crate::http::ui) const SETTINGS: [&str; 19] = [
    "description",
    "max_attempts",
    "retry",
    "claim_timeout",
    "heartbeat_timeout",
    "attempt_timeout",
    "retention",
    "dead_retention",
    "expire_after",
    "priority",
    "labels",
    "rate",
    "max_in_flight",
    "indexed_labels",
    "notify",
    "http",
    "dead_letter_topic",
    "on_retry",
    "list_succeeded",
];

struct Gate {
    collection: Option<String>,
    class: &'static str,
    word: &'static str,
    since: String,
    until: Option<String>,
    who: String,
    reason: String,
}

struct Worker {
    name: String,
    version: String,
    polled: String,
}

struct Limit {
    name: &'static str,
    text: String,
    gauge: String,
}

struct Figure {
    name: &'static str,
    value: String,
    about: String,
    path: String,
}

#[derive(Template)]
#[template(path = "callback.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    name: String,
    path: String,
    description: Option<String>,
    class: &'static str,
    gate: &'static str,
    is_open: bool,
    gates: Vec<Gate>,
    figures: Vec<Figure>,
    limits: Vec<Limit>,
    workers: Vec<Worker>,
    fields: Vec<Field>,
    etag: String,
    /// The words of a refusal that belong to no field.
    wrong: Option<String>,
    /// The form stands open.
    is_editing: bool,
    partial: bool,
}

/// Shows a callback. One of which nothing is known is shown with the defaults, so that it can be set up.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    shown(visit, None).await
}

/// Shows a callback with a form as it was sent, and what was refused of it.
pub(in crate::http::ui) async fn shown(
    visit: &Visit,
    sent: Option<(Vec<Field>, String)>,
) -> Result<String, Failure> {
    let path = format!("/v1/callbacks/{}", visit.part());
    let (one, settings, etag) = match visit.read(&path).await {
        Ok(answer) => {
            let all: Map<String, Value> = answer.read()?;
            let etag = answer.etag().unwrap_or_default().to_owned();
            (Some(answer.read::<CallbackResponse>()?), all, etag)
        }
        Err(failure) if failure.code == "callback_not_found" => (None, Map::new(), String::new()),
        Err(failure) => return Err(failure),
    };
    let activity = one.as_ref().and_then(|one| one.activity.as_ref());
    let state = one.as_ref().map_or(GateState::Open, |one| one.gate);
    let (class, gate) = callbacks::gate(state);
    let is_editing = sent.is_some();
    let (fields, wrong) = match sent {
        Some((fields, wrong)) => (fields, Some(wrong).filter(|wrong| !wrong.is_empty())),
        None => (fields(&|name| text_of(&settings, name)), None),
    };
    let description = one
        .as_ref()
        .and_then(|one| one.configuration.description.as_deref());
    written(&Page {
        frame: visit.frame(),
        name: visible(&visit.name),
        path: format!("/callbacks/{}", visit.part()),
        description: description.map(visible),
        class,
        gate,
        is_open: state == GateState::Open,
        gates: one
            .iter()
            .flat_map(|one| &one.gates)
            .map(gate_line)
            .collect(),
        figures: figures(&visit.name, activity),
        limits: limits(one.as_ref()),
        workers: workers(activity),
        fields,
        etag,
        wrong,
        is_editing,
        partial: activity.is_some_and(|activity| activity.partial),
    })
}

fn gate_line(gate: &crate::api::callback::GateResponse) -> Gate {
    let (class, word) = callbacks::gate(gate.gate);
    Gate {
        collection: gate.collection.as_deref().map(visible),
        class,
        word,
        since: time::of(Some(&gate.since)),
        until: gate.until.as_ref().map(|until| time::of(Some(until))),
        who: gate.who.as_deref().map_or_else(String::new, visible),
        reason: gate.reason.as_deref().map_or_else(String::new, visible),
    }
}

fn figures(name: &str, activity: Option<&CallbackActivity>) -> Vec<Figure> {
    let Some(activity) = activity else {
        return Vec::new();
    };
    let found = |state: &str| {
        let query = format!("{} {}", word("callback", name), word("state", state));
        with("/tasks", "q", &query)
    };
    let figure = |name, value: u64, about: String, path| Figure {
        name,
        value: grouped(value),
        about,
        path,
    };
    let oldest = activity.oldest_due_time.as_ref().and_then(time::read);
    let oldest = oldest.map_or_else(String::new, |at| format!("oldest {}", time::ago(at)));
    let late = activity.lateness.map_or_else(String::new, |late| {
        format!(
            "late: half {} ms, 99 of 100 {} ms",
            late.p50_ms, late.p99_ms
        )
    });
    vec![
        figure("due", activity.ready, oldest, found("enqueued")),
        figure("running", activity.running, late, found("processing")),
        figure(
            "retrying",
            activity.retrying,
            String::new(),
            found("retrying"),
        ),
        figure(
            "held by a gate",
            activity.held,
            String::new(),
            String::new(),
        ),
        figure(
            "dead",
            activity.dead,
            String::new(),
            with("/dead-letters", "callback", name),
        ),
    ]
}

fn limits(one: Option<&CallbackResponse>) -> Vec<Limit> {
    let Some(one) = one else {
        return Vec::new();
    };
    let running = one.activity.as_ref().map_or(0, |activity| activity.running);
    let mut limits = Vec::new();
    if let Some(most) = one.configuration.max_in_flight {
        let whole = u64::from(most);
        let class = if running >= whole { "warn" } else { "run" };
        limits.push(Limit {
            name: "running at once",
            text: format!("{} of {}", grouped(running), grouped(whole)),
            gauge: chart::gauge(running, whole, class, "Running tasks of those that may run"),
        });
    }
    if let Some(rate) = &one.configuration.rate {
        let burst = rate
            .burst
            .map_or_else(String::new, |burst| format!(", {burst} at once"));
        limits.push(Limit {
            name: "claims a second",
            text: format!("{}{burst}", rate.per_second),
            gauge: String::new(),
        });
    }
    limits
}

fn workers(activity: Option<&CallbackActivity>) -> Vec<Worker> {
    let workers = activity.into_iter().flat_map(|activity| &activity.workers);
    let lines = workers.map(|worker| Worker {
        name: visible(&worker.name),
        version: worker
            .version
            .as_deref()
            .map_or_else(|| "–".to_owned(), visible),
        // Whole seconds: a page changes no more often than that.
        polled: span(std::time::Duration::from_secs(worker.last_poll_ms / 1000)),
    });
    lines.collect()
}

/// Returns a setting as a text of the form.
fn text_of(settings: &Map<String, Value>, name: &str) -> String {
    let pointer = pointer(name);
    let mut parts = pointer.split('/').skip(1);
    let mut found = parts.next().and_then(|part| settings.get(part));
    for part in parts {
        found = found.and_then(|value| value.get(part));
    }
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(all)) => {
            let texts = all.iter().filter_map(Value::as_str);
            texts.collect::<Vec<_>>().join(", ")
        }
        Some(Value::Object(all)) => {
            let lines = all
                .iter()
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
            lines.collect::<Vec<_>>().join("\n")
        }
        Some(other) => other.to_string(),
    }
}

/// Returns the place of a field in the request.
pub(in crate::http::ui) fn pointer(name: &str) -> Cow<'static, str> {
    match name {
        "per_second" => Cow::Borrowed("/rate/per_second"),
        "burst" => Cow::Borrowed("/rate/burst"),
        other => Cow::Owned(format!("/{other}")),
    }
}

/// The fields of the form for a line of text: name, label and hint.
const TEXTS: [(&str, &str, &str); 12] = [
    ("description", "Description", "For people."),
    (
        "max_attempts",
        "Attempts",
        "Before a task is dead; 10 unless it is said.",
    ),
    ("max_in_flight", "Running at once", "Tasks over it wait."),
    ("per_second", "Claims a second", "Tasks over it wait."),
    (
        "burst",
        "Claims at once after a pause",
        "Those of a second unless it is said.",
    ),
    (
        "attempt_timeout",
        "Longest attempt",
        "Such as 10m; for ever unless it is said.",
    ),
    (
        "heartbeat_timeout",
        "Lease of an attempt",
        "It ends so long after the last heartbeat.",
    ),
    (
        "claim_timeout",
        "Unclaimed for",
        "Then a task is published again.",
    ),
    (
        "expire_after",
        "Useful for",
        "So long after its start; for ever unless it is said.",
    ),
    ("retention", "Kept when ended", "Such as 7d."),
    (
        "dead_retention",
        "Kept when dead",
        "30 days unless it is said.",
    ),
    (
        "indexed_labels",
        "Labels that find tasks quickly",
        "Four at most, with commas between.",
    ),
];

/// Returns the fields of the form, with their values.
pub(in crate::http::ui) fn fields(value: &dyn Fn(&str) -> String) -> Vec<Field> {
    let texts = TEXTS.iter();
    let texts = texts.map(|(name, label, hint)| Field::text(name, label, value(name), hint));
    let priority = &["", "high", "normal", "low"];
    let on_retry = "Sequences while their first task retries";
    let more = [
        Field::choice("priority", "Priority", value("priority"), priority),
        Field::choice(
            "on_retry",
            on_retry,
            value("on_retry"),
            &["", "block", "skip"],
        ),
        Field::text(
            "labels",
            "Labels of every task",
            value("labels"),
            "A line each: name=value.",
        )
        .long(),
    ];
    texts.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_texts_of_the_form() {
        let settings = json!({
            "max_attempts": 5, "rate": {"per_second": 2.5}, "labels": {"a": "b", "c": "d"}, "indexed_labels": ["x", "y"],
        });
        let Value::Object(settings) = settings else {
            panic!("it is an object");
        };
        let text = |name: &str| text_of(&settings, name);
        assert_eq!(text("max_attempts"), "5");
        assert_eq!(text("per_second"), "2.5");
        assert_eq!(text("labels"), "a=b\nc=d");
        assert_eq!(text("indexed_labels"), "x, y");
        assert_eq!(text("burst"), "");
    }
}
