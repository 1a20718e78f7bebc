//! The ids tell all stages where a task lies, so that no second index is needed.
//!
//! A task's id is a UUID version 8 (RFC 9562, section 5.8): 48 bits of its first start time in Unix
//! milliseconds, the version, 12 bits of its wheel, the variant, 6 bits of its look step, 56 random bits.
//! Wheel, slot, first start time and the grid of its looks are read from the id for ever. So read, cancel and
//! reschedule are key look-ups without a second index. All ids have one version, so that they are ordered by
//! start time in every store (Cassandra orders uuids by version first).
//!
//! The service registers tasks of its own. Their ids are computed and not drawn, so that registering one twice is
//! registering it once. They carry a mark, which no other id has: the six bits of the look step and eight random bits are
//! all ones. 48 bits of a hash are left. So no client can take the place of such a task.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use super::{
    look_step::LookStep,
    time::Millis,
    wheel::{Shape, Slot, WheelNumber},
};

/// The id of a task: a UUID of version 8, as registration returned it.
///
/// It is written by `Display` and read by `FromStr`, the same in every release.
// The SDK exports it, so the methods that name types of the model are hidden from its documentation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Uuid);

/// The bits of the mark of an internal id: the look step, and eight of the random bits.
const MARK: u64 = 0x3fff << 48;

/// The bit that is cleared where the random bits of another id would make the mark.
const MARK_END: u64 = 1 << 48;

impl TaskId {
    /// Above every task id: a position behind all entries of its millisecond.
    pub(super) const LAST: Self = Self(Uuid::max());
    /// Below every task id.
    #[doc(hidden)]
    pub const FIRST: Self = Self(Uuid::nil());

    /// Builds an id from the first start time, the wheel and 62 bits of randomness (the two highest are ignored).
    ///
    /// `start` must lie in [`Millis::EPOCH`]..=[`Millis::MAX`]; the request's reader has seen to it.
    #[doc(hidden)]
    #[must_use]
    pub fn new(start: Millis, wheel: WheelNumber, random: u64) -> Self {
        let millis = u64::try_from(start.0.clamp(0, Millis::MAX.0)).unwrap_or(0);
        let high = (millis << 16) | (8 << 12) | u64::from(wheel.get());
        let low = (0b10 << 62) | (random & (u64::MAX >> 2));
        Self(Uuid::from_u64_pair(high, unmarked(low)))
    }

    /// Builds the id of a task of the service's own from its start, its wheel and 48 bits of a hash of its purpose (the
    /// highest bits are ignored). `start` is as in [`TaskId::new`].
    #[doc(hidden)]
    #[must_use]
    pub fn internal(start: Millis, wheel: WheelNumber, hash: u64) -> Self {
        let (high, _) = Self::new(start, wheel, 0).0.as_u64_pair();
        let low = (0b10 << 62) | MARK | (hash & (u64::MAX >> 16));
        Self(Uuid::from_u64_pair(high, low))
    }

    /// Tells whether the task is one of the service's own.
    #[doc(hidden)]
    #[must_use]
    pub fn is_internal(self) -> bool {
        self.0.as_u64_pair().1 & MARK == MARK
    }

    /// Returns the id with this look step in place of six of its random bits.
    #[doc(hidden)]
    #[must_use]
    pub fn with_look_step(self, step: LookStep) -> Self {
        let (high, low) = self.0.as_u64_pair();
        let low = (low & !(0x3f << 56)) | (u64::from(step.bits()) << 56);
        Self(Uuid::from_u64_pair(high, unmarked(low)))
    }

    /// Returns how far apart the looks of the task are.
    #[doc(hidden)]
    #[must_use]
    pub fn look_step(self) -> LookStep {
        if self.is_internal() {
            return LookStep::INTERNAL;
        }
        LookStep::from_low_bits(((self.0.as_u64_pair().1 >> 56) & 0x3f) as u8)
    }

    /// Reads a uuid as a task's id; nothing when it is not one that [`TaskId::new`] could have built.
    #[doc(hidden)]
    #[must_use]
    pub fn from_uuid(uuid: Uuid) -> Option<Self> {
        let id = Self(uuid);
        let ours = uuid.get_version_num() == 8 && uuid.get_variant() == uuid::Variant::RFC4122;
        (ours && id.first_start() <= Millis::MAX).then_some(id)
    }

