//! The attempt rules keep for people how the attempts of a task ended, in its row.
//!
//! They are written with the transitions that happen anyway. The row has the last attempt in columns of its own, so its history
//! has only those before it, and costs the usual task, which succeeds at once, nothing.

use super::{
    history::{ATTEMPTS_KEPT_MAX, Answered, Attempt, Ending, History},
    row::{Detail, State, TIMED_OUT, TaskRow, WORKER_LOST},
    time::Millis,
};

/// The attempt that a row has in its own columns, as it ended.
fn of(row: &TaskRow, ended: Option<Millis>, ending: Option<Ending>) -> Attempt {
    Attempt {
        attempt: row.attempt,
        worker: row.detail.worker.clone(),
        claimed: row.detail.claim_time,
        ended,
        ending,
        error: None,
        answered: row.detail.history.answered.clone(),
    }
}

/// The row of a task whose attempt had this answer over HTTP.
pub(super) fn answered(row: TaskRow, answered: Option<Answered>) -> TaskRow {
    let history = History {
        answered,
        ..row.detail.history
    };
    let detail = Detail {
        history,
        ..row.detail
    };
    TaskRow { detail, ..row }
}

/// The history of a task whose attempt has ended so, while the task goes on.
pub(super) fn with_ended(
    row: &TaskRow,
    at: Millis,
    ending: Ending,
    error: Option<String>,
) -> History {
    let attempt = Attempt {
        error,
        ..of(row, Some(at), Some(ending))
    };
    row.detail.history.clone().with(attempt)
}

/// The history of a task that has ended and is to run again: its last attempt is one of those before from then on.
pub(super) fn closed(row: &TaskRow) -> History {
    let history = row.detail.history.clone();
    match last(row) {
        Some(last) => history.with(last),
        None => history,
    }
}

/// Returns the attempt that a row has in its own columns; none when there is none, or the history has it.
fn last(row: &TaskRow) -> Option<Attempt> {
    let in_history = row.detail.history.attempts.last();
    if row.attempt == 0 || in_history.is_some_and(|last| last.attempt >= row.attempt) {
        return None;
    }
    let error = row.detail.error.as_deref();
    let ending = match row.state {
        State::Claimed => return Some(of(row, None, None)),
        // A version that kept no history has written it.
        State::New | State::Retrying => return None,
        State::Succeeded => Ending::Succeeded,
        State::Failed => Ending::Failed,
        State::Dead if error == Some(WORKER_LOST) => Ending::Lost,
        State::Dead if error == Some(TIMED_OUT) => Ending::TimedOut,
        State::Dead => Ending::Retry,
        State::Cancelled | State::Expired => Ending::Cancelled,
    };
    let is_told = matches!(ending, Ending::Failed | Ending::Retry);
    let error = row.detail.error.clone().filter(|_| is_told);
    Some(Attempt {
        error,
        ..of(row, row.detail.end_time, Some(ending))
    })
}

/// Tells whether the last attempt of a task that waits for its next one was given back, and did not fail.
#[must_use]
pub fn was_given_back(row: &TaskRow) -> bool {
    let last = row.detail.history.attempts.last();
    last.is_some_and(|last| last.attempt == row.attempt && last.ending == Some(Ending::Snoozed))
}

