//! The gate tells every node whether tasks of a callback, or of one of its collections, may go out.
//!
//! A task that is due and may not go out is held: a row of the index stands for it until its gate opens, and its look stands
//! for both. [`Held`] is what the row knows, and [`release`] decides what becomes of it. A gate that drops ends held tasks.
//!
//! A gate that was opened stays in its record ([`OPENED_KEPT`]), so that a node which takes a wheel later knows where rows of
//! it may be left.

use std::time::Duration;

use super::{configuration::CURRENT_MAX, ids::TaskId, row::TaskRow, time::Millis, wait};

/// How long after its opening a gate is remembered for the rows that it held. Those rows are gone within seconds of it, unless
/// no node owns their wheel for as long.
pub const OPENED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long after its opening rows may still come: a node may hold tasks for [`CURRENT_MAX`] more, and its write may take
/// some time. A row that comes later still waits for the look of its task.
pub const LATE_ROWS: Duration = Duration::from_secs(10 + CURRENT_MAX.as_secs());

/// The state of a gate, from the least strict on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GateState {
    /// Tasks go out.
    Open,
    /// Due tasks are held.
    Paused,
    /// Due tasks end as cancelled.
    Dropping,
}

impl GateState {
    /// Returns the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused => "paused",
            Self::Dropping => "dropping",
        }
    }
}

/// A gate as it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The collection whose tasks it concerns; empty is all tasks of the callback.
    pub collection: String,
    /// Its state.
    pub state: GateState,
    /// The reason, for people; empty is none.
    pub reason: String,
    /// When it was set.
    pub since: Millis,
    /// When it opens by itself; none is never.
    pub until: Option<Millis>,
    /// The name of the key with which it was set; empty where none was needed.
    pub who: String,
}

impl Gate {
    /// Returns its state at `now`.
    #[must_use]
    pub fn state_at(&self, now: Millis) -> GateState {
        if self.until.is_some_and(|until| until <= now) {
            GateState::Open
        } else {
            self.state
        }
    }

    /// Returns since when it is open at `now`; none when it is not.
    #[must_use]
    pub fn opened(&self, now: Millis) -> Option<Millis> {
        let opened = match self.state {
            GateState::Open => self.since,
            GateState::Paused | GateState::Dropping => self.until?,
        };
        (opened <= now || self.state == GateState::Open).then_some(opened)
    }

    /// Tells whether nothing that it held can be left.
    #[must_use]
    pub fn is_forgotten(&self, now: Millis) -> bool {
        let opened = self.opened(now);
        opened.is_some_and(|opened| now.since(opened) > OPENED_KEPT)
    }

    /// Tells whether rows that it holds may be written still though it is open at `now`.
    #[must_use]
    pub fn may_get_rows(&self, now: Millis) -> bool {
        let opened = self.opened(now);
        opened.is_some_and(|opened| now.since(opened) <= LATE_ROWS)
    }
}

/// A gate that keeps a task from going out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed<'a> {
    /// The gate.
    pub gate: &'a Gate,
    /// Its state now: not open.
    pub state: GateState,
}

/// A task that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The task.
    pub id: TaskId,
    /// When it was to go out.
    pub start: Millis,
    /// Generation that its claim must find.
    pub generation: u32,
    /// Attempt that its claim must find.
    pub attempt: u32,
}

/// The fate of a row whose gate is not paused any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The task goes out, or is dropped. It is not to be claimed before `start`.
    Due {
        /// When it is due.
        start: Millis,
    },
    /// It is not due yet by this node's clock: the row stays.
    Wait,
    /// The row says nothing any more. The task has ended, was moved, or is in another attempt. Something else stands for it.
    Forget,
}

/// Decides what becomes of a held task, from its row.
#[must_use]
pub fn release(held: &Held, row: Option<&TaskRow>, now: Millis) -> Release {
    let is_this =
        row.map_or((0, 0), |row| (row.generation, row.attempt)) == (held.generation, held.attempt);
    let has_ended = row.is_some_and(|row| row.state.is_terminal());
    let start = wait::due(held.id, row);
    let waits = match row {
        // The claim checks again that the worker of an attempt before is gone.
        Some(row) => wait::of_row(row, None, now).is_some(),
        None => now < start,
    };
    if has_ended || !is_this {
        Release::Forget
    } else if waits {
        Release::Wait
    } else {
        Release::Due { start }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{fixtures, row::State};

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Millis = Millis(1_800_000_000_000);

    fn gate(state: GateState, until: Option<Millis>) -> Gate {
        Gate {
            collection: String::new(),
            state,
            reason: String::new(),
            since: NOW,
            until,
            who: String::new(),
        }
    }

    #[test]
    fn a_gate_opens_by_itself_at_its_time() {
        let until = NOW.after(SECOND * 60);
        let gate = gate(GateState::Paused, Some(until));
        let before = until.before(Duration::from_millis(1));
        assert_eq!(gate.state_at(before), GateState::Paused);
        assert_eq!(gate.opened(before), None);
        assert_eq!(gate.state_at(until), GateState::Open);
        assert_eq!(gate.opened(until), Some(until));
        assert!(gate.may_get_rows(until) && !gate.may_get_rows(before));
    }

    #[test]
    fn rows_of_an_open_gate_are_looked_for_while_they_may_come() {
        let open = gate(GateState::Open, None);
        assert!(open.may_get_rows(NOW) && open.may_get_rows(NOW.after(LATE_ROWS)));
        assert!(!open.may_get_rows(NOW.after(LATE_ROWS + SECOND)));
        assert!(LATE_ROWS > CURRENT_MAX);
        // By a clock that is behind that of the node which opened it, too.
        assert!(open.may_get_rows(NOW.before(SECOND)));
        assert!(!gate(GateState::Paused, None).may_get_rows(NOW));
        assert!(!open.is_forgotten(NOW.after(OPENED_KEPT)));
        assert!(open.is_forgotten(NOW.after(OPENED_KEPT + SECOND)));
        assert!(!gate(GateState::Dropping, None).is_forgotten(Millis::MAX));
    }

    #[test]
    fn a_held_task_is_released_if_it_is_still_the_same() {
        let row = fixtures::row(State::Claimed, &Arc::new(fixtures::spec()));
        let id = row.id;
        let held = |generation, attempt| Held {
            id,
            start: id.first_start(),
            generation,
            attempt,
        };
        let due = id.first_start().after(SECOND);
        let start = id.first_start();
        assert_eq!(release(&held(0, 0), None, due), Release::Due { start });
        assert_eq!(release(&held(1, 0), None, due), Release::Forget);
        assert_eq!(
            release(&held(0, 0), None, start.before(SECOND)),
            Release::Wait
        );
        let of = |state, next| TaskRow {
            state,
            next,
            ..row.clone()
        };
        let this = held(row.generation, row.attempt);
        let retrying = of(State::Retrying, due);
        assert_eq!(
            release(&this, Some(&retrying), due),
            Release::Due { start: due }
        );
        assert_eq!(release(&this, Some(&retrying), start), Release::Wait);
        let other = held(row.generation, row.attempt + 1);
        assert_eq!(release(&other, Some(&retrying), due), Release::Forget);
        let moved = held(row.generation + 1, row.attempt);
        assert_eq!(release(&moved, Some(&retrying), due), Release::Forget);
        let claimed = release(&this, Some(&row), row.detail.start);
        let start = row.detail.start;
        assert_eq!(claimed, Release::Due { start });
        for state in State::ALL {
            if state.is_terminal() {
                let ended = of(state, due);
                assert_eq!(release(&this, Some(&ended), due), Release::Forget);
            }
        }
    }
}
