//! The task store keeps the rows of tasks, and the heartbeats of their attempts, for the service.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::{DeserializeRow, SerializeRow};
use uuid::Uuid;

use super::{
    Store,
    group::{Item, groups},
    link::{Purpose, corrupt},
    pack::PlainRow,
    ttl::ttl_seconds,
};
use crate::{
    limits::{GROUPS_IN_FLIGHT_MAX, READ_KEYS_MAX, STORE_READS_IN_FLIGHT_MAX},
    model::{
        ids::TaskId,
        state::{Expect, TaskRow, Transition},
        time::Millis,
    },
    store::{
        Error, Freshness, Heartbeat, Swapped, TaskStore,
        row::{TaskColumns, Undecodable, to_i32},
    },
};

#[async_trait]
impl TaskStore for Store {
    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let operation = match freshness {
            Freshness::Quorum => "tasks",
            Freshness::Serial => "tasks_serial",
        };
        let _timed = self.timed(operation);
        let rows = self.read_tasks(ids, freshness).await;
        rows.into_iter().collect()
    }

    async fn tasks_each(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Vec<Result<Option<TaskRow>, Error>> {
        let _timed = self.timed("tasks_each");
        self.read_tasks(ids, freshness).await
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let _timed = self.timed("swap_tasks");
        self.swap_all(transitions).await
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        let ttl = ttl_seconds(kept, self.time.now());
        let rows: Vec<HeartbeatValues> = heartbeats
            .iter()
            .map(|heartbeat| self.heartbeat_values(heartbeat, ttl))
            .collect();
        let _timed = self.timed("put_heartbeats");
        self.heartbeats.write(rows).await
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        let _timed = self.timed("heartbeats");
        self.read_heartbeats(attempts).await
    }
}

/// Keys of one partition.
type Slice<K> = ((i16, i64), Vec<K>);

/// The rows that were found, by id.
type Rows = Vec<(Uuid, Result<TaskRow, Error>)>;

impl Store {
    /// Reads rows, slot by slot. A read that fails costs the rows that it would have brought.
    async fn read_tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Vec<Result<Option<TaskRow>, Error>> {
        let slices = self.slices(ids.iter().map(|id| (*id, id.uuid())));
        let reads = slices.into_iter().map(|slice| async move {
            match self.read_slice(&slice, freshness).await {
                // Its servers answered with a value that the driver cannot decode. One row is at fault, and
                // it hardly ever happens.
                Err(error) if slice.1.len() > 1 && error.is_of_a_row() => {
                    self.read_alone(slice, freshness).await
                }
                Ok(found) => found,
                Err(error) => slice.1.iter().map(|id| (*id, Err(error.clone()))).collect(),
            }
        });
        let mut found: HashMap<Uuid, Result<TaskRow, Error>> = HashMap::with_capacity(ids.len());
        let mut read = stream::iter(reads).buffer_unordered(STORE_READS_IN_FLIGHT_MAX);
        while let Some(rows) = read.next().await {
            found.extend(rows);
        }
        ids.iter()
            .map(|id| found.get(&id.uuid()).cloned().transpose())
            .collect()
    }

    async fn read_alone(&self, ((wheel, slot), ids): Slice<Uuid>, freshness: Freshness) -> Rows {
        let mut rows = Rows::new();
        for id in ids {
            match self.read_slice(&((wheel, slot), vec![id]), freshness).await {
                Ok(found) => rows.extend(found),
                Err(error) => rows.push((id, Err(error))),
            }
        }
        rows
    }

    async fn read_slice(
        &self,
        ((wheel, slot), ids): &Slice<Uuid>,
        freshness: Freshness,
    ) -> Result<Rows, Error> {
        let operation = "read tasks";
        let statement = match freshness {
            Freshness::Quorum => &self.statements.tasks,
            Freshness::Serial => &self.statements.tasks_serial,
        };
        let read = self.link.rows::<StoredTask>(
            (Purpose::Rows, operation),
            statement,
            (wheel, slot, ids),
            ids.len(),
        );
        let row = |stored: StoredTask| {
            let id = stored.id;
            let row = stored.columns().into_row(id);
            (id, row.map_err(|cause| unreadable(operation, id, &cause)))
        };
        Ok(read.await?.into_iter().map(row).collect())
    }

