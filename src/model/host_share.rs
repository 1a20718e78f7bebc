//! The share of a host decides for the executor how many calls to the host may be under way at once.
//!
//! A share begins with [`CALLS_FIRST`]. It grows by one with every fourth good answer that came while all places were in use,
//! to [`CALLS_MOST`], and so by a quarter within the time of a call. While calls last more than twice as long as the quickest one
//! it goes back in the same steps: a host that answers more calls more slowly does no more work. A call that failed halves it. A
//! host that answers within [`QUICK`] has [`CALLS_MOST`] at once.
//!
//! The quickest call is forgotten after `LEARNED_KEPT`, and the share begins anew, since a host may have become slower or
//! quicker meanwhile. It has grown again a few calls later.

use std::time::Duration;

/// Calls to one host at once before its answers have shown that it takes more.
pub const CALLS_FIRST: u32 = 8;

/// Calls to one host at once at most. Should the host die, they hold a quarter of the places of the executor for as long as a
/// call may last.
pub const CALLS_MOST: u32 = 32;

/// Calls that usually last no longer than this are quick: they hold their places for a moment only.
pub const QUICK: Duration = Duration::from_millis(50);

/// A call to a host that was never called is taken to last so long. A longer one would send the first tasks of a quick host
/// away for many seconds, before its first calls have shown how quick it is.
const CALL_USUAL: Duration = Duration::from_millis(100);

/// Answers for one step of a share: fewer would step on before the calls of the last step have shown how long they last.
const ANSWERS_A_STEP: i8 = 4;

/// See [`ANSWERS_A_STEP`].
const LESS: i8 = -ANSWERS_A_STEP;

/// How long the quickest call is remembered: a share that begins anew costs a second of its growth.
const LEARNED_KEPT: Duration = Duration::from_secs(300);

/// An answered call.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// How long the call lasted.
    pub took: Duration,
    /// The host answered, and did not ask for less: its answer is not one that is tried again.
    pub is_good: bool,
    /// All places of the host were in use when the call ended.
    pub was_full: bool,
}

/// The share of a host.
#[derive(Debug, Clone)]
pub struct HostShare {
    /// How long its calls last.
    usual: Duration,
    /// Calls at once, beside the rule of quick calls.
    calls: u32,
    /// Answers since the last step: for one more call, or below zero for one less.
    trend: i8,
    /// The shortest good call.
    quickest: Option<Duration>,
    /// When the share began, since any fixed instant.
    begun: Duration,
}

impl HostShare {
    /// A share that begins now, as time since any fixed instant.
    #[must_use]
    pub const fn new(now: Duration) -> Self {
        Self {
            usual: CALL_USUAL,
            calls: CALLS_FIRST,
            trend: 0,
            quickest: None,
            begun: now,
        }
    }

    /// Returns how long calls usually last.
    #[must_use]
    pub const fn usual(&self) -> Duration {
        self.usual
    }

    /// Returns how many calls may be under way at once.
    #[must_use]
    pub fn calls(&self) -> u32 {
        if self.usual <= QUICK {
            CALLS_MOST
        } else {
            self.calls
        }
    }

    /// Learns from a call that ended now.
    pub fn learn(&mut self, now: Duration, answered: Answered) {
        let Answered {
            took,
            is_good,
            was_full,
        } = answered;
        self.usual = (self.usual * 7 + took) / 8;
        if now.saturating_sub(self.begun) > LEARNED_KEPT {
            (self.calls, self.trend) = (CALLS_FIRST, 0);
            (self.quickest, self.begun) = (None, now);
        }
        if !is_good {
            (self.calls, self.trend) = ((self.calls / 2).max(CALLS_FIRST), 0);
            return;
        }
        let quickest = self.quickest.map_or(took, |quickest| quickest.min(took));
        self.quickest = Some(quickest);
        if self.usual > (quickest * 2).max(QUICK) {
            self.trend -= 1;
        } else if was_full {
            self.trend += 1;
        }
        match self.trend {
            ANSWERS_A_STEP.. => (self.calls, self.trend) = ((self.calls + 1).min(CALLS_MOST), 0),
            ..=LESS => (self.calls, self.trend) = ((self.calls - 1).max(CALLS_FIRST), 0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Lets a host answer for some seconds whose calls all run at once, each as long as `takes` says for so many at once.
    fn run(
        share: &mut HostShare,
        now: &mut Duration,
        seconds: u32,
        takes: impl Fn(u32) -> Duration,
    ) {
        let end = *now + SECOND * seconds;
        while *now < end {
            let calls = share.calls();
            let took = takes(calls);
            *now += took;
            for _ in 0..calls {
                let answered = Answered {
                    took,
                    is_good: true,
                    was_full: true,
                };
                share.learn(*now, answered);
            }
        }
    }

    #[test]
    fn a_slow_host_that_answers_well_gets_more_calls() {
        let (mut share, mut now) = (HostShare::new(SECOND), SECOND);
        assert_eq!(share.calls(), CALLS_FIRST);
        run(&mut share, &mut now, 3, |_| SECOND / 5);
        assert_eq!(share.calls(), CALLS_MOST);
        // It begins anew, and is there again soon.
        now += LEARNED_KEPT;
        run(&mut share, &mut now, 3, |_| SECOND / 5);
        assert_eq!(share.calls(), CALLS_MOST);
    }

    #[test]
    fn a_host_that_answers_one_call_after_the_other_gets_no_more() {
        let (mut share, mut now) = (HostShare::new(SECOND), SECOND);
        let first = Answered {
            took: SECOND / 5,
            is_good: true,
            was_full: false,
        };
        share.learn(now, first);
        run(&mut share, &mut now, 250, |calls| SECOND / 5 * calls);
        assert_eq!(share.calls(), CALLS_FIRST);
    }

    #[test]
    fn a_host_with_room_for_ten_calls_gets_no_more_than_help() {
        let (mut share, mut now) = (HostShare::new(SECOND), SECOND);
        let takes = |calls: u32| SECOND / 5 * calls.max(10) / 10;
        for _ in 0..100 {
            run(&mut share, &mut now, 1, takes);
            assert!((CALLS_FIRST..=28).contains(&share.calls()), "{share:?}");
        }
        assert!(share.calls() >= 12, "{share:?}");
    }

    #[test]
    fn failures_and_a_host_that_is_not_asked_for_more_keep_a_share_small() {
        let (mut share, mut now) = (HostShare::new(SECOND), SECOND);
        let answered = Answered {
            took: SECOND / 5,
            is_good: true,
            was_full: false,
        };
        for _ in 0..100 {
            share.learn(now, answered);
        }
        assert_eq!(share.calls(), CALLS_FIRST);
        run(&mut share, &mut now, 3, |_| SECOND / 5);
        for calls in [16, 8, 8] {
            let is_good = false;
            share.learn(
                now,
                Answered {
                    is_good,
                    ..answered
                },
            );
            assert_eq!(share.calls(), calls);
        }
    }

    #[test]
    fn a_quick_host_has_the_most_at_once() {
        let mut share = HostShare::new(SECOND);
        let answered = Answered {
            took: SECOND / 250,
            is_good: false,
            was_full: false,
        };
        for _ in 0..10 {
            share.learn(SECOND, answered);
        }
        assert_eq!(share.calls(), CALLS_MOST);
    }
}
