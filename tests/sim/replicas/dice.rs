//! `Dice` is the one source of chance of a simulated store: small, fast, from a seed.

use std::time::Duration;

/// A generator of random numbers (splitmix64).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// An event that happens so many times in a thousand; an impossible event draws no number.
    pub(super) fn hits(&mut self, per_mille: u16) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// A duration in whole microseconds; without a choice no number is drawn.
    pub(super) fn between(&mut self, wait: Wait) -> Duration {
        let width = wait.longest.saturating_sub(wait.shortest).as_micros();
        let width = u64::try_from(width).unwrap_or(u64::MAX - 1);
        if width == 0 {
            return wait.shortest;
        }
        wait.shortest + Duration::from_micros(self.below(width + 1))
    }
}

/// A duration between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl Wait {
    pub(crate) const NONE: Self = Self::millis(0, 0);

    pub(crate) const fn millis(shortest: u64, longest: u64) -> Self {
        Self {
            shortest: Duration::from_millis(shortest),
            longest: Duration::from_millis(longest),
        }
    }
}
