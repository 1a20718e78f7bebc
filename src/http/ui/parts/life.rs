//! The life of a task is drawn as its steps with their times, and as a strip that shows where the time has gone.

use std::time::Duration;

use super::{
    chart::{self, Segment},
    states::{self, Shown},
    text::{short, span, visible},
    time,
};
use crate::{
    api::{task_response::AttemptResponse, task_response::TaskResponse, task_state::TaskState},
    model::time::Millis,
};

/// Characters of an error in a step; the attempt shows all of it.
const ERROR_CHARS: usize = 160;

/// A step in the life of a task.
#[derive(Debug, Clone)]
pub(in crate::http::ui) struct Step {
    pub(in crate::http::ui) class: &'static str,
    pub(in crate::http::ui) name: String,
    /// The element of its time.
    pub(in crate::http::ui) time: String,
    /// How long after the step before it came.
    pub(in crate::http::ui) gap: Option<String>,
    pub(in crate::http::ui) note: String,
}

/// The drawing of a life.
#[derive(Debug, Clone, Default)]
pub(in crate::http::ui) struct Life {
    pub(in crate::http::ui) steps: Vec<Step>,
    /// SVG; empty where nothing has happened yet.
    pub(in crate::http::ui) strip: String,
    /// The sums, in words.
    pub(in crate::http::ui) sums: String,
}

/// The steps as they are put together.
struct Steps {
    steps: Vec<Step>,
    last: Option<Millis>,
    now: Millis,
}

impl Steps {
    fn add(&mut self, shown: Shown, name: impl Into<String>, at: Millis, note: String) {
        let gap = self.last.map(|last| at.since(last));
        let gap = gap.filter(|gap| !gap.is_zero());
        self.steps.push(Step {
            class: shown.class,
            name: name.into(),
            time: if at > self.now {
                time::ahead(at)
            } else {
                time::at(at)
            },
            gap: gap.map(|gap| format!("+{}", span(gap))),
            note,
        });
        self.last = Some(at);
    }
}

const fn step(class: &'static str) -> Shown {
    Shown { class, word: "" }
}

/// Draws the life of a task up to now.
pub(in crate::http::ui) fn of(task: &TaskResponse, now: Millis) -> Life {
    let created = time::read(&task.create_time);
    let asked = time::read(&task.start_time);
    let (Some(created), Some(asked)) = (created, asked) else {
        return Life::default();
    };
    let due = asked.max(created);
    let mut steps = Steps {
        steps: Vec::new(),
        last: None,
        now,
    };
    steps.add(step("wait"), "registered", created, String::new());
    let is_due = task.fire_time.is_some() || due <= now;
    let name = if is_due { "due" } else { "will be due" };
    let asked_before = asked < created;
    let note = if asked_before {
        "its start had passed already"
    } else {
        ""
    };
    steps.add(step("wait"), name, due, note.to_owned());
    // Only the last hand-over is known: it stands here as long as it is the first one.
    let claimed = task
        .attempts
        .first()
        .and_then(|first| first.claim_time.as_ref());
    let claimed = claimed.and_then(time::read);
    let fired = task.fire_time.as_ref().and_then(time::read);
    if let Some(fired) = fired.filter(|fired| claimed.is_none_or(|claimed| *fired <= claimed)) {
        steps.add(step("ready"), "handed over", fired, String::new());
    }
    if task.attempts_dropped > 0 {
        let note = format!("{} earlier attempts are not kept", task.attempts_dropped);
        let at = steps.last.unwrap_or(due);
        steps.add(step("off"), "earlier attempts", at, note);
    }
    for attempt in &task.attempts {
        attempted(&mut steps, attempt);
    }
    ended(&mut steps, task, now);
    let segments = segments(task, due, now);
    Life {
        strip: strip(&segments),
        sums: sums(&segments),
        steps: steps.steps,
    }
}

fn attempted(steps: &mut Steps, attempt: &AttemptResponse) {
    let Some(claimed) = attempt.claim_time.as_ref().and_then(time::read) else {
        return;
    };
    let worker = attempt
        .worker
        .as_deref()
        .map_or_else(String::new, |worker| format!("by {}", short(worker, 64)));
    let name = format!("attempt {}", attempt.attempt);
    steps.add(step("run"), name, claimed, worker);
    if let Some(end) = attempt.end_time.as_ref().and_then(time::read) {
        let shown = states::attempt(attempt.outcome.as_deref());
        let error = attempt.error.as_deref();
        let error = error.map_or_else(String::new, |error| short(error, ERROR_CHARS));
        steps.add(shown, shown.word, end, error);
    }
}

