//! Plain writes, sent in as few requests as is safe: those of one partition go together.
//!
//! A batch into one partition is one mutation: one round trip, one log record. A batch over several partitions would
//! make one server carry the others' work, so the rest goes one by one, many at a time.

use futures_util::{StreamExt, stream};
use scylla::{
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};

use super::link::Link;
use crate::{
    limits::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, STORE_WRITES_IN_FLIGHT_MAX},
    store::Error,
};

/// A row to write.
pub(super) trait PlainRow: SerializeRow + Sync {
    /// Where it goes.
    fn partition(&self) -> (i16, i64);
    /// About how many bytes it takes.
    fn bytes(&self) -> usize;
}

/// Writes rows; the answers are in their order.
pub(super) async fn write_packed<R: PlainRow>(
    link: &Link,
    operation: &'static str,
    statement: &PreparedStatement,
    rows: &[R],
) -> Vec<Result<(), Error>> {
    if let [row] = rows {
        return vec![link.write(operation, statement, row).await];
    }
    let mut answers = vec![Ok(()); rows.len()];
    let mut sent = stream::iter(packs(rows))
        .map(|pack| async move {
            let done = send(link, operation, statement, rows, &pack).await;
            (pack, done)
        })
        .buffer_unordered(STORE_WRITES_IN_FLIGHT_MAX);
    while let Some((pack, done)) = sent.next().await {
        for index in pack {
            if let Some(answer) = answers.get_mut(index) {
                answer.clone_from(&done);
            }
        }
    }
    answers
}

async fn send<R: PlainRow>(
    link: &Link,
    operation: &'static str,
    statement: &PreparedStatement,
    rows: &[R],
    pack: &[usize],
) -> Result<(), Error> {
    let rows: Vec<&R> = pack.iter().filter_map(|index| rows.get(*index)).collect();
    if let [row] = rows.as_slice() {
        return link.write(operation, statement, row).await;
    }
    let statements = vec![BatchStatement::PreparedStatement(statement.clone()); rows.len()];
    let batch = Batch::new_with_statements(BatchType::Unlogged, statements);
    link.write_batch(operation, &batch, rows).await
}

/// Divides rows into what is sent together, by their indices.
fn packs<R: PlainRow>(rows: &[R]) -> Vec<Vec<usize>> {
    let mut sorted: Vec<(usize, &R)> = rows.iter().enumerate().collect();
    sorted.sort_by_key(|(_, row)| row.partition());
    let mut packs: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    let mut bytes = 0;
    for (index, row) in sorted {
        let same = last.replace(row.partition()) == Some(row.partition());
        bytes += row.bytes();
        let fits = |pack: &&mut Vec<usize>| {
            same && pack.len() < BATCH_ROWS_MAX && bytes <= BATCH_BYTES_MAX
        };
        if let Some(pack) = packs.last_mut().filter(fits) {
            pack.push(index);
        } else {
            bytes = row.bytes();
            packs.push(vec![index]);
        }
    }
    packs
}

#[cfg(test)]
mod tests {
    use scylla::serialize::{SerializationError, row::RowSerializationContext, writers::RowWriter};

    use super::*;

    struct Sized(i64, usize);

    impl SerializeRow for Sized {
        fn serialize(
            &self,
            _: &RowSerializationContext<'_>,
            _: &mut RowWriter<'_>,
        ) -> Result<(), SerializationError> {
            Ok(())
        }

        fn is_empty(&self) -> bool {
            true
        }
    }

    impl PlainRow for Sized {
        fn partition(&self) -> (i16, i64) {
            (0, self.0)
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    fn sizes(rows: &[Sized]) -> Vec<usize> {
        packs(rows).iter().map(Vec::len).collect()
    }

    #[test]
    fn rows_of_one_partition_go_together_up_to_the_bounds() {
        let of = |count: usize, bytes: usize| -> Vec<Sized> {
            (0..count).map(|_| Sized(1, bytes)).collect()
        };
        assert_eq!(sizes(&of(120, 10)), [50, 50, 20]);
        assert_eq!(sizes(&of(5, BATCH_BYTES_MAX / 2)), [2, 2, 1]);
        assert_eq!(sizes(&of(3, BATCH_BYTES_MAX + 1)), [1, 1, 1]);
        assert_eq!(sizes(&[]), Vec::<usize>::new());
    }

    #[test]
    fn rows_of_other_partitions_go_apart_and_none_is_left_out() {
        let rows: Vec<Sized> = (0..9).map(|i| Sized(i % 3, 1)).collect();
        assert_eq!(sizes(&rows), [3, 3, 3]);
        let mut indices = packs(&rows).concat();
        indices.sort_unstable();
        assert_eq!(indices, (0..9).collect::<Vec<_>>());
    }
}