    async fn swap_all(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let now = self.time.now();
        let items = transitions.iter().enumerate().map(|(index, transition)| {
            let partition = self.home(transition.row.id);
            Item::new(index, transition, partition, now)
        });
        // An item without an answer was not reached. This is impossible, because every item is in exactly one
        // group.
        let mut answers = vec![Ok(Swapped::Unknown); transitions.len()];
        let mut answered = stream::iter(groups(items.collect()))
            .map(|groups| self.swap_partition(groups))
            .buffer_unordered(GROUPS_IN_FLIGHT_MAX);
        while let Some(partition) = answered.next().await {
            for (index, answer) in partition {
                if let Some(place) = answers.get_mut(index) {
                    *place = answer;
                }
            }
        }
        answers
    }

    async fn read_heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        type Row = (Uuid, i32, Option<i64>, Option<Bytes>);
        let statement = &self.statements.heartbeats;
        let keys = |(id, attempt): &(TaskId, u32)| (id.uuid(), to_i32(*attempt));
        let slices = self.slices(attempts.iter().map(|key| (key.0, keys(key))));
        let reads = slices.into_iter().map(|((wheel, slot), keys)| async move {
            let values = (wheel, slot, &keys);
            let operation = "read heartbeats";
            let rows =
                self.link
                    .rows::<Row>((Purpose::Rows, operation), statement, values, keys.len());
            rows.await
        });
        let mut found = HashMap::with_capacity(attempts.len());
        let mut pages = stream::iter(reads).buffer_unordered(STORE_READS_IN_FLIGHT_MAX);
        while let Some(rows) = pages.try_next().await? {
            for (id, attempt, at, progress) in rows {
                found.insert((id, attempt), (at, progress));
            }
        }
        let heartbeat = |key: &(TaskId, u32)| {
            let (at, progress) = found.get(&keys(key))?;
            Some(Heartbeat {
                id: key.0,
                attempt: key.1,
                at: Millis((*at)?),
                progress: progress.clone().filter(|bytes| !bytes.is_empty()),
            })
        };
        Ok(attempts.iter().map(heartbeat).collect())
    }

    /// Groups keys by the partition of their task, into slices that one read takes.
    fn slices<K: Clone>(&self, keys: impl Iterator<Item = (TaskId, K)>) -> Vec<Slice<K>> {
        let mut by_partition: BTreeMap<(i16, i64), Vec<K>> = BTreeMap::new();
        for (id, key) in keys {
            by_partition.entry(self.home(id)).or_default().push(key);
        }
        by_partition
            .into_iter()
            .flat_map(|(partition, keys)| {
                let handfuls: Vec<_> = keys
                    .chunks(READ_KEYS_MAX)
                    .map(|keys| (partition, keys.to_vec()))
                    .collect();
                handfuls
            })
            .collect()
    }

    fn heartbeat_values(&self, heartbeat: &Heartbeat, ttl: i32) -> HeartbeatValues {
        let Heartbeat {
            id,
            attempt,
            at,
            progress,
        } = heartbeat;
        let (wheel, slot) = self.home(*id);
        HeartbeatValues {
            wheel,
            slot,
            id: id.uuid(),
            attempt: to_i32(*attempt),
            at_ms: at.0,
            // Empty means none: a null would be a tombstone, and leaving it out would keep an older note.
            progress: progress.clone().unwrap_or_default(),
            written: at.0.saturating_mul(1000),
            ttl,
        }
    }
}

fn unreadable(operation: &'static str, id: Uuid, cause: &Undecodable) -> Error {
    let reason = format!("task {id}: {cause}");
    if cause.is_newer() {
        return Error::Newer { operation, reason };
    }
    corrupt(operation, &reason)
}

/// A task's row as it is read.
#[derive(DeserializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct StoredTask {
    id: Uuid,
    state: Option<i8>,
    generation: Option<i32>,
    attempt: Option<i32>,
    cancel_requested: Option<bool>,
    tries: Option<i32>,
    next_ms: Option<i64>,
    last_ms: Option<i64>,
    nonce: Option<Uuid>,
    detail: Option<Bytes>,
}

impl StoredTask {
    fn columns(self) -> TaskColumns {
        TaskColumns {
            state: self.state,
            generation: self.generation,
            attempt: self.attempt,
            cancel_requested: self.cancel_requested,
            tries: self.tries,
            next_ms: self.next_ms,
            last_ms: self.last_ms,
            nonce: self.nonce,
            detail: self.detail,
        }
    }
}

/// The values of `put_heartbeat`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
pub(super) struct HeartbeatValues {
    wheel: i16,
    slot: i64,
    id: Uuid,
    attempt: i32,
    at_ms: i64,
    progress: Bytes,
    written: i64,
    ttl: i32,
}

impl PlainRow for HeartbeatValues {
    fn partition(&self) -> (i16, i64) {
        (self.wheel, self.slot)
    }

    fn bytes(&self) -> usize {
        self.progress.len() + 64
    }
}
