//! The places say for all parts of the dead letters in which partitions of the index a letter lies, and in what order.
//!
//! A letter lies twice: among those of its callback, and among those of all. Each of the two scopes has a partition for every
//! day and shard, and a directory that names the partitions which have letters. So a list reads only partitions that have
//! some, and no partition grows without bound ([decision 63]).
//!
//! Sort keys are in the order of a list, newest first: the time, descending, then the id.
//!
//! [decision 63]: ../../../docs/decisions/0063-dead-letters-lie-by-day-and-shard.md

use std::cmp::Reverse;

use bytes::{BufMut as _, Bytes, BytesMut};
use uuid::Uuid;

use crate::{
    limits::DEAD_LETTER_SHARDS,
    model::{dead_letter::Letter, ids::TaskId, time::Millis},
    schema::sort_key,
    store::index::{IndexKind, Partition, Place, Refused},
};

const DAY_MS: i64 = 86_400_000;
const DIRECTORY: u8 = 1;
const LETTERS: u8 = 2;
const OF_ALL: u8 = 1;
const OF_CALLBACK: u8 = 2;

/// The letters that a list is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of all callbacks.
    All,
    /// Those of one callback.
    Callback(String),
    /// Those of the callbacks whose names begin with this, found among those of all.
    Beginning(String),
}

impl Scope {
    /// Returns the scope of a list with this filter.
    #[must_use]
    pub fn of(callback: Option<&str>) -> Self {
        callback.map_or(Self::All, |name| Self::Callback(name.to_owned()))
    }

    /// Returns the callback; empty is all.
    #[must_use]
    pub fn callback(&self) -> &str {
        match self {
            Self::All | Self::Beginning(_) => "",
            Self::Callback(name) => name,
        }
    }

    /// Tells whether it has the letters of a callback.
    #[must_use]
    pub fn has(&self, callback: &str) -> bool {
        match self {
            Self::All => true,
            Self::Callback(name) => callback == name,
            Self::Beginning(beginning) => callback.starts_with(beginning),
        }
    }

    /// Tells whether the letters of this scope name their callbacks.
    #[must_use]
    pub const fn names_callbacks(&self) -> bool {
        matches!(self, Self::All | Self::Beginning(_))
    }

    fn put(&self, name: &mut BytesMut) {
        match self {
            Self::All | Self::Beginning(_) => name.put_u8(OF_ALL),
            Self::Callback(callback) => {
                name.put_u8(OF_CALLBACK);
                name.put_slice(callback.as_bytes());
            }
        }
    }
}

/// A part of the letters of a scope: those that died on one day, of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The day, as a number since 1970.
    pub day: i64,
    /// The shard.
    pub shard: u8,
}

/// The place of a letter in the order of a list: newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// When the task died.
    pub time: Millis,
    /// The task.
    pub id: Uuid,
}

impl Part {
    /// Returns the part of a letter.
    #[must_use]
    pub fn of(id: TaskId, time: Millis) -> Self {
        // Every node of every version must find the same shard: the multiplication spreads ids that differ in few bits.
        let (high, low) = id.uuid().as_u64_pair();
        let spread = (high ^ low).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let shard = spread % u64::from(DEAD_LETTER_SHARDS);
        Self {
            day: time.0.div_euclid(DAY_MS),
            shard: u8::try_from(shard).unwrap_or_default(),
        }
    }

    /// Returns the partition of the part's letters.
    ///
    /// # Errors
    /// [`Refused`] when the callback's name is too long.
    pub fn partition(self, scope: &Scope) -> Result<Partition, Refused> {
        let mut name = BytesMut::new();
        name.put_u8(LETTERS);
        name.put_i64(self.day);
        name.put_u8(self.shard);
        scope.put(&mut name);
        Partition::new(IndexKind::Dead, name.freeze())
    }

    /// Returns the row of the directory for letters of the part that live so many days at most, and when it ends.
    ///
    /// # Errors
    /// [`Refused`] when the callback's name is too long.
    pub fn entry(self, scope: &Scope, letter: &Letter) -> Result<(Place, Millis), Refused> {
        let kept_ms = i64::try_from(letter.kept.as_millis()).unwrap_or(i64::MAX);
        let days = kept_ms.saturating_add(DAY_MS - 1) / DAY_MS;
        let mut sort = BytesMut::new();
        sort.put_slice(&sort_key::descending(self.day));
        sort.put_u8(self.shard);
        // Letters of different lives have rows of their own, so that no row ends before its letters.
        sort.put_i64(days);
        let end = self.day.saturating_add(1).saturating_add(days);
        let end = Millis(end.saturating_mul(DAY_MS).min(Millis::MAX.0));
        Ok((Place::new(directory(scope)?, sort.freeze())?, end))
    }

