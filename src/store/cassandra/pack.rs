//! The packer sends plain writes for the wheel and task stores in as few requests as is safe.
//!
//! Rows of one partition go together: one mutation, one round trip, one log record. So do rows of a few
//! partitions that lie on the same servers: each of these servers has all of the batch itself, and a request
//! costs a server more than a row. A batch over partitions of different servers would make one carry the
//! others' work, so those go apart. Rows that do not fill a request go with rows that others write to the
//! same servers meanwhile (`gather`).

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::{StreamExt, future::join_all, stream};
use scylla::{
    serialize::row::SerializeRow,
    statement::{
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};

use super::{
    gather::{Carrier, Gather, Load},
    link::{Link, Replicas, unavailable},
};
use crate::{
    limits::{BATCH_ROWS_MAX, GATHERED_WRITES, STORE_WRITES_IN_FLIGHT_MAX},
    store::Error,
    time_source::TimeSource,
};

/// A row to write.
pub(super) trait PlainRow: SerializeRow + Send + Sync + 'static {
    /// Returns the partition that it goes to.
    fn partition(&self) -> (i16, i64);
    /// Returns about how many bytes it takes.
    fn bytes(&self) -> usize;
}

/// Writes the rows of one statement.
pub(super) struct Writer<R: PlainRow> {
    gather: Arc<Gather<Sender<R>>>,
}

impl<R: PlainRow> Writer<R> {
    pub(super) fn new(
        link: &Arc<Link>,
        operation: &'static str,
        statement: &PreparedStatement,
        time: &TimeSource,
    ) -> Self {
        let sender = Sender {
            link: Arc::clone(link),
            operation,
            statement: statement.clone(),
            rows: std::marker::PhantomData,
        };
        Self {
            gather: Gather::new(sender, GATHERED_WRITES, time.clone()),
        }
    }

