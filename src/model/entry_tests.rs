//! What a firing entry means: the whole table, and what carries every task through it.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::model::{
    fixtures::{START, id, row, shape, spec},
    state::{Outcome, Refusal, next},
};

const SECOND: Duration = Duration::from_secs(1);

/// Long after everything that a fixture waits for.
const NOW: Millis = Millis(START.0 + 3_600_000);

fn look_of(spec: &Arc<Spec>, generation: u32, published: Option<Millis>) -> Entry {
    Entry::look(id(), generation, NOW, published, START, Arc::clone(spec), 0)
}

fn end_event(row: Option<&TaskRow>, spec: &Arc<Spec>) -> Event {
    let known = Known {
        row,
        heartbeat: None,
    };
    match decide(&look_of(spec, 0, None), known, NOW, &shape()) {
        Decision::End { event } => event,
        other => panic!("{other:?}"),
    }
}

fn applied(row: &TaskRow, event: Event, now: Millis) -> TaskRow {
    let spec = Arc::clone(&row.detail.spec);
    next(id(), Some(row), &spec, event, now, Uuid::from_u128(1))
        .unwrap()
        .row
}

#[test]
fn a_look_that_lost_to_a_reschedule_does_not_expire_the_task() {
    let spec = Arc::new(Spec {
        expire_after: Some(SECOND),
        ..spec()
    });
    let waiting = row(State::New, &spec);
    let event = end_event(Some(&waiting), &spec);
    let start = NOW.after(SECOND * 1000);
    let moved = applied(&waiting, Event::Reschedule { start }, NOW);
    let again = next(id(), Some(&moved), &spec, event, NOW, Uuid::nil());
    assert_eq!(again.map(|made| made.row.state), Err(Refusal::Stale));
}

#[test]
fn a_look_that_lost_to_a_snooze_does_not_end_the_next_attempt() {
    let spec = Arc::new(spec());
    let last = TaskRow {
        tries: 3,
        attempt: 3,
        ..row(State::Claimed, &spec)
    };
    let event = end_event(Some(&last), &spec);
    let snoozed = Event::Settle {
        attempt: 3,
        outcome: Outcome::Snoozed { after: SECOND },
        chance: 0,
    };
    let waiting = applied(&last, snoozed, NOW);
    let claim = Event::Claim {
        generation: 0,
        expected_attempt: 3,
        worker: "w".to_owned(),
        heartbeat: None,
    };
    let running = applied(&waiting, claim, NOW.after(SECOND));
    let again = next(
        id(),
        Some(&running),
        &spec,
        event,
        NOW.after(SECOND),
        Uuid::nil(),
    );
    assert_eq!(again.map(|made| made.row.state), Err(Refusal::Stale));
}

#[test]
fn a_terminal_row_outlives_every_look_of_its_task() {
    let spec = Arc::new(spec());
    for step in 0..64 {
        let id = id().with_look_step(crate::model::look_step::LookStep::from_low_bits(step));
        let waiting = TaskRow {
            id,
            ..row(State::New, &spec)
        };
        let month = START.after(SECOND * 30 * 24 * 3600);
        let look = Entry::look(id, 0, month, Some(START), START, Arc::clone(&spec), 0);
        let known = Known {
            row: Some(&waiting),
            heartbeat: None,
        };
        let Decision::Publish(publish) = decide(&look, known, month, &shape()) else {
            panic!("it is due");
        };
        let made = next(id, Some(&waiting), &spec, Event::Cancel, month, Uuid::nil()).unwrap();
        assert!(
            made.row.last >= publish.look_at.unwrap(),
            "step {step}: a look at {:?} behind {}",
            publish.look_at,
            made.row.last
        );
    }
}