/// Returns all attempts of a row that are known, oldest first, and how many older ones are not.
#[must_use]
pub fn shown(row: &TaskRow) -> History {
    let mut shown = row.detail.history.clone();
    shown.attempts.extend(last(row));
    if shown.attempts.len() > ATTEMPTS_KEPT_MAX {
        shown.attempts.remove(0);
        shown.dropped = shown.dropped.saturating_add(1);
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use uuid::Uuid;

    use super::*;
    use crate::model::{
        fixtures::{START, id, row, spec},
        history::HISTORY_BYTES_MAX,
        state::{self, Event, Outcome},
        task::Spec,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A task, and the time.
    struct Life {
        row: Option<TaskRow>,
        spec: Arc<Spec>,
        now: Millis,
    }

    impl Life {
        fn new(max_attempts: u32) -> Self {
            let spec = Arc::new(Spec {
                max_attempts,
                ..spec()
            });
            Self {
                row: None,
                spec,
                now: START,
            }
        }

        fn apply(&mut self, event: Event) {
            let row = self.row.as_ref();
            let made = state::next(id(), row, &self.spec, event, self.now, Uuid::from_u128(1));
            self.row = Some(made.unwrap().row);
        }

        fn claim(&mut self) {
            let row = self.row.as_ref();
            self.now = self.now.max(row.map_or(START, |row| row.next));
            let (generation, expected_attempt) =
                row.map_or((0, 0), |row| (row.generation, row.attempt));
            let worker = format!("w{}", expected_attempt + 1);
            self.apply(Event::Claim {
                generation,
                expected_attempt,
                worker,
                heartbeat: None,
                published: None,
            });
            self.now = self.now.after(SECOND);
        }

        fn settle(&mut self, outcome: Outcome) {
            let attempt = self.row.as_ref().unwrap().attempt;
            self.apply(Event::Settle {
                attempt,
                outcome,
                answered: None,
                chance: 0,
            });
        }

        fn endings(&self) -> Vec<(u32, Option<&'static str>, Option<String>)> {
            let shown = shown(self.row.as_ref().unwrap()).attempts.into_iter();
            shown
                .map(|one| (one.attempt, one.ending.map(Ending::name), one.error))
                .collect()
        }
    }

    fn retry(error: &str) -> Outcome {
        Outcome::Retry {
            error: error.to_owned(),
            after: None,
        }
    }

    #[test]
    fn a_task_that_succeeds_at_once_keeps_nothing_and_shows_its_attempt() {
        let mut life = Life::new(3);
        life.claim();
        assert_eq!(life.endings(), [(1, None, None)], "it runs");
        life.settle(Outcome::Succeeded { result: None });
        let row = life.row.as_ref().unwrap();
        assert_eq!(row.detail.history, History::default());
        let shown = shown(row).attempts;
        assert_eq!(
            (shown[0].claimed, shown[0].ended),
            (Some(START), Some(START.after(SECOND)))
        );
        assert_eq!(
            (shown[0].worker.as_str(), shown[0].ending),
            ("w1", Some(Ending::Succeeded))
        );
    }

    #[test]
    fn every_way_in_which_an_attempt_can_end_is_shown() {
        let mut life = Life::new(4);
        life.claim();
        life.settle(retry("first"));
        life.claim();
        life.settle(Outcome::Snoozed { after: SECOND });
        // The lease of the third ends without a report; the next claim says so.
        life.claim();
        life.claim();
        life.settle(retry("fourth"));
        life.claim();
        life.settle(retry("fifth"));
        let said = |text: &str| Some(text.to_owned());
        let mut expected = vec![
            (1, Some("retry"), said("first")),
            (2, Some("snoozed"), None),
            (3, Some("lost"), None),
            (4, Some("retry"), said("fourth")),
            (5, Some("retry"), said("fifth")),
        ];
        assert_eq!(life.row.as_ref().unwrap().state, State::Dead);
        assert_eq!(life.endings(), expected);
        let lost = shown(life.row.as_ref().unwrap()).attempts[2].clone();
        assert_eq!(
            lost.ended,
            lost.claimed.map(|at| at.after(SECOND * 30)),
            "its lease"
        );
        // A redrive keeps all of it.
        life.apply(Event::Redrive { start: life.now });
        assert_eq!(life.endings(), expected);
        life.claim();
        life.settle(Outcome::Failed {
            error: "sixth".to_owned(),
        });
        expected.push((6, Some("failed"), said("sixth")));
        assert_eq!(life.endings(), expected);
        life.apply(Event::Erase);
        assert_eq!(
            life.row.as_ref().unwrap().detail.history,
            History::default()
        );
    }

    #[test]
    fn a_task_that_is_cancelled_shows_each_attempt_once() {
        let mut life = Life::new(3);
        life.claim();
        life.settle(retry("no"));
        life.apply(Event::Cancel);
        assert_eq!(life.endings(), [(1, Some("retry"), Some("no".to_owned()))]);
        let mut life = Life::new(3);
        life.claim();
        life.apply(Event::Cancel);
        life.settle(retry("stopped"));
        assert_eq!(life.endings(), [(1, Some("cancelled"), None)]);
    }

    #[test]
    fn the_oldest_attempts_are_dropped_and_counted() {
        let mut life = Life::new(1000);
        for number in 1..=30 {
            life.claim();
            life.settle(retry(&"é".repeat(if number < 26 { 4 } else { 900 })));
            let history = &life.row.as_ref().unwrap().detail.history;
            let bytes: usize = history.attempts.iter().map(Attempt::bytes).sum();
            assert!(bytes <= HISTORY_BYTES_MAX && history.attempts.len() <= ATTEMPTS_KEPT_MAX);
            assert_eq!(
                history.attempts.last().map(|last| last.attempt),
                Some(number)
            );
            assert_eq!(
                history.attempts.len() + history.dropped as usize,
                number as usize
            );
        }
        let history = life.row.as_ref().unwrap().detail.history.clone();
        assert_eq!(history.attempts.len(), 3, "of a kilobyte each");
        let mut life = Life::new(1000);
        for _ in 0..25 {
            life.claim();
            life.settle(retry("e"));
        }
        life.claim();
        let shown = shown(life.row.as_ref().unwrap());
        assert_eq!(
            (shown.attempts.len(), shown.dropped),
            (ATTEMPTS_KEPT_MAX, 6)
        );
        assert_eq!(shown.attempts.last().map(|last| last.attempt), Some(26));
    }

    #[test]
    fn rows_of_versions_that_kept_no_history_show_what_they_have() {
        let spec = Arc::new(spec());
        for state in State::ALL {
            let count = usize::from(state.is_terminal() || state == State::Claimed);
            assert_eq!(shown(&row(state, &spec)).attempts.len(), count, "{state:?}");
        }
        for ending in Ending::ALL {
            assert_eq!(
                Ending::from_number(i32::from(ending.number())),
                Some(ending)
            );
        }
        assert_eq!(Ending::from_number(99), None);
    }
}
