//! The restart rules make for the state machine the rows of tasks that start anew: after a reschedule of a
//! waiting task, or a redrive of a dead one.
//!
//! Both raise the generation, so that earlier messages and entries mean nothing any more. The attempt, which
//! is the fence, goes on. A redrive counts the tries afresh. A waiting task has a look ahead all the time,
//! and a dead one has none. So a look of the new generation is written before the row of a redrive, and waits
//! for it as long as `is_under_way` says.

use std::time::Duration;

use super::{
    attempts, dead_letter,
    entry::Entry,
    kin::Rounds,
    look,
    row::{Detail, State, TaskRow},
    time::Millis,
};
use crate::flaw::{self, Flaw};

/// How long the look of a redrive waits for its transition: the process that makes it may stop and go on between the two writes.
const REDRIVE_OPEN: Duration = look::INTERVAL_MAX;

/// The row of a task whose start is moved.
pub(super) fn rescheduled(base: TaskRow, start: Millis) -> TaskRow {
    TaskRow {
        state: State::New,
        generation: base.generation + 1,
        next: start,
        detail: Detail {
            start,
            rounds: Rounds {
                opened: 0,
                awaits: false,
                ..base.detail.rounds
            },
            ..base.detail
        },
        ..base
    }
}

/// The row of a task that has ended and is to run again. Its last error stays readable until an attempt says something else. A
/// cancel that its last attempt was told of does not concern the next one, which no worker could claim otherwise.
pub(super) fn redriven(base: TaskRow, start: Millis) -> TaskRow {
    let detail = Detail {
        end_time: None,
        died: dead_letter::stamp(&base).max(base.detail.died),
        lived: base.attempt,
        history: attempts::closed(&base),
        ..base.detail
    };
    let tries = if flaw::is(Flaw::RedriveKeepsTries) {
        base.tries
    } else {
        0
    };
    let waiting = TaskRow {
        tries,
        cancel_requested: false,
        detail,
        ..base
    };
    rescheduled(waiting, start)
}

/// Tells whether a look belongs to a redrive whose transition may still come: its task is dead, and it is of a later generation.
/// Tasks of trees may begin again from each end.
#[must_use]
pub(super) fn is_under_way(look: &Entry, row: &TaskRow, now: Millis) -> bool {
    let is_of_tree = row.state.is_terminal() && row.detail.spec.kin.is_some();
    (row.state == State::Dead || is_of_tree)
        && look.key.generation > row.generation
        && now < look.start.after(REDRIVE_OPEN)
}

/// Tells whether the task may have been redriven and still waits for an attempt. A slow node may then have given its
/// content, after the redrive, the end of life of a dead task's. Some snoozed and moved tasks are taken for such.
#[must_use]
pub fn may_be_redriven(row: &TaskRow) -> bool {
    matches!(row.state, State::New | State::Retrying)
        && row.generation > 0
        && (row.attempt > row.tries || row.detail.rounds.round > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::model::{
        decision::{self, Decision, Known},
        fixtures::{START, id, row, shape, spec},
        state::{self, Event, Refusal, Transition},
        task::Spec,
    };

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Millis = Millis(START.0 + 3_600_000);

    fn dead(spec: &Arc<Spec>) -> TaskRow {
        let mut row = TaskRow {
            attempt: 5,
            tries: 3,
            ..row(State::Dead, spec)
        };
        row.detail.end_time = Some(NOW.before(SECOND));
        row.detail.error = Some("no".to_owned());
        row
    }

    fn applied(row: &TaskRow, event: Event, now: Millis) -> Result<Transition, Refusal> {
        let spec = Arc::clone(&row.detail.spec);
        state::next(id(), Some(row), &spec, event, now, Uuid::from_u128(1))
    }

    fn claim(generation: u32, expected_attempt: u32) -> Event {
        Event::Claim {
            generation,
            expected_attempt,
            worker: "w".to_owned(),
            heartbeat: None,
            published: None,
        }
    }

    #[test]
    fn a_dead_task_that_is_redriven_has_all_its_tries_again_and_the_next_attempt() {
        let spec = Arc::new(Spec {
            expire_after: Some(SECOND * 60),
            ..spec()
        });
        let made = applied(&dead(&spec), Event::Redrive { start: NOW }, NOW).unwrap();
        assert_eq!(made.ttl, None, "it lives as a row that waits");
        let row = made.row;
        assert_eq!((row.state, row.generation), (State::New, 1));
        assert_eq!((row.attempt, row.tries), (5, 0));
        assert_eq!((row.next, row.detail.start), (NOW, NOW));
        assert_eq!(row.detail.end_time, None);
        assert_eq!(row.detail.died, dead_letter::stamp(&dead(&spec)));
        assert_eq!(row.detail.error.as_deref(), Some("no"));
        for stale in [claim(0, 4), claim(0, 5), claim(1, 4)] {
            assert_eq!(applied(&row, stale, NOW), Err(Refusal::Stale));
        }
        let late = Event::Settle {
            attempt: 5,
            outcome: state::Outcome::Succeeded { result: None },
            answered: None,
            chance: 0,
        };
        assert_eq!(applied(&row, late.clone(), NOW), Err(Refusal::Stale));
        let running = applied(&row, claim(1, 5), NOW).unwrap().row;
        assert_eq!((running.attempt, running.tries), (6, 1));
        assert_eq!(applied(&running, late, NOW), Err(Refusal::Stale));
        assert_eq!(
            applied(&row, Event::Redrive { start: NOW }, NOW),
            Err(Refusal::Stale),
            "once"
        );
    }

    #[test]
    fn the_look_of_a_redrive_waits_for_its_row_and_not_for_ever() {
        let spec = Arc::new(spec());
        let row = dead(&spec);
        let decide = |generation, now| {
            let look = Entry::look(id(), generation, now, Some(NOW), NOW, Arc::clone(&spec), 0);
            let known = Known {
                row: Some(&row),
                heartbeat: None,
            };
            assert_eq!(decision::resume(&look, known, now, &shape()), None);
            decision::decide(&look, known, now, &shape())
        };
        let mut now = NOW.after(SECOND * 5);
        let mut looks = 0;
        while let Decision::LookAgain { at, generation } = decide(1, now) {
            assert!(at > now && generation == 1);
            assert_eq!(decide(0, now), Decision::EndSteps, "that of its old life");
            (now, looks) = (at, looks + 1);
        }
        assert_eq!(decide(1, now), Decision::EndSteps);
        assert!(now >= NOW.after(REDRIVE_OPEN) && looks < 20, "{looks}");
    }
}
