//! The rows of shares: what each node knows of the activity of a callback.
//!
//! Partition: callback. Order: node. The value has the time at which it was told. A row lives for [`SHARES_KEPT`].

use bytes::Bytes;

use crate::{
    limits::SHARES_KEPT,
    model::{callback_share::CallbackShare, ids::NodeId, time::Millis},
    schema::encode_callback_share,
    store::index::{IndexKind, IndexPut, Partition, Place, Refused},
};

/// The partition of the rows that name the callbacks which are polled at each node, in place of workers. No callback has this
/// name.
pub(in crate::flow) const POLLED_NAMES: &str = "*";

pub(in crate::flow) fn partition(callback: &str) -> Result<Partition, Refused> {
    Partition::new(IndexKind::Share, callback.as_bytes().to_vec())
}

/// Returns the row of the share of a node, told at `now`.
pub(in crate::flow) fn row(
    callback: &str,
    (node, share): (NodeId, &CallbackShare),
    written: i64,
    now: Millis,
) -> Result<IndexPut, Refused> {
    let sort = Bytes::copy_from_slice(node.0.as_bytes());
    let value = encode_callback_share(share, now);
    let place = Place::new(partition(callback)?, sort)?;
    let row = IndexPut::new(place, value, written)?;
    Ok(row.until(now.after(SHARES_KEPT)))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::schema::decode_callback_share;

    #[test]
    fn the_bytes_of_rows_are_unchanged_and_read_back() {
        let node = NodeId(Uuid::from_u128(5));
        let share = CallbackShare::default();
        let row = row("mail", (node, &share), 7, Millis(9)).unwrap();
        let partition = row.place().partition();
        assert_eq!(
            (partition.kind(), &partition.name()[..]),
            (IndexKind::Share, &b"mail"[..])
        );
        assert_eq!(
            &row.place().sort()[..],
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05"
        );
        assert_eq!(
            (row.written, row.expires),
            (7, Some(Millis(9).after(SHARES_KEPT)))
        );
        let read = decode_callback_share(row.value().clone());
        assert_eq!(read, Ok((Millis(9), share)));
    }
}
