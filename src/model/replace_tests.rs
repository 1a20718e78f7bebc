//! These tests check for the state machine that a replaced task never starts again and keeps what comes instead.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    event::{Event, Outcome, Refusal},
    fixtures::{START, id, row, spec},
    holder::Holder,
    ids::TaskId,
    row::{State, TaskRow},
    state::{Transition, next},
    time::Millis,
};

const NOW: Millis = Millis(START.0 + 1_000);

fn instead() -> Arc<Holder> {
    Arc::new(Holder {
        id: TaskId::new(Millis(START.0 + 9), id().wheel(), 9),
        generation: 0,
        spec: Arc::new(spec()),
    })
}

fn apply(row: Option<&TaskRow>, event: Event) -> Result<Transition, Refusal> {
    next(id(), row, &Arc::new(spec()), event, NOW, Uuid::from_u128(1))
}

fn replace(row: Option<&TaskRow>) -> Result<Transition, Refusal> {
    let next = instead();
    apply(row, Event::Replace { next })
}

fn claim(row: &TaskRow) -> Event {
    Event::Claim {
        generation: row.generation,
        expected_attempt: row.attempt,
        worker: "w".to_owned(),
        heartbeat: None,
        published: None,
    }
}

#[test]
fn a_task_that_waits_ends_and_names_what_comes_instead() {
    let spec = Arc::new(spec());
    let (new, retrying) = (row(State::New, &spec), row(State::Retrying, &spec));
    for before in [None, Some(&new), Some(&retrying)] {
        let after = replace(before).unwrap();
        assert_eq!(after.row.state, State::Cancelled);
        assert_eq!(after.row.detail.next, Some(instead()));
        assert_eq!(after.row.detail.end_time, Some(NOW));
        assert!(after.ttl.is_some());
        let again = apply(Some(&after.row), claim(&after.row));
        assert_eq!(again.unwrap_err(), Refusal::Stale);
        assert!(replace(Some(&after.row)).is_err());
    }
}

#[test]
fn a_running_task_is_told_to_stop_and_keeps_what_comes_instead_to_its_end() {
    let spec = Arc::new(spec());
    let running = row(State::Claimed, &spec);
    let told = replace(Some(&running)).unwrap().row;
    assert_eq!((told.state, told.cancel_requested), (State::Claimed, true));
    assert_eq!(replace(Some(&told)).unwrap_err(), Refusal::Running);
    let (error, result) = ("no".to_owned(), None);
    let after = None;
    for (outcome, state) in [
        (Outcome::Retry { error, after }, State::Cancelled),
        (Outcome::Succeeded { result }, State::Succeeded),
    ] {
        let event = Event::Settle {
            attempt: told.attempt,
            outcome,
            answered: None,
            chance: 0,
        };
        let ended = apply(Some(&told), event).unwrap().row;
        assert_eq!(ended.state, state);
        assert_eq!(ended.detail.next, Some(instead()));
    }
    let lost = Event::Abandoned {
        attempt: told.attempt,
        heartbeat: None,
    };
    let late = told.next.after(spec.heartbeat_timeout);
    let ended = next(id(), Some(&told), &spec, lost, late, Uuid::nil()).unwrap();
    assert_eq!(ended.row.state, State::Cancelled);
    assert_eq!(ended.row.detail.next, Some(instead()));
}

#[test]
fn a_task_that_has_ended_or_was_told_to_stop_is_not_replaced() {
    let spec = Arc::new(spec());
    for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        let ended = row(state, &spec);
        assert_eq!(replace(Some(&ended)).unwrap_err(), Refusal::Ended { state });
    }
    let told = TaskRow {
        cancel_requested: true,
        ..row(State::Claimed, &spec)
    };
    assert_eq!(replace(Some(&told)).unwrap_err(), Refusal::Running);
}
