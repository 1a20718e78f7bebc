//! The index seam gives the service ordered lists of small rows: plain writes with an explicit time, of which the newest wins.
//!
//! A row lies in a partition, in the order of its sort key. A removal is a write like any other: it is final against every
//! write that is older, or as old, whenever that arrives. Stores remember it for [`INDEX_REMOVED_KEPT`] at least. So does
//! the end of a row's life: an older write does not come up behind it. After that time an older write may come up again, so
//! a row is a hint, and whoever acts on it reads what it stands for.
//!
//! Of two different writes of one row with the same time either may win; a caller gives each its own.

use async_trait::async_trait;
use bytes::Bytes;

use super::Error;
#[cfg(doc)]
use crate::limits::{INDEX_PAGE_ROWS_MAX, INDEX_REMOVED_KEPT};
use crate::{
    limits::{INDEX_PARTITION_BYTES_MAX, INDEX_SORT_BYTES_MAX, INDEX_VALUE_BYTES_MAX},
    model::time::Millis,
};

/// The meaning of rows of the index; numbers are what stores keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum IndexKind {
    /// The records of a kind, by key.
    Records = 1,
    /// Tasks that are due and held.
    Held = 2,
    /// Dead tasks.
    Dead = 3,
    /// Tasks of a sequence, which run one at a time.
    Member = 4,
    /// The times at which schedules are looked at, and the runs of each schedule.
    Schedule = 5,
    /// Tasks that have a label.
    Label = 6,
    /// Children of a task.
    Child = 7,
    /// Tasks that a task waits for.
    Join = 8,
    /// Calls that changed the configuration or many tasks, by day.
    Audit = 9,
    /// Tasks that have ended.
    Ended = 10,
    /// Levels of the programs of nodes.
    Level = 11,
    /// Tasks that wait for a task.
    Waiter = 15,
    /// The activity of a callback as each node knows it.
    Share = 20,
}

impl IndexKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Records,
        Self::Held,
        Self::Dead,
        Self::Member,
        Self::Schedule,
        Self::Label,
        Self::Child,
        Self::Join,
        Self::Audit,
        Self::Ended,
        Self::Level,
        Self::Waiter,
        Self::Share,
    ];

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
}

/// Why a row cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {part} of a row of the index has {bytes} bytes; it needs {min} to {max}")]
pub struct Refused {
    part: &'static str,
    bytes: usize,
    min: usize,
    max: usize,
}

fn check(part: &'static str, bytes: &[u8], min: usize, max: usize) -> Result<(), Refused> {
    let bytes = bytes.len();
    if (min..=max).contains(&bytes) {
        return Ok(());
    }
    Err(Refused {
        part,
        bytes,
        min,
        max,
    })
}

/// A partition of the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    kind: IndexKind,
    name: Bytes,
}

impl Partition {
    /// Returns the partition of a kind with this name.
    ///
    /// # Errors
    /// [`Refused`] when the name is empty or too long.
    pub fn new(kind: IndexKind, name: impl Into<Bytes>) -> Result<Self, Refused> {
        let name = name.into();
        check("partition", &name, 1, INDEX_PARTITION_BYTES_MAX)?;
        Ok(Self { kind, name })
    }

    /// Returns the partition with the names of the records of a kind.
    #[must_use]
    pub fn of_records(kind: crate::model::record::Kind) -> Self {
        Self {
            kind: IndexKind::Records,
            name: Bytes::copy_from_slice(&kind.number().to_be_bytes()),
        }
    }

    /// Returns what its rows stand for.
    #[must_use]
    pub const fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(&self) -> &Bytes {
        &self.name
    }
}

/// The place of a row. Places of a partition sort by the bytes of their sort keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    partition: Partition,
    sort: Bytes,
}

