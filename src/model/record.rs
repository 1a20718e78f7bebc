//! The record gives every part of the service a small document that is written on a condition only.
//!
//! A record has a name, a version and the nonce of its last write. A [`Change`] says which of these it replaces.
//! [`Change::judge`] is the one rule by which every store decides. Versions grow over the whole life of a name, also over a
//! removal, and are not reused: they are times, moved on by one where the clock stands or goes back.
//!
//! A removal is a write: it leaves a record without a value for [`REMOVED_KEPT`]. So a creation that arrives late, from
//! before the removal, finds something and fails. A new creation names the removed record as the one that it replaces.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::time::Millis;

/// Longest key: a callback, a collection and a client's own key, each of up to 128 characters, fit with room to spare.
pub const KEY_BYTES_MAX: usize = 1024;

/// Largest value. Stores decide a conditional write in one round, and larger ones time out under load.
pub const VALUE_BYTES_MAX: usize = 48 * 1024;

/// How long a removed record is remembered. A late conditional write is hours old at most; rows of tasks that have ended
/// are kept as long.
pub const REMOVED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The use of a record; numbers are what stores keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum Kind {
    /// The counter of changes to the configuration; one record.
    Epoch = 1,
    /// A callback with its gates and limits.
    Callback = 2,
    /// A key of the API.
    ApiKey = 3,
    /// A request that a client marked as its own, so that it is done once.
    IdempotencyKey = 4,
    /// A key of a callback's tasks, with the task that holds it.
    Key = 8,
    /// The limits of a callback, as far as they are used.
    Limit = 9,
    /// Bulk work over a filter.
    Job = 10,
    /// The callbacks of tasks that others wait for; one record.
    Joins = 11,
    /// The turn of a sequence of tasks that run one at a time.
    Turn = 12,
    /// The times of a user, and the tasks that start at them.
    Schedule = 13,
    /// Whether the tree of a task has ended.
    Family = 14,
    /// The last change of the keys of the API; one record.
    ApiKeyChange = 15,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Epoch,
        Self::Callback,
        Self::ApiKey,
        Self::IdempotencyKey,
        Self::Key,
        Self::Limit,
        Self::Job,
        Self::Joins,
        Self::Turn,
        Self::Schedule,
        Self::Family,
        Self::ApiKeyChange,
    ];

    /// The kinds that every node holds in memory.
    pub const CONFIGURATION: [Self; 2] = [Self::Callback, Self::ApiKey];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Tells whether records of this kind can be listed, which costs a row of the index for each.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        match self {
            Self::Callback | Self::ApiKey | Self::Job | Self::Schedule => true,
            Self::Epoch
            | Self::IdempotencyKey
            | Self::Key
            | Self::Limit
            | Self::Joins
            | Self::Turn
            | Self::Family
            | Self::ApiKeyChange => false,
        }
    }
}

/// Why a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The key is empty or too long.
    #[error("the key of a record has {bytes} bytes; it needs 1 to {KEY_BYTES_MAX}")]
    Key {
        /// Its size.
        bytes: usize,
    },
    /// The value is too large.
    #[error("the value of {name} has {bytes} bytes; at most {VALUE_BYTES_MAX} are allowed")]
    Value {
        /// The record.
        name: Name,
        /// Its size.
        bytes: usize,
    },
}

/// The name of a record: its kind, and its key among those of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    kind: Kind,
    key: Arc<str>,
}

impl Name {
    /// Returns the name.
    ///
    /// # Errors
    /// [`Refused::Key`].
    pub fn new(kind: Kind, key: &str) -> Result<Self, Refused> {
        let bytes = key.len();
        if !(1..=KEY_BYTES_MAX).contains(&bytes) {
            return Err(Refused::Key { bytes });
        }
        let key = Arc::from(key);
        Ok(Self { kind, key })
    }

    /// Returns the name of the record that counts changes of the configuration.
    #[must_use]
    pub fn epoch() -> Self {
        Self {
            kind: Kind::Epoch,
            key: Arc::from("configuration"),
        }
    }

    /// Returns the name of the record of the last change of the keys of the API.
    #[must_use]
    pub fn api_key_change() -> Self {
        Self {
            kind: Kind::ApiKeyChange,
            key: Arc::from("last"),
        }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.key)
    }
}

/// The version of a record. Each write of a name has a greater one than all writes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i64);

impl Version {
    /// Returns the version of a write that replaces another, at `stamp` microseconds.
    #[must_use]
    pub fn behind(replaced: Option<Self>, stamp: i64) -> Self {
        let least = replaced.map_or(1, |replaced| replaced.0.saturating_add(1));
        Self(stamp.max(least))
    }
}

/// A record as a store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: Version,
    /// The name of its last write.
    pub nonce: Uuid,
    /// Its value; none when it was removed.
    pub value: Option<Bytes>,
    /// From when on it may be gone; none when it stays.
    pub expires: Option<Millis>,
}

impl Record {
    /// Returns the part that conditions compare.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        Seen {
            version: self.version,
            nonce: self.nonce,
        }
    }

    /// Tells whether it was removed.
    #[must_use]
    pub const fn is_removed(&self) -> bool {
        self.value.is_none()
    }
}

/// The part of a record that conditions compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The version.
    pub version: Version,
    /// The name of the last write.
    pub nonce: Uuid,
}

/// The name and the time of a write, which its caller draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Random, and of this write alone.
    pub nonce: Uuid,
    /// Microseconds since 1970 by the clock of the node.
    pub stamp: i64,
}

/// A conditional write of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    expect: Option<Seen>,
    creates: bool,
    record: Record,
}

/// How a change relates to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// The record that it expects is there: it is written.
    Holds,
    /// The record that is there was written by this very change.
    Mine,
    /// Something else is there.
    Conflict,
}

