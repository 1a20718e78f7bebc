//! Has new tasks wait before everything would have to.
//!
//! Runs in a keyspace's first level wait to be merged, and every read looks into each of them; when there are too many,
//! nothing more is written until a merge is done, for seconds: no claim, no settle, no look. What adds most is new tasks, and
//! nothing is lost when these wait: so they are slowed down before it comes to that, the more the closer it is. RocksDB does
//! the same to all writes.
//!
//! It slows down those who wait for their answers, and has the others take longer: with that the API's admission
//! lets fewer in, and refuses the rest. It is no bound by itself: nobody waits longer than the longest wait.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::time_source::Moment;

/// Runs in a keyspace's first level from which on new tasks are slowed down: what a fill at full speed has now and then.
const RUNS_EASY: usize = 16;

/// What a new task takes at that number: 200,000 a second, which one machine hardly reaches. Each run more doubles it.
const TASK_TIME: Duration = Duration::from_micros(5);

/// How often it is doubled, at most: then it is 780 a second, at as many runs as stop everything.
const DOUBLINGS_MAX: usize = 8;

/// Longest wait: half of what the API's admission takes for too long, and soon over once merges are done.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// How much new tasks have to wait.
#[derive(Debug, Default)]
pub(super) struct Brake {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: usize,
    /// When those that were let in are done with. None: long ago.
    free_at: Option<Moment>,
}

impl Brake {
    /// Notes the most runs that a keyspace has.
    pub(super) fn press(&self, runs: usize) {
        let mut state = self.state();
        state.runs = runs;
        if runs < RUNS_EASY {
            state.free_at = None;
        }
    }

    /// Returns until when so many new tasks have to wait, if at all; whoever comes later waits behind them.
    pub(super) fn hold(&self, tasks: usize, now: Moment) -> Option<Moment> {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let brake = Brake::default();
        brake.press(RUNS_EASY - 1);
        assert_eq!(brake.hold(1_000_000, now()), None);
    }

    #[test]
    fn the_more_runs_the_longer_and_one_behind_the_other() {
        let (brake, now) = (Brake::default(), now());
        let ms = |ms| Some(now.after(Duration::from_millis(ms)));
        brake.press(RUNS_EASY);
        assert_eq!(brake.hold(1000, now), ms(5));
        assert_eq!(brake.hold(1000, now), ms(10));
        brake.press(RUNS_EASY + 3);
        assert_eq!(brake.hold(1000, now), ms(50));
        // Those before are long done.
        let later = now.after(Duration::from_millis(60));
        assert_eq!(brake.hold(250, later), ms(70));
    }

    #[test]
    fn nobody_waits_long_and_nobody_once_it_is_over() {
        let (brake, now) = (Brake::default(), now());
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
