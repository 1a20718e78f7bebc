//! The check compares every registered task with the tasks that were handed out, for the verdict of a
//! measurement.
//!
//! It runs when all is over, so that it costs the measurement only two appends a task.

use anyhow::ensure;
use hdrhistogram::Histogram;
use tickwheel::model::{ids::TaskId, time::Millis};
use uuid::Uuid;

use super::timeline::Timeline;
use crate::{check::Check, generator};

/// A task that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registered {
    pub(crate) id: u128,
    pub(crate) due: Millis,
    /// Its number among the tasks of its load.
    pub(crate) index: u64,
}

/// A task that was handed out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) id: u128,
    /// When the answer had arrived, in microseconds of the wall clock that the service reads, too.
    pub(crate) seen_us: i64,
}

/// The result of the check of all tasks.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) check: Check,
    /// Of every task, in microseconds.
    pub(crate) lateness: Histogram<u64>,
    /// Lateness by the second in which a task was due, and by the one in which it came.
    pub(super) by_due: Timeline,
    pub(super) by_arrival: Timeline,
    /// When the last task came for the first time, in microseconds of the wall clock.
    pub(crate) last_us: i64,
}

/// Compares. All tasks are checked; only those that are due from `counted` on are in the histogram.
pub(crate) fn verdict(
    mut registered: Vec<Registered>,
    mut arrivals: Vec<Arrival>,
    counted: Millis,
) -> anyhow::Result<Verdict> {
    registered.sort_unstable_by_key(|task| task.id);
    arrivals.sort_unstable_by_key(|arrival| (arrival.id, arrival.seen_us));
    let mut lateness = generator::histogram()?;
    let mut check = Check {
        tasks: registered.len() as u64,
        ..Check::default()
    };
    let mut strangers = 0;
    let (mut by_due, mut by_arrival) = (Timeline::default(), Timeline::default());
    let mut last_us = 0;
    let mut arrivals = arrivals.into_iter().peekable();
    for task in registered {
        while arrivals.next_if(|arrival| arrival.id < task.id).is_some() {
            strangers += 1;
        }
        let mut times = 0;
        while let Some(arrival) = arrivals.next_if(|arrival| arrival.id == task.id) {
            times += 1;
            let late_us = arrival.seen_us - task.due.0 * 1000;
            check.early += u64::from(late_us < 0);
            if times == 1 {
                by_due.note(task.due, late_us);
                by_arrival.note(Millis(arrival.seen_us.div_euclid(1000)), late_us);
                last_us = arrival.seen_us.max(last_us);
            }
            if times == 1 && task.due >= counted {
                lateness.saturating_record(u64::try_from(late_us).unwrap_or(0));
            }
        }
        check.lost += u64::from(times == 0);
        check.duplicates += u64::from(times > 1) * (times.max(1) - 1);
    }
    strangers += arrivals.count() as u64;
    // A pending task came out long before its time, or something worse happened.
    check.early += strangers;
    Ok(Verdict {
        check,
        lateness,
        by_due,
        by_arrival,
        last_us,
    })
}

/// Makes sure that an acknowledged id has the start that was asked for: it is the right answer, and the start
/// was not moved.
pub(super) fn ensure_start(id: u128, due: Millis) -> anyhow::Result<()> {
    let start = TaskId::from_uuid(Uuid::from_u128(id)).map(TaskId::first_start);
    ensure!(
        start == Some(due),
        "asked for {due}, the id says {start:?}: was it registered too late?"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(registered: &[(u128, i64)], arrivals: &[(u128, i64)]) -> Verdict {
        let registered = registered
            .iter()
            .map(|(id, due)| Registered {
                id: *id,
                due: Millis(*due),
                index: 0,
            })
            .collect();
        let arrivals = arrivals
            .iter()
            .map(|(id, seen_us)| Arrival {
                id: *id,
                seen_us: *seen_us,
            })
            .collect();
        verdict(registered, arrivals, Millis(0)).unwrap()
    }

    #[test]
    fn lost_early_twice_and_unknown_are_counted() {
        let registered = [(1, 10), (2, 10), (3, 10), (4, 10)];
        let arrivals = [(0, 99), (1, 10_000), (2, 9_999), (3, 10_500), (3, 11_000)];
        let verdict = verdict_of(&registered, &arrivals);
        let check = verdict.check;
        assert_eq!((check.tasks, check.lost, check.duplicates), (4, 1, 1));
        // One before its time, one that should not have come at all.
        assert_eq!(check.early, 2);
        assert_eq!(verdict.lateness.len(), 3);
    }

    #[test]
    fn a_task_that_came_out_once_in_time_is_fine() {
        let verdict = verdict_of(&[(7, 10)], &[(7, 12_000)]);
        assert_eq!((verdict.check.lost, verdict.check.early), (0, 0));
        assert_eq!(verdict.lateness.max(), 2000);
    }
}
