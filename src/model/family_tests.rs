//! Tests of the rules of families.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::model::{
    fixtures,
    state::{self, Detail, Event, Refusal},
    task::Spec,
};

fn row(state: State, is_parent: bool, tree: Option<TreeEnd>) -> TaskRow {
    let kin = Kin {
        is_parent,
        ..Kin::default()
    };
    let spec = Spec {
        kin: Some(Box::new(kin)),
        ..fixtures::spec()
    };
    let row = fixtures::row(state, &Arc::new(spec));
    let detail = Detail {
        tree,
        end_time: state.is_terminal().then_some(Millis(5)),
        ..row.detail
    };
    TaskRow { detail, ..row }
}

#[test]
fn an_add_enters_an_open_tree_opens_a_closing_one_and_is_late_for_another() {
    assert_eq!(add(Tree::Open), Add::Enter);
    assert_eq!(add(Tree::Closing), Add::Reopen);
    for tree in [Tree::Completed, Tree::Faulted, Tree::Cancelled] {
        assert_eq!(add(tree), Add::Over);
    }
}

#[test]
fn a_check_waits_for_the_own_run_and_takes_over_what_is_closing() {
    for tree in [Tree::Open, Tree::Closing] {
        assert_eq!(check(tree, false), Check::Stop);
    }
    assert_eq!(check(Tree::Open, true), Check::Sweep);
    assert_eq!(check(Tree::Closing, true), Check::Read);
    for tree in [Tree::Completed, Tree::Faulted, Tree::Cancelled] {
        assert_eq!(check(tree, true), Check::EndSteps);
    }
}

#[test]
fn a_tree_faults_by_its_own_run_or_by_a_child() {
    for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        let bad = matches!(state, State::Failed | State::Dead | State::Expired);
        let expected = if bad { Tree::Faulted } else { Tree::Completed };
        assert_eq!(end(state, false, false), expected, "{state:?}");
        assert_eq!(end(state, true, false), Tree::Faulted, "{state:?}");
        for child_faulted in [false, true] {
            assert_eq!(end(state, child_faulted, true), Tree::Cancelled);
        }
    }
}

#[test]
fn a_tree_is_cancelled_once_and_before_its_end() {
    for tree in [Tree::Open, Tree::Closing] {
        assert_eq!(cancel(tree, false), Cancel::Write);
        assert_eq!(cancel(tree, true), Cancel::Before);
    }
    assert_eq!(cancel(Tree::Cancelled, true), Cancel::Before);
    for tree in [Tree::Completed, Tree::Faulted] {
        assert_eq!(cancel(tree, false), Cancel::Late);
    }
    assert!(takes(false, false) && takes(false, true) && takes(true, true));
    assert!(!takes(true, false));
}

#[test]
fn a_parent_has_an_outcome_once_its_tree_has_ended() {
    let end = |outcome| TreeEnd {
        outcome,
        at: Millis(9),
    };
    let outcome = |state, tree, at| {
        Some(Outcome {
            state,
            tree,
            at: Millis(at),
        })
    };
    assert_eq!(Outcome::of(&row(State::Claimed, false, None)), None);
    let own = Outcome::of(&row(State::Dead, false, None));
    assert_eq!(own, outcome(State::Dead, TreeOutcome::Faulted, 5));
    assert_eq!(Outcome::of(&row(State::Succeeded, true, None)), None);
    for tree in TreeOutcome::ALL {
        let whole = Outcome::of(&row(State::Succeeded, true, Some(end(tree)))).unwrap();
        assert_eq!(Some(whole), outcome(State::Succeeded, tree, 9));
        assert_eq!(whole.faults(), tree == TreeOutcome::Faulted);
    }
    // A part that was cancelled as a whole counts as that, though its own run had failed.
    let part = Outcome::of(&row(State::Dead, true, Some(end(TreeOutcome::Cancelled))));
    assert!(!part.unwrap().faults());
}

