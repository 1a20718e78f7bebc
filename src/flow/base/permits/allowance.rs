//! The allowance bounds for a node how many reads of missed ticks run at once; it learns from tasks that can
//! be in time.
//!
//! It is pure. The bound goes up by one when all turns were in use and at most one task in ten was late. It is
//! halved when more were late. This is additive increase and multiplicative decrease, after D. Chiu and R. Jain,
//! "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks", 1989.
//! Near a bound that was too high before, it goes up slowly. A task counts as late when it is later than
//! usual: where tasks are late regardless of reads, fewer reads do not help.

use std::time::Duration;

use crate::{
    limits::{MISSED_READS_FIRST, MISSED_READS_MAX},
    time_source::Moment,
};

/// The time over which lateness is judged: long enough to see a few tasks, short enough to end what makes
/// them late.
const WINDOW: Duration = Duration::from_millis(100);

/// A task is late when it is later than usual by more than this. It is less than the p99 of 100 ms that new
/// tasks are to keep while a node catches up, since fewer reads take a while to have an effect.
const LATE: Duration = Duration::from_millis(30);

/// Too many tasks are late when it is more than one in this many.
const ONE_LATE_IN: u32 = 10;

/// The share (one in this many) that a window has in the usual lateness, when tasks were less late in it.
const USUAL_SHARE_DOWN: u32 = 8;

/// The same when tasks were later in it: a bad second is not usual.
const USUAL_SHARE_UP: u32 = 64;

/// The usual lateness is never more than this.
const USUAL_MAX: Duration = Duration::from_secs(1);

/// For this long after the bound was lowered, a missing sign of lateness does not show room: there may be no
/// task that could show it.
const CAUTION: Duration = Duration::from_secs(10);

/// After this time without missed ticks, the bound that was learned from the last ones is forgotten.
const MEMORY: Duration = Duration::from_secs(10);

/// Near a bound that was too high, and where no task is seen, the bound goes up by one in this time.
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
    /// Up to here the bound goes up quickly, as long as that is seen to do no harm.
    trusted: usize,
    /// When somebody wanted to read last.
    wanted: Moment,
}

/// The tasks and readers that are under way at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Underway {
    /// Tasks that can be in time and are being handed over.
    pub(super) tasks: usize,
    /// Readers of missed ticks, waiting ones included.
    pub(super) readers: usize,
    /// Readers that wait for a turn.
    pub(super) waiting: usize,
}

/// The tasks and readers that were seen since a moment.
#[derive(Debug)]
struct Window {
    began: Moment,
    came: u32,
    late: u32,
    lateness: Duration,
    /// Tasks came that were due before the bound was lowered.
    has_old: bool,
    /// The most readers.
    readers: usize,
    /// Somebody had to wait for a turn.
    reached: bool,
}

impl Window {
    const fn from(began: Moment, underway: Underway) -> Self {
        Self {
            began,
            came: 0,
            late: 0,
            lateness: Duration::ZERO,
            has_old: false,
            readers: underway.readers,
            reached: underway.waiting > 0,
        }
    }
}

impl Allowance {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            bound: MISSED_READS_FIRST,
            window: Window::from(now, Underway::default()),
            wanted: now,
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

    /// Takes note of how many readers there are, and how many wait, after one more has come.
    pub(super) fn wanted(&mut self, underway: Underway) {
        self.window.readers = self.window.readers.max(underway.readers);
        self.window.reached |= underway.waiting > 0;
    }

    /// Takes note of a task that was handed over, and how much later than it could have been.
    pub(super) fn came(&mut self, now: Moment, lateness: Duration) {
        // A task that was due before the bound was lowered tells nothing about the lower bound.
        if self.lowered.is_some_and(|at| lateness > now.since(at)) {
            self.window.has_old = true;
            return;
        }
        self.window.came += 1;
        self.window.lateness += lateness;
        self.window.late += u32::from(lateness > self.usual + LATE);
    }

    /// Judges a window that has passed. When none of the tasks under way comes back, this is no good sign,
    /// but no reason to read less either: their target may be the one that does not answer.
    pub(super) fn pass(&mut self, now: Moment, underway: Underway) {
        if now.since(self.window.began) < WINDOW {
            return;
        }
        let window = std::mem::replace(&mut self.window, Window::from(now, underway));
        self.learn(&window);
        if now.since(self.wanted) >= MEMORY {
            (self.bound, self.trusted) = (MISSED_READS_FIRST, MISSED_READS_MAX);
            (self.lowered, self.changed) = (None, now);
        }
        if window.readers == 0 {
            return;
        }
        self.wanted = now;
        if window.late * ONE_LATE_IN > window.came {
            if self.bound > 1 {
                let too_many = self.bound.min(window.readers);
                self.trusted = (too_many * 3 / 4).max(1);
                self.bound = (too_many / 2).max(1);
                self.lowered = Some(now);
                self.changed = now;
            }
            return;
        }
        if window.has_old {
            return;
        }
        let careless =
            self.lowered.is_none_or(|at| now.since(at) >= CAUTION) && underway.tasks == 0;
        let is_safe = self.bound < self.trusted && (window.came > 0 || careless);
        if window.reached && (is_safe || now.since(self.changed) >= SLOW_STEP) {
            self.bound = (self.bound + 1).min(MISSED_READS_MAX);
            self.changed = now;
        }
    }

