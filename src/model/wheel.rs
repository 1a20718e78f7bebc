//! The shape gives all stages the arithmetic of the hashed timing wheel: wheels, ticks and slots.
//!
//! A task waits in `slot = tick(start_time) mod N` of one of W wheels. The modulus bounds the key space, never
//! the horizon. Rows of a slot are ordered by their full due time, and every read is bounded by it on both sides.
//! So two revolutions of the wheel never mix, however far ahead a task is or however long an outage lasts.

use std::time::Duration;

use super::time::{Millis, Tick, TickLength};

/// The number of a wheel, `0..W`. A task's id carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WheelNumber(u16);

impl WheelNumber {
    /// Highest wheel number plus one: an id has 12 bits for it.
    pub const LIMIT: u16 = 4096;

    /// Returns the wheel number, or nothing when it does not fit an id.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::LIMIT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Takes the low 12 bits: every value is a wheel number.
    #[must_use]
    pub const fn from_low_bits(bits: u16) -> Self {
        Self(bits & (Self::LIMIT - 1))
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns the broker partition of this wheel's messages: wheel mod partitions, so that slot-mates travel together.
    #[must_use]
    pub fn partition(self, partitions: i32) -> i32 {
        i32::from(self.0).rem_euclid(partitions.max(1))
    }
}

/// The number of a slot, `0..N`: with the wheel, the partition of the store that a tick's entries lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub i64);

/// How many wheels, how long a tick, how many slots: fixed when the store is initialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    wheels: u16,
    tick: TickLength,
    slots: i64,
}

impl Shape {
    /// Returns the shape; nothing unless `wheels` is a power of two up to 4096 and `slots` is at least 2.
    #[must_use]
    pub fn new(wheels: u16, tick: TickLength, slots: i64) -> Option<Self> {
        let fits = wheels.is_power_of_two() && wheels <= WheelNumber::LIMIT && slots >= 2;
        fits.then_some(Self {
            wheels,
            tick,
            slots,
        })
    }

    /// Returns W, the number of wheels.
    #[must_use]
    pub const fn wheels(&self) -> u16 {
        self.wheels
    }

    /// Returns the length of a tick.
    #[must_use]
    pub const fn tick(&self) -> TickLength {
        self.tick
    }

    /// Returns N, the number of slots of a wheel.
    #[must_use]
    pub const fn slots(&self) -> i64 {
        self.slots
    }

    /// Returns the numbers of all wheels.
    pub fn all_wheels(&self) -> impl Iterator<Item = WheelNumber> + use<> {
        (0..self.wheels).map(WheelNumber)
    }

    /// Returns the wheel that a hash chooses.
    #[must_use]
    pub const fn wheel_of_hash(&self, hash: u64) -> WheelNumber {
        WheelNumber((hash % self.wheels as u64) as u16)
    }

    /// Returns how long a wheel waits with what all wheels would do at the same moment: evenly spread over `span`.
    #[must_use]
    pub fn phase_of(&self, wheel: WheelNumber, span: Duration) -> Duration {
        span * u32::from(wheel.get() % self.wheels) / u32::from(self.wheels)
    }

    /// Returns the slot of a tick: tick mod N.
    #[must_use]
    pub const fn slot_of(&self, tick: Tick) -> Slot {
        Slot(tick.0.rem_euclid(self.slots))
    }

    /// Returns the slot that something due at `due` waits in.
    #[must_use]
    pub fn slot_of_due(&self, due: Millis) -> Slot {
        self.slot_of(self.tick.tick_of(due))
    }

    /// Returns the due times that `tick` covers.
    #[must_use]
    pub fn span_of(&self, tick: Tick) -> Span {
        Span {
            after: self.tick.end_of(tick.plus(-1)),
            through: self.tick.end_of(tick),
        }
    }
}

/// A half-open range of due times, `(after, through]`: every read and every delete of a slot is bounded by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Exclusive lower bound.
    pub after: Millis,
    /// Inclusive upper bound.
    pub through: Millis,
}

impl Span {
    /// Tells whether a due time lies in the span.
    #[must_use]
    pub const fn contains(&self, due: Millis) -> bool {
        self.after.0 < due.0 && due.0 <= self.through.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eight_slots() -> Shape {
        Shape::new(2, TickLength::new(Duration::from_millis(100)).unwrap(), 8).unwrap()
    }

    #[test]
    fn slots_wrap_and_spans_keep_revolutions_apart() {
        let shape = eight_slots();
        for due in 0..5_000 {
            let tick = shape.tick().tick_of(Millis(due));
            assert_eq!(shape.slot_of_due(Millis(due)), Slot(tick.0 % 8));
            assert!(shape.span_of(tick).contains(Millis(due)));
            for revolution in [-1, 1, 2] {
                let alias = tick.plus(revolution * 8);
                assert_eq!(shape.slot_of(alias), shape.slot_of(tick));
                assert!(
                    !shape.span_of(alias).contains(Millis(due)),
                    "{due} {revolution}"
                );
            }
        }
    }

    #[test]
    fn spans_of_neighbouring_ticks_meet_without_gap_or_overlap() {
        let shape = eight_slots();
        for tick in -20..20 {
            assert_eq!(
                shape.span_of(Tick(tick)).through,
                shape.span_of(Tick(tick + 1)).after
            );
        }
    }

    #[test]
    fn phases_of_wheels_are_spread_evenly_over_the_span() {
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        let shape = Shape::new(4, tick, 8).unwrap();
        let phase = |wheel| shape.phase_of(WheelNumber(wheel), Duration::from_millis(500));
        let expected = [0, 125, 250, 375].map(Duration::from_millis);
        assert_eq!([0, 1, 2, 3].map(phase), expected);
        // An id may name a wheel that there is not.
        assert!(phase(4095) < Duration::from_millis(500));
    }

    #[test]
    fn a_shape_that_cannot_work_is_refused() {
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        assert!(Shape::new(0, tick, 8).is_none());
        assert!(Shape::new(3, tick, 8).is_none());
        assert!(Shape::new(8192, tick, 8).is_none());
        assert!(Shape::new(4, tick, 1).is_none());
        assert!(Shape::new(4096, tick, 2).is_some());
    }

    #[test]
    fn partitions_of_a_power_of_two_share_the_wheels_evenly() {
        let shape = Shape::new(16, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let mut per = [0; 4];
        for wheel in shape.all_wheels() {
            per[usize::try_from(wheel.partition(4)).unwrap()] += 1;
        }
        assert_eq!(per, [4; 4]);
        assert_eq!(WheelNumber::from_low_bits(0xffff).get(), 4095);
    }
}