#[test]
fn a_child_that_waits_is_let_go_or_ends_and_nothing_else() {
    let kin = Kin {
        parent: Some(fixtures::id()),
        after_parent: true,
        ..Kin::default()
    };
    let spec = Arc::new(Spec {
        kin: Some(Box::new(kin)),
        ..fixtures::spec()
    });
    let (id, now) = (fixtures::id(), Millis(fixtures::START.0 + 9));
    let next =
        |row: Option<&TaskRow>, event| state::next(id, row, &spec, event, now, Uuid::from_u128(1));
    let waits = next(None, Event::Await).unwrap().row;
    assert!(waits.waits_for_parent() && !waits.state.is_terminal());
    assert_eq!(next(Some(&waits), Event::Await), Err(Refusal::Stale));
    // The row may not be there yet.
    for before in [None, Some(&waits)] {
        let start = Millis(now.0 + 70);
        let gone = next(before, Event::Release { start }).unwrap().row;
        assert_eq!((gone.state, gone.generation), (State::New, 1));
        assert_eq!((gone.next, gone.detail.start), (start, start));
        assert!(!gone.waits_for_parent());
        for late in [Event::Release { start }, Event::ParentFailed, Event::Await] {
            assert_eq!(next(Some(&gone), late), Err(Refusal::Stale));
        }
        let left = next(before, Event::ParentFailed).unwrap().row;
        assert_eq!(left.state, State::Cancelled);
        assert_eq!(left.detail.error.as_deref(), Some(state::PARENT_FAILED));
        let ended = Err(Refusal::Ended {
            state: State::Cancelled,
        });
        assert_eq!(next(Some(&left), Event::Release { start }), ended);
    }
    assert_eq!(
        next(Some(&waits), Event::Cancel).unwrap().row.state,
        State::Cancelled
    );
    let claim = Event::Claim {
        generation: 0,
        expected_attempt: 0,
        worker: "w".to_owned(),
        heartbeat: None,
        published: None,
    };
    for event in [claim, Event::Expire, Event::Kept] {
        assert_eq!(next(Some(&waits), event), Err(Refusal::Stale));
    }
    let start = now;
    let moved = next(Some(&waits), Event::Reschedule { start });
    assert_eq!(moved, Err(Refusal::Running));
}

#[test]
fn numbers_are_read_back() {
    for number in 1..=5 {
        let tree = Tree::from_number(number).unwrap();
        assert_eq!((tree.number(), tree.has_ended()), (number, number > 2));
    }
    assert_eq!(Tree::from_number(0), None);
}

#[test]
fn each_round_of_a_row_wins_over_those_before() {
    let stamp = 1_800_000_000_000_000;
    let mut before = 0;
    for round in [0, 1, 2, u32::MAX - 1, u32::MAX] {
        let opened = opened_written(round, false);
        assert!(opened > before && opened <= opened_written(round, true));
        let ended = ended_written(round);
        assert!(ended > opened_written(round, true));
        before = let_go_written(round, stamp);
        assert!(before > ended);
    }
}

#[test]
fn each_round_of_a_tree_adds_behind_the_refusals_before_and_before_all_ends() {
    let mut before = 0;
    for round in [0, 1, 2, u32::MAX - 1, u32::MAX] {
        let (added, refused) = (added_written(round), refused_written(round));
        assert!(before < added && added < refused && refused < ended_written(0));
        before = refused;
    }
}

/// Stored places never change: a repetition by a later version must find the same rows and ids.
#[test]
fn places_of_children_are_fixed() {
    let id = fixtures::id();
    assert!(bucket(id) < BUCKETS);
    let seeds = [
        seed(id, &[]),
        seed(id, &[0]),
        seed(id, &[1]),
        seed(id, &[0, 0]),
    ];
    for (place, one) in seeds.iter().enumerate() {
        assert!(!seeds[place + 1..].contains(one), "{place}");
    }
    assert_eq!(seed(id, &[3, 1]), seed(id, &[3, 1]));
}

#[test]
fn a_tree_is_held_open_behind_its_run_until_its_time_or_a_word() {
    let hour = Duration::from_secs(3600);
    let kin = Kin {
        is_parent: true,
        children_within: Some(hour),
        ..Kin::default()
    };
    let spec = |kin| Spec {
        kin: Some(Box::new(kin)),
        ..fixtures::spec()
    };
    let held = Arc::new(spec(kin));
    for state in State::ALL {
        let mut row = fixtures::row(state, &held);
        row.detail.end_time = state.is_terminal().then_some(fixtures::START);
        let holds = state.is_terminal() && state != State::Cancelled;
        let until = holds.then(|| fixtures::START.after(hour));
        assert_eq!(held_until(&row, false, false), until, "{state:?}");
        for (complete, cancelled) in [(true, false), (false, true)] {
            assert_eq!(held_until(&row, complete, cancelled), None, "{state:?}");
        }
        let plain = Kin {
            children_within: None,
            ..kin
        };
        row.detail.spec = Arc::new(spec(plain));
        assert_eq!(held_until(&row, false, false), None, "{state:?}");
    }
}

#[test]
fn the_word_that_all_children_were_added_is_noted_once_and_not_behind_the_end() {
    for tree in [Tree::Open, Tree::Closing] {
        assert_eq!(complete(tree, false, false), Completion::Write);
        assert_eq!(complete(tree, true, false), Completion::Before);
        assert_eq!(complete(tree, false, true), Completion::Cancelled);
    }
    for tree in [Tree::Completed, Tree::Faulted] {
        assert_eq!(complete(tree, false, false), Completion::Late);
        assert_eq!(complete(tree, true, false), Completion::Before);
    }
    assert_eq!(complete(Tree::Cancelled, true, true), Completion::Cancelled);
}
