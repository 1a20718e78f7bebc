//! This conversion turns a task of the domain into an answer for clients.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    action_view::shown as deeds,
    chain,
    content::{self, Parts},
    join, masked, notify, target,
};
use crate::{
    api::{
        dependency::DependencyResponse,
        messages::MessageResponse,
        task_request::{Jitter, RetryPolicy},
        task_response::{
            AttemptResponse, CancelOutcome, RescheduleOutcome, TaskResponse, TaskState,
        },
        text::{DurationText, InstantText},
        tree::{TreeNodeResponse, TreeState},
        worker::View,
    },
    flow::base::api::{self, TaskView, VisibleState},
    http::error::{Code, Error},
    model::{
        backoff::{self, Backoff},
        history::{Attempt, Ending},
        join::reason as reason_of_wait,
        messages::Message,
        result::TaskResult,
        row::{State, TIMED_OUT, WORKER_LOST},
        state::{DROPPED, PARENT_FAILED},
        task::{Content, Spec},
        time::Millis,
    },
};

fn labels(content: &Content) -> BTreeMap<String, String> {
    content.labels.iter().cloned().collect()
}

fn parts(content: &Content) -> Parts {
    content::write(&content.payload, &content.content_type)
}

/// The parts that an answer about a task is made of: its content, the content for a full view, the task for a full view, the task
/// for a full view of one that is tracked, and the payload for a full view. A client that reads all of a task can register it
/// again as it is.
type Sources<'a> = (
    Option<&'a Content>,
    Option<&'a Content>,
    Option<&'a Arc<Spec>>,
    Option<&'a Arc<Spec>>,
    Parts,
);

fn sources(task: &TaskView, view: View) -> Sources<'_> {
    let content = task.content.as_ref().or_else(|| task.spec.content());
    let full = content.filter(|_| view == View::Full);
    let spec = (view == View::Full).then_some(&task.spec);
    let tracked = spec.filter(|spec| spec.target.is_tracked());
    let parts = full.map_or_else(Parts::default, parts);
    (content, full, spec, tracked, parts)
}

/// Converts a task. The basic view has no credentials.
#[must_use]
pub fn task_response(task: &TaskView, view: View) -> TaskResponse {
    seen(whole(task, view), view)
}

/// Leaves out what a view does not show.
fn seen(mut response: TaskResponse, view: View) -> TaskResponse {
    if view == View::Basic {
        masked::task(&mut response);
    }
    response
}

fn whole(task: &TaskView, view: View) -> TaskResponse {
    let (content, full, spec, tracked, parts) = sources(task, view);
    let shown = task.result.as_ref().map(shown_result).unwrap_or_default();
    let (actions, checks) = tracked.map(|_| deeds(task, view)).unwrap_or_default();
    TaskResponse {
        id: task.id.to_string(),
        outcome: None,
        target: target::response(&task.spec.target, full),
        key: task.spec.key.clone(),
        ordering_key: task.spec.ordering_key.clone(),
        parent: task.spec.parent().map(|parent| parent.to_string()),
        after_parent: task.spec.is_after_parent(),
        children_within: children_within(task),
        after: join::shown(task),
        tree_state: Some(tree_state(task)),
        tree_end_time: task.tree.map(|tree| tree.at.into()),
        collection: some_text(&task.spec.collection),
        schedule: scheduled(task).0,
        scheduled_time: scheduled(task).1,
        state: task.state.into(),
        start_time: asked_start(task).into(),
        effective_start_time: task.effective_start.into(),
        create_time: task.spec.create_time.into(),
        fire_time: task.fire_time.map(Into::into),
        claim_time: task.claim_time.map(Into::into),
        end_time: task.end_time.map(Into::into),
        attempt: task.attempt,
        max_attempts: task.spec.max_attempts,
        priority: task.spec.priority.into(),
        labels: content.map(labels).unwrap_or_default(),
        worker: some_text(&task.worker),
        progress: task.progress.as_ref().map(json_or_text),
        result: shown.json,
        result_base64: shown.base64,
        result_content_type: shown.content_type,
        result_bytes: shown.bytes,
        reason: reason(task).map(str::to_owned),
        waiting_for: None,
        error: task.error.clone(),
        cancel_requested: task.cancel_requested,
        generation: task.generation,
        attempts: Vec::new(),
        attempts_dropped: 0,
        payload: parts.payload,
        payload_base64: parts.payload_base64,
        content_type: parts.content_type,
        retry: tracked.map(|spec| retry_policy(&spec.backoff)),
        claim_timeout: tracked.map(|spec| DurationText::readable(spec.claim_timeout)),
        heartbeat_timeout: tracked.map(|spec| DurationText::readable(spec.heartbeat_timeout)),
        attempt_timeout: readable(tracked, |spec| spec.attempt_timeout),
        expire_after: readable(spec, |spec| spec.expire_after),
        retention: spec.map(|spec| DurationText::readable(spec.retention)),
        dead_retention: readable(tracked, |spec| spec.dead_retention),
        notify: tracked.and_then(|spec| spec.notify.as_ref().map(notify::response)),
        actions,
        checks,
        then: tracked.map_or_else(Vec::new, |_| chain::shown(task, view)),
        previous: full.and_then(chain::previous_of),
    }
}