impl Change {
    /// Returns the change that writes a value in place of what was read: a record, a removed one, or none.
    ///
    /// # Errors
    /// [`Refused::Value`].
    pub fn put(
        name: Name,
        replaced: Option<&Record>,
        value: Bytes,
        expires: Option<Millis>,
        mark: Mark,
    ) -> Result<Self, Refused> {
        let bytes = value.len();
        if bytes > VALUE_BYTES_MAX {
            return Err(Refused::Value { name, bytes });
        }
        Ok(Self::of(name, replaced, Some(value), expires, mark))
    }

    /// Returns the change that removes a record that was read at `now` or before.
    #[must_use]
    pub fn remove(replaced: &Record, now: Millis, mark: Mark) -> Self {
        let expires = Some(now.after(REMOVED_KEPT));
        Self::of(replaced.name.clone(), Some(replaced), None, expires, mark)
    }

    fn of(
        name: Name,
        replaced: Option<&Record>,
        value: Option<Bytes>,
        expires: Option<Millis>,
        mark: Mark,
    ) -> Self {
        let was_there = replaced.is_some_and(|record| !record.is_removed());
        Self {
            expect: replaced.map(Record::seen),
            creates: value.is_some() && !was_there,
            record: Record {
                name,
                version: Version::behind(replaced.map(|record| record.version), mark.stamp),
                nonce: mark.nonce,
                value,
                expires,
            },
        }
    }

    /// Returns what must be there; none when nothing may be.
    #[must_use]
    pub const fn expect(&self) -> Option<Seen> {
        self.expect
    }

    /// Returns the record that it writes.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Tells whether it makes a record where none is, or where one was removed.
    #[must_use]
    pub const fn creates(&self) -> bool {
        self.creates
    }

    /// Compares it with what is there.
    #[must_use]
    pub fn judge(&self, there: Option<Seen>) -> Judged {
        if there.is_some_and(|there| there.nonce == self.record.nonce) {
            Judged::Mine
        } else if there == self.expect {
            Judged::Holds
        } else {
            Judged::Conflict
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    fn mark(nonce: u128, stamp: i64) -> Mark {
        Mark {
            nonce: Uuid::from_u128(nonce),
            stamp,
        }
    }

    fn put(replaced: Option<&Record>, mark: Mark) -> Change {
        let name = Name::new(Kind::Callback, "send").unwrap();
        Change::put(name, replaced, Bytes::from_static(b"v"), None, mark).unwrap()
    }

    #[test]
    fn a_change_holds_only_over_what_was_read_and_knows_its_own() {
        let first = put(None, mark(1, 500));
        assert_eq!(first.judge(None), Judged::Holds);
        let there = first.record();
        assert_eq!(first.judge(Some(there.seen())), Judged::Mine);
        let second = put(Some(there), mark(2, 400));
        assert_eq!(second.judge(Some(there.seen())), Judged::Holds);
        assert_eq!(second.judge(None), Judged::Conflict);
        assert_eq!(
            first.judge(Some(second.record().seen())),
            Judged::Conflict,
            "a late repetition must not undo a later write"
        );
        // The same version with another nonce is another life of the name.
        let other = put(None, mark(3, 500));
        assert_eq!(other.record().version, there.version);
        assert_eq!(second.judge(Some(other.record().seen())), Judged::Conflict);
    }

    #[test]
    fn versions_grow_whatever_the_clock_does_and_over_a_removal() {
        let first = put(None, mark(1, 500)).record().clone();
        let second = put(Some(&first), mark(2, 400)).record().clone();
        let removed = Change::remove(&second, NOW, mark(3, 300)).record().clone();
        let again = put(Some(&removed), mark(4, 9000));
        let versions = [&first, &second, &removed, again.record()].map(|one| one.version.0);
        assert_eq!(versions, [500, 501, 502, 9000]);
        assert!(removed.is_removed() && removed.expires == Some(NOW.after(REMOVED_KEPT)));
        assert_eq!(Version::behind(None, -7), Version(1));
    }

    #[test]
    fn a_late_creation_finds_the_removed_record() {
        let late = put(None, mark(1, 500));
        let first = put(None, mark(2, 600)).record().clone();
        let removed = Change::remove(&first, NOW, mark(3, 700));
        assert_eq!(late.judge(Some(removed.record().seen())), Judged::Conflict);
        let again = put(Some(removed.record()), mark(4, 800));
        assert!(late.creates() && again.creates() && !removed.creates());
        assert!(!put(Some(&first), mark(5, 800)).creates());
        assert_eq!(again.judge(Some(removed.record().seen())), Judged::Holds);
    }

    #[test]
    fn keys_and_values_have_bounds() {
        let named = |bytes: usize| Name::new(Kind::ApiKey, &"k".repeat(bytes));
        assert_eq!(named(0), Err(Refused::Key { bytes: 0 }));
        assert!(named(1).is_ok() && named(KEY_BYTES_MAX).is_ok());
        let bytes = KEY_BYTES_MAX + 1;
        assert_eq!(named(bytes), Err(Refused::Key { bytes }));
        let valued = |bytes: usize| {
            let value = Bytes::from(vec![0; bytes]);
            Change::put(named(1).unwrap(), None, value, None, mark(1, 1))
        };
        assert!(valued(VALUE_BYTES_MAX).is_ok());
        let refused = valued(VALUE_BYTES_MAX + 1).unwrap_err().to_string();
        assert!(refused.contains("49153 bytes; at most 49152"), "{refused}");
    }

    #[test]
    fn numbers_of_kinds_are_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(Kind::from_number(0), None);
        assert!(Kind::CONFIGURATION.iter().all(|kind| kind.is_listed()));
    }
}
