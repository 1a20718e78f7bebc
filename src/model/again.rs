//! The rules of rounds make for the state machine the rows of tasks of trees that go on after their end.
//!
//! A task of a tree begins another round when it, or something below it, runs again ([`super::family`] has the order of the
//! writes). The round is named by whoever asks for it, and a row takes it once. So a call that is repeated, or comes late,
//! changes nothing. Each round raises the generation, since the store compares that: the end of a tree that was about to be
//! written in the round before is refused.

use super::{
    event::{Event, Refusal},
    family::{self, Tree},
    kin::{Again, PARENT_FAILED, Rounds, Runs, TreeEnd, TreeOutcome},
    restart,
    row::{Detail, State, TaskRow},
    time::Millis,
};

/// Tells whether the own run of a task has failed, and can run again. One that waited for others in vain has not run: its wait is
/// over for good. Nothing of a tree that was cancelled runs again.
#[must_use]
pub fn can_run(row: &TaskRow) -> bool {
    let has_waited = row.detail.spec.after.is_some() && row.run_generation() == 0;
    family::faults(row.state) && !row.detail.erased && !has_waited && !is_cancelled(row)
}

/// Tells whether the own run of a task of a tree has succeeded, and can be reopened. One that another task has replaced has no
/// key to run under.
#[must_use]
pub fn can_reopen(row: &TaskRow) -> bool {
    let detail = &row.detail;
    let is_of_tree = detail.spec.kin.is_some() && detail.next.is_none();
    row.state == State::Succeeded && is_of_tree && !detail.erased && !is_cancelled(row)
}

/// Tells whether the own run of a task is one of those that may begin again.
#[must_use]
pub fn is_one(row: &TaskRow, of: Runs) -> bool {
    match of {
        Runs::None => false,
        Runs::Failed => can_run(row),
        Runs::Succeeded => can_reopen(row),
    }
}

/// Tells whether the tree of a task has ended as a cancelled one.
#[must_use]
pub fn is_cancelled(row: &TaskRow) -> bool {
    let outcome = row.detail.tree.map(|tree| tree.outcome);
    outcome == Some(TreeOutcome::Cancelled)
}

/// Tells whether a task was cancelled because the own run of its parent did not succeed.
#[must_use]
pub fn can_wait(row: &TaskRow) -> bool {
    row.state == State::Cancelled
        && row.detail.spec.is_after_parent()
        && row.detail.error.as_deref() == Some(PARENT_FAILED)
        && !row.detail.erased
        && !is_cancelled(row)
}

/// The work that makes the tree of a parent go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: it does.
    Open,
    /// Its record is closing, and is to be opened.
    Closing,
    /// The record has the round, and the row of the parent is to follow.
    Follow,
    /// It has ended: the record begins this round, then the row follows.
    Ended(u32),
    /// Record and row were changed between the two reads.
    ReadAgain,
    /// It cannot go on: the parent was deleted, or its tree was cancelled.
    Gone,
}

/// The words of the row of a parent about its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its round.
    pub round: u32,
    /// Its own run has ended.
    pub is_over: bool,
    /// Its tree has ended.
    pub has_ended: bool,
    /// It was deleted.
    pub erased: bool,
}

impl Seen {
    /// Returns what a row says.
    #[must_use]
    pub const fn of(row: &TaskRow) -> Self {
        Self {
            round: row.detail.rounds.round,
            is_over: row.state.is_terminal(),
            has_ended: row.detail.tree.is_some(),
            erased: row.detail.erased,
        }
    }
}

/// Tells where the tree of a parent stands by its record, which was read serially, and then its row. No row is a parent to which
/// nothing has happened yet.
#[must_use]
pub const fn standing(tree: Tree, round: u32, row: Option<Seen>) -> Standing {
    let Some(row) = row else {
        return match tree {
            Tree::Open => Standing::Open,
            Tree::Closing | Tree::Completed | Tree::Faulted | Tree::Cancelled => Standing::Gone,
        };
    };
    match tree {
        _ if row.erased => Standing::Gone,
        _ if row.round > round => Standing::ReadAgain,
        Tree::Cancelled => Standing::Gone,
        Tree::Completed | Tree::Faulted => Standing::Ended(round.saturating_add(1)),
        Tree::Open | Tree::Closing if row.round < round && row.is_over => Standing::Follow,
        Tree::Open | Tree::Closing if row.has_ended => Standing::ReadAgain,
        Tree::Closing => Standing::Closing,
        Tree::Open => Standing::Open,
    }
}

/// Returns the round in which the own run of a parent may run again, of whose record and row the rounds are these. The row has
/// not begun it, so a check that has read the row before does not end the tree.
#[must_use]
pub const fn next_round(tree: Tree, of_record: u32, of_row: u32) -> u32 {
    if tree.has_ended() || of_record <= of_row {
        let last = if of_record > of_row {
            of_record
        } else {
            of_row
        };
        last.saturating_add(1)
    } else {
        of_record
    }
}