    /// Reads the sort key of a row of the directory.
    #[must_use]
    pub fn read(sort: &[u8]) -> Option<Self> {
        let (day, rest) = sort.split_first_chunk::<8>()?;
        Some(Self {
            day: sort_key::of_descending(*day),
            shard: *rest.first()?,
        })
    }
}

impl Spot {
    /// Returns the sort key.
    #[must_use]
    pub fn sort(self) -> Bytes {
        let mut sort = BytesMut::with_capacity(24);
        sort.put_slice(&sort_key::descending(self.time.0));
        sort.put_u128(self.id.as_u128());
        sort.freeze()
    }

    /// Reads a sort key.
    #[must_use]
    pub fn read(sort: &[u8]) -> Option<Self> {
        let (time, id) = sort.split_first_chunk::<8>()?;
        let id: [u8; 16] = id.try_into().ok()?;
        Some(Self {
            time: Millis(sort_key::of_descending(*time)),
            id: Uuid::from_bytes(id),
        })
    }

    /// Returns a key that compares as the sort key does.
    #[must_use]
    pub fn order(self) -> impl Ord {
        (Reverse(self.time), self.id)
    }

    /// Returns the day of the part that has the letter.
    #[must_use]
    pub const fn day(self) -> i64 {
        self.time.0.div_euclid(DAY_MS)
    }
}

/// Returns the partition that names the parts of a scope.
///
/// # Errors
/// [`Refused`] when the callback's name is too long.
pub fn directory(scope: &Scope) -> Result<Partition, Refused> {
    let mut name = BytesMut::new();
    name.put_u8(DIRECTORY);
    scope.put(&mut name);
    Partition::new(IndexKind::Dead, name.freeze())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::wheel::WheelNumber;

    fn id(random: u64) -> TaskId {
        TaskId::new(
            Millis(1_800_000_000_000),
            WheelNumber::new(0).unwrap(),
            random,
        )
    }

    #[test]
    fn sort_keys_are_read_back_and_newer_ones_come_first() {
        let times = [i64::MIN, -1, 0, 1, 1_800_000_000_437, Millis::MAX.0];
        let spots = times.map(|time| Spot {
            time: Millis(time),
            id: id(7).uuid(),
        });
        for spot in spots {
            assert_eq!(Spot::read(&spot.sort()), Some(spot));
        }
        assert!(spots.map(Spot::sort).is_sorted_by(|one, next| one > next));
        assert_eq!(Spot::read(&[1, 2, 3]), None);
        assert_eq!(Part::read(&[1, 2, 3]), None);
    }

    #[test]
    fn shards_share_the_letters_of_a_day_and_never_change() {
        let mut counts = vec![0; usize::from(DEAD_LETTER_SHARDS)];
        for random in 0..1600 {
            let part = Part::of(id(random), Millis(DAY_MS * 3 + 5));
            assert_eq!(part.day, 3);
            counts[usize::from(part.shard)] += 1;
        }
        assert!(
            counts.iter().all(|count| (50..200).contains(count)),
            "{counts:?}"
        );
        // The stored letters of an older version must be found again.
        assert_eq!(Part::of(id(1), Millis(0)).shard, FROZEN_SHARD);
    }

    const FROZEN_SHARD: u8 = 1;

    #[test]
    fn a_row_of_the_directory_outlives_the_letters_that_it_stands_for() {
        let scope = Scope::of(Some("work"));
        for kept in [1, 86_400, 86_401, 30 * 86_400, u64::MAX / 1000] {
            let letter = Letter {
                callback: "work".to_owned(),
                error: String::new(),
                attempts: 1,
                time: Millis(DAY_MS * 4 - 1),
                stamp: 0,
                kept: Duration::from_secs(kept),
            };
            let part = Part::of(id(1), letter.time);
            let (place, end) = part.entry(&scope, &letter).unwrap();
            assert!(
                end >= letter.time.after(letter.kept).min(Millis::MAX),
                "{kept}"
            );
            assert_eq!(Part::read(place.sort()), Some(part));
        }
        assert!(directory(&Scope::Callback("x".repeat(5000))).is_err());
    }
}
