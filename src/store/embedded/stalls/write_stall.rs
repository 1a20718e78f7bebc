//! The write stall guard slows new tasks down, so that the database never stops the writes of all callers.
//!
//! Runs in a keyspace's first level wait to be merged, and every read looks into each of them. When there are
//! too many, writing stops until a merge is done, for seconds: no claim, no settle, no look. New tasks add
//! the most, and nothing is lost when these wait. So they are slowed down before writing would stop, the more
//! the closer it is. RocksDB does the same to all writes.
//!
//! It slows down callers that wait for their answers, and makes the others take longer. The API's admission
//! then lets fewer in and refuses the rest. It is no bound by itself: no caller waits longer than the longest
//! wait.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::time_source::Moment;

/// Runs in a keyspace's first level from which on new tasks are slowed down. A fill at full speed reaches it
/// now and then.
const RUNS_EASY: usize = 16;

/// The time of a new task at that number: 200,000 a second, which one machine hardly reaches. Each further
/// run doubles it.
const TASK_TIME: Duration = Duration::from_micros(5);

/// How often the time is doubled, at most. Then it is 780 tasks a second, at as many runs as stop everything.
const DOUBLINGS_MAX: usize = 8;

/// Longest wait: half of the time that the API's admission takes for too long, and soon over once merges are
/// done.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// How much new tasks have to wait.
#[derive(Debug, Default)]
pub(in crate::store::embedded) struct WriteStall {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: usize,
    /// When the admitted tasks are done. None if that was long ago.
    free_at: Option<Moment>,
}

impl WriteStall {
    /// Notes the most runs that a keyspace has.
    pub(in crate::store::embedded) fn press(&self, runs: usize) {
        let mut state = self.state();
        state.runs = runs;
        if runs < RUNS_EASY {
            state.free_at = None;
        }
    }

    /// Returns until when so many new tasks have to wait, if at all. Later callers wait behind them.
    pub(in crate::store::embedded) fn hold(&self, tasks: usize, now: Moment) -> Option<Moment> {
        let mut state = self.state();
        let doublings = state.runs.checked_sub(RUNS_EASY)?.min(DOUBLINGS_MAX);
        let tasks = u32::try_from(tasks << doublings).unwrap_or(u32::MAX);
        let free_at = state.free_at.filter(|free_at| *free_at > now);
        let until = free_at
            .unwrap_or(now)
            .after(TASK_TIME.saturating_mul(tasks))
            .min(now.after(WAIT_MAX));
        state.free_at = Some(until);
        Some(until)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    fn now() -> Moment {
        TimeSource::simulated(Millis(0), 1).moment()
    }

    #[test]
    fn nobody_waits_while_merges_keep_up() {
        let brake = WriteStall::default();
        brake.press(RUNS_EASY - 1);
        assert_eq!(brake.hold(1_000_000, now()), None);
    }

    #[test]
    fn the_more_runs_the_longer_and_one_behind_the_other() {
        let (brake, now) = (WriteStall::default(), now());
        let ms = |ms| Some(now.after(Duration::from_millis(ms)));
        brake.press(RUNS_EASY);
        assert_eq!(brake.hold(1000, now), ms(5));
        assert_eq!(brake.hold(1000, now), ms(10));
        brake.press(RUNS_EASY + 3);
        assert_eq!(brake.hold(1000, now), ms(50));
        // The tasks before are long done.
        let later = now.after(Duration::from_millis(60));
        assert_eq!(brake.hold(250, later), ms(70));
    }

    #[test]
    fn nobody_waits_long_and_nobody_once_it_is_over() {
        let (brake, now) = (WriteStall::default(), now());
        brake.press(100);
        for _ in 0..3 {
            assert_eq!(brake.hold(100_000, now), Some(now.after(WAIT_MAX)));
        }
        brake.press(3);
        brake.press(RUNS_EASY);
        assert_eq!(
            brake.hold(1000, now),
            Some(now.after(Duration::from_millis(5)))
        );
    }
}
