//! The inheritance tells a node what to do about a task that a dead node held in its memory, when it finds the task's look.
//!
//! The look names the node that holds the task, and stands until the task has ended. So an heir may take the task into its own
//! memory, and it writes nothing: if it dies as well, the next one finds the same look. A message too many is refused by the
//! claim.

use std::time::Duration;

use super::{
    decision::{self, Known, Publish},
    entry::Entry,
    row::State,
    time::Millis,
    wheel::Shape,
};

/// How far behind its clock a node that was well may have been with the tasks that it held. An earlier one has gone out from it,
/// unless the queue did not take it.
pub const BEHIND_MAX: Duration = Duration::from_secs(2);

/// The fate of a task that a dead node held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherited {
    /// It is running or has ended, or something else stands for it.
    Left,
    /// It has not gone out: it is to go out at its start, or now.
    Taken(Publish),
    /// It went out before the node died, as far as anyone knows: it goes out again if it does not wait in the queue.
    Asked(Publish),
}

/// Decides about a task by its look. `died` is the last sign of life of the node that held it, by that node's clock; none when
/// it is not known.
#[must_use]
pub fn inherit(
    look: &Entry,
    known: Known<'_>,
    died: Option<Millis>,
    now: Millis,
    shape: &Shape,
) -> Inherited {
    let waits = |state| matches!(state, State::New | State::Retrying);
    if !known.row.is_none_or(|row| waits(row.state)) {
        return Inherited::Left;
    }
    let Some(publish) = decision::resume(look, known, now, shape) else {
        return Inherited::Left;
    };
    let lay_ahead = died.is_some_and(|died| publish.start >= died.before(BEHIND_MAX));
    if publish.start > now || lay_ahead {
        Inherited::Taken(publish)
    } else {
        Inherited::Asked(publish)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures::{self, START, id, shape, spec},
        row::TaskRow,
    };

    fn fate(row: Option<&TaskRow>, died: Option<i64>, now: i64) -> Inherited {
        let spec = Arc::new(spec());
        let look = Entry::look(
            id(),
            0,
            START.after(Duration::from_secs(9)),
            Some(START),
            START,
            spec,
            0,
        );
        let known = Known {
            row,
            heartbeat: None,
        };
        let died = died.map(|died| Millis(START.0 + died));
        inherit(&look, known, died, Millis(START.0 + now), &shape())
    }

    fn is_taken(fate: Inherited) -> bool {
        matches!(fate, Inherited::Taken(publish) if publish.start == START && publish.expected_attempt == 0)
    }

    #[test]
    fn what_lay_ahead_of_a_dead_node_goes_out_and_the_rest_is_asked_for() {
        for (died, now, taken) in [
            (Some(-500), -100, true),
            (Some(-500), 4000, true),
            (Some(2000), 6000, true),
            (Some(2001), 6000, false),
            (None, -1, true),
            (None, 1, false),
        ] {
            let fate = fate(None, died, now);
            assert_eq!(is_taken(fate), taken, "{died:?} {now}: {fate:?}");
            assert!(taken || matches!(fate, Inherited::Asked(_)), "{fate:?}");
        }
    }

    #[test]
    fn a_task_that_was_claimed_or_has_ended_is_left() {
        let fate = |state| {
            fate(
                Some(&fixtures::row(state, &Arc::new(spec()))),
                Some(0),
                5000,
            )
        };
        assert!(is_taken(fate(State::New)));
        for state in [
            State::Claimed,
            State::Succeeded,
            State::Cancelled,
            State::Dead,
        ] {
            assert_eq!(fate(state), Inherited::Left, "{state:?}");
        }
    }
}
