//! The codec of held tasks converts the rows that stand for them to and from the bytes of the index, for the nodes.
//!
//! The partition names the callback, the collection of the gate that holds (empty for all tasks of the callback) and the wheel.
//! Rows sort by start and id, so the oldest start is released first.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, sort_key, spec_from_message, spec_to_message, v1};
use crate::{
    limits::INDEX_VALUE_BYTES_MAX,
    model::{gate::Held, ids::TaskId, task::Spec, time::Millis, wheel::WheelNumber},
};

/// Bytes of a sort key: start and id.
const SORT_BYTES: usize = 24;

/// Returns the name of the partition of a gate's held tasks of a wheel. Names have no zero byte.
#[must_use]
pub fn held_partition(callback: &str, collection: &str, wheel: WheelNumber) -> Bytes {
    let mut name = Vec::with_capacity(callback.len() + collection.len() + 4);
    name.extend_from_slice(callback.as_bytes());
    name.push(0);
    name.extend_from_slice(collection.as_bytes());
    name.push(0);
    name.extend_from_slice(&wheel.get().to_be_bytes());
    name.into()
}

/// Encodes a held task: the sort key and the value of its row. The value has the spec if there is room for it.
#[must_use]
pub fn encode_held(held: &Held, spec: &Spec) -> (Bytes, Bytes) {
    let mut sort = Vec::with_capacity(SORT_BYTES);
    sort.extend_from_slice(&sort_key::ascending(held.start.0));
    sort.extend_from_slice(held.id.uuid().as_bytes());
    let mut value = v1::HeldTask {
        generation: held.generation,
        attempt: held.attempt,
        spec: Some(spec_to_message(spec)),
    };
    if value.encoded_len() > INDEX_VALUE_BYTES_MAX {
        value.spec = None;
    }
    (sort.into(), value.encode_to_vec().into())
}

/// Decodes the row of a held task, with its spec if the row has it.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_held(sort: &[u8], value: Bytes) -> Result<(Held, Option<Spec>), Malformed> {
    let wrong = || Malformed::OutOfRange("sort key");
    let (start, id) = sort.split_first_chunk::<8>().ok_or_else(wrong)?;
    let id = Uuid::from_slice(id).map_err(|_| wrong())?;
    let v1::HeldTask {
        generation,
        attempt,
        spec,
    } = v1::HeldTask::decode(value)?;
    let held = Held {
        id: TaskId::from_uuid(id).ok_or_else(wrong)?,
        start: Millis(sort_key::of_ascending(*start)),
        generation,
        attempt,
    };
    Ok((held, spec.map(spec_from_message).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        fixtures,
        task::{Body, Content},
    };

    fn held(start: i64) -> Held {
        let start = Millis(start);
        Held {
            id: TaskId::new(start, WheelNumber::new(3).unwrap(), 7),
            start,
            generation: 2,
            attempt: 1,
        }
    }

    #[test]
    fn held_tasks_are_read_back_and_sort_by_start() {
        let mut sorts = Vec::new();
        for start in [0, 1_800_000_000_000, 1_800_000_000_001] {
            let spec = fixtures::spec();
            let (sort, value) = encode_held(&held(start), &spec);
            assert_eq!(decode_held(&sort, value), Ok((held(start), Some(spec))));
            sorts.push(sort);
        }
        assert!(sorts.is_sorted());
        let before_1970 = Held {
            start: Millis(-5),
            ..held(0)
        };
        let sort = |held: &Held| encode_held(held, &fixtures::spec()).0;
        assert!(sort(&before_1970) < sort(&held(0)));
    }

    #[test]
    fn a_spec_that_has_no_room_is_left_out() {
        let spec = Spec {
            body: Body::Inline(Content {
                payload: vec![7; INDEX_VALUE_BYTES_MAX].into(),
                ..Content::default()
            }),
            ..fixtures::spec()
        };
        let (sort, value) = encode_held(&held(7), &spec);
        assert!(value.len() < 100);
        assert_eq!(decode_held(&sort, value), Ok((held(7), None)));
    }

    #[test]
    fn bytes_that_are_no_held_task_are_refused() {
        let (sort, value) = encode_held(&held(7), &fixtures::spec());
        for sort in [&sort[..7], &sort[..20], &[0; 25]] {
            let read = decode_held(sort, value.clone());
            assert_eq!(read, Err(Malformed::OutOfRange("sort key")));
        }
        assert!(decode_held(&sort, Bytes::from_static(b"\xff")).is_err());
    }

    #[test]
    fn partitions_of_different_gates_differ() {
        let wheel = |number| WheelNumber::new(number).unwrap();
        let names = [
            held_partition("a", "", wheel(1)),
            held_partition("a", "b", wheel(1)),
            held_partition("ab", "", wheel(1)),
            held_partition("a", "", wheel(2)),
        ];
        for (index, one) in names.iter().enumerate() {
            assert!(names.iter().skip(index + 1).all(|other| one != other));
        }
    }
}
