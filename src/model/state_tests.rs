//! The tests of the life cycle check every event in every state, and the meaning of the protocol's words in each.

use super::*;
use crate::model::fixtures::{START, YEARS_10, id, row, spec};

const SECOND: Duration = Duration::from_secs(1);

/// Long after everything that a fixture waits for.
const NOW: Millis = Millis(START.0 + 3_600_000);

fn apply(row: Option<&TaskRow>, event: Event, now: Millis) -> Result<Transition, Refusal> {
    let spec = row.map_or_else(|| Arc::new(spec()), |row| Arc::clone(&row.detail.spec));
    next(id(), row, &spec, event, now, Uuid::from_u128(1))
}

fn claim_of(generation: u32, expected_attempt: u32) -> Event {
    Event::Claim {
        generation,
        expected_attempt,
        worker: "w".to_owned(),
        heartbeat: None,
        published: None,
    }
}

fn settle_of(attempt: u32, outcome: Outcome) -> Event {
    Event::Settle {
        attempt,
        outcome,
        answered: None,
        chance: 0,
    }
}

fn retry() -> Outcome {
    Outcome::Retry {
        error: "e".to_owned(),
        after: None,
    }
}

fn snooze() -> Outcome {
    Outcome::Snoozed { after: SECOND }
}

fn failed() -> Outcome {
    Outcome::Failed {
        error: "e".to_owned(),
    }
}

const fn succeeded() -> Outcome {
    Outcome::Succeeded { result: None }
}

