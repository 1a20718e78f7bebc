//! The bytes of records and of rows of the index place and hold them for the database.
//!
//! The key of a record is its kind and its key. The key of a row of the index is its kind, the length of its partition's name,
//! the name, and the sort key: rows of a partition lie together, in order. Values begin with the instant from which
//! on the sweep may remove them.
//!
//! A row of the index that was removed, or has ended, is not shown, and is kept for [`INDEX_REMOVED_KEPT`]: an older
//! write that arrives later must find it and give way. In this process a write is late by seconds at most (its caller
//! gave up while it waited for the disk). But callers repeat writes with the time of the first, also after a restart, so
//! the time is that of every store.

use bytes::Bytes;
use fjall::Slice;
use uuid::Uuid;

use super::value::{self, NEVER};
use crate::{
    limits::INDEX_REMOVED_KEPT,
    model::{
        record::{Name, Record},
        time::Millis,
    },
    store::{
        index::{IndexPut, IndexRow, Partition, Place},
        row::{RecordColumns, Undecodable},
    },
};

/// The numbers of the two states of a row of the index; never reused.
mod state {
    /// It has a value.
    pub(super) const THERE: u8 = 1;
    /// It was removed.
    pub(super) const REMOVED: u8 = 2;
}

/// Returns the key of a record.
#[must_use]
pub fn record_key(name: &Name) -> Slice {
    let kind = name.kind().number().to_be_bytes();
    Slice::from([kind.as_slice(), name.key().as_bytes()].concat())
}

/// Returns the value of a record.
#[must_use]
pub fn record(record: &Record) -> Slice {
    let columns = RecordColumns::of(record);
    let content = columns.value.unwrap_or_default();
    let mut bytes = Vec::with_capacity(33 + content.len());
    bytes.extend(record.expires.unwrap_or(NEVER).0.to_be_bytes());
    bytes.extend(record.version.0.to_be_bytes());
    bytes.extend(record.nonce.as_bytes());
    bytes.extend(columns.state.unwrap_or_default().to_be_bytes());
    bytes.extend(&content);
    Slice::from(bytes)
}

/// Reads a record.
///
/// # Errors
/// The defect.
pub fn parse_record(name: Name, value: &[u8]) -> Result<Record, Undecodable> {
    let (expires, rest) = long(value);
    let (version, rest) = long(rest);
    let (nonce, rest) = rest.split_first_chunk().unzip();
    let (state, content) = rest.unwrap_or_default().split_first().unzip();
    let columns = RecordColumns {
        version,
        nonce: nonce.map(|nonce| Uuid::from_bytes(*nonce)),
        state: state.map(|state: &u8| state.cast_signed()),
        value: content.map(Bytes::copy_from_slice),
        expires_ms: expires,
    };
    columns.into_record(name)
}

fn long(bytes: &[u8]) -> (Option<i64>, &[u8]) {
    match bytes.split_first_chunk() {
        Some((number, rest)) => (Some(i64::from_be_bytes(*number)), rest),
        None => (None, &[]),
    }
}

/// Returns the first bytes of the keys of a partition's rows.
#[must_use]
pub fn of_partition(partition: &Partition) -> Vec<u8> {
    let name = partition.name();
    // The bound on names is far below.
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes();
    let kind = partition.kind().number().to_be_bytes();
    [kind.as_slice(), &length, name].concat()
}

/// Returns the key of a row of the index.
#[must_use]
pub fn index_key(place: &Place) -> Slice {
    let head = of_partition(place.partition());
    Slice::from([head.as_slice(), place.sort()].concat())
}

/// Returns the value of a row of the index.
#[must_use]
pub fn index_row(row: &IndexPut) -> Slice {
    let shown = row.expires.unwrap_or(NEVER);
    let kept = row
        .expires
        .map_or(NEVER, |expires| expires.after(INDEX_REMOVED_KEPT));
    let shown = shown.0.to_be_bytes();
    let content = [shown.as_slice(), &[state::THERE], row.value()].concat();
    value::newest(kept, row.written, &content)
}

/// Returns the value of a row of the index that was removed at `now` by a write of the time `written`.
#[must_use]
pub fn index_removed(written: i64, now: Millis) -> Slice {
    let shown = now.0.to_be_bytes();
    let content = [shown.as_slice(), &[state::REMOVED]].concat();
    value::newest(now.after(INDEX_REMOVED_KEPT), written, &content)
}

/// A row of the index as it is stored, without its sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// The time of the write.
    pub written: i64,
    /// From when on it is not shown.
    pub shown_until: Millis,
    /// Its value; none when it was removed.
    pub value: Option<Bytes>,
}

impl StoredRow {
    /// Returns the row as readers see it, if they do.
    #[must_use]
    pub fn shown(self, sort: &[u8], now: Millis) -> Option<IndexRow> {
        let value = self.value.filter(|_| self.shown_until > now)?;
        Some(IndexRow {
            sort: Bytes::copy_from_slice(sort),
            value,
            written: self.written,
        })
    }
}

/// Reads a row of the index.
///
/// # Errors
/// The defect.
pub fn parse_index_row(stored: &[u8]) -> Result<StoredRow, Undecodable> {
    let missing = |column| move || Undecodable::Missing(column);
    let (written, content) = value::parse_newest(stored).ok_or_else(missing("written"))?;
    let (shown_until, rest) = long(&content);
    let (state, value) = rest.split_first().ok_or_else(missing("state"))?;
    let value = match *state {
        state::THERE => Some(Bytes::copy_from_slice(value)),
        state::REMOVED => None,
        other => {
            return Err(Undecodable::unknown("state", other, state::REMOVED));
        }
    };
    Ok(StoredRow {
        written,
        shown_until: Millis(shown_until.ok_or_else(missing("shown_until"))?),
        value,
    })
}

/// Tells whether a stored row of the index gives way to a write of this time. A removal does not to one as old, and a row that
/// cannot be understood does.
#[must_use]
pub(super) fn gives_way(stored: &[u8], written: i64) -> bool {
    parse_index_row(stored).map_or(true, |there| {
        there.written < written || (there.written == written && there.value.is_some())
    })
}