    /// Writes rows. The answers are in their order.
    pub(super) async fn write(&self, rows: Vec<R>) -> Vec<Result<(), Error>> {
        if let [row] = rows.as_slice() {
            let (home, load) = (self.home(row.partition()), load_of(row));
            return vec![self.send(home, rows, load).await];
        }
        let mut answers = vec![Ok(()); rows.len()];
        let packs = packs(&rows, |partition| self.home(partition));
        let mut rows: Vec<Option<R>> = rows.into_iter().map(Some).collect();
        let packs = packs.into_iter().map(|pack| {
            let mut take = |index: &usize| rows.get_mut(*index).and_then(Option::take);
            let taken: Vec<R> = pack.rows.iter().filter_map(&mut take).collect();
            (pack, taken)
        });
        let packs: Vec<_> = packs.collect();
        let mut sent = stream::iter(packs)
            .map(|(pack, taken)| async move {
                let done = self.send(pack.home, taken, pack.load).await;
                (pack.rows, done)
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

    async fn send(&self, home: Option<Replicas>, rows: Vec<R>, load: Load) -> Result<(), Error> {
        let sender = &self.gather.carrier;
        let Some(home) = home else {
            return sender.send(&rows.iter().collect::<Vec<_>>()).await;
        };
        let answer = self.gather.ask(home, rows, load).await;
        answer.unwrap_or_else(|| {
            Err(unavailable(
                sender.operation,
                "the request was not answered",
            ))
        })
    }

    fn home(&self, partition: (i16, i64)) -> Option<Replicas> {
        let Sender {
            link, statement, ..
        } = &self.gather.carrier;
        link.replicas(statement, &partition)
    }
}

fn load_of<R: PlainRow>(row: &R) -> Load {
    Load {
        rows: 1,
        bytes: row.bytes(),
        partitions: 1,
    }
}

/// Sends the rows of one statement.
struct Sender<R> {
    link: Arc<Link>,
    operation: &'static str,
    statement: PreparedStatement,
    rows: std::marker::PhantomData<fn(R)>,
}

impl<R: PlainRow> Sender<R> {
    async fn send(&self, rows: &[&R]) -> Result<(), Error> {
        let (operation, statement) = (self.operation, &self.statement);
        if let [row] = rows {
            return self.link.write(operation, statement, *row).await;
        }
        let statements = vec![BatchStatement::PreparedStatement(statement.clone()); rows.len()];
        let batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        self.link.write_batch(operation, &batch, rows).await
    }
}

#[async_trait]
impl<R: PlainRow> Carrier for Sender<R> {
    type Item = Vec<R>;
    type Answer = Result<(), Error>;

    async fn carry(&self, items: Vec<Vec<R>>) -> Vec<Result<(), Error>> {
        let rows: Vec<&R> = items.iter().flatten().collect();
        let done = self.send(&rows).await;
        if items.len() == 1 || !matches!(done, Err(Error::Unsuitable { .. })) {
            return vec![done; items.len()];
        }
        // A server that refuses one row refuses all rows that came with it. They are sent apart, so that no
        // caller pays for another's.
        let apart = items.iter().map(|rows| async {
            let rows: Vec<&R> = rows.iter().collect();
            self.send(&rows).await
        });
        join_all(apart).await
    }
}

/// Rows that are sent together.
struct Pack {
    rows: Vec<usize>,
    load: Load,
    /// The servers that have all of its rows, if others may join it.
    home: Option<Replicas>,
}

/// Divides rows, by their indices, into packs. `home` tells on which servers a partition lies, if that is
/// known.
fn packs<R: PlainRow>(rows: &[R], home: impl Fn((i16, i64)) -> Option<Replicas>) -> Vec<Pack> {
    let mut done = Vec::new();
    let mut open: HashMap<Replicas, Pack> = HashMap::new();
    for (partition, pack) in packs_of_partitions(rows) {
        // A pack that is full, or nearly, gains nothing by company.
        let home = (pack.rows.len() <= BATCH_ROWS_MAX / 2).then(|| home(partition));
        let Some(home) = home.flatten() else {
            done.push(pack);
            continue;
        };
        let pack = Pack {
            home: Some(home.clone()),
            ..pack
        };
        match open.entry(home) {
            Entry::Vacant(free) => {
                free.insert(pack);
            }
            Entry::Occupied(mut beside) => {
                let there = beside.get_mut();
                let both = there.load.with(pack.load);
                if both.fits() {
                    there.rows.extend(pack.rows);
                    there.load = both;
                } else {
                    done.push(beside.insert(pack));
                }
            }
        }
    }
    done.extend(open.into_values());
    done
}

fn packs_of_partitions<R: PlainRow>(rows: &[R]) -> Vec<((i16, i64), Pack)> {
    let mut sorted: Vec<(usize, &R)> = rows.iter().enumerate().collect();
    sorted.sort_by_key(|(_, row)| row.partition());
    let mut packs: Vec<((i16, i64), Pack)> = Vec::new();
    for (index, row) in sorted {
        let (partition, load) = (row.partition(), load_of(row));
        let beside = Load {
            partitions: 0,
            ..load
        };
        match packs.last_mut() {
            Some((last, pack)) if *last == partition && pack.load.with(beside).fits() => {
                pack.rows.push(index);
                pack.load = pack.load.with(beside);
            }
            _ => {
                let pack = Pack {
                    rows: vec![index],
                    load,
                    home: None,
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
    use crate::limits::BATCH_BYTES_MAX;

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
        let mut sizes: Vec<usize> = packs(rows, home)
            .iter()
            .map(|pack| pack.rows.len())
            .collect();
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
            let packs = packs(&rows, home);
            let mut indices: Vec<usize> = packs.into_iter().flat_map(|pack| pack.rows).collect();
            indices.sort_unstable();
            assert_eq!(indices, (0..90).collect::<Vec<_>>());
        }
    }
}
