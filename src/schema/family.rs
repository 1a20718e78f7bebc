//! The codec of families converts the places of tasks in trees, the rows of children and the records of parents, for the nodes.
//!
//! The partition of a row names the parent and a bucket. Rows sort by the id of the child, so by its first start.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, kin::outcome_from, spec_from_message, spec_to_message, v1};
use crate::{
    limits::INDEX_VALUE_BYTES_MAX,
    model::{
        family::{Family, Outcome, Tree},
        ids::TaskId,
        kin::Runs,
        row::State,
        task::Spec,
        time::Millis,
    },
};

/// The bytes that the round of an open row takes at most.
const OPENED_BYTES_MAX: usize = 8;

/// A row of a child, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildRow {
    /// It was added and has not ended.
    Added {
        /// The child.
        spec: Box<Spec>,
        /// When its row was made.
        at: Millis,
        /// The round that the row is open for.
        opened: Opened,
    },
    /// It has ended, with all of its own tree.
    Ended {
        /// How.
        outcome: Outcome,
        /// In which round.
        round: u32,
    },
}

/// The round that the row of a child is open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opened {
    /// The round.
    pub round: u32,
    /// The own run of the child is to run again in it, if it is one of these.
    pub run: Runs,
}

/// Returns the name of the partition with the rows of a bucket of a parent's children.
#[must_use]
pub fn children_partition(parent: TaskId, bucket: u8) -> Bytes {
    let mut name = parent.uuid().as_bytes().to_vec();
    name.push(bucket);
    name.into()
}

/// Encodes the row of a child that is added; none when it is too large, and how large that is. There is room for the row of a
/// later round.
///
/// # Errors
/// Its size.
pub fn encode_added(spec: &Spec, at: Millis) -> Result<Bytes, usize> {
    let row = open_row(spec, at, Opened::default());
    let bytes = row.encoded_len();
    if bytes + OPENED_BYTES_MAX > INDEX_VALUE_BYTES_MAX {
        return Err(bytes);
    }
    Ok(row.encode_to_vec().into())
}

/// Encodes the row of a child that is open for a later round.
#[must_use]
pub fn encode_opened(spec: &Spec, at: Millis, opened: Opened) -> Bytes {
    open_row(spec, at, opened).encode_to_vec().into()
}

fn open_row(spec: &Spec, at: Millis, opened: Opened) -> v1::ChildRow {
    v1::ChildRow {
        spec: Some(spec_to_message(spec)),
        added_ms: at.0,
        round: opened.round,
        run: opened.run.number(),
        ..v1::ChildRow::default()
    }
}

/// Encodes the row of a child that has ended in a round.
#[must_use]
pub fn encode_outcome(outcome: &Outcome, round: u32) -> Bytes {
    let row = v1::ChildRow {
        round,
        state: i32::from(outcome.state.number()),
        tree: outcome.tree.number(),
        end_ms: outcome.at.0,
        ..v1::ChildRow::default()
    };
    row.encode_to_vec().into()
}

/// Decodes the row of a child.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_child(sort: &[u8], value: Bytes) -> Result<(TaskId, ChildRow), Malformed> {
    let wrong = || Malformed::OutOfRange("sort key");
    let id = Uuid::from_slice(sort).map_err(|_| wrong())?;
    let id = TaskId::from_uuid(id).ok_or_else(wrong)?;
    let row = v1::ChildRow::decode(value)?;
    if row.state == 0 {
        let spec = row.spec.ok_or(Malformed::Missing("spec"))?;
        let spec = Box::new(spec_from_message(spec)?);
        let at = Millis(row.added_ms);
        let opened = Opened {
            round: row.round,
            run: Runs::from_number(row.run).ok_or(Malformed::OutOfRange("run"))?,
        };
        return Ok((id, ChildRow::Added { spec, at, opened }));
    }
    let state = i8::try_from(row.state).ok().and_then(State::from_number);
    let state = state.filter(|state| state.is_terminal());
    let outcome = Outcome {
        state: state.ok_or(Malformed::OutOfRange("state"))?,
        tree: outcome_from(row.tree, "tree")?,
        at: Millis(row.end_ms),
    };
    let round = row.round;
    Ok((id, ChildRow::Ended { outcome, round }))
}

/// Encodes the record of a parent.
#[must_use]
pub fn encode_family(family: Family) -> Bytes {
    let message = v1::Family {
        tree: family.tree.number(),
        round: family.round,
        cancelled_ms: family.cancelled.map(|at| at.0),
        complete: family.complete,
    };
    message.encode_to_vec().into()
}

/// Decodes the record of a parent.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_family(value: Bytes) -> Result<Family, Malformed> {
    let message = v1::Family::decode(value)?;
    Ok(Family {
        tree: Tree::from_number(message.tree).ok_or(Malformed::OutOfRange("tree"))?,
        round: message.round,
        cancelled: message.cancelled_ms.map(Millis),
        complete: message.complete,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, kin::TreeOutcome};

    #[test]
    fn rows_and_records_are_read_back() {
        let id = fixtures::id();
        let sort = id.uuid().as_bytes().to_vec();
        let spec = Box::new(fixtures::spec());
        let at = Millis(7);
        let added = encode_added(&spec, at).unwrap();
        let read = decode_child(&sort, added);
        let opened = Opened::default();
        let added = |opened| ChildRow::Added {
            spec: spec.clone(),
            at,
            opened,
        };
        assert_eq!(read, Ok((id, added(opened))));
        for run in Runs::ALL {
            let opened = Opened { round: 3, run };
            let read = decode_child(&sort, encode_opened(&spec, at, opened));
            assert_eq!(read, Ok((id, added(opened))));
        }
        let outcome = Outcome {
            state: State::Dead,
            tree: TreeOutcome::Faulted,
            at,
        };
        for round in [0, 2] {
            let read = decode_child(&sort, encode_outcome(&outcome, round));
            assert_eq!(read, Ok((id, ChildRow::Ended { outcome, round })));
        }
        for (tree, cancelled) in [
            (Tree::Open, None),
            (Tree::Closing, Some(at)),
            (Tree::Completed, None),
            (Tree::Faulted, None),
            (Tree::Cancelled, Some(at)),
        ] {
            let family = Family {
                tree,
                round: 7,
                cancelled,
                complete: cancelled.is_some(),
            };
            assert_eq!(decode_family(encode_family(family)), Ok(family));
        }
        assert!(decode_family(Bytes::new()).is_err());
        assert!(decode_child(&sort, Bytes::new()).is_err());
        assert!(decode_child(b"x", encode_outcome(&outcome, 0)).is_err());
    }

    #[test]
    fn a_child_that_is_too_large_is_refused_with_its_size() {
        let spec = Spec {
            collection: "c".repeat(INDEX_VALUE_BYTES_MAX),
            ..fixtures::spec()
        };
        let bytes = encode_added(&spec, Millis(0)).unwrap_err();
        assert!(bytes > INDEX_VALUE_BYTES_MAX);
    }
}
