//! The index store keeps ordered lists of small rows for the service.
//!
//! The server remembers a removal, and the end of a row's life, for the table's grace
//! ([`INDEX_REMOVED_KEPT`](crate::limits::INDEX_REMOVED_KEPT)). Rows of one partition that are written together go in
//! one batch, which is one mutation.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use scylla::{
    SerializeRow,
    serialize::row::SerializeRow as Values,
    statement::{
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};

use super::{
    Store,
    link::Purpose,
    ttl::{NO_TTL, ttl_seconds},
};
use crate::{
    limits::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, INDEX_PAGE_ROWS_MAX, STORE_WRITES_IN_FLIGHT_MAX},
    model::time::Millis,
    store::{
        Error, IndexStore,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval, IndexRow, Place},
    },
};

#[async_trait]
impl IndexStore for Store {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        let _timed = self.timed("put_index");
        let now = self.time.now();
        let rows: Vec<PutValues> = rows.iter().map(|row| PutValues::of(row, now)).collect();
        let statement = &self.statements.put_index;
        self.write_rows("put rows of the index", statement, rows)
            .await
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        let _timed = self.timed("remove_index");
        let rows: Vec<RemoveValues> = rows.iter().map(RemoveValues::of).collect();
        let statement = &self.statements.remove_index;
        self.write_rows("remove rows of the index", statement, rows)
            .await
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        let _timed = self.timed("index_range");
        let rows_max = range.rows_max.clamp(1, INDEX_PAGE_ROWS_MAX);
        let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
        let partition = &range.partition;
        // No sort key is empty, so all of them lie behind an empty one.
        let after = range.after.clone().unwrap_or_default();
        let values = (partition.kind().number(), partition.name(), after, limit);
        let purpose = (Purpose::Rows, "read rows of the index");
        let rows: Vec<(Bytes, Option<Bytes>, Option<i64>)> = self
            .link
            .rows(purpose, &self.statements.index_range, values, rows_max)
            .await?;
        let row = |(sort, value, written): (_, Option<_>, Option<_>)| IndexRow {
            sort,
            value: value.unwrap_or_default(),
            written: written.unwrap_or_default(),
        };
        let rows: Vec<IndexRow> = rows.into_iter().map(row).collect();
        let last = rows.last().filter(|_| rows.len() == rows_max);
        let next = last.map(|last| last.sort.clone());
        Ok(IndexPage { rows, next })
    }
}

/// A write of a row.
trait RowValues: Values + Send + Sync {
    /// Returns its partition.
    fn partition(&self) -> (i8, &Bytes);
    /// Returns about how many bytes it takes.
    fn bytes(&self) -> usize;
}

impl Store {
    /// Writes rows, neighbours of one partition together. The answers are in their order.
    async fn write_rows<R: RowValues>(
        &self,
        operation: &'static str,
        statement: &PreparedStatement,
        rows: Vec<R>,
    ) -> Vec<Result<(), Error>> {
        stream::iter(packs(rows))
            .map(|pack| async move {
                let done = if let [row] = pack.as_slice() {
                    self.link.write(operation, statement, row).await
                } else {
                    let part = BatchStatement::PreparedStatement(statement.clone());
                    let parts = vec![part; pack.len()];
                    let batch = Batch::new_with_statements(BatchType::Unlogged, parts);
                    self.link.write_batch(operation, &batch, &pack).await
                };
                vec![done; pack.len()]
            })
            .buffered(STORE_WRITES_IN_FLIGHT_MAX)
            .flat_map(stream::iter)
            .collect()
            .await
    }
}

/// Divides rows into neighbours of one partition that fit a batch.
fn packs<R: RowValues>(rows: Vec<R>) -> Vec<Vec<R>> {
    let mut packs: Vec<Vec<R>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        bytes += row.bytes();
        match packs.last_mut() {
            Some(pack)
                if pack.len() < BATCH_ROWS_MAX
                    && bytes <= BATCH_BYTES_MAX
                    && pack
                        .iter()
                        .all(|there| there.partition() == row.partition()) =>
            {
                pack.push(row);
            }
            Some(_) | None => {
                bytes = row.bytes();
                packs.push(vec![row]);
            }
        }
    }
    packs
}

/// The values of `put_index`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct PutValues {
    kind: i8,
    part: Bytes,
    sort: Bytes,
    value: Bytes,
    written: i64,
    ttl: i32,
}

impl PutValues {
    fn of(row: &IndexPut, now: Millis) -> Self {
        let (kind, part, sort) = columns(row.place());
        let ttl = |expires: Millis| ttl_seconds(now.until(expires), now);
        Self {
            kind,
            part,
            sort,
            value: row.value().clone(),
            written: row.written,
            ttl: row.expires.map_or(NO_TTL, ttl),
        }
    }
}

impl RowValues for PutValues {
    fn partition(&self) -> (i8, &Bytes) {
        (self.kind, &self.part)
    }

    fn bytes(&self) -> usize {
        self.sort.len() + self.value.len() + 64
    }
}

/// The values of `remove_index`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct RemoveValues {
    written: i64,
    kind: i8,
    part: Bytes,
    sort: Bytes,
}

impl RemoveValues {
    fn of(IndexRemoval { place, written }: &IndexRemoval) -> Self {
        let (kind, part, sort) = columns(place);
        Self {
            written: *written,
            kind,
            part,
            sort,
        }
    }
}

impl RowValues for RemoveValues {
    fn partition(&self) -> (i8, &Bytes) {
        (self.kind, &self.part)
    }

    fn bytes(&self) -> usize {
        self.sort.len() + 64
    }
}

fn columns(place: &Place) -> (i8, Bytes, Bytes) {
    let partition = place.partition();
    let kind = partition.kind().number();
    (kind, partition.name().clone(), place.sort().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::index::{IndexKind, Partition};

    fn sizes(rows: impl Iterator<Item = (u8, usize)>) -> Vec<usize> {
        let values = rows.map(|(part, bytes)| {
            let partition = Partition::new(IndexKind::Held, vec![part]).unwrap();
            let place = Place::new(partition, "s").unwrap();
            let put = IndexPut::new(place, vec![0; bytes], 1).unwrap();
            PutValues::of(&put, Millis(0))
        });
        packs(values.collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn neighbours_of_a_partition_go_together_up_to_the_bounds_of_a_batch() {
        assert_eq!(sizes((0..120).map(|_| (1, 10))), [50, 50, 20]);
        assert_eq!(sizes((0..10).map(|_| (1, 4096))), [7, 3]);
        assert_eq!(
            sizes([(1, 1), (1, 1), (2, 1), (1, 1)].into_iter()),
            [2, 1, 1]
        );
        assert_eq!(sizes([].into_iter()), Vec::<usize>::new());
    }
}