/// The row of a task after an event of its rounds.
pub(super) fn next(base: TaskRow, event: &Event, now: Millis) -> Result<TaskRow, Refusal> {
    match *event {
        Event::Again { round, what } => again(base, round, what),
        Event::TreeEnded {
            outcome,
            time_passed,
            round,
        } => tree_ended(base, (outcome, time_passed), round, now),
        _ => Err(Refusal::Stale),
    }
}

/// The row of a task that goes on in a round.
fn again(base: TaskRow, round: u32, what: Again) -> Result<TaskRow, Refusal> {
    if round <= base.detail.rounds.round || !base.state.is_terminal() {
        return Err(Refusal::Stale);
    }
    match what {
        Again::Tree
            if base.detail.spec.is_parent() && !base.detail.erased && !is_cancelled(&base) =>
        {
            let detail = Detail {
                tree: None,
                ..base.detail
            };
            Ok(taken(TaskRow { detail, ..base }, round))
        }
        // The tree of a parent ends its round by its record.
        Again::Nothing if base.detail.erased || !base.detail.spec.is_parent() => {
            Ok(taken(base, round))
        }
        Again::Run { start } if can_run(&base) => {
            Ok(restart::redriven(began(base, round, false), start))
        }
        Again::Reopen { start } if can_reopen(&base) => {
            // It has no result until it succeeds again.
            let row = restart::redriven(began(base, round, false), start);
            let detail = Detail {
                result: None,
                ..row.detail
            };
            Ok(TaskRow { detail, ..row })
        }
        Again::Wait if can_wait(&base) => {
            let start = base.id.first_start();
            let row = restart::redriven(base, start);
            let detail = Detail {
                error: None,
                ..row.detail
            };
            let row = TaskRow { detail, ..row };
            Ok(began(row, round, true))
        }
        Again::Tree | Again::Run { .. } | Again::Reopen { .. } | Again::Wait | Again::Nothing => {
            Err(Refusal::Stale)
        }
    }
}

/// The row of a task that takes a round without a new run of its own.
fn taken(base: TaskRow, round: u32) -> TaskRow {
    let rounds = Rounds {
        round,
        opened: base.detail.rounds.opened.saturating_add(1),
        ..base.detail.rounds
    };
    let detail = Detail {
        rounds,
        ..base.detail
    };
    TaskRow {
        generation: base.generation + 1,
        detail,
        ..base
    }
}

/// The row in a round of which nothing has ended.
fn began(base: TaskRow, round: u32, awaits: bool) -> TaskRow {
    let rounds = Rounds {
        round,
        opened: 0,
        awaits,
    };
    let detail = Detail {
        tree: None,
        rounds,
        ..base.detail
    };
    TaskRow { detail, ..base }
}