fn abandoned(attempt: u32) -> Event {
    Event::Abandoned {
        attempt,
        heartbeat: None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    To(State),
    Stale,
    Held,
    Early,
    Running,
    Ended,
}

fn answer(result: Result<Transition, Refusal>) -> Answer {
    match result {
        Ok(transition) => Answer::To(transition.row.state),
        Err(Refusal::Stale) => Answer::Stale,
        Err(Refusal::Held { .. }) => Answer::Held,
        Err(Refusal::Early { .. }) => Answer::Early,
        Err(Refusal::Running | Refusal::HasTree) => Answer::Running,
        Err(Refusal::Ended { .. }) => Answer::Ended,
    }
}

/// Every event at a task of attempt `attempt`, and what it does to one that waits (absent, new, retrying), to one whose
/// attempt is claimed and has stopped giving signs of life, and to one that has ended.
fn table(attempt: u32) -> Vec<(Event, Millis, [Answer; 3])> {
    use Answer::{Early, Ended, Held, Running, Stale, To};
    use State::{Cancelled, Claimed, Dead, Expired, Failed, New, Retrying, Succeeded};
    let start = NOW.after(SECOND);
    let before = START.before(SECOND);
    vec![
        (claim_of(0, attempt), NOW, [To(Claimed), To(Claimed), Stale]),
        (claim_of(0, attempt), before, [Early, Held, Stale]),
        (claim_of(1, attempt), NOW, [Stale, Held, Stale]),
        (claim_of(0, attempt + 1), NOW, [Stale, Held, Stale]),
        (
            claim_of(0, attempt.wrapping_sub(1)),
            NOW,
            [Stale, Held, Stale],
        ),
        (
            settle_of(attempt, succeeded()),
            NOW,
            [Stale, To(Succeeded), Stale],
        ),
        (
            settle_of(attempt, failed()),
            NOW,
            [Stale, To(Failed), Stale],
        ),
        (
            settle_of(attempt, retry()),
            NOW,
            [Stale, To(Retrying), Stale],
        ),
        (
            settle_of(attempt, snooze()),
            NOW,
            [Stale, To(Retrying), Stale],
        ),
        (
            settle_of(attempt + 1, succeeded()),
            NOW,
            [Stale, Stale, Stale],
        ),
        (
            settle_of(attempt.wrapping_sub(1), succeeded()),
            NOW,
            [Stale, Stale, Stale],
        ),
        (Event::Cancel, NOW, [To(Cancelled), To(Claimed), Ended]),
        (dropped(), NOW, [To(Cancelled), To(Claimed), Ended]),
        (Event::Kept, NOW, [To(Succeeded), Stale, Ended]),
        (Event::Reschedule { start }, NOW, [To(New), Running, Ended]),
        (Event::Redrive { start }, NOW, [Stale, Stale, Ended]),
        (Event::Expire, NOW, [To(Expired), Running, Ended]),
        (Event::Expire, before, [Stale, Running, Ended]),
        (abandoned(attempt), NOW, [Stale, To(Dead), Ended]),
        (abandoned(attempt), before, [Stale, Held, Ended]),
        (abandoned(attempt + 1), NOW, [Stale, Stale, Ended]),
    ]
}

fn dropped() -> Event {
    Event::Dropped {
        reason: DROPPED.to_owned(),
    }
}

#[test]
fn every_event_in_every_state_does_what_is_listed() {
    let spec = Arc::new(Spec {
        expire_after: Some(SECOND),
        ..spec()
    });
    for state in [None].into_iter().chain(State::ALL.map(Some)) {
        let row = state.map(|state| row(state, &spec));
        let attempt = row.as_ref().map_or(0, |row| row.attempt);
        for (event, now, expected) in table(attempt) {
            let mut row = row.clone();
            if matches!(event, Event::Abandoned { .. })
                && let Some(row) = &mut row
            {
                row.tries = spec.max_attempts;
            }
            let expected = match state {
                None | Some(State::New | State::Retrying) => expected[0],
                Some(State::Claimed) => expected[1],
                Some(State::Dead) if matches!(event, Event::Redrive { .. }) => {
                    Answer::To(State::New)
                }
                Some(_) => expected[2],
            };
            let got = answer(next(
                id(),
                row.as_ref(),
                &spec,
                event.clone(),
                now,
                Uuid::nil(),
            ));
            assert_eq!(got, expected, "{event:?} in {state:?} at {now}");
        }
    }
}

#[test]
fn a_stored_number_is_a_state_for_ever() {
    let numbers = State::ALL.map(State::number);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    for number in i8::MIN..=i8::MAX {
        let state = State::from_number(number);
        assert_eq!(state.is_some(), (1..=8).contains(&number));
        assert_eq!(
            state.is_some_and(State::is_terminal),
            (4..=8).contains(&number)
        );
        assert_eq!(state.map_or(number, State::number), number);
    }
}

#[test]
fn what_a_clock_that_was_ahead_has_begun_is_not_tried_again_before_its_start() {
    let spec = Arc::new(spec());
    let claimed = row(State::Claimed, &spec);
    let start = claimed.detail.start;
    let early = start.before(SECOND * 3600);
    let settle = settle_of(claimed.attempt, retry());
    let settled = apply(Some(&claimed), settle, early).unwrap();
    assert_eq!(settled.row.next, start);
}

#[test]
fn a_task_that_always_fails_is_dead_after_its_attempts() {
    let mut row: Option<TaskRow> = None;
    let mut now = START;
    for attempt in 1..=3 {
        let claimed = apply(row.as_ref(), claim_of(0, attempt - 1), now)
            .unwrap()
            .row;
        assert_eq!((claimed.attempt, claimed.tries), (attempt, attempt));
        let settled = apply(Some(&claimed), settle_of(attempt, retry()), now).unwrap();
        if attempt < 3 {
            assert_eq!(settled.row.next, now.after(SECOND * 10), "the backoff");
            assert_eq!(
                answer(apply(
                    Some(&settled.row),
                    claim_of(0, attempt),
                    settled.row.next.before(SECOND)
                )),
                Answer::Early
            );
        }
        now = settled.row.next;
        row = Some(settled.row);
    }
    let row = row.unwrap();
    assert_eq!(row.state, State::Dead);
    assert_eq!(row.detail.error.as_deref(), Some("e"));
    assert!(row.detail.end_time.is_some());
}

#[test]
fn a_snooze_counts_as_an_attempt_and_not_as_a_try() {
    let mut row: Option<TaskRow> = None;
    let mut now = START;
    for attempt in 1..=20 {
        let claimed = apply(row.as_ref(), claim_of(0, attempt - 1), now)
            .unwrap()
            .row;
        assert_eq!((claimed.attempt, claimed.tries), (attempt, 1));
        let snoozed = apply(Some(&claimed), settle_of(attempt, snooze()), now)
            .unwrap()
            .row;
        assert_eq!((snoozed.state, snoozed.tries), (State::Retrying, 0));
        assert_eq!(snoozed.next, now.after(SECOND));
        now = snoozed.next;
        row = Some(snoozed);
    }
}

#[test]
fn the_wait_that_a_callback_asks_for_replaces_the_backoff() {
    let outcome = Outcome::Retry {
        error: "e".to_owned(),
        after: Some(SECOND * 7),
    };
    let claimed = row(State::Claimed, &Arc::new(spec()));
    let settled = apply(Some(&claimed), settle_of(1, outcome), NOW).unwrap();
    assert_eq!(settled.row.next, NOW.after(SECOND * 7));
}

#[test]
fn a_requested_cancel_wins_against_every_further_try() {
    let spec = Arc::new(spec());
    let running = apply(Some(&row(State::Claimed, &spec)), Event::Cancel, NOW)
        .unwrap()
        .row;
    assert!(running.cancel_requested && running.state == State::Claimed && running.attempt == 1);
    assert_eq!(
        answer(apply(Some(&running), Event::Cancel, NOW)),
        Answer::Running
    );
    assert_eq!(
        answer(apply(Some(&running), claim_of(0, 1), NOW)),
        Answer::Stale
    );
    for (outcome, end) in [
        (succeeded(), State::Succeeded),
        (failed(), State::Failed),
        (retry(), State::Cancelled),
        (snooze(), State::Cancelled),
    ] {
        let settled = apply(Some(&running), settle_of(1, outcome.clone()), NOW);
        assert_eq!(answer(settled), Answer::To(end), "{outcome:?}");
    }
    for tries in 1..=3 {
        let running = TaskRow {
            tries,
            ..running.clone()
        };
        let ended = apply(Some(&running), abandoned(1), NOW);
        assert_eq!(answer(ended), Answer::To(State::Cancelled), "{tries} tries");
    }
}

#[test]
fn an_abandoned_attempt_that_was_not_the_last_is_left_to_the_next_claim() {
    let spec = Arc::new(spec());
    for tries in 1..=2 {
        let row = TaskRow {
            tries,
            ..row(State::Claimed, &spec)
        };
        assert_eq!(answer(apply(Some(&row), abandoned(1), NOW)), Answer::Stale);
        assert_eq!(
            answer(apply(Some(&row), claim_of(0, 1), NOW)),
            Answer::To(State::Claimed)
        );
    }
    let used_up = TaskRow {
        tries: 3,
        ..row(State::Claimed, &spec)
    };
    assert_eq!(
        answer(apply(Some(&used_up), claim_of(0, 1), NOW)),
        Answer::Stale
    );
}

#[test]
fn a_sign_of_life_keeps_others_away_until_it_is_old() {
    let spec = Arc::new(spec());
    let row = TaskRow {
        tries: 3,
        ..row(State::Claimed, &spec)
    };
    let second = TaskRow {
        tries: 1,
        ..row.clone()
    };
    let beat = Some(NOW.before(SECOND * 10));
    let until = NOW.after(SECOND * 20);
    for (now, alive) in [(NOW, true), (until.before(SECOND), true), (until, false)] {
        let claim = Event::Claim {
            generation: 0,
            expected_attempt: 1,
            worker: "w".to_owned(),
            heartbeat: beat,
            published: None,
        };
        let abandoned = Event::Abandoned {
            attempt: 1,
            heartbeat: beat,
        };
        let claimed = apply(Some(&second), claim, now);
        let ended = apply(Some(&row), abandoned, now);
        if alive {
            assert_eq!(claimed, Err(Refusal::Held { until }));
            assert_eq!(ended, Err(Refusal::Held { until }));
        } else {
            assert_eq!(answer(claimed), Answer::To(State::Claimed));
            assert_eq!(answer(ended), Answer::To(State::Dead));
        }
    }
}

#[test]
fn a_claim_never_comes_before_the_start_whatever_it_says() {
    for (generation, next) in [(0, START), (1, NOW)] {
        let spec = Arc::new(spec());
        let row = TaskRow {
            generation,
            next,
            ..row(State::New, &spec)
        };
        let row = (generation > 0).then_some(&row);
        let early = apply(row, claim_of(generation, 0), Millis(next.0 - 1));
        assert_eq!(early, Err(Refusal::Early { not_before: next }));
        assert_eq!(
            answer(apply(row, claim_of(generation, 0), next)),
            Answer::To(State::Claimed)
        );
    }
}

#[test]
fn a_rescheduled_task_forgets_its_old_start_and_keeps_its_attempts() {
    let spec = Arc::new(spec());
    let start = NOW.after(SECOND * 1000);
    let moved = apply(
        Some(&row(State::Retrying, &spec)),
        Event::Reschedule { start },
        NOW,
    )
    .unwrap();
    assert_eq!(moved.row.state, State::New);
    assert_eq!(
        (moved.row.generation, moved.row.attempt, moved.row.tries),
        (1, 1, 1)
    );
    assert_eq!((moved.row.next, moved.row.detail.start), (start, start));
    for stale in [claim_of(0, 1), claim_of(1, 0)] {
        assert_eq!(answer(apply(Some(&moved.row), stale, start)), Answer::Stale);
    }
    assert_eq!(
        answer(apply(Some(&moved.row), claim_of(1, 1), start)),
        Answer::To(State::Claimed)
    );
}

#[test]
fn a_rescheduled_task_does_not_expire_by_its_old_start() {
    let spec = Arc::new(Spec {
        expire_after: Some(SECOND * 60),
        ..spec()
    });
    let start = NOW.after(SECOND * 1000);
    let moved = apply(
        Some(&row(State::New, &spec)),
        Event::Reschedule { start },
        NOW,
    )
    .unwrap()
    .row;
    for (now, end) in [
        (NOW, Answer::Stale),
        (start.after(SECOND * 60), Answer::Stale),
        (start.after(SECOND * 61), Answer::To(State::Expired)),
    ] {
        assert_eq!(
            answer(apply(Some(&moved), Event::Expire, now)),
            end,
            "{now}"
        );
    }
}

#[test]
fn a_terminal_row_that_no_store_can_keep_long_enough_is_kept_for_ever() {
    let start = START.after(YEARS_10 * 3);
    let moved = apply(None, Event::Reschedule { start }, NOW).unwrap().row;
    let cancelled = apply(Some(&moved), Event::Cancel, NOW).unwrap();
    assert_eq!(
        (cancelled.row.state, cancelled.ttl),
        (State::Cancelled, None)
    );
    let near = apply(None, Event::Cancel, NOW).unwrap();
    assert!(
        near.ttl
            .is_some_and(|ttl| ttl >= TERMINAL_TTL_MIN && ttl < TERMINAL_TTL_MIN * 2)
    );
}

#[test]
fn a_claim_comes_too_late_behind_another_and_behind_the_end() {
    let spec = Arc::new(spec());
    for (state, attempt, expected, passed) in [
        (State::Claimed, 1, 0, true),
        (State::Claimed, 1, 1, false),
        (State::Retrying, 1, 0, true),
        (State::Retrying, 1, 1, false),
        (State::Cancelled, 0, 0, true),
    ] {
        let row = TaskRow {
            attempt,
            ..row(state, &spec)
        };
        assert_eq!(
            row.has_passed(expected),
            passed,
            "{state:?} {attempt} {expected}"
        );
    }
}

/// The row lives for seven days behind the time up to which looks were written; a day is left for clocks.
#[test]
fn the_last_look_of_an_ended_task_lies_a_step_before_its_row_may_expire() {
    let mut row = row(State::Cancelled, &Arc::new(spec()));
    let end = row.detail.start.after(Duration::from_secs(3600));
    row.detail.end_time = Some(end);
    row.last = end;
    let step = row.id.look_step().duration();
    let last = end
        .after(TERMINAL_TTL_MIN - Duration::from_secs(24 * 3600))
        .before(step);
    assert!(!is_last_look(&row, last.before(Duration::from_millis(1))));
    assert!(is_last_look(&row, last));
    // It was cancelled long before its start.
    row.last = end.after(TERMINAL_TTL_MIN);
    assert!(!is_last_look(&row, last));
}
