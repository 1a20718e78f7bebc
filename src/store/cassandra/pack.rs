//! Plain writes, sent in as few requests as is safe.
//!
//! Rows of one partition go together: one mutation, one round trip, one log record. So do rows of a few partitions that lie
//! on the same servers: whichever of them gets the batch has all of it itself, and a request costs a server more than a row.
//! A batch over partitions of different servers would make one carry the others' work, so those go apart.

use std::collections::{HashMap, hash_map::Entry};

use futures_util::{StreamExt, stream};
use scylla::{
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};

use super::link::{Link, Replicas};
use crate::{
    limits::{BATCH_BYTES_MAX, BATCH_PARTITIONS_MAX, BATCH_ROWS_MAX, STORE_WRITES_IN_FLIGHT_MAX},
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
    let home = |partition| link.replicas(statement, partition);
    let mut sent = stream::iter(packs(rows, home))
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

/// What is sent together so far.
struct Pack {
    rows: Vec<usize>,
    bytes: usize,
    partitions: usize,
}

impl Pack {
    fn takes(&self, rows: usize, bytes: usize, partitions: usize) -> bool {
        self.rows.len() + rows <= BATCH_ROWS_MAX
            && self.bytes + bytes <= BATCH_BYTES_MAX
            && self.partitions + partitions <= BATCH_PARTITIONS_MAX
    }
}

/// Divides rows into what is sent together, by their indices. `home` tells on which servers a partition lies, if it is known.
fn packs<R: PlainRow>(
    rows: &[R],
    home: impl Fn((i16, i64)) -> Option<Replicas>,
) -> Vec<Vec<usize>> {
    let mut done = Vec::new();
    let mut open: HashMap<Replicas, Pack> = HashMap::new();
    for (partition, pack) in packs_of_partitions(rows) {
        // One that is full, or nearly, gains nothing by company.
        let home = (pack.rows.len() <= BATCH_ROWS_MAX / 2).then(|| home(partition));
        let Some(home) = home.flatten() else {
            done.push(pack.rows);
            continue;
        };
        match open.entry(home) {
            Entry::Vacant(free) => {
                free.insert(pack);
            }
            Entry::Occupied(mut beside) => {
                let there = beside.get_mut();
                if there.takes(pack.rows.len(), pack.bytes, pack.partitions) {
                    there.rows.extend(pack.rows);
                    there.bytes += pack.bytes;
                    there.partitions += pack.partitions;
                } else {
                    done.push(beside.insert(pack).rows);
                }
            }
        }
    }
    done.extend(open.into_values().map(|pack| pack.rows));
    done
}

fn packs_of_partitions<R: PlainRow>(rows: &[R]) -> Vec<((i16, i64), Pack)> {
    let mut sorted: Vec<(usize, &R)> = rows.iter().enumerate().collect();
    sorted.sort_by_key(|(_, row)| row.partition());
    let mut packs: Vec<((i16, i64), Pack)> = Vec::new();
    for (index, row) in sorted {
        let (partition, bytes) = (row.partition(), row.bytes());
        match packs.last_mut() {
            Some((last, pack)) if *last == partition && pack.takes(1, bytes, 0) => {
                pack.rows.push(index);
                pack.bytes += bytes;
            }
            _ => {
                let pack = Pack {
                    rows: vec![index],
                    bytes,
                    partitions: 1,
                };
                packs.push((partition, pack));
            }
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

    fn sizes(rows: &[Sized], home: impl Fn((i16, i64)) -> Option<Replicas>) -> Vec<usize> {
        let mut sizes: Vec<usize> = packs(rows, home).iter().map(Vec::len).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes
    }

    const fn unknown(_: (i16, i64)) -> Option<Replicas> {
        None
    }

    const fn one_server(_: (i16, i64)) -> Option<Replicas> {
        Some(Vec::new())
    }

    #[test]
    fn rows_of_one_partition_go_together_up_to_the_bounds() {
        let of = |count: usize, bytes: usize| -> Vec<Sized> {
            (0..count).map(|_| Sized(1, bytes)).collect()
        };
        for home in [unknown, one_server] {
            assert_eq!(sizes(&of(120, 10), home), [50, 50, 20]);
            assert_eq!(sizes(&of(5, BATCH_BYTES_MAX / 2), home), [2, 2, 1]);
            assert_eq!(sizes(&of(3, BATCH_BYTES_MAX + 1), home), [1, 1, 1]);
            assert_eq!(sizes(&[], home), Vec::<usize>::new());
        }
    }

    #[test]
    fn a_few_partitions_of_the_same_servers_go_together() {
        let rows: Vec<Sized> = (0..24).map(|i| Sized(i, 1)).collect();
        assert_eq!(sizes(&rows, one_server), [10, 10, 4]);
        let of_two_servers =
            |(_, slot): (i16, i64)| Some(vec![uuid::Uuid::from_u64_pair(0, slot as u64 % 2)]);
        assert_eq!(sizes(&rows, of_two_servers), [10, 10, 2, 2]);
        assert_eq!(sizes(&rows, unknown), [1; 24]);
        // The bounds of a batch hold for all of it.
        let large: Vec<Sized> = (0..4).map(|i| Sized(i, BATCH_BYTES_MAX / 2)).collect();
        assert_eq!(sizes(&large, one_server), [2, 2]);
        let full: Vec<Sized> = (0..80).map(|i| Sized(i / 40, 1)).collect();
        assert_eq!(sizes(&full, one_server), [40, 40]);
    }

    #[test]
    fn none_is_left_out() {
        let rows: Vec<Sized> = (0..90).map(|i| Sized(i % 37, 300)).collect();
        for home in [unknown, one_server] {
            let mut indices = packs(&rows, home).concat();
            indices.sort_unstable();
            assert_eq!(indices, (0..90).collect::<Vec<_>>());
        }
    }
}