    /// Learns the usual lateness from windows in which next to nothing is caught up with. A window in which
    /// tasks were less late always lowers it.
    fn learn(&mut self, window: &Window) {
        let Some(mean) = window.lateness.checked_div(window.came) else {
            return;
        };
        let share = if mean < self.usual {
            USUAL_SHARE_DOWN
        } else if window.readers == 0 || self.bound == 1 {
            USUAL_SHARE_UP
        } else {
            return;
        };
        let usual = (self.usual * (share - 1) + mean) / share;
        self.usual = usual.min(USUAL_MAX);
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

        /// Lets a window pass in which many want turns and all are taken; returns the bound after it.
        fn with(&mut self, tasks: &[(u32, Duration)], under_way: usize) -> usize {
            self.with_readers(100, 1, tasks, under_way)
        }

        fn without_readers(&mut self, tasks: &[(u32, Duration)]) -> usize {
            self.with_readers(0, 0, tasks, 0)
        }

        fn with_readers(
            &mut self,
            readers: usize,
            waiting: usize,
            came: &[(u32, Duration)],
            tasks: usize,
        ) -> usize {
            let underway = Underway {
                tasks,
                readers,
                waiting,
            };
            self.allowance.wanted(underway);
            self.now = self.now.after(WINDOW);
            for (count, lateness) in came {
                (0..*count).for_each(|_| self.allowance.came(self.now, *lateness));
            }
            let over = Underway {
                tasks,
                ..Underway::default()
            };
            self.allowance.pass(self.now, over);
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
        let few = windows.with_readers(2, 0, &[(100, IN_TIME)], 0);
        assert_eq!(few, FIRST + 2);
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
            assert_eq!(windows.with_readers(1, 0, &[], 0), 30);
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
        for _ in 0..400 {
            windows.with(&[(10, 6 * WINDOW)], 10);
        }
        assert!(windows.allowance.bound() > 10);
        let mut windows = Windows::new();
        for _ in 0..200 {
            assert_eq!(windows.without_readers(&[(10, TOO_LATE)]), FIRST);
        }
        assert_eq!(windows.with(&[(10, TOO_LATE + IN_TIME)], 0), FIRST + 1);
        assert_eq!(windows.with(&[(10, 2 * TOO_LATE)], 0), FIRST.div_ceil(2));
    }

    #[tokio::test]
    async fn a_bad_second_is_not_usual_and_what_is_usual_falls_with_what_is_seen() {
        let mut windows = Windows::new();
        for _ in 0..10 {
            windows.without_readers(&[(10, 8 * WINDOW)]);
        }
        assert!(windows.allowance.usual < 2 * WINDOW);
        for _ in 0..50 {
            windows.with(&[(10, IN_TIME)], 0);
        }
        assert!(windows.allowance.usual < 2 * IN_TIME);
    }

    #[tokio::test]
    async fn it_is_lowered_from_what_there_was_and_forgotten_after_a_while() {
        let mut windows = Windows::new();
        while windows.with(&[(100, IN_TIME)], 0) < 64 {}
        assert_eq!(windows.with_readers(16, 0, &[(100, TOO_LATE)], 0), 8);
        let mut windows = windows.lowered_to_one();
        windows.now = windows.now.after(MEMORY);
        assert_eq!(windows.with(&[(100, IN_TIME)], 0), FIRST + 1);
    }

    #[tokio::test]
    async fn who_reads_through_a_window_and_who_waits_through_it_count_in_the_next() {
        let mut windows = Windows::new();
        let waiting = |waiting| Underway {
            waiting,
            readers: 100,
            tasks: 0,
        };
        windows.now = windows.now.after(WINDOW);
        windows.allowance.pass(windows.now, waiting(1));
        windows.now = windows.now.after(WINDOW);
        windows.allowance.pass(windows.now, waiting(0));
        assert_eq!(windows.allowance.bound(), FIRST + 1);
        windows.now = windows.now.after(WINDOW);
        windows.allowance.came(windows.now, TOO_LATE);
        windows.allowance.pass(windows.now, waiting(0));
        assert_eq!(windows.allowance.bound(), FIRST.div_ceil(2));
        assert_eq!(windows.allowance.usual, Duration::ZERO);
    }
}
