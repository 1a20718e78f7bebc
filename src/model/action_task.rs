//! The action task tells the end steps and readers by which internal tasks actions and checks ([`super::action`]) are done.
//!
//! The id of such a task is computed: that of an action from the task, its generation, the kind of the end and the place of the
//! action, that of a check from the task and the place of the check. So stages that repeat their steps register it once.

use super::{
    action::{Action, Check, End},
    ids::TaskId,
    internal_task::internal_id,
    preference::mix,
    row::{State, TaskRow},
};

/// The callback of the internal tasks that do actions and checks.
pub const CALLBACK: &str = "tickwheel.action";

/// Names the purpose of the tasks of actions at ends of trees in the hash of their ids. It never changes.
const TREE_ACTION: u64 = 0x0074_7265_655f_6163;

/// Names the purpose of the tasks of actions in the hash of their ids. It never changes.
const ACTION: u64 = 0x0061_6374_696f_6e73;

/// Names the purpose of the tasks of actions at first claims in the hash of their ids. It never changes.
const CLAIM_ACTION: u64 = 0x0063_6c61_696d_6163;

/// Names the purpose of the tasks of checks in the hash of their ids. It never changes.
const CHECK: u64 = 0x0063_6865_636b_7300;

/// Returns the end of the own run of a task; none while it goes on, and for a tombstone, which is no end.
#[must_use]
pub fn end_of_run(row: &TaskRow) -> Option<End> {
    let ended = row.state.is_terminal() && !row.detail.erased;
    let at = row.detail.end_time.filter(|_| ended)?;
    Some(End::Run(row.state, at))
}

/// Returns the first claim of the own run of a task, since it was registered, redriven or reopened. None before it, and when so
/// many attempts followed that it is not known any more.
#[must_use]
pub fn first_claim(row: &TaskRow) -> Option<End> {
    let (detail, number) = (&row.detail, row.first_attempt());
    let at = if row.attempt == number {
        detail.claim_time
    } else {
        let mut attempts = detail.history.attempts.iter();
        attempts.find(|one| one.attempt == number)?.claimed
    };
    let at = at.filter(|_| !detail.erased)?;
    Some(End::Run(State::Claimed, at))
}

/// Returns the end of the tree of a task; none while it goes on.
#[must_use]
pub fn end_of_tree(row: &TaskRow) -> Option<End> {
    let tree = row.detail.tree.filter(|_| !row.detail.erased)?;
    Some(End::Tree(tree))
}

/// Returns the actions that an end of a task asks for, with their places.
pub fn due(row: &TaskRow, end: End) -> impl Iterator<Item = (usize, &Action)> {
    let actions = row.detail.spec.actions.as_deref();
    actions
        .into_iter()
        .flat_map(move |actions| actions.due(end, row.state))
}

/// Returns the id of the task that does the action of this place at an end of a task.
#[must_use]
pub fn action_id(task: TaskId, generation: u32, end: End, place: usize) -> TaskId {
    let what = match end {
        End::Run(State::Claimed, _) => CLAIM_ACTION,
        End::Run(..) => ACTION,
        End::Tree(_) => TREE_ACTION,
    };
    internal_id(task, generation, end.at(), purpose(what, place))
}

/// Returns the id of the task that does the check of this place.
#[must_use]
pub fn check_id(task: TaskId, check: &Check, place: usize) -> TaskId {
    internal_id(task, 0, check.time(task), purpose(CHECK, place))
}

/// Returns the purpose of the task that does what stands at this place.
const fn purpose(what: u64, place: usize) -> u64 {
    place as u64 ^ mix(what)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        action::{
            CheckTime,
            tests::{HOUR, actions, check},
        },
        fixtures,
        kin::{TreeEnd, TreeOutcome},
        task::Spec,
        time::Millis,
    };

    fn row(state: State) -> TaskRow {
        let spec = Spec {
            actions: Some(Box::new(actions())),
            ..fixtures::spec()
        };
        let mut row = fixtures::row(state, &Arc::new(spec));
        row.detail.end_time = state.is_terminal().then_some(fixtures::START);
        row
    }

    #[test]
    fn an_end_asks_for_its_actions() {
        let places = |state| {
            let row = row(state);
            let end = end_of_run(&row).unwrap();
            due(&row, end).map(|(place, _)| place).collect::<Vec<_>>()
        };
        assert_eq!(places(State::Dead), [0, 1]);
        assert_eq!(places(State::Cancelled), [1]);
        assert_eq!(end_of_run(&row(State::Claimed)), None);
        let mut erased = row(State::Dead);
        erased.detail.erased = true;
        assert_eq!(end_of_run(&erased), None);
    }

    #[test]
    fn the_end_of_a_tree_asks_for_its_own_actions() {
        let mut row = row(State::Succeeded);
        assert_eq!(end_of_tree(&row), None);
        for (outcome, places) in [
            (TreeOutcome::Completed, &[2][..]),
            (TreeOutcome::Faulted, &[2, 3]),
            (TreeOutcome::Cancelled, &[]),
        ] {
            let at = fixtures::START.after(HOUR);
            row.detail.tree = Some(TreeEnd { outcome, at });
            let end = end_of_tree(&row).unwrap();
            let found: Vec<usize> = due(&row, end).map(|(place, _)| place).collect();
            assert_eq!((found.as_slice(), end.at()), (places, at));
        }
        row.detail.erased = true;
        assert_eq!(end_of_tree(&row), None);
    }

    #[test]
    fn each_action_of_each_end_and_each_check_has_one_task() {
        let (task, end) = (fixtures::id(), Millis(1_003_000));
        let other = TaskId::new(fixtures::START, task.wheel(), 8);
        let check = check(CheckTime::At(end));
        let run = End::Run(State::Dead, end);
        let tree = |outcome| End::Tree(TreeEnd { outcome, at: end });
        let ids = [
            action_id(task, 0, run, 0),
            action_id(task, 0, run, 1),
            action_id(task, 1, run, 0),
            action_id(other, 0, run, 0),
            action_id(task, 0, tree(TreeOutcome::Faulted), 0),
            check_id(task, &check, 0),
            check_id(task, &check, 1),
            check_id(other, &check, 0),
        ];
        for (index, id) in ids.iter().enumerate() {
            assert_eq!((id.first_start(), id.wheel()), (end, task.wheel()));
            assert!(id.is_internal() && !ids[..index].contains(id));
        }
        assert_eq!(action_id(task, 0, run, 0), ids[0]);
        assert_eq!(action_id(task, 0, tree(TreeOutcome::Faulted), 0), ids[4]);
    }
}
