//! The codec of joins converts the waits of tasks, the rows that name them, and their marks, for the nodes.
//!
//! A partition names a waiter or a dependency; rows sort by the id of the other one.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, kin::outcome_from, v1};
use crate::model::{
    family::Outcome,
    ids::TaskId,
    join::{After, Condition, Marks},
    row::State,
    time::Millis,
};

const ALL_SUCCEEDED: i32 = 1;
const ALL_ENDED: i32 = 2;

/// The row of a dependency, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyRow {
    /// It has not ended, as far as the row says; whether it was known when the waiter was registered.
    Open {
        /// It was.
        known: bool,
    },
    /// It has ended.
    Ended(Outcome),
}

pub(super) fn after_to_message(after: &After) -> v1::After {
    v1::After {
        condition: match after.condition {
            Condition::AllSucceeded => ALL_SUCCEEDED,
            Condition::AllEnded => ALL_ENDED,
        },
        later: after.later,
        deadline_ms: after.deadline.map(|deadline| deadline.0),
        tasks: after.tasks,
    }
}

pub(super) fn after_from_message(
    message: Option<v1::After>,
) -> Result<Option<Box<After>>, Malformed> {
    let Some(message) = message else {
        return Ok(None);
    };
    Ok(Some(Box::new(After {
        condition: match message.condition {
            ALL_SUCCEEDED => Condition::AllSucceeded,
            ALL_ENDED => Condition::AllEnded,
            _ => return Err(Malformed::OutOfRange("after.condition")),
        },
        later: message.later,
        deadline: message.deadline_ms.map(Millis),
        tasks: message.tasks,
    })))
}

/// Returns the name of the partition with the rows of a waiter, or of a dependency.
#[must_use]
pub fn join_partition(id: TaskId) -> Bytes {
    Bytes::copy_from_slice(id.uuid().as_bytes())
}

/// Reads the id that a row of a join sorts by.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_join_sort(sort: &[u8]) -> Result<TaskId, Malformed> {
    let wrong = || Malformed::OutOfRange("sort key");
    let id = Uuid::from_slice(sort).map_err(|_| wrong())?;
    TaskId::from_uuid(id).ok_or_else(wrong)
}

/// Encodes the row of a dependency.
#[must_use]
pub fn encode_dependency(row: &DependencyRow) -> Bytes {
    let message = match row {
        DependencyRow::Open { known } => v1::Dependency {
            known: *known,
            ..v1::Dependency::default()
        },
        DependencyRow::Ended(outcome) => v1::Dependency {
            known: true,
            state: i32::from(outcome.state.number()),
            tree: outcome.tree.number(),
            end_ms: outcome.at.0,
        },
    };
    message.encode_to_vec().into()
}

/// Decodes the row of a dependency.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_dependency(value: Bytes) -> Result<DependencyRow, Malformed> {
    let row = v1::Dependency::decode(value)?;
    if row.state == 0 {
        return Ok(DependencyRow::Open { known: row.known });
    }
    let state = i8::try_from(row.state).ok().and_then(State::from_number);
    let state = state.filter(|state| state.is_terminal());
    Ok(DependencyRow::Ended(Outcome {
        state: state.ok_or(Malformed::OutOfRange("state"))?,
        tree: outcome_from(row.tree, "tree")?,
        at: Millis(row.end_ms),
    }))
}

/// Encodes the record of marks.
#[must_use]
pub fn encode_marks(marks: Marks) -> Bytes {
    let message = v1::JoinMarks {
        words: marks.callbacks.to_vec(),
        all_until_ms: marks.all_until.map(|until| until.0),
    };
    message.encode_to_vec().into()
}

/// Decodes the record of marks.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_marks(value: Bytes) -> Result<Marks, Malformed> {
    let v1::JoinMarks {
        words,
        all_until_ms,
    } = v1::JoinMarks::decode(value)?;
    let callbacks = words.try_into();
    Ok(Marks {
        callbacks: callbacks.map_err(|_| Malformed::OutOfRange("words"))?,
        all_until: all_until_ms.map(Millis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, kin::TreeOutcome};

    #[test]
    fn rows_and_marks_are_read_back() {
        let outcome = Outcome {
            state: State::Dead,
            tree: TreeOutcome::Cancelled,
            at: Millis(7),
        };
        for row in [
            DependencyRow::Open { known: true },
            DependencyRow::Open { known: false },
            DependencyRow::Ended(outcome),
        ] {
            assert_eq!(decode_dependency(encode_dependency(&row)), Ok(row));
        }
        let wrong = v1::Dependency {
            state: i32::from(State::New.number()),
            ..v1::Dependency::default()
        };
        assert!(decode_dependency(wrong.encode_to_vec().into()).is_err());
        let id = fixtures::id();
        assert_eq!(decode_join_sort(&join_partition(id)), Ok(id));
        assert!(decode_join_sort(b"x").is_err());
        let marks = Marks::of("mail").with(Marks::of("report"));
        for marks in [marks, marks.with(Marks::of_unknown(Millis(7)))] {
            assert_eq!(decode_marks(encode_marks(marks)), Ok(marks));
        }
        assert!(decode_marks(Bytes::new()).is_err());
    }
}