fn ended(steps: &mut Steps, task: &TaskResponse, now: Millis) {
    let shown = states::task(task.state);
    let reason = task.reason.as_deref().map_or_else(String::new, visible);
    if let Some(end) = task.end_time.as_ref().and_then(time::read) {
        let told = steps
            .steps
            .last()
            .is_some_and(|last| last.name == shown.word);
        if !told {
            steps.add(shown, shown.word, end, reason);
        }
        return;
    }
    if task.state == TaskState::Retrying
        && let Some(next) = time::read(&task.effective_start_time)
        && next > now
    {
        steps.add(shown, "next attempt", next, String::new());
    }
}

/// Returns the spans since the task was due: waiting and running, one after the other.
fn segments(task: &TaskResponse, due: Millis, now: Millis) -> Vec<Segment> {
    let end = task.end_time.as_ref().and_then(time::read);
    let end = end.unwrap_or(now);
    if end <= due {
        return Vec::new();
    }
    let mut segments = Vec::new();
    let mut at = due;
    let mut first = true;
    let mut add = |class, name: &str, from: Millis, to: Millis| {
        let took = to.since(from);
        if !took.is_zero() {
            segments.push(Segment {
                class,
                title: format!("{name}: {}", span(took)),
                millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
        }
    };
    for attempt in &task.attempts {
        let Some(claimed) = attempt.claim_time.as_ref().and_then(time::read) else {
            continue;
        };
        if first && task.attempts_dropped > 0 {
            at = claimed;
        }
        let name = if first {
            "waited for a worker"
        } else {
            "waited for the next attempt"
        };
        add("wait", name, at, claimed);
        let ended = attempt.end_time.as_ref().and_then(time::read);
        let ended = ended.unwrap_or(end).max(claimed);
        let shown = states::attempt(attempt.outcome.as_deref());
        add(
            shown.class,
            &format!("attempt {}", attempt.attempt),
            claimed,
            ended,
        );
        (at, first) = (ended.max(at), false);
    }
    let running = task
        .attempts
        .last()
        .is_some_and(|last| last.end_time.is_none());
    if !running && task.end_time.is_none() {
        add("wait", "waiting", at, end);
    }
    segments
}

fn strip(segments: &[Segment]) -> String {
    if segments.is_empty() {
        return String::new();
    }
    chart::strip(segments, "Where the time has gone since the task was due")
}

fn sums(segments: &[Segment]) -> String {
    if segments.is_empty() {
        return String::new();
    }
    let of = |waits: bool| {
        let same = segments.iter().filter(|one| (one.class == "wait") == waits);
        Duration::from_millis(same.map(|one| one.millis).sum())
    };
    format!(
        "since it was due: waited {}, ran {}",
        span(of(true)),
        span(of(false))
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(more: &serde_json::Value) -> TaskResponse {
        let mut all = json!({
            "id": "019a9d5a-0000-8000-8000-000000000007", "target": {"type": "callback", "name": "mail"},
            "state": "retrying", "start_time": "2030-01-01T00:00:00Z", "effective_start_time": "2030-01-01T00:00:30Z",
            "create_time": "2029-12-31T23:59:00Z", "fire_time": "2030-01-01T00:00:00.002Z", "attempt": 2, "max_attempts": 5,
            "priority": "normal", "generation": 0,
            "attempts": [
                {"attempt": 1, "claim_time": "2030-01-01T00:00:00.010Z", "end_time": "2030-01-01T00:00:01Z",
                 "outcome": "retry", "error": "<b>"},
                {"attempt": 2, "claim_time": "2030-01-01T00:00:03Z", "end_time": "2030-01-01T00:00:04Z", "outcome": "lost"}]
        });
        let fields = all.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn now() -> Millis {
        time::read(&"2030-01-01T00:00:10Z".into()).unwrap()
    }

    #[test]
    fn the_steps_come_in_order_and_the_parts_add_up() {
        let life = of(&task(&json!({})), now());
        let names: Vec<&str> = life.steps.iter().map(|step| step.name.as_str()).collect();
        let wanted = [
            "registered",
            "due",
            "handed over",
            "attempt 1",
            "to be tried again",
            "attempt 2",
            "lost",
            "next attempt",
        ];
        assert_eq!(names, wanted);
        assert_eq!(life.steps[1].gap.as_deref(), Some("+1 min"));
        assert_eq!(life.sums, "since it was due: waited 8.0 s, ran 2.0 s");
        assert!(!life.strip.contains("<b>"));
    }

    #[test]
    fn no_time_is_negative() {
        let odd = json!({
            "create_time": "2030-01-01T00:00:09Z", "end_time": "2029-12-31T00:00:00Z", "state": "cancelled",
        });
        let life = of(&task(&odd), now());
        assert!(life.strip.is_empty(), "{}", life.strip);
        let ahead =
            json!({"start_time": "2031-01-01T00:00:00Z", "attempts": [], "state": "scheduled"});
        let mut ahead = task(&ahead);
        ahead.fire_time = None;
        let life = of(&ahead, now());
        assert_eq!(life.steps[1].name, "will be due");
        assert!(life.strip.is_empty());
    }
}
