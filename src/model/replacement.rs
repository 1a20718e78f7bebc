//! The replacement ends for the state machine a task whose key another task takes, and names that one in its row.

use std::sync::Arc;

use super::{
    event::Refusal,
    holder::Holder,
    row::{Detail, State, TaskRow},
    time::Millis,
};

/// The row of a task that is replaced. One that was told to stop before cannot tell two replacements apart: its key is taken
/// without its row. A parent is not replaced, as the tasks below it would run on beside the next task.
pub(super) fn replaced(base: TaskRow, next: Arc<Holder>, now: Millis) -> Result<TaskRow, Refusal> {
    if base.detail.spec.is_parent() {
        return Err(Refusal::HasTree);
    }
    let runs = base.state == State::Claimed;
    if runs && base.cancel_requested {
        return Err(Refusal::Running);
    }
    // One that runs ends when its attempt does.
    let (state, end_time) = if runs {
        (State::Claimed, base.detail.end_time)
    } else {
        (State::Cancelled, Some(now))
    };
    let detail = Detail {
        next: Some(next),
        end_time,
        ..base.detail
    };
    Ok(TaskRow {
        state,
        cancel_requested: base.cancel_requested || runs,
        detail,
        ..base
    })
}
