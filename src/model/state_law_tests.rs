//! The property tests of the life cycle check rules that no history of events breaks.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use uuid::Uuid;

use super::{
    decision::{self, Decision, Known},
    entry::Entry,
    fixtures::{START, id, row, shape, spec},
    look_step::LookStep,
    state::{
        Event, Expect, Outcome, State, TERMINAL_TTL_MIN, TaskRow, Transition, next, unwritten,
    },
    task::Spec,
    time::Millis,
};

const SECOND: Duration = Duration::from_secs(1);

fn settle_of(attempt: u32, outcome: Outcome) -> Event {
    Event::Settle {
        attempt,
        outcome,
        answered: None,
        chance: 0,
    }
}

fn retry_of(after: Option<Duration>) -> Outcome {
    Outcome::Retry {
        error: "e".to_owned(),
        after,
    }
}

/// A step of a history: what happens, how much later, and a number for whatever the event needs.
fn step() -> impl Strategy<Value = (u8, i64, u32)> {
    let later = prop_oneof![0..2000i64, 0..120_000i64, 0..100_000_000i64];
    (0..14u8, later, any::<u32>())
}

/// The event of a step: mostly one that could apply, sometimes one of the past or of nowhere.
fn event_of((kind, _, number): (u8, i64, u32), row: Option<&TaskRow>, now: Millis) -> Event {
    let (generation, attempt) = row.map_or((0, 0), |row| (row.generation, row.attempt));
    let off = |value: u32| {
        if number.is_multiple_of(5) {
            value ^ 1
        } else {
            value
        }
    };
    let beat = number
        .is_multiple_of(3)
        .then(|| now.before(SECOND * (number % 60)));
    let after = Duration::from_millis(u64::from(number % 1_000_000));
    match kind {
        0..=3 => Event::Claim {
            generation: off(generation),
            expected_attempt: if kind == 0 { off(attempt) } else { attempt },
            published: None,
            worker: "w".to_owned(),
            heartbeat: beat,
        },
        4 => settle_of(off(attempt), Outcome::Succeeded { result: None }),
        5 => settle_of(off(attempt), retry_of(None)),
        6 => settle_of(off(attempt), Outcome::Snoozed { after }),
        7 => settle_of(off(attempt), retry_of(Some(after))),
        8 => Event::Cancel,
        9 => Event::Reschedule {
            start: now.after(after),
        },
        10 => Event::Expire,
        11 => Event::Kept,
        12 => Event::Redrive {
            start: now.after(after),
        },
        _ => Event::Abandoned {
            attempt: off(attempt),
            heartbeat: beat,
        },
    }
}

/// Checks the rules that every applied transition keeps.
fn check(before: Option<&TaskRow>, event: &Event, now: Millis, made: &Transition) {
    let (old, row) = (
        before
            .cloned()
            .unwrap_or_else(|| unwritten(made.row.id, &made.row.detail.spec)),
        &made.row,
    );
    assert!(
        made.expect.holds(before) && !made.expect.holds(Some(row)),
        "{made:?}"
    );
    let redriven = matches!(event, Event::Redrive { .. });
    assert_eq!(old.state == State::Dead, redriven, "{old:?}");
    assert!(redriven || !old.state.is_terminal(), "{old:?}");
    let claims = matches!(event, Event::Claim { .. });
    assert_eq!(row.attempt, old.attempt + u32::from(claims));
    assert_eq!(
        row.generation,
        old.generation + u32::from(redriven || matches!(event, Event::Reschedule { .. }))
    );
    assert!(
        row.tries <= row.attempt && row.tries <= row.detail.spec.max_attempts,
        "{row:?}"
    );
    assert!(
        row.last >= old.last && row.last >= row.next,
        "{old:?} {row:?}"
    );
    assert!(!row.cancel_requested || row.state == State::Claimed || row.state.is_terminal());
    assert_eq!(row.nonce, Uuid::from_u128(1));
    if let Event::Claim {
        generation,
        expected_attempt,
        heartbeat,
        ..
    } = event
    {
        assert!(
            old.next <= now && old.generation == *generation && old.attempt == *expected_attempt
        );
        assert!(old.state != State::Claimed || old.alive_until(*heartbeat) <= now);
        assert!(!old.cancel_requested && row.next > now);
    }
    assert_eq!(made.ttl.is_some(), row.state.is_terminal());
    if let Some(ttl) = made.ttl {
        assert!(
            now.after(ttl) >= row.last.after(TERMINAL_TTL_MIN) && ttl >= row.detail.spec.retention
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_the_rules(steps in prop::collection::vec(step(), 1..40), expires: bool, long_step in 0..64u8) {
        let spec = Arc::new(Spec { expire_after: expires.then_some(SECOND * 600), max_attempts: 1 + u32::from(long_step % 4), ..spec() });
        let id = id().with_look_step(LookStep::from_low_bits(long_step));
        let mut row: Option<TaskRow> = None;
        let mut now = START;
        let mut seen = vec![Expect::Absent];
        let mut furthest = Millis(0);
        for step in steps {
            now = Millis(now.0 + step.1);
            let heartbeat = step.2.is_multiple_of(7).then_some(now);
            // A scanner looks at it, too: where its next look lies is what a terminal row must outlive.
            let look = Entry::look(id, 0, now, (step.2 % 2 == 0).then_some(now), START, Arc::clone(&spec), 0);
            match decision::decide(&look, Known { row: row.as_ref(), heartbeat }, now, &shape()) {
                Decision::LookAgain { at, .. } => furthest = furthest.max(at),
                Decision::Publish(publish) => furthest = furthest.max(publish.look_at.unwrap()),
                Decision::Drop | Decision::End { .. } | Decision::EndSteps => {}
            }
            let event = event_of(step, row.as_ref(), now);
            let Ok(made) = next(id, row.as_ref(), &spec, event.clone(), now, Uuid::from_u128(1)) else {
                continue;
            };
            let before = row.clone().unwrap_or_else(|| unwritten(id, &spec));
            prop_assert_eq!(before.id, made.row.id);
            check(row.as_ref(), &event, now, &made);
            prop_assert!(!seen.contains(&made.row.seen()), "a condition that held before holds again: {:?}", made.row);
            seen.push(made.row.seen());
            if made.row.state.is_terminal() {
                prop_assert!(made.row.last >= furthest, "a look at {} lies behind {}", furthest, made.row.last);
            }
            row = Some(made.row);
        }
    }
}

proptest! {
    /// A receiver may ask for a wait of nothing, and for longer than the rule waits.
    #[test]
    fn a_least_wait_is_met_and_never_shortens_the_backoff(chance: u64, least in 0..100_000_000u64) {
        let least = Duration::from_millis(least);
        let claimed = row(State::Claimed, &Arc::new(spec()));
        let outcome = Outcome::RetryNoSooner { error: "e".to_owned(), least };
        let event = Event::Settle { attempt: claimed.attempt, outcome, answered: None, chance };
        let spec = &claimed.detail.spec;
        let settled = next(id(), Some(&claimed), spec, event, START, Uuid::from_u128(1)).unwrap();
        let wait = spec.backoff.wait(claimed.tries, chance).max(least);
        prop_assert_eq!(settled.row.next, START.after(wait));
        prop_assert_eq!(settled.row.state, State::Retrying);
    }
}
