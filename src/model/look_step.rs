//! The look step tells the look grid how far apart the looks of a task lie, as the task's id carries it.
//!
//! A task that was never claimed has no row: it is found by its entries, and the places of its looks depend on the step. So
//! the id carries the step, as one of 64 values that grow by a fourth root of two: 5 s, 6 s, 8 s, 9 s, 10 s, ... about 76 h.

use std::time::Duration;

/// One of 64 steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookStep(u8);

impl LookStep {
    /// The shortest step.
    pub const MIN: Self = Self(0);
    /// The step of the service's own tasks, whose ids carry a mark in place of a step ([`super::ids::TaskId::internal`]): 20 s.
    pub const INTERNAL: Self = Self(8);
    /// How many steps there are: what six bits hold.
    pub const COUNT: u8 = 64;

    /// Takes the low six bits: every value is a step.
    #[must_use]
    pub const fn from_low_bits(bits: u8) -> Self {
        Self(bits & (Self::COUNT - 1))
    }

    /// Returns the shortest step that is at least `timeout`, or the longest there is.
    #[must_use]
    pub fn covering(timeout: Duration) -> Self {
        (0..Self::COUNT)
            .map(Self)
            .find(|step| step.duration() >= timeout)
            .unwrap_or(Self(Self::COUNT - 1))
    }

    /// Returns the six bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the step.
    #[must_use]
    pub fn duration(self) -> Duration {
        // 5000 ms times the fourth roots of two, in thousandths, so that every node computes the same integers.
        const ROOTS: [u64; 4] = [1000, 1189, 1414, 1682];
        let root = match self.0 % 4 {
            0 => ROOTS[0],
            1 => ROOTS[1],
            2 => ROOTS[2],
            _ => ROOTS[3],
        };
        let seconds = (5 * root * (1 << (self.0 / 4))).div_ceil(1000);
        Duration::from_secs(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_cover_the_timeout() {
        let all: Vec<Duration> = (0..64)
            .map(|bits| LookStep::from_low_bits(bits).duration())
            .collect();
        assert!(
            all.is_sorted()
                && all[0] == Duration::from_secs(5)
                && all[63] > Duration::from_secs(270_000)
        );
        for seconds in 1..10_000 {
            let timeout = Duration::from_secs(seconds);
            let step = LookStep::covering(timeout).duration();
            assert!(
                step >= timeout && step <= (timeout * 5 / 4).max(Duration::from_secs(8)),
                "{seconds}"
            );
        }
        assert_eq!(LookStep::covering(Duration::MAX).bits(), 63);
    }
}
