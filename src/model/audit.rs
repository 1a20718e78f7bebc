//! The audit entry says, for people, who called what on what, from where, and how it ended.
//!
//! Entries lie in a partition for each day, in the order of their times. An entry is written before its call has an effect, and
//! again with the outcome: no change is without an entry, and one without an outcome tells of a node that died meanwhile.

use std::time::Duration;

use super::time::Millis;

/// How long entries are kept.
pub const KEPT: Duration = Duration::from_secs(90 * 24 * 3600);

/// The longest text of an entry in characters; a longer one is cut.
pub const TEXT_CHARS_MAX: usize = 256;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// A call that was audited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The id of the key; empty where none was needed.
    pub key: String,
    /// The name of the key.
    pub who: String,
    /// The operation.
    pub action: String,
    /// The path of the call.
    pub target: String,
    /// The address of the caller; empty where it is not known.
    pub from: String,
    /// The status of the answer; none while it is under way.
    pub status: Option<u16>,
    /// The code of its problem; empty where it was done.
    pub code: String,
    /// How many further calls of its kind were refused within its minute.
    pub more: u32,
}

/// Returns the number of the day in which a time lies.
#[must_use]
pub const fn day(time: Millis) -> i64 {
    time.0.div_euclid(DAY_MS)
}

/// The place of an entry within its day: its time, and a random part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// When the call came.
    pub time: Millis,
    /// Puts calls of one millisecond in order, and tells those of different nodes apart.
    pub random: u64,
}

impl Spot {
    /// Returns the sort key.
    #[must_use]
    pub fn sort(self) -> [u8; 16] {
        let time = u128::from(self.time.0.max(0).unsigned_abs());
        ((time << 64) | u128::from(self.random)).to_be_bytes()
    }

    /// Reads a sort key.
    #[must_use]
    pub fn read(sort: &[u8]) -> Option<Self> {
        let bits = u128::from_be_bytes(sort.try_into().ok()?);
        let time = i64::try_from(bits >> 64).ok()?;
        let random = u64::try_from(bits & u128::from(u64::MAX)).ok()?;
        Some(Self {
            time: Millis(time),
            random,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_by_time_and_are_read_back() {
        let spot = |time, random| Spot {
            time: Millis(time),
            random,
        };
        let spots = [spot(0, 9), spot(1, 0), spot(1, u64::MAX), spot(DAY_MS, 1)];
        for spot in spots {
            assert_eq!(Spot::read(&spot.sort()), Some(spot));
        }
        assert!(spots.is_sorted_by_key(|spot| spot.sort()));
        assert_eq!(Spot::read(b"short"), None);
        assert_eq!(spots.map(|spot| day(spot.time)), [0, 0, 0, 1]);
    }
}
