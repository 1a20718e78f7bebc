//! One node's handle of the memory store: every call passes the node's hook.

use std::{fmt, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{Call, Fate, Hook, MemoryStore, data::Data};
use crate::{
    model::{
        clock::ClockRow,
        entry::Entry,
        ids::{NodeId, TaskId},
        state::{Expect, TaskRow, Transition},
        task::Content,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{
        ClockStore, Erasure, Error, Freshness, Heartbeat, NodeRow, NodeStore, Page, Parked, Scan,
        Swapped, TaskStore, WheelStore,
    },
};

/// A node's handle.
pub struct MemoryHandle {
    store: Arc<MemoryStore>,
    hook: Hook,
}

impl fmt::Debug for MemoryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHandle")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// What a call came to.
enum Reply<T> {
    Here(T),
    Lost,
    Failed,
}

impl MemoryHandle {
    pub(super) fn new(store: Arc<MemoryStore>, hook: Hook) -> Self {
        Self { store, hook }
    }

    async fn call<T: Send + 'static>(
        &self,
        call: Call,
        act: impl FnOnce(&MemoryStore, &mut Data) -> T + Send + 'static,
    ) -> Reply<T> {
        let store = &self.store;
        match (self.hook)(call) {
            Fate::Go => Reply::Here(act(store, &mut store.lock())),
            Fate::Delay(wait) => {
                store.time.sleep(wait).await;
                Reply::Here(act(store, &mut store.lock()))
            }
            Fate::Fail => Reply::Failed,
            Fate::LoseReply => {
                act(store, &mut store.lock());
                Reply::Lost
            }
            Fate::ApplyLater(wait) => {
                self.apply_later(wait, act);
                Reply::Lost
            }
            Fate::StopBefore => pending().await,
            Fate::StopAfter => {
                act(store, &mut store.lock());
                pending().await
            }
        }
    }

    fn apply_later<T>(
        &self,
        wait: Duration,
        act: impl FnOnce(&MemoryStore, &mut Data) -> T + Send + 'static,
    ) {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            store.time.sleep(wait).await;
            act(&store, &mut store.lock());
        });
    }

    async fn plain<T: Send + 'static>(
        &self,
        operation: &'static str,
        writes: bool,
        act: impl FnOnce(&MemoryStore, &mut Data) -> T + Send + 'static,
    ) -> Result<T, Error> {
        match self
            .call(
                Call {
                    operation,
                    writes,
                    conditional: false,
                },
                act,
            )
            .await
        {
            Reply::Here(value) => Ok(value),
            Reply::Lost => Err(unavailable(operation, "the reply was lost")),
            Reply::Failed => Err(unavailable(operation, "it failed")),
        }
    }
}

fn unavailable(operation: &'static str, reason: &str) -> Error {
    Error::Unavailable {
        operation,
        reason: reason.to_owned(),
    }
}

