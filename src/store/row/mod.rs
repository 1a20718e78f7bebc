//! The row conversion turns entries, tasks, clocks and records into columns of plain numbers and bytes, and back, for
//! every store.
//!
//! Every store converts through here, so that the persisted numbers are listed once and bytes from outside
//! are checked once. Writing cannot fail. Reading can: another program, another version or a broken disk may
//! have written there. So every column may be missing or wrong, and the error names it.

mod clock;
mod entry;
mod record;
mod task;

use uuid::Uuid;

pub use self::{
    clock::ClockColumns,
    entry::{EntryColumns, is_first},
    record::RecordColumns,
    task::{ExpectColumns, TaskColumns},
};
use crate::schema::Malformed;

/// The reason why stored columns cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// A required column is missing.
    #[error("column {0} is missing")]
    Missing(&'static str),
    /// A column has an impossible value.
    #[error("column {column} cannot be {value}")]
    OutOfRange {
        /// The column.
        column: &'static str,
        /// Its value.
        value: i64,
    },
    /// A column has a value that this version does not know and a later one may.
    #[error("column {column} is {value}, which this version does not know")]
    Newer {
        /// The column.
        column: &'static str,
        /// Its value.
        value: i64,
    },
    /// The id is not one of ours.
    #[error("{0} is not a task id")]
    NotATaskId(Uuid),
    /// A column of bytes is not the message it should be.
    #[error("column {column} is malformed: {cause}")]
    Malformed {
        /// The column.
        column: &'static str,
        /// The defect.
        cause: Malformed,
    },
}

impl Undecodable {
    fn out_of_range(column: &'static str, value: impl Into<i64>) -> Self {
        let value = value.into();
        Self::OutOfRange { column, value }
    }

    /// Returns the error for a number that is not known. One of the next few behind the last known number
    /// belongs to a later version; any other belongs to none.
    pub(in crate::store) fn unknown(
        column: &'static str,
        value: impl Into<i64>,
        last: impl Into<i64>,
    ) -> Self {
        const NUMBERS_OF_A_VERSION: i64 = 16;
        let (value, last) = (value.into(), last.into());
        if (1..=NUMBERS_OF_A_VERSION).contains(&(value - last)) {
            return Self::Newer { column, value };
        }
        Self::OutOfRange { column, value }
    }

    /// Tells whether a later version may understand the column.
    #[must_use]
    pub(super) const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }
}

/// Turns a count into the number that stores keep. One above `i32::MAX` becomes `i32::MAX` (the limits are
/// far below).
#[must_use]
pub(super) fn to_i32(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn to_u32(stored: Option<i32>, column: &'static str) -> Result<u32, Undecodable> {
    let stored = there(stored, column)?;
    u32::try_from(stored).map_err(|_| Undecodable::out_of_range(column, stored))
}

fn there<T>(stored: Option<T>, column: &'static str) -> Result<T, Undecodable> {
    stored.ok_or(Undecodable::Missing(column))
}

const fn malformed(column: &'static str, cause: Malformed) -> Undecodable {
    Undecodable::Malformed { column, cause }
}

#[cfg(test)]
pub(crate) mod tests;
