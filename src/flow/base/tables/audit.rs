//! The rows of the audit: calls that changed the configuration or many tasks.
//!
//! Partition: day. Order: time, then a random number ([`Spot::sort`]). A row lives for [`KEPT`].

use bytes::Bytes;

use crate::{
    model::{
        audit::{Entry, KEPT, Spot, day},
        time::Millis,
    },
    schema::encode_audit,
    store::index::{IndexKind, IndexPut, Partition, Place, Refused},
};

/// Returns the partition of a day.
pub(in crate::flow) fn partition(day: i64) -> Result<Partition, Refused> {
    Partition::new(IndexKind::Audit, Bytes::copy_from_slice(&day.to_be_bytes()))
}

pub(in crate::flow) fn place(spot: Spot) -> Result<Place, Refused> {
    Place::new(partition(day(spot.time))?, spot.sort().to_vec())
}

/// Returns the row of a call.
pub(in crate::flow) fn row(spot: Spot, entry: &Entry, written: i64) -> Result<IndexPut, Refused> {
    let row = IndexPut::new(place(spot)?, encode_audit(entry), written)?;
    Ok(row.until(spot.time.after(KEPT)))
}

/// Returns the sort key behind which the rows of a range begin: of a time that may be before all of them.
pub(in crate::flow) fn behind(spot: Spot) -> Bytes {
    Bytes::from(spot.sort().to_vec())
}

/// Returns the place right before all calls of a time.
pub(in crate::flow) const fn before(time: Millis) -> Spot {
    Spot {
        time: Millis(time.0 - 1),
        random: u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::decode_audit;

    #[test]
    fn the_bytes_of_rows_are_unchanged_and_read_back() {
        let spot = Spot {
            time: Millis(1_800_000_000_437),
            random: 9,
        };
        let entry = Entry {
            action: "callback.set".to_owned(),
            ..Entry::default()
        };
        let row = row(spot, &entry, 7).unwrap();
        let partition = row.place().partition();
        assert_eq!(partition.kind(), IndexKind::Audit);
        assert_eq!(&partition.name()[..], b"\0\0\0\0\0\0Qa");
        let sort = b"\0\0\x01\xa3\x18\x5c\x51\xb5\0\0\0\0\0\0\0\x09";
        assert_eq!(&row.place().sort()[..], sort);
        assert_eq!((row.written, row.expires), (7, Some(spot.time.after(KEPT))));
        assert_eq!(Spot::read(row.place().sort()), Some(spot));
        assert_eq!(decode_audit(row.value().clone()), Ok(entry));
        assert!(before(spot.time) < spot && behind(before(spot.time)) < *row.place().sort());
    }
}
