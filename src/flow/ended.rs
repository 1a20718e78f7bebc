//! The counter of ends tells operators how tasks end: each is counted once, by whoever makes it terminal.

use super::labels;
use crate::model::state::{State, TaskRow};

/// Counts a task that has just become terminal; others are not counted.
pub(super) fn count(row: &TaskRow) {
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
}
