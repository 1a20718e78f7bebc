//! How many reads of missed ticks a node lets go at once, learned from tasks that can be in time.
//!
//! Pure. One more when all turns were in use and nobody was late for it, half as many when several were: additive increase and
//! multiplicative decrease, after D. Chiu and R. Jain, "Analysis of the Increase and Decrease Algorithms for Congestion
//! Avoidance in Computer Networks", 1989; slowly near what was too many before. Late is what is later than usual: where tasks
//! are late whatever is read, reading less helps nobody.

use std::time::Duration;

use crate::{
    limits::{MISSED_READS_FIRST, MISSED_READS_MAX},
    time_source::Moment,
};

/// Over which lateness is judged: long enough to see a few tasks, short enough to end what makes them late.
const WINDOW: Duration = Duration::from_millis(100);

/// So much later than usual a task is late: less than the p99 of 100 ms that new tasks are to keep while a node catches up, since
/// it takes a while until reading less has an effect.
const LATE: Duration = Duration::from_millis(30);

/// Too many are late when it is more than one of so many.
const ONE_LATE_IN: u32 = 10;

/// The part that a window has in what is usual.
const USUAL_SHARE: u32 = 8;

/// What is later than this is not called usual.
const USUAL_MAX: Duration = Duration::from_secs(1);

/// For so long after fewer were let go, no sign of lateness is no sign of room: there may be no task to see it by.
const CAUTION: Duration = Duration::from_secs(10);

/// Near what was too many, and where nothing is to be seen, it goes up by one in this time.
const SLOW_STEP: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Allowance {
    bound: usize,
    window: Window,
    /// How late tasks are where next to nothing is caught up with.
    usual: Duration,
    lowered: Option<Moment>,
    changed: Moment,
    /// Up to here it goes up as fast as it is seen to do no harm.
    trusted: usize,
}

/// What was seen since a moment.
#[derive(Debug)]
struct Window {
    began: Moment,
    came: u32,
    late: u32,
    lateness: Duration,
    /// Somebody wanted a turn.
    wanted: bool,
    /// Somebody had to wait for one.
    reached: bool,
}

impl Window {
    const fn from(began: Moment) -> Self {
        Self {
            began,
            came: 0,
            late: 0,
            lateness: Duration::ZERO,
            wanted: false,
            reached: false,
        }
    }
}

