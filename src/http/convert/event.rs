//! This conversion makes the events of a task, from its row as it reads, or from a change of it.

use super::task_view::some_text;
use crate::{
    api::{event::TaskEvent, task_state::TaskState},
    flow::base::{agendas::watches::Change, api::TaskView},
    model::{history::Attempt, state::State},
};

/// Returns the event of the present state of a task.
#[must_use]
pub(in crate::http) fn of(task: &TaskView) -> TaskEvent {
    let time = task.end_time.or(task.claim_time).or(task.fire_time);
    TaskEvent {
        task: task.id.to_string(),
        state: task.state.into(),
        generation: task.generation,
        attempt: task.attempt,
        time: time.map(Into::into),
        outcome: None,
        worker: some_text(&task.worker),
        error: task.error.clone(),
    }
}

/// Returns the events that a reader has not seen whose last one was `last`: the attempts that have ended since, and the present
/// state.
#[must_use]
pub(in crate::http) fn since(task: &TaskView, last: Option<&str>) -> Vec<TaskEvent> {
    let present = of(task);
    if last == Some(&*present.id()) {
        return Vec::new();
    }
    // An attempt that was seen running is told again once it has ended.
    let seen = last.and_then(read);
    let is_new = |attempt: &&Attempt| {
        let is_over = attempt.ended.is_some() && attempt.attempt < task.attempt;
        let after = seen.as_ref().is_none_or(|seen| match &*seen.state {
            "claimed" | "processing" => attempt.attempt >= seen.attempt,
            _ => attempt.attempt > seen.attempt,
        });
        is_over && after
    };
    let over = task.history.attempts.iter().filter(is_new);
    let mut events: Vec<TaskEvent> = over.map(|attempt| of_attempt(task, attempt)).collect();
    events.push(present);
    events
}

/// Returns the event of an attempt that has ended, while the task goes on.
fn of_attempt(task: &TaskView, attempt: &Attempt) -> TaskEvent {
    TaskEvent {
        task: task.id.to_string(),
        state: TaskState::Retrying,
        generation: task.generation,
        attempt: attempt.attempt,
        time: attempt.ended.map(Into::into),
        outcome: attempt.ending.map(|ending| ending.name().to_owned()),
        worker: some_text(&attempt.worker),
        error: attempt.error.clone(),
    }
}

/// Returns the event of a change, as its row says.
#[must_use]
pub(in crate::http) fn of_change(change: &Change) -> TaskEvent {
    TaskEvent {
        task: change.id.to_string(),
        state: match change.state {
            State::New => TaskState::Scheduled,
            State::Claimed => TaskState::Claimed,
            State::Retrying => TaskState::Retrying,
            State::Succeeded => TaskState::Succeeded,
            State::Failed => TaskState::Failed,
            State::Cancelled => TaskState::Cancelled,
            State::Expired => TaskState::Expired,
            State::Dead => TaskState::Dead,
        },
        generation: change.generation,
        attempt: change.attempt,
        time: None,
        outcome: None,
        worker: some_text(&change.worker),
        error: change.error.clone(),
    }
}

/// The parts of the id of an event.
struct Seen {
    attempt: u32,
    state: String,
}

fn read(id: &str) -> Option<Seen> {
    let mut parts = id.splitn(3, '.');
    let _generation: u32 = parts.next()?.parse().ok()?;
    let attempt = parts.next()?.parse().ok()?;
    let state = parts.next()?.to_owned();
    Some(Seen { attempt, state })
}
