//! Instants and ticks give all stages the arithmetic of time. Clocks are read in `time_source`, not here.

use std::{fmt, time::Duration};

/// An instant: milliseconds since 1970-01-01T00:00:00Z, leap seconds ignored, as every Unix clock does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

impl Millis {
    /// 1970-01-01T00:00:00Z, the earliest start time a task may have.
    pub const EPOCH: Self = Self(0);
    /// 9999-12-31T23:59:59.999Z, the latest start time a task may have: the end of RFC 3339.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Returns the instant `duration` later, at most [`Millis::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(whole_millis(duration))
                .min(Self::MAX.0),
        )
    }

    /// Returns the instant `duration` earlier; it may lie before the epoch.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }

    /// Returns how long after `earlier` this instant is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns how long it still is from this instant to `later`; zero when it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }

    /// Returns the first instant `>= self` that is `phase` modulo `step`.
    ///
    /// `step` must be positive; `phase` may be any instant.
    #[must_use]
    pub fn ceil_to_grid(self, phase: Self, step: Duration) -> Self {
        let step = whole_millis(step).max(1);
        let over = (self.0 - phase.0).rem_euclid(step);
        if over == 0 {
            self
        } else {
            Self(self.0 + (step - over))
        }
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Rounds a duration up to whole milliseconds: a wait is never cut short.
#[must_use]
pub fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// The number of a tick: tick `t` covers the instants in `((t-1) * length, t * length]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub i64);

impl Tick {
    /// Returns the tick `count` later (or earlier, when negative).
    #[must_use]
    pub const fn plus(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// The length of a tick: 100 ms to 60 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickLength(i64);

impl TickLength {
    /// Shortest tick: below it the clock's conditional writes cost more than the precision is worth, and the
    /// precision comes from the look-ahead anyway.
    pub const MIN: Duration = Duration::from_millis(100);
    /// Longest tick: memory holds the entries of a few ticks.
    pub const MAX: Duration = Duration::from_secs(60);

    /// Returns the tick length, or nothing when it is outside [`TickLength::MIN`]..=[`TickLength::MAX`] or has a
    /// fraction of a millisecond.
    #[must_use]
    pub fn new(length: Duration) -> Option<Self> {
        let whole = length.subsec_nanos().is_multiple_of(1_000_000);
        ((Self::MIN..=Self::MAX).contains(&length) && whole).then(|| Self(whole_millis(length)))
    }

    /// Returns the length in milliseconds.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the length as a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }

    /// Returns the tick in which something due at `due` fires: the first tick that ends at or after it.
    #[must_use]
    pub fn tick_of(self, due: Millis) -> Tick {
        Tick(due.0.div_euclid(self.0) + i64::from(due.0.rem_euclid(self.0) != 0))
    }

    /// Returns the last tick that has ended at `now`.
    #[must_use]
    pub fn last_ended(self, now: Millis) -> Tick {
        Tick(now.0.div_euclid(self.0))
    }

    /// Returns how many ticks a duration takes, the last one counted whole.
    #[must_use]
    pub fn count(self, duration: Duration) -> i64 {
        self.tick_of(Millis::EPOCH.after(duration)).0
    }

    /// Returns the instant at which `tick` ends: the latest due time it covers.
    #[must_use]
    pub fn end_of(self, tick: Tick) -> Millis {
        Millis(tick.0.saturating_mul(self.0))
    }
}

/// Writes an instant as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| at.0.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> TickLength {
        TickLength::new(Duration::from_secs(1)).unwrap()
    }

    #[test]
    fn a_tick_covers_its_end_and_not_its_beginning() {
        assert_eq!(second().tick_of(Millis(0)), Tick(0));
        assert_eq!(second().tick_of(Millis(1)), Tick(1));
        assert_eq!(second().tick_of(Millis(1000)), Tick(1));
        assert_eq!(second().tick_of(Millis(1001)), Tick(2));
        assert_eq!(second().tick_of(Millis(-1)), Tick(0));
        assert_eq!(second().tick_of(Millis(-1000)), Tick(-1));
    }

    #[test]
    fn every_due_time_lies_in_its_own_tick() {
        for length in [100, 250, 1000, 60_000] {
            let tick = TickLength::new(Duration::from_millis(length)).unwrap();
            for due in -2000..2000 {
                let t = tick.tick_of(Millis(due));
                assert!(
                    tick.end_of(t).0 >= due && tick.end_of(t.plus(-1)).0 < due,
                    "{due} {length}"
                );
            }
        }
    }

    #[test]
    fn a_tick_that_has_begun_counts() {
        let count = |ms| second().count(Duration::from_millis(ms));
        assert_eq!((count(0), count(1), count(1000), count(1001)), (0, 1, 1, 2));
    }

    #[test]
    fn a_tick_length_out_of_range_is_refused() {
        assert!(TickLength::new(Duration::from_millis(99)).is_none());
        assert!(TickLength::new(Duration::from_millis(60_001)).is_none());
        assert!(TickLength::new(Duration::from_micros(100_500)).is_none());
    }

    #[test]
    fn grid_points_are_on_the_grid_and_never_before() {
        for phase in [0, 3, 999, -7] {
            for at in -50..50 {
                let point = Millis(at).ceil_to_grid(Millis(phase), Duration::from_millis(10));
                assert!(point.0 >= at && point.0 < at + 10);
                assert_eq!((point.0 - phase).rem_euclid(10), 0);
            }
        }
    }

    #[test]
    fn waits_are_rounded_up() {
        assert_eq!(whole_millis(Duration::from_micros(1)), 1);
        assert_eq!(whole_millis(Duration::from_millis(7)), 7);
        assert_eq!(Millis(5).after(Duration::MAX), Millis::MAX);
    }
}