/// The row of a task whose own run had ended, and now its tree, in this round.
fn tree_ended(
    base: TaskRow,
    (outcome, children_time_passed): (TreeOutcome, bool),
    round: u32,
    now: Millis,
) -> Result<TaskRow, Refusal> {
    if base.detail.rounds.round != round {
        return Err(Refusal::Stale);
    }
    let tree = Some(TreeEnd { outcome, at: now });
    let detail = Detail {
        tree,
        children_time_passed,
        ..base.detail
    };
    Ok(TaskRow { detail, ..base })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::model::{fixtures, kin::Kin, state, task::Spec};

    const NOW: Millis = Millis(fixtures::START.0 + 60_000);

    fn row(state: State, kin: Kin) -> TaskRow {
        let spec = Spec {
            kin: Some(Box::new(kin)),
            ..fixtures::spec()
        };
        let mut row = fixtures::row(state, &Arc::new(spec));
        row.detail.end_time = state.is_terminal().then_some(NOW);
        row
    }

    fn parent(state: State) -> TaskRow {
        let kin = Kin {
            is_parent: true,
            ..Kin::default()
        };
        let mut row = row(state, kin);
        row.detail.tree = Some(TreeEnd {
            outcome: TreeOutcome::Faulted,
            at: NOW,
        });
        row
    }

    fn child(state: State) -> TaskRow {
        let kin = Kin {
            parent: Some(fixtures::id()),
            after_parent: true,
            ..Kin::default()
        };
        row(state, kin)
    }

    fn next(row: &TaskRow, event: Event) -> Result<TaskRow, Refusal> {
        let spec = Arc::clone(&row.detail.spec);
        let made = state::next(row.id, Some(row), &spec, event, NOW, Uuid::nil());
        made.map(|made| made.row)
    }

    fn again(round: u32, what: Again) -> Event {
        Event::Again { round, what }
    }

    const RUN: Again = Again::Run { start: NOW };

    #[test]
    fn a_tree_goes_on_once_in_each_round_and_ends_in_that_round_only() {
        let ended = parent(State::Succeeded);
        let open = next(&ended, again(1, Again::Tree)).unwrap();
        assert!(open.waits_for_children());
        assert_eq!((open.generation, open.run_generation()), (1, 0));
        let stale = Err(Refusal::Stale);
        assert_eq!(next(&open, again(1, Again::Tree)), stale);
        let of = |round| Event::TreeEnded {
            outcome: TreeOutcome::Completed,
            time_passed: false,
            round,
        };
        assert_eq!(next(&open, of(0)), stale);
        let over = next(&open, of(1)).unwrap();
        assert!(over.has_ended());
        assert_eq!(over.detail.rounds.round, 1);
        let third = next(&over, again(3, Again::Tree)).unwrap();
        assert_eq!((third.generation, third.run_generation()), (2, 0));
    }

    #[test]
    fn a_run_that_failed_begins_again_with_its_tree_and_no_other_does() {
        for state in State::ALL {
            let row = parent(state);
            let made = next(&row, again(1, RUN));
            let expected = matches!(state, State::Failed | State::Dead | State::Expired);
            assert_eq!(made.is_ok(), expected, "{state:?}");
            let Ok(made) = made else { continue };
            assert_eq!((made.state, made.tries), (State::New, 0));
            assert_eq!((made.detail.tree, made.next), (None, NOW));
            assert_eq!(made.run_generation(), 1);
            assert_eq!(next(&made, again(2, RUN)), Err(Refusal::Stale));
        }
        let mut erased = parent(State::Dead);
        erased.detail.erased = true;
        assert!(next(&erased, again(1, RUN)).is_err());
    }

    #[test]
    fn a_run_that_has_succeeded_is_reopened_without_its_result_and_no_other_is() {
        for state in State::ALL {
            let mut row = parent(state);
            row.detail.result = Some(bytes::Bytes::from_static(b"7").into());
            let made = next(&row, again(1, Again::Reopen { start: NOW }));
            assert_eq!(made.is_ok(), state == State::Succeeded, "{state:?}");
            let Ok(made) = made else { continue };
            assert_eq!((made.state, made.tries, made.next), (State::New, 0, NOW));
            assert_eq!((made.detail.result, made.detail.end_time), (None, None));
            assert_eq!((made.detail.tree, made.detail.rounds.round), (None, 1));
        }
        let mut row = parent(State::Succeeded);
        row.detail.next = Some(Arc::new(crate::model::holder::Holder {
            id: row.id,
            generation: 0,
            spec: Arc::clone(&row.detail.spec),
        }));
        assert!(!can_reopen(&row), "it was replaced");
        let plain = fixtures::row(State::Succeeded, &Arc::new(fixtures::spec()));
        assert!(!can_reopen(&plain), "it is in no tree");
    }

    #[test]
    fn nothing_of_a_tree_that_was_cancelled_goes_on() {
        for state in [State::Succeeded, State::Failed, State::Cancelled] {
            let mut row = parent(state);
            row.detail.tree = Some(TreeEnd {
                outcome: TreeOutcome::Cancelled,
                at: NOW,
            });
            assert!(!can_run(&row) && !can_wait(&row), "{state:?}");
            let reopen = Again::Reopen { start: NOW };
            for what in [Again::Tree, RUN, reopen, Again::Wait, Again::Nothing] {
                assert_eq!(next(&row, again(1, what)), Err(Refusal::Stale), "{state:?}");
            }
            let seen = Some(Seen::of(&row));
            assert_eq!(standing(Tree::Cancelled, 0, seen), Standing::Gone);
        }
    }

    #[test]
    fn a_run_in_an_open_tree_needs_another_round_than_the_tree() {
        let open = next(&parent(State::Failed), again(1, Again::Tree)).unwrap();
        assert_eq!(next(&open, again(1, RUN)), Err(Refusal::Stale));
        let runs = next(&open, again(2, RUN)).unwrap();
        assert_eq!((runs.generation, runs.run_generation()), (2, 2));
    }

    #[test]
    fn a_child_that_was_left_with_its_parent_waits_again_and_is_let_go() {
        let mut left = child(State::Cancelled);
        assert_eq!(
            next(&left, again(1, Again::Wait)),
            Err(Refusal::Stale),
            "a person has cancelled it"
        );
        left.detail.error = Some(PARENT_FAILED.to_owned());
        let waits = next(&left, again(1, Again::Wait)).unwrap();
        assert!(waits.waits_for_parent() && waits.generation == 1);
        assert_eq!((&waits.detail.error, waits.detail.end_time), (&None, None));
        let gone = next(&waits, Event::Release { start: NOW }).unwrap();
        assert!(!gone.waits() && gone.state == State::New);
        assert_eq!(gone.detail.rounds.round, 1);
        let failed = next(&waits, Event::ParentFailed).unwrap();
        assert!(can_wait(&failed), "and once more");
        let cancelled = next(&waits, Event::Cancel).unwrap();
        assert!(!can_wait(&cancelled));
    }
}