    /// Takes a uuid that a store or a clock row holds as a bound, not as a task: no check.
    #[doc(hidden)]
    #[must_use]
    pub const fn bound(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Returns a bound that divides the ids of this wheel at the same place as this id of another wheel.
    #[must_use]
    pub(super) fn within(self, wheel: WheelNumber) -> Self {
        let high = self.0.as_u64_pair().0 & !0xfff | u64::from(wheel.get());
        let low = if wheel < self.wheel() { u64::MAX } else { 0 };
        Self(Uuid::from_u64_pair(high, low))
    }

    /// Returns the uuid.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// Returns the start time the task was registered with; a reschedule does not change it.
    #[doc(hidden)]
    #[must_use]
    pub fn first_start(self) -> Millis {
        Millis((self.0.as_u64_pair().0 >> 16).cast_signed())
    }

    /// Returns the wheel the task belongs to for ever.
    #[doc(hidden)]
    #[must_use]
    pub fn wheel(self) -> WheelNumber {
        WheelNumber::from_low_bits((self.0.as_u64_pair().0 & 0xfff) as u16)
    }

    /// Returns the slot of the first start time: with the wheel, the partition of the task's row.
    #[doc(hidden)]
    #[must_use]
    pub fn home_slot(self, shape: &Shape) -> Slot {
        shape.slot_of_due(self.first_start())
    }
}

/// Returns the low half of an id without the mark of an internal one.
const fn unmarked(low: u64) -> u64 {
    if low & MARK == MARK {
        low & !MARK_END
    } else {
        low
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is not a task's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a task id: expected a UUID of version 8 as returned by registration")]
pub struct NotATaskId;

impl FromStr for TaskId {
    type Err = NotATaskId;

    fn from_str(text: &str) -> Result<Self, NotATaskId> {
        Uuid::try_parse(text)
            .ok()
            .and_then(Self::from_uuid)
            .ok_or(NotATaskId)
    }
}

/// One life of one process: a node that restarts is another. Nil is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub Uuid);

impl NodeId {
    /// The owner of a wheel that nobody owns.
    pub const NOBODY: Self = Self(Uuid::nil());
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_gives_back_what_it_carries(ms in 0..=Millis::MAX.0, wheel in 0..4096u16, random: u64) {
            let wheel = WheelNumber::new(wheel).unwrap();
            let id = TaskId::new(Millis(ms), wheel, random);
            prop_assert_eq!(id.first_start(), Millis(ms));
            prop_assert_eq!(id.wheel(), wheel);
            prop_assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
            let step = LookStep::from_low_bits((random % 64) as u8);
            let stepped = id.with_look_step(step);
            prop_assert_eq!((stepped.look_step(), stepped.wheel(), stepped.first_start()), (step, wheel, Millis(ms)));
            prop_assert_eq!(TaskId::from_uuid(stepped.uuid()), Some(stepped));
            prop_assert!(TaskId::FIRST < id && id < TaskId::LAST);
            prop_assert!(!id.is_internal() && !stepped.is_internal());
        }

        #[test]
        fn an_internal_id_is_like_no_other(ms in 0..=Millis::MAX.0, wheel in 0..4096u16, hash: u64) {
            let wheel = WheelNumber::new(wheel).unwrap();
            let id = TaskId::internal(Millis(ms), wheel, hash);
            prop_assert!(id.is_internal());
            prop_assert_eq!(id, TaskId::internal(Millis(ms), wheel, hash));
            prop_assert_eq!((id.first_start(), id.wheel(), id.look_step()), (Millis(ms), wheel, LookStep::INTERNAL));
            prop_assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
            let other = TaskId::internal(Millis(ms), wheel, hash ^ 1);
            prop_assert_ne!(id, other);
        }

        #[test]
        fn what_lies_behind_an_id_is_the_same_within_a_wheel(a in 0..9i64, b in 0..9i64, v in 0..4u16, w in 0..4u16, r: u64, s: u64) {
            let (v, w) = (WheelNumber::new(v).unwrap(), WheelNumber::new(w).unwrap());
            let (here, there) = (TaskId::new(Millis(a), w, r), TaskId::new(Millis(b), v, s));
            prop_assert!(v == w || (here > there) == (here > there.within(w)));
            prop_assert!(v == w || there.within(w).wheel() == w);
        }

        #[test]
        fn ids_are_ordered_by_start_time(a in 0..=Millis::MAX.0, b in 0..=Millis::MAX.0, r: u64, s: u64) {
            let wheel = WheelNumber::new(1).unwrap();
            let (x, y) = (TaskId::new(Millis(a), wheel, r), TaskId::new(Millis(b), wheel, s));
            prop_assert!(a == b || (a < b) == (x < y));
        }
    }

    #[test]
    fn random_bits_that_would_make_the_mark_make_another_id() {
        let wheel = WheelNumber::new(0).unwrap();
        let longest = LookStep::from_low_bits(63);
        for id in [
            TaskId::new(Millis(7), wheel, u64::MAX),
            TaskId::new(Millis(7), wheel, u64::MAX).with_look_step(longest),
            TaskId::new(Millis(7), wheel, u64::MAX >> 8).with_look_step(longest),
        ] {
            assert!(!id.is_internal(), "{id}");
            assert_eq!(id.look_step(), longest, "{id}");
        }
    }

    #[test]
    fn other_uuids_are_refused() {
        for text in [
            "",
            "x",
            "6e5c2f2a-5f0e-4b8e-9d6a-5a3e8f1b2c3d",
            "ffffffff-ffff-8fff-8fff-ffffffffffff",
        ] {
            assert_eq!(text.parse::<TaskId>(), Err(NotATaskId), "{text}");
        }
    }
}
