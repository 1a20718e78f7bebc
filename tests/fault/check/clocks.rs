//! The errors of clocks that a drill has made, for the checks of what a clock that is ahead explains.

use super::history::{AFTERMATH_MS, History};

impl History {
    /// How far ahead any clock was at most, at a moment and in the time of aftermath before it.
    pub(crate) fn ahead_ms(&self, at: i64) -> i64 {
        // A task may have been taken early and run a little later.
        self.ahead_within(at, |_| AFTERMATH_MS)
    }

    /// How far ahead the clock may have been by which a task came to its turn that runs at a moment: it runs when the right
    /// clocks have come to its start, so later by as much.
    pub(crate) fn led_ms(&self, at: i64) -> i64 {
        self.ahead_within(at, |ms| AFTERMATH_MS + ms.max(0))
    }

    fn ahead_within(&self, at: i64, aftermath: impl Fn(i64) -> i64) -> i64 {
        let within = |from: i64, to: i64, ms: i64| from <= at && at - aftermath(ms) <= to;
        let ahead = self.offsets.iter().map(|(from, who, ms)| {
            let next = self
                .offsets
                .iter()
                .find(|(t, other, _)| other == who && t > from);
            let to = next.map_or(i64::MAX, |(t, ..)| *t);
            if within(*from, to, *ms) { *ms } else { 0 }
        });
        ahead.max().unwrap_or(0).max(0)
    }
}
