//! A round of the gate holds what the same work has cost both programs within a second or less.

use std::time::Duration;

use super::side::Side;

/// How long before they are due tasks of `burst` and `steady` are registered, at the least: before the two seconds that are read
/// ahead.
pub(super) const LEAD: Duration = Duration::from_secs(4);

/// The reason why a start cannot count although nothing failed: the machine was too slow for a moment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Disturbed(pub(super) &'static str);

/// Both programs, the base first.
pub(super) type Sides = [Side; 2];

/// The cost of the work of a round for both programs, the base first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// Tasks of each.
    pub(super) tasks: u64,
    pub(super) cpu: [Duration; 2],
    /// Zero where the rate is fixed.
    pub(super) took: [Duration; 2],
}

impl Round {
    pub(super) fn add(&mut self, at: usize, cpu: Duration, took: Duration) {
        for (sum, part) in [(&mut self.cpu, cpu), (&mut self.took, took)] {
            if let Some(sum) = sum.get_mut(at) {
                *sum += part;
            }
        }
    }
}
