//! `Chance` gives each user small reproducible randomness: a stream split from the seed by a number. The
//! draws of one user change nothing for the others.

use tickwheel::model::preference::mix;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// Returns the stream `number` of a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self {
            state: mix(mix(seed).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        }
    }

    /// Returns 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number in `0..below`, or 0.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next().checked_rem(below).unwrap_or(0)
    }

    /// Returns a number in `from..=to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Returns true in this many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Chooses one.
    pub(crate) fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    /// Returns an index of something that has `count` members.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }
}
