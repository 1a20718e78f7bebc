//! The rules of keys decide for registration which task a key names, and what a request for that key means.
//!
//! A key names at most one live task of a callback. The record of the key says which; it is written on a condition, and
//! before the task. So the first writer wins, and whoever finds the record can write its task again: the same id is the
//! same entry. A key is free as soon as its task has ended, with all of its tree.
//!
//! The row of a live task decides its replacement: the write that ends it, or tells its attempt to stop, also names the
//! task that comes instead. Then the record follows, then the entry of the new task. Any request that finds a step
//! undone does it, and so does the look of the old task.
//!
//! The record goes away before the row of its task can. Otherwise an ended task, whose row had vanished, would be taken
//! for one that was never written, and would be written again. A live task renews its record.

use std::time::Duration;

use super::{
    ids::TaskId,
    row::{State, TaskRow},
    state::TERMINAL_TTL_MIN,
    time::Millis,
};

pub use super::holder::Holder;

/// How long a record lives behind the latest start of its task, and behind its last renewal: a day less than the row of a
/// task that has ended.
pub const RECORD_KEPT: Duration = TERMINAL_TTL_MIN.saturating_sub(Duration::from_secs(24 * 3600));

/// A look renews a record that has less than this left: six days of looks would have to fail.
pub const RENEWED_BELOW: Duration = Duration::from_secs(3 * 24 * 3600);

/// A request that finds a live task renews a record that has less than this left: nothing in flight lives as long.
pub const RESCUED_BELOW: Duration = Duration::from_secs(3600);

/// The wish of a client for the case that its key names a live task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnConflict {
    /// To be told, as an error.
    #[default]
    Reject,
    /// To be told, as a success.
    Ignore,
    /// To take the place of that task.
    Replace,
}

/// The meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its task is the one that is to be written.
    Mine,
    /// Its task has ended: the key is free.
    Free,
    /// Its task was replaced: the record is to name the next one, then it is to be read again.
    Replaced,
    /// Its task is dead, and its redrive was begun, or the tree of its task has ended, and was about to go on again: that is to
    /// be finished, then the task is live.
    Redriven,
    /// Its task is live, or is to be written still.
    Live,
}

/// Judges a record that was read for a request whose task has the id `mine`, by the row of its task that was read after it.
#[must_use]
pub fn judge(holder: &Holder, row: Option<&TaskRow>, mine: TaskId) -> Verdict {
    if holder.id == mine {
        return Verdict::Mine;
    }
    match row {
        // Also while its last attempt goes on: from this write on the other one is promised.
        Some(row) if row.detail.next.is_some() => Verdict::Replaced,
        Some(row) if may_go_on(row) && row.generation < holder.generation => Verdict::Redriven,
        // A parent has ended when its tree has.
        Some(row) if row.has_ended() => Verdict::Free,
        // No row: nothing happened to the task, or it was never written. It must not be passed over in either case, since
        // its writer may be about to write it.
        Some(_) | None => Verdict::Live,
    }
}

/// Tells whether a task may have taken its key back: a dead one does before its redrive, a tree before it goes on again.
fn may_go_on(row: &TaskRow) -> bool {
    let is_tree = row.detail.spec.kin.is_some() && row.has_ended();
    row.state == State::Dead || is_tree
}

/// Returns until when a record lives whose task starts at `start`.
#[must_use]
pub fn kept_until(start: Millis, now: Millis) -> Millis {
    start.max(now).after(RECORD_KEPT)
}

/// Tells whether a look at a live task has to ask for the record: one that was written for this start may have less left than
/// [`RENEWED_BELOW`].
#[must_use]
pub fn may_need_renewal(start: Millis, now: Millis) -> bool {
    now.since(start) > RECORD_KEPT.saturating_sub(RENEWED_BELOW)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures::{self, START, id},
        kin::{Kin, TreeEnd, TreeOutcome},
        task::Spec,
    };

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn holder(generation: u32) -> Holder {
        Holder {
            id: id(),
            generation,
            spec: Arc::new(fixtures::spec()),
        }
    }

    fn other() -> TaskId {
        TaskId::new(START, id().wheel(), 99)
    }

    #[test]
    fn only_an_end_frees_a_key() {
        let spec = Arc::new(fixtures::spec());
        assert_eq!(judge(&holder(0), None, other()), Verdict::Live);
        for state in State::ALL {
            let row = fixtures::row(state, &spec);
            let expected = if state.is_terminal() {
                Verdict::Free
            } else {
                Verdict::Live
            };
            assert_eq!(
                judge(&holder(0), Some(&row), other()),
                expected,
                "{state:?}"
            );
            assert_eq!(judge(&holder(0), Some(&row), id()), Verdict::Mine);
        }
    }

    #[test]
    fn a_replaced_task_is_followed_whether_it_has_ended_or_not() {
        let spec = Arc::new(fixtures::spec());
        for state in [State::Claimed, State::Cancelled, State::Succeeded] {
            let mut row = fixtures::row(state, &spec);
            row.detail.next = Some(Arc::new(holder(0)));
            assert_eq!(judge(&holder(0), Some(&row), other()), Verdict::Replaced);
        }
    }

    #[test]
    fn a_redrive_that_was_begun_is_finished_before_the_key_is_free() {
        let spec = Arc::new(fixtures::spec());
        let dead = fixtures::row(State::Dead, &spec);
        assert_eq!(judge(&holder(1), Some(&dead), other()), Verdict::Redriven);
        let redriven = TaskRow {
            generation: 1,
            ..dead
        };
        assert_eq!(judge(&holder(1), Some(&redriven), other()), Verdict::Free);
        let done = fixtures::row(State::Succeeded, &spec);
        assert_eq!(judge(&holder(1), Some(&done), other()), Verdict::Free);
    }

    #[test]
    fn a_tree_that_was_about_to_go_on_is_let_go_on_before_the_key_is_free() {
        let kin = Kin {
            is_parent: true,
            ..Kin::default()
        };
        let spec = Arc::new(Spec {
            kin: Some(Box::new(kin)),
            ..fixtures::spec()
        });
        for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
            let mut row = fixtures::row(state, &spec);
            let dead = state == State::Dead;
            let open = if dead {
                Verdict::Redriven
            } else {
                Verdict::Live
            };
            assert_eq!(judge(&holder(1), Some(&row), other()), open, "{state:?}");
            row.detail.tree = Some(TreeEnd {
                outcome: TreeOutcome::Faulted,
                at: START,
            });
            assert_eq!(judge(&holder(0), Some(&row), other()), Verdict::Free);
            let begun = judge(&holder(1), Some(&row), other());
            assert_eq!(begun, Verdict::Redriven, "{state:?}");
            row.generation = 1;
            assert_eq!(judge(&holder(1), Some(&row), other()), Verdict::Free);
        }
    }

    #[test]
    fn a_record_goes_before_the_row_and_is_renewed_long_before_that() {
        assert_eq!(RECORD_KEPT + DAY, TERMINAL_TTL_MIN);
        let (now, late) = (START.before(DAY), START.after(DAY));
        assert_eq!(kept_until(START, now), START.after(RECORD_KEPT));
        assert_eq!(kept_until(START, late), late.after(RECORD_KEPT));
        assert!(!may_need_renewal(START, START.after(3 * DAY)));
        assert!(may_need_renewal(
            START,
            START.after(3 * DAY + Duration::from_millis(1))
        ));
    }
}
