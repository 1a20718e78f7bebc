//! The note of ends counts and logs how tasks end, for operators: once each, by the write that makes the row terminal.

use crate::{
    flow::{TASK_EVENTS, base::labels},
    model::state::{State, TaskRow},
};

/// Counts a task that a transition has ended, and logs an end that is no success. Other transitions are left out.
pub(super) fn note(before: Option<&TaskRow>, row: &TaskRow) {
    if before.is_some_and(|before| before.state.is_terminal()) {
        return;
    }
    let outcome = match row.state {
        // A record that goes out although its client has cancelled it has a row that says so, and no run.
        State::Succeeded if !row.detail.spec.target.is_tracked() => return,
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
