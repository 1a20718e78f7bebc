//! The rows of held tasks: due tasks that a gate holds.
//!
//! Partition: callback, collection of the gate (empty for all tasks of the callback), wheel. Order: start and id, so that the
//! oldest start is released first. The value names the attempt, and has the spec if there is room. A row lives for [`HELD_KEPT`]:
//! the look of its task writes it again. Keys and values are spelt in [`crate::schema`].

use crate::{
    limits::HELD_KEPT,
    model::{gate::Held, task::Spec, time::Millis, wheel::WheelNumber},
    schema::{encode_held, held_partition},
    store::index::{IndexKind, IndexPut, IndexRemoval, Partition, Place, Refused},
};

/// Returns the partition of a gate's held tasks of a wheel.
pub(in crate::flow) fn partition(
    callback: &str,
    gate: &str,
    wheel: WheelNumber,
) -> Result<Partition, Refused> {
    Partition::new(IndexKind::Held, held_partition(callback, gate, wheel))
}

/// Returns the row of a task that a gate holds from `now` on.
pub(in crate::flow) fn row(
    gate: &str,
    (held, spec): (&Held, &Spec),
    written: i64,
    now: Millis,
) -> Result<IndexPut, Refused> {
    let (sort, value) = encode_held(held, spec);
    let callback = spec.callback().unwrap_or_default();
    let place = Place::new(partition(callback, gate, held.id.wheel())?, sort)?;
    let put = IndexPut::new(place, value, written)?;
    Ok(put.until(now.after(HELD_KEPT)))
}

/// Returns the removal of a row that was read: a newer row in its place stays.
pub(in crate::flow) const fn removal(place: Place, written: i64) -> IndexRemoval {
    IndexRemoval { place, written }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{fixtures, ids::TaskId},
        schema::decode_held,
    };

    #[test]
    fn the_bytes_of_rows_are_unchanged_and_read_back() {
        let id: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdef".parse().unwrap();
        let held = Held {
            id,
            start: Millis(5),
            generation: 2,
            attempt: 1,
        };
        let spec = fixtures::spec();
        let row = row("bulk", (&held, &spec), 7, Millis(9)).unwrap();
        let partition = row.place().partition();
        assert_eq!(partition.kind(), IndexKind::Held);
        assert_eq!(&partition.name()[..], b"mail\0bulk\0\x02\x01");
        let sort = [&[0x80, 0, 0, 0, 0, 0, 0, 5], &id.uuid().as_bytes()[..]].concat();
        assert_eq!(row.place().sort(), &sort);
        assert_eq!(
            (row.written, row.expires),
            (7, Some(Millis(9).after(HELD_KEPT)))
        );
        let read = decode_held(row.place().sort(), row.value().clone());
        assert_eq!(read, Ok((held, Some(spec))));
    }
}