impl Allowance {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            bound: MISSED_READS_FIRST,
            window: Window::from(now),
            usual: Duration::ZERO,
            lowered: None,
            changed: now,
            trusted: MISSED_READS_MAX,
        }
    }

    /// Returns how many may go at once, at least one.
    pub(super) const fn bound(&self) -> usize {
        self.bound
    }

    /// Takes note that somebody wants a turn, and whether all of them are taken.
    pub(super) const fn wanted(&mut self, all_taken: bool) {
        self.window.wanted = true;
        self.window.reached |= all_taken;
    }

    /// Takes note of a task that was handed over, and how much later than it could have been.
    pub(super) fn came(&mut self, now: Moment, lateness: Duration) {
        // What was due before fewer were let go tells nothing about that.
        if self.lowered.is_some_and(|at| lateness > now.since(at)) {
            return;
        }
        self.window.came += 1;
        self.window.lateness += lateness;
        self.window.late += u32::from(lateness > self.usual + LATE);
    }

    /// Judges a window that has passed; `under_way` tasks that can be in time are being handed over. That none of them comes
    /// back says nothing good, and is no reason to read less: it may be their target that does not answer.
    pub(super) fn pass(&mut self, now: Moment, under_way: usize) {
        if now.since(self.window.began) < WINDOW {
            return;
        }
        let window = std::mem::replace(&mut self.window, Window::from(now));
        let is_undisturbed = !window.wanted || self.bound == 1;
        if let Some(mean) = window.lateness.checked_div(window.came)
            && is_undisturbed
        {
            let usual = (self.usual * (USUAL_SHARE - 1) + mean) / USUAL_SHARE;
            self.usual = usual.min(USUAL_MAX);
        }
        if window.late * ONE_LATE_IN > window.came {
            if window.wanted && self.bound > 1 {
                self.trusted = self.bound * 3 / 4;
                self.bound /= 2;
                self.lowered = Some(now);
                self.changed = now;
            }
            return;
        }
        let careless = self.lowered.is_none_or(|at| now.since(at) >= CAUTION) && under_way == 0;
        let is_safe = self.bound < self.trusted && (window.came > 0 || careless);
        if window.reached && (is_safe || now.since(self.changed) >= SLOW_STEP) {
            self.bound = (self.bound + 1).min(MISSED_READS_MAX);
            self.changed = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    const IN_TIME: Duration = Duration::from_millis(5);
    const TOO_LATE: Duration = Duration::from_millis(31);
    const FIRST: usize = MISSED_READS_FIRST;

    struct Windows {
        allowance: Allowance,
        now: Moment,
    }

    impl Windows {
        fn new() -> Self {
            let now = TimeSource::simulated(Millis(0), 1).moment();
            Self {
                allowance: Allowance::new(now),
                now,
            }
        }

        /// Lets a window pass in which turns are wanted and all are taken; returns the bound after it.
        fn with(&mut self, tasks: &[(u32, Duration)], under_way: usize) -> usize {
            self.allowance.wanted(true);
            self.without_turns(tasks, under_way)
        }

        fn without_turns(&mut self, tasks: &[(u32, Duration)], under_way: usize) -> usize {
            self.now = self.now.after(WINDOW);
            for (count, lateness) in tasks {
                (0..*count).for_each(|_| self.allowance.came(self.now, *lateness));
            }
            self.allowance.pass(self.now, under_way);
            self.allowance.bound()
        }

        fn lowered_to_one(mut self) -> Self {
            while self.with(&[(1, TOO_LATE)], 0) > 1 {}
            self
        }
    }

    #[tokio::test]
    async fn it_opens_while_all_turns_are_taken_and_few_are_late() {
        let mut windows = Windows::new();
        assert_eq!(windows.with(&[(90, IN_TIME), (10, TOO_LATE)], 0), FIRST + 1);
        assert_eq!(windows.with(&[], 0), FIRST + 2);
        windows.allowance.wanted(false);
        assert_eq!(windows.without_turns(&[(100, IN_TIME)], 0), FIRST + 2);
        for _ in 0..2 * MISSED_READS_MAX {
            windows.with(&[(100, IN_TIME)], 3);
        }
        assert_eq!(windows.allowance.bound(), MISSED_READS_MAX);
    }

    #[tokio::test]
    async fn it_closes_by_half_while_more_than_a_tenth_are_late_and_never_to_nothing() {
        let mut windows = Windows::new();
        assert_eq!(windows.with(&[(89, IN_TIME), (11, TOO_LATE)], 0), FIRST / 2);
        let mut windows = Windows::new().lowered_to_one();
        assert_eq!(windows.with(&[(1, TOO_LATE)], 0), 1);
    }

    #[tokio::test]
    async fn it_is_lowered_once_for_what_was_due_before() {
        let mut windows = Windows::new();
        assert_eq!(windows.with(&[(100, 4 * WINDOW)], 0), FIRST / 2);
        for _ in 0..3 {
            assert_eq!(windows.with(&[(100, 4 * WINDOW)], 1), FIRST / 2);
        }
        windows.with(&[(100, 4 * WINDOW)], 1);
        assert_eq!(windows.with(&[(100, 4 * WINDOW)], 1), FIRST / 4);
    }

    #[tokio::test]
    async fn it_is_slow_near_what_was_too_many() {
        let mut windows = Windows::new();
        while windows.with(&[(100, IN_TIME)], 0) < 40 {}
        assert_eq!(windows.with(&[(100, TOO_LATE)], 0), 20);
        for more in 1..=10 {
            assert_eq!(windows.with(&[(100, IN_TIME)], 0), 20 + more);
        }
        for _ in 0..9 {
            assert_eq!(windows.with(&[(100, IN_TIME)], 0), 30);
        }
        assert_eq!(windows.with(&[(100, IN_TIME)], 0), 31);
    }

    #[tokio::test]
    async fn after_a_while_nothing_to_be_seen_is_room_again_but_for_tasks_that_do_not_come_back() {
        let mut windows = Windows::new();
        while windows.with(&[(100, IN_TIME)], 0) < 60 {}
        windows.with(&[(100, TOO_LATE)], 0);
        let begin = windows.now;
        while windows.now.since(begin) < CAUTION - WINDOW {
            windows.without_turns(&[], 0);
        }
        assert_eq!(windows.with(&[], 0), 31, "a second has passed");
        assert_eq!(windows.with(&[], 0), 32);
        assert_eq!(windows.with(&[], 1), 32, "they may be held up");
        assert_eq!(windows.with(&[], 0), 33);
    }

    #[tokio::test]
    async fn where_nothing_is_seen_it_opens_by_one_a_second_after_it_was_lowered() {
        let mut windows = Windows::new().lowered_to_one();
        for _ in 0..8 {
            assert_eq!(windows.with(&[], 0), 1);
        }
        let begin = windows.now;
        while windows.now.since(begin) < Duration::from_secs(5) {
            windows.with(&[], 0);
        }
        assert!((5..=7).contains(&windows.allowance.bound()));
    }

    #[tokio::test]
    async fn what_is_late_whatever_is_read_holds_nothing_up() {
        let mut windows = Windows::new().lowered_to_one();
        for _ in 0..200 {
            windows.with(&[(10, 6 * WINDOW)], 10);
        }
        assert!(windows.allowance.bound() > 10);
        let mut windows = Windows::new();
        for _ in 0..50 {
            assert_eq!(windows.without_turns(&[(10, TOO_LATE)], 0), FIRST);
        }
        assert_eq!(windows.with(&[(10, TOO_LATE + IN_TIME)], 0), FIRST + 1);
        assert_eq!(windows.with(&[(10, 2 * TOO_LATE)], 0), FIRST.div_ceil(2));
    }
}
