//! This adapter takes every store operation of a node through its process ([`super::process`]), and notes it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tickwheel::{
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
        Store, Swapped, TaskStore, WheelStore,
    },
};

use super::{history::Swap, process::Process};

/// A node's store.
pub(crate) struct NodesStore {
    pub(crate) process: Arc<Process>,
    pub(crate) inner: Arc<dyn Store>,
}

impl NodesStore {
    pub(super) async fn pass<T>(
        &self,
        lane: &'static str,
        act: impl Future<Output = T>,
        summary: impl Fn(&T) -> String,
    ) -> T {
        let out = self.process.outside(lane, act).await;
        let (sim, name) = (&self.process.sim, &self.process.name);
        if sim.is_traced() {
            sim.note(format_args!("{name} {lane}: {}", summary(&out)));
        } else {
            sim.note(format_args!(""));
        }
        out
    }
}

pub(super) fn outcome<T>(out: &Result<T, Error>) -> String {
    match out {
        Ok(_) => "done".to_owned(),
        Err(_) => "failed".to_owned(),
    }
}

pub(super) fn outcomes<T>(out: &[Result<T, Error>]) -> String {
    let failed = out.iter().filter(|one| one.is_err()).count();
    format!("{} of {} failed", failed, out.len())
}

#[async_trait]
impl WheelStore for NodesStore {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let history = || self.process.sim.history();
        entries
            .iter()
            .for_each(|entry| history().begin_write(entry.key));
        let act = self.inner.put_entries(entries);
        let out = self
            .pass("put_entries", act, |out| {
                let keys: Vec<_> = entries
                    .iter()
                    .map(|entry| {
                        (
                            entry.key.due.0,
                            entry.key.id,
                            entry.key.generation,
                            entry.kind,
                        )
                    })
                    .collect();
                format!("{}: {keys:?}", outcomes(out))
            })
            .await;
        for (entry, _) in entries.iter().zip(&out).filter(|(_, out)| out.is_ok()) {
            history().end_write(entry.key);
        }
        out
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let act = self.inner.scan(scan);
        self.pass("scan", act, |out| {
            let rows = out.as_ref().map_or(0, |page| page.rows.len());
            format!("{} tick {}: {rows} rows", outcome(out), scan.span.through.0)
        })
        .await
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        self.pass("find_entries", self.inner.find_entries(id, dues), outcome)
            .await
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let act = self.inner.erase(wheel, ticks);
        self.pass("erase", act, |out| format!("{} {ticks:?}", outcome(out)))
            .await
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let act = self.inner.put_bodies(bodies, written, ttl_seconds);
        self.pass("put_bodies", act, |out| outcomes(out)).await
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        self.pass("bodies", self.inner.bodies(ids), outcome).await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let act = self.inner.delete_bodies(ids, written);
        self.pass("delete_bodies", act, outcome).await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let act = self.inner.park(parked);
        self.pass("park", act, |out| {
            format!("{} {} {}", outcome(out), parked.key.id, parked.reason)
        })
        .await
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        self.pass("parked", self.inner.parked(at, max), outcome)
            .await
    }
}

#[async_trait]
impl ClockStore for NodesStore {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        self.pass("clock", self.inner.clock(wheel, freshness), outcome)
            .await
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let act = self.inner.swap_clock(wheel, from, to);
        let out = self
            .pass("swap_clock", act, |out| {
                let (opened, fired) = (to.opened.0, to.fired.due.0);
                let short = match out {
                    Ok(Swapped::Applied) => "applied",
                    Ok(Swapped::Conflict(_)) => "conflict",
                    Ok(Swapped::Unknown) => "unknown",
                    Err(_) => "failed",
                };
                let (wheel, version, erased) = (wheel.get(), to.version, to.erased.0);
                format!(
                    "{short} wheel {wheel} version {version} {opened} {fired} {erased} {}",
                    to.owner
                )
            })
            .await;
        if matches!(out, Ok(Swapped::Applied)) {
            let swap = Swap {
                wheel,
                from: *from,
                to: *to,
            };
            self.process.sim.history().swaps.push(swap);
        }
        out
    }
}

#[async_trait]
impl TaskStore for NodesStore {
    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let act = self.inner.tasks(ids, freshness);
        self.pass("tasks", act, |out| format!("{} {ids:?}", outcome(out)))
            .await
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let act = self.inner.swap_tasks(transitions);
        self.pass("swap_tasks", act, |out| {
            let all: Vec<_> = transitions
                .iter()
                .zip(out)
                .map(|(t, out)| {
                    let short = match out {
                        Ok(Swapped::Applied) => "applied",
                        Ok(Swapped::Conflict(_)) => "conflict",
                        Ok(Swapped::Unknown) => "unknown",
                        Err(_) => "failed",
                    };
                    (
                        t.row.id,
                        t.row.state,
                        t.row.generation,
                        t.row.attempt,
                        t.row.next.0,
                        short,
                    )
                })
                .collect();
            format!("{all:?}")
        })
        .await
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        let act = self.inner.put_heartbeats(heartbeats, kept);
        self.pass("put_heartbeats", act, |out| outcomes(out)).await
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        self.pass("heartbeats", self.inner.heartbeats(attempts), outcome)
            .await
    }
}

#[async_trait]
impl NodeStore for NodesStore {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        self.pass("put_node", self.inner.put_node(node), outcome)
            .await
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        self.pass("remove_node", self.inner.remove_node(node), outcome)
            .await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        self.pass("nodes", self.inner.nodes(), outcome).await
    }
}
