//! The row is what copies consist of: readers and writers of copies walk over rows, compare them, and add them up.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::store::embedded::disk::database::Space;

/// The beginning of values in an increment: the row is there, or is gone.
pub(super) const THERE: u8 = 1;
pub(super) const GONE: u8 = 0;

/// Returns the number by which a keyspace is known in every backup.
pub(super) const fn number_of(space: Space) -> u8 {
    match space {
        Space::Due => 0,
        Space::Look => 1,
        Space::Row => 2,
        Space::Clock => 3,
        Space::Body => 4,
        Space::Record => 5,
        Space::Index => 6,
    }
}

/// The number of rows of each keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub(super) [u64; Space::ALL.len()]);

impl Counts {
    /// Counts rows of a keyspace.
    pub(super) fn add(&mut self, space: Space, rows: u64) {
        if let Some(count) = self.0.get_mut(usize::from(number_of(space))) {
            *count += rows;
        }
    }

    /// Returns the rows of all keyspaces together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A row, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) space: Space,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
}

impl Row {
    /// Returns the place of the row in a copy, whose rows are in this order.
    pub(super) fn place(&self) -> (u8, &[u8]) {
        (number_of(self.space), &self.key)
    }

    /// Returns about how many bytes the row takes in a piece.
    pub(super) const fn bytes(&self) -> usize {
        self.key.len() + self.value.len() + 8
    }

    /// Returns what a row of an increment says: the row that is there, or that it is gone. None where it says nothing.
    pub(super) fn change(mut self) -> Option<Option<Self>> {
        let first = *self.value.first()?;
        self.value = self.value.slice(1..);
        match first {
            THERE => Some(Some(self)),
            GONE if self.value.is_empty() => Some(None),
            _ => None,
        }
    }
}

/// Divides a body; none where it does not consist of rows.
pub(super) fn rows(space: Space, mut body: Bytes) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    while !body.is_empty() {
        let (key, value) = (length(&mut body)?, length(&mut body)?);
        let (key, value) = (taken(&mut body, key)?, taken(&mut body, value)?);
        rows.push(Row { space, key, value });
    }
    Some(rows)
}

fn length(body: &mut Bytes) -> Option<usize> {
    let bytes = taken(body, 4)?;
    let bytes = bytes.as_ref().try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn taken(body: &mut Bytes, length: usize) -> Option<Bytes> {
    (length <= body.len()).then(|| body.split_to(length))
}

/// The count of rows, and the sum over them, of a copy that is read or written row by row.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) counts: Counts,
    hash: Xxh3,
}

impl Sum {
    pub(super) fn add(&mut self, row: &Row) {
        self.counts.add(row.space, 1);
        let (space, key, value) = (number_of(row.space), &row.key, &row.value);
        self.hash.update(&[space]);
        for part in [key, value] {
            self.hash.update(&(part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.hash.digest()
    }
}
