//! The backoff tells the state machine when to retry a failed attempt: exponential, capped, by default with full jitter.
//!
//! Full jitter (a uniform choice in `0..=wait`) spreads a burst of failures best; see "Exponential Backoff And
//! Jitter", AWS Architecture Blog, 2015.

use std::time::Duration;

/// How the computed wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Exactly the computed wait.
    None,
    /// Uniform in zero to the computed wait.
    #[default]
    Full,
}

/// The rule of a task's retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Wait after the first failed attempt.
    pub initial: Duration,
    /// Factor between waits, in thousandths; at least 1000.
    pub factor_milli: u32,
    /// Longest wait.
    pub max: Duration,
    /// How waits are spread.
    pub jitter: Jitter,
}

impl Backoff {
    /// The default of a task that asks for nothing else: ten attempts outlive an outage of a day. Their waits are 10 s, 50 s,
    /// 4 min, 21 min, 1 h 44 min, 8 h 41 min and then 12 h, half of that on average.
    pub const DEFAULT: Self = Self {
        initial: Duration::from_secs(10),
        factor_milli: 5000,
        max: Duration::from_secs(12 * 3600),
        jitter: Jitter::Full,
    };

    /// For what fails for moments only: one second, doubled up to ten minutes.
    pub const QUICK: Self = Self {
        initial: Duration::from_secs(1),
        factor_milli: 2000,
        max: Duration::from_secs(600),
        jitter: Jitter::Full,
    };

    /// Returns the wait after the `tries`-th failed attempt (1 is the first), spread by `chance`, which is uniform
    /// over all of `u64`.
    #[must_use]
    pub fn wait(&self, tries: u32, chance: u64) -> Duration {
        let cap = self.max.as_millis();
        let mut wait = self.initial.as_millis().min(cap);
        for _ in 1..tries {
            if wait >= cap || wait == 0 {
                break;
            }
            wait = (wait * u128::from(self.factor_milli.max(1000)) / 1000).min(cap);
            if self.factor_milli <= 1000 {
                break;
            }
        }
        let wait = u64::try_from(wait).unwrap_or(u64::MAX - 1);
        Duration::from_millis(match self.jitter {
            Jitter::None => wait,
            Jitter::Full => chance % wait.saturating_add(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let backoff = Backoff {
            jitter: Jitter::None,
            max: Duration::from_secs(10),
            ..Backoff::QUICK
        };
        let waits: Vec<u64> = (1..=6).map(|n| backoff.wait(n, 0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_task_that_asks_for_nothing_outlives_an_outage_of_a_day() {
        let longest = Backoff {
            jitter: Jitter::None,
            ..Backoff::DEFAULT
        };
        let waits: Vec<u64> = (1..=9).map(|n| longest.wait(n, 0).as_secs()).collect();
        assert_eq!(
            waits,
            [10, 50, 250, 1250, 6250, 31_250, 43_200, 43_200, 43_200]
        );
        // Full jitter halves it on average.
        assert!(waits.iter().sum::<u64>() / 2 > 20 * 3600);
    }

    proptest! {
        #[test]
        fn a_wait_is_never_above_the_cap(tries: u32, chance: u64, initial in 0..100_000u64, factor in 0..9000u32, max in 0..1_000_000u64) {
            let backoff = Backoff {
                initial: Duration::from_millis(initial),
                factor_milli: factor,
                max: Duration::from_millis(max),
                jitter: Jitter::Full,
            };
            prop_assert!(backoff.wait(tries, chance) <= backoff.max);
        }
    }
}
