//! The codec of families converts the places of tasks in trees, the rows of children and the records of parents, for the nodes.
//!
//! The partition of a row names the parent and a bucket. Rows sort by the id of the child, so by its first start.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, spec_from_message, spec_to_message, v1};
use crate::{
    limits::INDEX_VALUE_BYTES_MAX,
    model::{
        family::{Outcome, Tree},
        ids::TaskId,
        row::State,
        task::Spec,
        time::Millis,
    },
};

/// A row of a child, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildRow {
    /// It was added and has not ended.
    Added {
        /// The child.
        spec: Box<Spec>,
        /// When its row was made.
        at: Millis,
    },
    /// It has ended, with all of its own tree.
    Ended(Outcome),
}

/// Returns the name of the partition with the rows of a bucket of a parent's children.
#[must_use]
pub fn children_partition(parent: TaskId, bucket: u8) -> Bytes {
    let mut name = parent.uuid().as_bytes().to_vec();
    name.push(bucket);
    name.into()
}

/// Encodes the row of a child that is added; none when it is too large, and how large that is.
///
/// # Errors
/// Its size.
pub fn encode_added(spec: &Spec, at: Millis) -> Result<Bytes, usize> {
    let row = v1::ChildRow {
        spec: Some(spec_to_message(spec)),
        added_ms: at.0,
        ..v1::ChildRow::default()
    };
    let bytes = row.encoded_len();
    if bytes > INDEX_VALUE_BYTES_MAX {
        return Err(bytes);
    }
    Ok(row.encode_to_vec().into())
}

/// Encodes the row of a child that has ended.
#[must_use]
pub fn encode_outcome(outcome: &Outcome) -> Bytes {
    let row = v1::ChildRow {
        state: i32::from(outcome.state.number()),
        faulted: outcome.faulted,
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
        return Ok((id, ChildRow::Added { spec, at }));
    }
    let state = i8::try_from(row.state).ok().and_then(State::from_number);
    let state = state.filter(|state| state.is_terminal());
    let outcome = Outcome {
        state: state.ok_or(Malformed::OutOfRange("state"))?,
        faulted: row.faulted,
        at: Millis(row.end_ms),
    };
    Ok((id, ChildRow::Ended(outcome)))
}

/// Encodes the record of a parent.
#[must_use]
pub fn encode_family(tree: Tree) -> Bytes {
    let tree = tree.number();
    v1::Family { tree }.encode_to_vec().into()
}

/// Decodes the record of a parent.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_family(value: Bytes) -> Result<Tree, Malformed> {
    let v1::Family { tree } = v1::Family::decode(value)?;
    Tree::from_number(tree).ok_or(Malformed::OutOfRange("tree"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    #[test]
    fn rows_and_records_are_read_back() {
        let id = fixtures::id();
        let sort = id.uuid().as_bytes().to_vec();
        let spec = Box::new(fixtures::spec());
        let at = Millis(7);
        let added = encode_added(&spec, at).unwrap();
        let read = decode_child(&sort, added);
        assert_eq!(read, Ok((id, ChildRow::Added { spec, at })));
        let outcome = Outcome {
            state: State::Dead,
            faulted: true,
            at,
        };
        let read = decode_child(&sort, encode_outcome(&outcome));
        assert_eq!(read, Ok((id, ChildRow::Ended(outcome))));
        for tree in [Tree::Open, Tree::Closing, Tree::Completed, Tree::Faulted] {
            assert_eq!(decode_family(encode_family(tree)), Ok(tree));
        }
        assert!(decode_family(Bytes::new()).is_err());
        assert!(decode_child(&sort, Bytes::new()).is_err());
        assert!(decode_child(b"x", encode_outcome(&outcome)).is_err());
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