impl Place {
    /// Returns the place.
    ///
    /// # Errors
    /// [`Refused`] when the sort key is empty or too long.
    pub fn new(partition: Partition, sort: impl Into<Bytes>) -> Result<Self, Refused> {
        let sort = sort.into();
        check("sort key", &sort, 1, INDEX_SORT_BYTES_MAX)?;
        Ok(Self { partition, sort })
    }

    /// Returns the partition.
    #[must_use]
    pub const fn partition(&self) -> &Partition {
        &self.partition
    }

    /// Returns the sort key.
    #[must_use]
    pub const fn sort(&self) -> &Bytes {
        &self.sort
    }
}

/// A row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPut {
    place: Place,
    value: Bytes,
    /// The time of the write, in microseconds.
    pub written: i64,
    /// From when on the row is not there any more; none when it stays.
    pub expires: Option<Millis>,
}

impl IndexPut {
    /// Returns the write of a row that stays.
    ///
    /// # Errors
    /// [`Refused`] when the value is too large.
    pub fn new(place: Place, value: impl Into<Bytes>, written: i64) -> Result<Self, Refused> {
        let value = value.into();
        check("value", &value, 0, INDEX_VALUE_BYTES_MAX)?;
        Ok(Self {
            place,
            value,
            written,
            expires: None,
        })
    }

    /// Returns the write of a row that ends.
    #[must_use]
    pub fn until(self, expires: Millis) -> Self {
        Self {
            expires: Some(expires),
            ..self
        }
    }

    /// Returns where the row lies.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the value.
    #[must_use]
    pub const fn value(&self) -> &Bytes {
        &self.value
    }
}

/// A removal of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRemoval {
    /// Where the row lies.
    pub place: Place,
    /// The time of the removal in microseconds. Writes up to it are removed.
    pub written: i64,
}

/// A bounded read of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRange {
    /// The partition.
    pub partition: Partition,
    /// Reads on behind this sort key; none reads from the first row.
    pub after: Option<Bytes>,
    /// Returns at most this many rows, and at most [`INDEX_PAGE_ROWS_MAX`].
    pub rows_max: usize,
}

/// A row that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// Its sort key.
    pub sort: Bytes,
    /// Its value.
    pub value: Bytes,
    /// The time of its write, in microseconds.
    pub written: i64,
}

/// Rows of a partition, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexPage {
    /// The rows.
    pub rows: Vec<IndexRow>,
    /// The sort key behind which there may be more; none at the end. A page may be empty and still not be the last.
    pub next: Option<Bytes>,
}

/// The rows of the index. Plain writes only.
#[async_trait]
pub trait IndexStore: Send + Sync {
    /// Writes rows.
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>>;
    /// Removes rows.
    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>>;
    /// Reads a page of a partition.
    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_sort_keys_and_values_have_bounds() {
        let partition = |bytes: usize| Partition::new(IndexKind::Held, vec![7; bytes]);
        assert!(partition(0).is_err() && partition(1).is_ok());
        assert!(partition(INDEX_PARTITION_BYTES_MAX).is_ok());
        assert!(partition(INDEX_PARTITION_BYTES_MAX + 1).is_err());
        let place = |bytes: usize| Place::new(partition(1).unwrap(), vec![7; bytes]);
        assert!(place(0).is_err() && place(INDEX_SORT_BYTES_MAX).is_ok());
        assert!(place(INDEX_SORT_BYTES_MAX + 1).is_err());
        let put = |bytes: usize| IndexPut::new(place(1).unwrap(), vec![7; bytes], 1);
        assert!(put(0).is_ok() && put(INDEX_VALUE_BYTES_MAX).is_ok());
        let refused = put(INDEX_VALUE_BYTES_MAX + 1).unwrap_err().to_string();
        assert!(
            refused.contains("value of a row") && refused.contains("0 to 4096"),
            "{refused}"
        );
    }

    #[test]
    fn numbers_of_kinds_are_read_back() {
        for kind in IndexKind::ALL {
            assert_eq!(IndexKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(IndexKind::from_number(0), None);
    }
}
