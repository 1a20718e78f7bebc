//! Tests of the rules of sequences.

use std::sync::Arc;

use super::*;
use crate::model::{
    entry::{self, is_left},
    fixtures::{self, START, id},
    row::{Detail, State},
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn rank(start: i64, random: u64) -> Rank {
    Rank {
        start: Millis(start),
        id: TaskId::new(Millis(start), id().wheel(), random),
        generation: 0,
        stamp: 7,
    }
}

fn member(generation: u32, sure: bool) -> Member {
    Member {
        rank: Rank {
            start: START,
            id: id(),
            generation,
            stamp: START.0 * 1000,
        },
        sure,
        until: START.after(PLACE_OPEN),
    }
}

fn row(state: State, generation: u32) -> TaskRow {
    TaskRow {
        generation,
        ..fixtures::row(state, &Arc::new(fixtures::spec()))
    }
}

fn holder(generation: u32) -> Holder {
    Holder {
        id: id(),
        generation,
        since: START,
        attempt: 0,
    }
}

#[test]
fn a_holder_stands_until_it_has_ended_or_was_moved() {
    for state in State::ALL {
        let over = if state.is_terminal() {
            Standing::Over
        } else {
            Standing::Stands
        };
        let stands = |row: &TaskRow| holder_stands(&holder(1), Some(row), START);
        assert_eq!(stands(&row(state, 1)), over, "{state:?}");
        assert_eq!(stands(&row(state, 2)), Standing::Over, "it was moved");
        assert_eq!(stands(&row(state, 0)), Standing::Stands, "an old read");
    }
}

#[test]
fn a_holder_for_one_attempt_lets_the_others_go_once_that_attempt_waits_for_the_next() {
    let held = |attempt| Holder {
        attempt,
        ..holder(0)
    };
    for state in State::ALL {
        let mut there = row(state, 0);
        for attempt in [1, 2, 3] {
            there.attempt = attempt;
            let stands = holder_stands(&held(2), Some(&there), START);
            let expected = match state {
                State::Retrying if attempt >= 2 => Standing::Waits,
                state if state.is_terminal() => Standing::Over,
                _ => Standing::Stands,
            };
            assert_eq!(stands, expected, "{state:?} {attempt}");
            let all = holder_stands(&held(0), Some(&there), START);
            assert_ne!(all, Standing::Waits, "{state:?} {attempt}");
        }
    }
    assert!(held(0).has(9) && held(3).has(3) && !held(3).has(4));
}

#[test]
fn a_task_waits_for_its_next_attempt_until_that_is_due() {
    let mut there = row(State::Retrying, 0);
    there.next = START;
    assert!(waits(&there, START.before(SECOND)));
    assert!(!waits(&there, START));
    for state in State::ALL {
        let mut other = row(state, 0);
        other.next = START.after(SECOND);
        assert_eq!(waits(&other, START), state == State::Retrying, "{state:?}");
    }
}

#[test]
fn a_holder_without_row_stands_until_its_row_may_be_gone() {
    let day = SECOND * 24 * 3600;
    let stands = |at| holder_stands(&holder(0), None, START.after(at));
    assert_eq!(stands(5 * day), Standing::Stands);
    assert_eq!(stands(6 * day), Standing::IfWritten);
    assert!(ABSENCE_TRUSTED + day == TERMINAL_TTL_MIN);
}

#[test]
fn a_sure_member_stands_until_it_has_ended_or_was_moved() {
    for state in State::ALL {
        let over = if state.is_terminal() {
            Standing::Over
        } else {
            Standing::Stands
        };
        for sure in [true, false] {
            let stands = |row: &TaskRow| member_stands(&member(1, sure), Some(row), START);
            assert_eq!(stands(&row(state, 1)), over, "{state:?}");
            assert_eq!(stands(&row(state, 2)), Standing::Over, "it was moved");
        }
        let early = member_stands(
            &member(1, true),
            Some(&row(state, 0)),
            START.after(99 * SECOND),
        );
        assert_eq!(early, Standing::Stands, "the row was read before its move");
    }
    let stands = |at| member_stands(&member(0, true), None, START.after(at));
    assert_eq!(stands(SECOND), Standing::Stands);
    assert_eq!(stands(SECOND * 6 * 24 * 3600), Standing::IfWritten);
}

/// A move that was not made left its row, and a later one to another start has taken the generation.
#[test]
fn a_row_of_a_move_that_was_not_made_does_not_stand_for_a_later_one() {
    let moved = |generation, start| {
        let row = row(State::New, generation);
        let detail = Detail {
            start,
            ..row.detail
        };
        TaskRow { detail, ..row }
    };
    let stands = |generation, sure, start| {
        let now = START.after(PLACE_OPEN + CLOCKS_APART);
        member_stands(
            &member(generation, sure),
            Some(&moved(generation, start)),
            now,
        )
    };
    let later = START.after(SECOND);
    assert_eq!(stands(1, false, later), Standing::Over);
    assert_eq!(stands(1, false, START), Standing::Stands);
    // It was made sure after its move was made, and nothing is moved in its first generation.
    assert_eq!(stands(1, true, later), Standing::Stands);
    assert_eq!(stands(0, false, later), Standing::Stands);
}

#[test]
fn a_row_that_is_not_sure_keeps_others_waiting_for_a_while() {
    let (open, ended) = (PLACE_OPEN, PLACE_OPEN + CLOCKS_APART);
    let until = START.after(ended);
    let stands = |generation, row: Option<TaskRow>, at| {
        member_stands(&member(generation, false), row.as_ref(), START.after(at))
    };
    for generation in [0, 1] {
        assert_eq!(stands(generation, None, open), Standing::Open(until));
    }
    assert_eq!(stands(0, None, ended), Standing::IfWritten);
    assert_eq!(
        stands(1, None, ended),
        Standing::Over,
        "a move that was not made"
    );
    let before = || Some(row(State::New, 0));
    assert_eq!(stands(1, before(), open), Standing::Open(until));
    assert_eq!(stands(1, before(), ended), Standing::Over);
    let moved = || Some(row(State::New, 1));
    assert_eq!(
        stands(1, moved(), ended),
        Standing::Stands,
        "the move was made"
    );
}

#[test]
fn a_removal_is_later_than_every_write_of_its_row() {
    let rank = rank(1000, 1);
    assert!(rank.sure_at() > rank.stamp);
    assert!(rank.removed_at(3) > rank.sure_at());
    assert_eq!(rank.removed_at(99), 99);
}

#[test]
fn bounds_lie_between_the_rows_that_they_divide() {
    let (one, other, later) = (rank(1000, 1), rank(1000, 2), rank(1001, 0));
    assert!(one < other && other < later);
    assert!(Bound::FIRST < Bound::at(Millis(1000)) && Bound::at(Millis(1000)) < one.bound());
    assert!(one.bound() < other.bound() && other.bound() < Bound::at(Millis(1001)));
    // A row that starts later than now may get rows before it that are not late.
    assert_eq!(bound(Some(&later), Millis(1000)), Bound::at(Millis(1000)));
    assert_eq!(bound(Some(&one), Millis(1001)), one.bound());
    assert_eq!(bound(None, Millis(5)), Bound::at(Millis(5)));
    let turn = Turn {
        holder: Some(holder(0)),
        from: other.bound(),
    };
    assert_eq!(turn.lowered(one.bound()).from, one.bound());
    assert_eq!(turn.lowered(later.bound()), turn);
}

#[test]
fn every_row_that_may_come_up_behind_a_decision_is_late() {
    let decided = START;
    // The writer's clock is as far from the decider's as clocks may be, and its row is there as late as it may be.
    let asked = decided.before(PLACE_OPEN).before(CLOCKS_APART);
    for start in [decided.0, decided.0 - 1] {
        assert!(is_late(Millis(start), asked));
    }
    assert!(!is_late(START, START.before(LATE_BEFORE)));
}

#[test]
fn only_tasks_of_a_callback_with_an_ordering_key_have_a_sequence() {
    let mut spec = fixtures::spec();
    assert_eq!(Sequence::of(&spec), None);
    spec.ordering_key = Some("account-3".to_owned());
    let found = Sequence::of(&spec).unwrap();
    assert_eq!((&*found.callback, &*found.key), ("mail", "account-3"));
}

/// The turn can be taken from a task that has not begun, a minute behind the time that entries are kept.
#[test]
fn a_claim_writes_an_old_turn_anew_a_minute_before_it_can_be_taken() {
    let kept = 600 * SECOND;
    let (just_before, then) = (START.after(kept).before(MILLI), START.after(kept));
    assert_eq!(holder(0).anew(1, kept, just_before), None);
    let anew = holder(0).anew(1, kept, then);
    assert_eq!(anew.map(|holder| holder.since), Some(then));
    assert!(anew.is_some_and(|anew| anew.is(id(), 0) && anew.attempt == holder(0).attempt));
    assert!(!is_left(
        START,
        kept,
        then.after(entry::LEFT_AFTER).before(MILLI)
    ));
    assert!(is_left(START, kept, then.after(entry::LEFT_AFTER)));
    assert_eq!(holder(0).anew(2, kept, then), None, "it has begun");
    assert_eq!(holder(1).anew(1, kept, then), None, "its move is known");
}
