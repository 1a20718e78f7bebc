//! The rows of levels: what the program of each node knows of the formats.
//!
//! There is one partition. Order: node. The value is the number of the level. A row lives for [`LEVEL_KEPT`].

use bytes::{Buf as _, Bytes};
use uuid::Uuid;

use crate::{
    limits::LEVEL_KEPT,
    model::{ids::NodeId, level::Level, time::Millis},
    store::index::{IndexKind, IndexPut, IndexRow, Partition, Place, Refused},
};

/// The name of the partition.
const NODES: &[u8] = b"nodes";

pub(in crate::flow) fn partition() -> Result<Partition, Refused> {
    Partition::new(IndexKind::Level, NODES)
}

/// Returns the row of a node from `now` on.
pub(in crate::flow) fn row(
    (node, level): (NodeId, Level),
    written: i64,
    now: Millis,
) -> Result<IndexPut, Refused> {
    let sort = Bytes::copy_from_slice(node.0.as_bytes());
    let value = Bytes::copy_from_slice(&level.number().to_be_bytes());
    let put = IndexPut::new(Place::new(partition()?, sort)?, value, written)?;
    Ok(put.until(now.after(LEVEL_KEPT)))
}

/// Reads a row; none where it names no node or no level.
pub(in crate::flow) fn read(row: &IndexRow) -> Option<(NodeId, Level)> {
    let node = Uuid::from_slice(&row.sort).ok()?;
    let number = row.value.clone().try_get_u32().ok()?;
    Some((NodeId(node), Level::from_number(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_rows_are_unchanged_and_read_back() {
        let node = NodeId(Uuid::from_u128(5));
        let row = row((node, Level::OWN), 7, Millis(9)).unwrap();
        let partition = row.place().partition();
        assert_eq!(
            (partition.kind(), &partition.name()[..]),
            (IndexKind::Level, &b"nodes"[..])
        );
        assert_eq!(
            &row.place().sort()[..],
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05"
        );
        assert_eq!(&row.value()[..], &Level::OWN.number().to_be_bytes());
        assert_eq!(
            (row.written, row.expires),
            (7, Some(Millis(9).after(LEVEL_KEPT)))
        );
        let mut row = IndexRow {
            sort: row.place().sort().clone(),
            value: row.value().clone(),
            written: row.written,
        };
        assert_eq!(read(&row), Some((node, Level::OWN)));
        row.value = Bytes::from_static(&[1, 2]);
        assert_eq!(read(&row), None);
    }
}