/// How long a tree is held open for children to come.
fn children_within(task: &TaskView) -> Option<DurationText> {
    let kin = task.spec.kin.as_ref()?;
    kin.children_within.map(DurationText::readable)
}

/// The schedule that a task is a run of, and the time that it stands for.
fn scheduled(task: &TaskView) -> (Option<String>, Option<InstantText>) {
    let run = task.spec.scheduled.as_ref();
    run.map(|run| (run.schedule.clone(), run.time.into()))
        .unzip()
}

fn readable(
    spec: Option<&Arc<Spec>>,
    field: fn(&Spec) -> Option<Duration>,
) -> Option<DurationText> {
    field(spec?).map(DurationText::readable)
}

/// Converts a task, with its attempts.
#[must_use]
pub fn with_attempts(task: &TaskView, view: View) -> TaskResponse {
    let attempts = task.history.attempts.iter();
    let response = TaskResponse {
        then: chain::shown(task, view),
        attempts: attempts.map(attempt_response).collect(),
        attempts_dropped: task.history.dropped,
        ..whole(task, view)
    };
    seen(response, view)
}

fn attempt_response(attempt: &Attempt) -> AttemptResponse {
    let error = attempt.error.as_deref().or(match attempt.ending {
        Some(Ending::Lost) => Some(WORKER_LOST),
        Some(Ending::TimedOut) => Some(TIMED_OUT),
        _ => None,
    });
    AttemptResponse {
        attempt: attempt.attempt,
        worker: some_text(&attempt.worker),
        claim_time: attempt.claimed.map(Into::into),
        end_time: attempt.ended.map(Into::into),
        outcome: attempt.ending.map(|ending| ending.name().to_owned()),
        error: error.map(str::to_owned),
        status: attempt.answered.as_ref().map(|answered| answered.status),
        response: attempt
            .answered
            .as_ref()
            .map(|answered| answered.response.clone()),
        progress: None,
    }
}

/// Adds to the attempts of a task what the worker of each told last.
#[must_use]
pub(in crate::http) fn with_messages(
    mut response: TaskResponse,
    told: &[Vec<Message>],
) -> TaskResponse {
    for (attempt, told) in response.attempts.iter_mut().zip(told) {
        attempt.progress = told.last().map(|message| json_or_text(&message.note));
    }
    response
}

/// Converts a message of an attempt.
#[must_use]
pub(in crate::http) fn message_response(message: &Message) -> MessageResponse {
    MessageResponse::new(message.at.into(), json_or_text(&message.note))
}

fn retry_policy(backoff: &Backoff) -> RetryPolicy {
    RetryPolicy {
        initial: Some(DurationText::readable(backoff.initial)),
        factor: Some(f64::from(backoff.factor_milli) / 1000.0),
        max: Some(DurationText::readable(backoff.max)),
        jitter: Some(match backoff.jitter {
            backoff::Jitter::Full => Jitter::Full,
            backoff::Jitter::None => Jitter::None,
        }),
    }
}

/// The reason of an end that no call and no attempt has brought.
fn reason(task: &TaskView) -> Option<&'static str> {
    let error = task.error.as_deref().unwrap_or_default();
    let ended = matches!(task.run_state, Some(State::Cancelled | State::Failed));
    if ended && task.attempt == 0 && task.spec.after.is_some() {
        let waited = reason_of_wait(error);
        if waited.is_some() {
            return waited;
        }
    }
    if task.tree.is_some() && task.children_time_passed {
        return Some("children_time_passed");
    }
    if task.state != VisibleState::Cancelled {
        return None;
    }
    if error.starts_with(DROPPED) {
        Some("dropped")
    } else if error == PARENT_FAILED {
        Some("parent_failed")
    } else {
        task.replaced.then_some("replaced")
    }
}

pub(super) fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The fields of a result.
#[derive(Default)]
struct ShownResult {
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    content_type: Option<String>,
    bytes: Option<u64>,
}

fn shown_result(result: &TaskResult) -> ShownResult {
    let content_type = some_text(&result.content_type);
    let Some(bytes) = result.bytes() else {
        return ShownResult {
            content_type,
            bytes: result.apart().map(|(_, bytes)| bytes),
            ..ShownResult::default()
        };
    };
    let json = match &content_type {
        None => Some(json_or_text(bytes)),
        Some(text) => content::is_json(text)
            .then(|| content::raw(bytes))
            .flatten(),
    };
    ShownResult {
        base64: json.is_none().then(|| content::to_base64(bytes)),
        json,
        content_type,
        bytes: None,
    }
}

