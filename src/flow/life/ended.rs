//! The note of ends tells operators how tasks end: each is counted and logged once, by the stage that makes it terminal.

use crate::{
    flow::{TASK_EVENTS, base::labels},
    model::state::{State, TaskRow},
};

/// Counts a task that has just become terminal, and logs an end that is no success; others are left out.
pub(in crate::flow) fn note(row: &TaskRow) {
    let outcome = match row.state {
        State::Succeeded => "succeeded",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
        State::Dead => "dead",
        State::New | State::Claimed | State::Retrying => return,
    };
    let callback = labels::label(row.detail.spec.callback().unwrap_or_default());
    metrics::counter!("tickwheel_tasks_ended_total", "outcome" => outcome, "callback" => callback)
        .increment(1);
    log(row);
}

/// Logs an end that is no success. A death needs a person, so it is a warning.
fn log(row: &TaskRow) {
    let (task, attempt) = (row.id, row.attempt);
    let (callback, error) = (row.detail.spec.target.name(), &row.detail.error);
    match row.state {
        State::Dead => {
            tracing::warn!(target: TASK_EVENTS, %task, callback, attempt, error, "dead: its attempts are used up");
        }
        State::Expired => tracing::debug!(target: TASK_EVENTS, %task, callback, attempt, "expired"),
        State::Failed => {
            tracing::debug!(target: TASK_EVENTS, %task, callback, attempt, error, "failed")
        }
        State::Cancelled => {
            // A call that cancels has a line of its own; a gate, a parent and another task of its key have this one alone.
            let replaced_by = row.detail.next.as_ref().map(|next| next.id.to_string());
            tracing::debug!(target: TASK_EVENTS, %task, callback, attempt, error, replaced_by, "cancelled");
        }
        State::New | State::Claimed | State::Retrying | State::Succeeded => {}
    }
}