#[async_trait]
impl WheelStore for MemoryHandle {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let (count, entries) = (entries.len(), entries.to_vec());
        let put = self.plain("put_entries", true, move |store, data| {
            for entry in entries {
                data.put_row(&store.shape, entry.key, entry.written, Ok(entry));
            }
        });
        vec![put.await; count]
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let scan = *scan;
        self.plain("scan", false, move |_, data| data.scan(&scan))
            .await
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        let dues = dues.to_vec();
        self.plain("find_entries", false, move |store, data| {
            data.find(&store.shape, id, &dues)
        })
        .await
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let ticks = ticks.to_vec();
        self.plain("erase", true, move |store, data| {
            for tick in &ticks {
                data.erase(&store.shape, wheel, tick);
            }
        })
        .await
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let (count, bodies) = (bodies.len(), bodies.to_vec());
        let put = self.plain("put_bodies", true, move |store, data| {
            let expires =
                ttl_seconds.map(|ttl| store.time.now().after(Duration::from_secs(u64::from(ttl))));
            for (id, content) in bodies {
                data.put_body(id, Some(Content::clone(&content)), written, expires);
            }
        });
        vec![put.await; count]
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        let ids = ids.to_vec();
        self.plain("bodies", false, move |store, data| {
            ids.iter()
                .map(|id| data.body(*id, store.time.now()))
                .collect()
        })
        .await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let ids = ids.to_vec();
        self.plain("delete_bodies", true, move |_, data| {
            for id in ids {
                data.put_body(id, None, written, Some(Millis(i64::MIN)));
            }
        })
        .await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let parked = parked.clone();
        self.plain("park", true, move |_, data| {
            data.parked.retain(|there| there.key != parked.key);
            data.parked.push(parked);
        })
        .await
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        const DAY_MS: i64 = 86_400_000;
        self.plain("parked", false, move |_, data| {
            let day = at.0.div_euclid(DAY_MS);
            let of_day = data
                .parked
                .iter()
                .filter(|parked| parked.at.0.div_euclid(DAY_MS) == day);
            of_day.take(max).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl ClockStore for MemoryHandle {
    async fn clock(&self, wheel: WheelNumber, _freshness: Freshness) -> Result<ClockRow, Error> {
        let row = self
            .plain("clock", false, move |_, data| {
                data.clocks.get(&wheel).copied()
            })
            .await?;
        row.ok_or_else(|| no_clock(wheel))
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let (from, to) = (*from, *to);
        let call = Call {
            operation: "swap_clock",
            writes: true,
            conditional: true,
        };
        match self
            .call(call, move |store, data| {
                data.swap_clock(&store.shape, wheel, &from, &to)
            })
            .await
        {
            Reply::Here(swapped) => swapped.ok_or_else(|| no_clock(wheel)),
            Reply::Lost => Ok(Swapped::Unknown),
            Reply::Failed => Err(unavailable("swap_clock", "it failed")),
        }
    }
}

fn no_clock(wheel: WheelNumber) -> Error {
    Error::Unsuitable {
        reason: format!("wheel {} has no clock row", wheel.get()),
    }
}

#[async_trait]
impl TaskStore for MemoryHandle {
    async fn tasks(
        &self,
        ids: &[TaskId],
        _freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let ids = ids.to_vec();
        self.plain("tasks", false, move |store, data| {
            ids.iter()
                .map(|id| data.task(*id, store.time.now()))
                .collect()
        })
        .await
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let (count, transitions) = (transitions.len(), transitions.to_vec());
        let call = Call {
            operation: "swap_tasks",
            writes: true,
            conditional: true,
        };
        let swap = self.call(call, move |store, data| {
            let now = store.time.now();
            transitions
                .iter()
                .map(|transition| data.swap_task(transition, now))
                .collect::<Vec<_>>()
        });
        match swap.await {
            Reply::Here(swapped) => swapped.into_iter().map(Ok).collect(),
            Reply::Lost => vec![Ok(Swapped::Unknown); count],
            Reply::Failed => vec![Err(unavailable("swap_tasks", "it failed")); count],
        }
    }

    async fn put_heartbeats(&self, heartbeats: &[Heartbeat]) -> Vec<Result<(), Error>> {
        let (count, heartbeats) = (heartbeats.len(), heartbeats.to_vec());
        let put = self.plain("put_heartbeats", true, move |_, data| {
            for beat in heartbeats {
                let last = data.heartbeats.get(&(beat.id, beat.attempt));
                if last.is_none_or(|last| last.at <= beat.at) {
                    data.heartbeats.insert((beat.id, beat.attempt), beat);
                }
            }
        });
        vec![put.await; count]
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        let attempts = attempts.to_vec();
        self.plain("heartbeats", false, move |_, data| {
            attempts
                .iter()
                .map(|attempt| data.heartbeats.get(attempt).cloned())
                .collect()
        })
        .await
    }
}

#[async_trait]
impl NodeStore for MemoryHandle {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        let node = node.clone();
        self.plain("put_node", true, move |_, data| {
            data.nodes.insert(node.node, node);
        })
        .await
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        self.plain("remove_node", true, move |_, data| {
            data.nodes.remove(&node);
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        self.plain("nodes", false, |store, data| {
            data.live_nodes(store.time.now())
        })
        .await
    }
}