/// Converts a task that a claimed task waited for.
#[must_use]
pub(super) fn dependency_response(dependency: &api::Dependency) -> DependencyResponse {
    let shown = dependency
        .result
        .as_ref()
        .map(shown_result)
        .unwrap_or_default();
    let mut response = DependencyResponse::new(
        dependency.id.to_string(),
        dependency.state.map(Into::into),
        dependency.tree.map(notify::tree_outcome),
        dependency.gone,
    );
    response.result = shown.json;
    response.result_base64 = shown.base64;
    response.result_content_type = shown.content_type;
    response.result_bytes = shown.bytes;
    response
}

/// Adds a result to a node of a tree.
pub(super) fn add_result(node: &mut TreeNodeResponse, result: &TaskResult) {
    let shown = shown_result(result);
    node.result = shown.json;
    node.result_base64 = shown.base64;
    node.result_content_type = shown.content_type;
    node.result_bytes = shown.bytes;
}

/// Returns a result or a note as JSON. Those that came through this API are JSON; others are shown as text.
fn json_or_text(bytes: &Bytes) -> Box<RawValue> {
    content::raw(bytes)
        .or_else(|| serde_json::value::to_raw_value(&String::from_utf8_lossy(bytes)).ok())
        .unwrap_or_else(|| RawValue::NULL.to_owned())
}

impl From<VisibleState> for TaskState {
    fn from(state: VisibleState) -> Self {
        match state {
            VisibleState::Scheduled => Self::Scheduled,
            VisibleState::Enqueued => Self::Enqueued,
            VisibleState::Claimed => Self::Claimed,
            VisibleState::Processing => Self::Processing,
            VisibleState::Succeeded => Self::Succeeded,
            VisibleState::Failed => Self::Failed,
            VisibleState::Retrying => Self::Retrying,
            VisibleState::Cancelled => Self::Cancelled,
            VisibleState::Expired => Self::Expired,
            VisibleState::Dead => Self::Dead,
            VisibleState::Published => Self::Published,
            VisibleState::WaitingForChildren => Self::WaitingForChildren,
            VisibleState::Waiting => Self::Waiting,
        }
    }
}

/// Returns where a task stands with all below it.
pub(super) fn tree_state(task: &TaskView) -> TreeState {
    match task.tree {
        Some(tree) => notify::tree_outcome(tree.outcome),
        None if task.spec.is_parent() => TreeState::WaitingForChildren,
        None => TreeState::None,
    }
}

/// Returns the start that was asked for. One that had passed at the registration is kept until the task is
/// moved, although the task started at once.
fn asked_start(task: &TaskView) -> Millis {
    let first = (task.generation == 0).then_some(task.spec.asked_start);
    first.flatten().unwrap_or(task.start)
}

impl From<api::CancelOutcome> for CancelOutcome {
    fn from(outcome: api::CancelOutcome) -> Self {
        match outcome {
            api::CancelOutcome::Cancelled => Self::Cancelled,
            api::CancelOutcome::AlreadyCancelled => Self::AlreadyCancelled,
            api::CancelOutcome::CancelRequested => Self::CancelRequested,
            api::CancelOutcome::TooLate => Self::TooLate,
        }
    }
}

/// Converts the outcome of a reschedule; none when its precondition does not hold, or the end of the task counts in a tree.
#[must_use]
pub(in crate::http) const fn reschedule_outcome(
    outcome: api::RescheduleOutcome,
) -> Option<RescheduleOutcome> {
    match outcome {
        api::RescheduleOutcome::Rescheduled => Some(RescheduleOutcome::Rescheduled),
        api::RescheduleOutcome::TooLate => Some(RescheduleOutcome::TooLate),
        api::RescheduleOutcome::Mismatch | api::RescheduleOutcome::InTree => None,
    }
}

/// Returns the problem of a dead task of a tree that is to run by itself.
#[must_use]
pub(in crate::http) fn in_a_tree(task: &TaskView) -> Error {
    let id = task.id;
    let detail = format!(
        "the task {id} is dead, and its end counts in its tree: once that has ended, run its failed part again with retry-failed"
    );
    Error::new(Code::InATree, detail)
}

/// Says why a task cannot be cancelled or moved any more.
#[must_use]
pub(in crate::http) fn why_too_late(task: &TaskView) -> String {
    match task.state {
        VisibleState::WaitingForChildren => {
            "its own run has ended; cancel it with `tree` to end the tasks below it".to_owned()
        }
        VisibleState::Waiting if task.spec.after.is_some() => {
            "it waits for other tasks, which decide on its start: it can be cancelled".to_owned()
        }
        VisibleState::Waiting => {
            "it waits for the own run of its parent, which decides on its start".to_owned()
        }
        VisibleState::Dead if task.spec.kin.is_some() => {
            "it is dead, and its end counts in its tree, of which the failed part can run again with retry-failed".to_owned()
        }
        VisibleState::Published => "its record has been published".to_owned(),
        VisibleState::Dead if task.spec.key.is_some() => {
            "it has ended: it is dead, and can be run only while its key names no other live task"
                .to_owned()
        }
        state if state.is_terminal() => format!("it has ended: it is {}", state.name()),
        VisibleState::Claimed | VisibleState::Processing => {
            format!("attempt {} is running", task.attempt)
        }
        state => format!("it is {}, and on its way", state.name()),
    }
}
