//! The dead letter rules say for the end steps and the lists what a dead task leaves behind: a letter that people read.
//!
//! A letter names the callback, the class of the last error, and the attempts. Letters with one class form a group. Each
//! death of a task has a stamp of its own, so that a late write of an old letter never replaces a newer one, and the
//! removal of a letter never removes the letter of a later death.

use std::time::Duration;

use super::{
    error_class::error_class,
    row::{State, TaskRow},
    time::Millis,
};

/// A dead task can be read and redriven at least this long: a weekend and a holiday pass before somebody looks.
pub const DEAD_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The generations that a stamp tells apart. No task dies that often in one millisecond.
const GENERATIONS: u32 = 1000;

/// The letter of a dead task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The callback of the task.
    pub callback: String,
    /// The class of its last error.
    pub error: String,
    /// Its attempts, those of earlier lives included.
    pub attempts: u32,
    /// When it died.
    pub time: Millis,
    /// The name of the death, and the write time of the letter in microseconds.
    pub stamp: i64,
    /// How long the letter lives from then on.
    pub kept: Duration,
}

/// Returns the letter of a task that is dead and was not deleted.
#[must_use]
pub fn letter(row: &TaskRow) -> Option<Letter> {
    let stamp = stamp(row)?;
    if row.state != State::Dead || row.detail.erased {
        return None;
    }
    Some(Letter {
        callback: row.detail.spec.callback().unwrap_or_default().to_owned(),
        error: error_class(row.detail.error.as_deref().unwrap_or_default()),
        attempts: row.attempt,
        time: time_of(stamp),
        stamp,
        kept: kept(row),
    })
}

/// Returns the stamp of the death of a task that has just died. It says when that was, and in which generation.
#[must_use]
pub fn stamp(row: &TaskRow) -> Option<i64> {
    let ended = row.detail.end_time?;
    let generation = i64::from(row.generation % GENERATIONS);
    Some(ended.0.saturating_mul(1000).saturating_add(generation))
}

/// Returns the time of a death.
#[must_use]
pub const fn time_of(stamp: i64) -> Millis {
    Millis(stamp.div_euclid(1000))
}

/// Returns how long a terminal task can be read: also as long as its checks need it.
#[must_use]
pub fn kept(row: &TaskRow) -> Duration {
    let retention = row.detail.spec.retention;
    let kept = if row.state == State::Dead {
        retention.max(row.detail.spec.dead_retention.unwrap_or(DEAD_RETENTION))
    } else {
        retention
    };
    let (actions, end) = (row.detail.spec.actions.as_deref(), row.detail.end_time);
    let needed = actions.zip(end);
    needed.map_or(kept, |(actions, end)| {
        kept.max(actions.needed_after(row.id, end))
    })
}

/// Tells whether a letter with this stamp stands for nothing any more, as the row of its task says; none is a task whose
/// row has expired. A row that does not say so may be older than the letter.
#[must_use]
pub fn is_spent(letter: i64, row: Option<&TaskRow>) -> bool {
    let Some(row) = row else { return true };
    let was_before = row.detail.died.is_some_and(|died| died >= letter);
    let is_of_another = row.state == State::Dead && stamp(row).is_some_and(|now| now > letter);
    was_before || is_of_another
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures::{START, row, spec},
        task::Spec,
    };

    fn dead() -> TaskRow {
        let mut row = row(State::Dead, &Arc::new(spec()));
        row.detail.end_time = Some(START);
        row.detail.error = Some("no answer after 500 ms\nsecond line".to_owned());
        row
    }

    #[test]
    fn a_dead_task_has_a_letter_and_no_other_has() {
        let spec = Arc::new(spec());
        let written = letter(&dead()).unwrap();
        assert_eq!(written.error, "no answer after # ms");
        assert_eq!((written.time, written.attempts), (START, 1));
        assert_eq!(time_of(written.stamp), START);
        assert_eq!(written.kept, DEAD_RETENTION);
        for state in State::ALL {
            let mut other = row(state, &spec);
            other.detail.end_time = state.is_terminal().then_some(START);
            assert_eq!(letter(&other).is_some(), state == State::Dead, "{state:?}");
        }
        let mut erased = dead();
        erased.detail.erased = true;
        assert_eq!(letter(&erased), None);
    }

    #[test]
    fn a_dead_task_is_kept_thirty_days_or_as_long_as_it_asked_for() {
        let long = Arc::new(Spec {
            retention: DEAD_RETENTION * 2,
            ..spec()
        });
        assert_eq!(kept(&dead()), DEAD_RETENTION);
        assert_eq!(kept(&row(State::Dead, &long)), DEAD_RETENTION * 2);
        let day = Duration::from_secs(24 * 3600);
        let asked = |retention, dead_retention| {
            let spec = Arc::new(Spec {
                retention,
                dead_retention: Some(dead_retention),
                ..spec()
            });
            (
                kept(&row(State::Dead, &spec)),
                kept(&row(State::Failed, &spec)),
            )
        };
        assert_eq!(asked(day, 2 * day), (2 * day, day));
        assert_eq!(asked(2 * day, day), (2 * day, 2 * day));
        assert_eq!(asked(day, 400 * day), (400 * day, day));
        let short = Arc::new(spec());
        assert_eq!(kept(&row(State::Succeeded, &short)), short.retention);
    }

    #[test]
    fn a_letter_is_spent_once_its_death_is_over() {
        let now = dead();
        let written = letter(&now).unwrap().stamp;
        assert!(!is_spent(written, Some(&now)));
        assert!(is_spent(written, None), "its row has expired");
        let mut again = row(State::New, &now.detail.spec);
        assert!(!is_spent(written, Some(&again)), "an older row");
        again.detail.died = Some(written);
        assert!(is_spent(written, Some(&again)));
        let mut later = TaskRow {
            generation: 1,
            ..dead()
        };
        later.detail.died = Some(written);
        let second = letter(&later).unwrap().stamp;
        assert!(second > written, "also in the same millisecond");
        assert!(is_spent(written, Some(&later)) && !is_spent(second, Some(&later)));
    }
}
