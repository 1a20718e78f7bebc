//! This module implements the traits of the store for a node's handle.

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
        Swapped, TaskStore, WheelStore,
    },
};

use super::{cluster::Who, handle::Handle, row::Version, tables::Write};

/// Rows of the node list vanish after this time.
const NODE_TTL: Duration = Duration::from_secs(30);

#[async_trait]
impl WheelStore for Handle {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let shape = &self.replicas.shape;
        let partition = |entry: &Entry| (entry.key.wheel(), entry.key.slot(shape));
        let packs = entries.chunk_by(|one, next| partition(one) == partition(next));
        let writes = packs.map(|pack| (pack.len(), Write::Entries(pack.to_vec())));
        self.write("put_entries", writes).await
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let node = Who::Node(self.node);
        self.read("scan", |cluster, view| {
            let page = cluster.scan(scan, view);
            let (wheel, through, rows) = (scan.wheel.get(), scan.span.through, page.rows.len());
            let more = if page.more { ", more" } else { "" };
            cluster.note(node, format_args!("scan w{wheel} {through}: {rows}{more}"));
            page
        })
        .await
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        self.read("find_entries", |cluster, view| {
            cluster.find_entries(id, dues, view)
        })
        .await
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let writes = ticks
            .iter()
            .map(|erasure| Write::Erase(wheel, erasure.tick, erasure.newest_written));
        self.write_all("erase", writes).await
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let now = self.replicas.time.now();
        let expires = ttl_seconds.map(|ttl| now.after(Duration::from_secs(u64::from(ttl))));
        let writes = bodies.iter().map(|(id, content)| {
            let version = Version::new(written, Arc::clone(content), expires);
            (1, Write::Body(*id, version))
        });
        self.write("put_bodies", writes).await
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        self.read("bodies", |cluster, view| {
            ids.iter().map(|id| cluster.body(*id, view)).collect()
        })
        .await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let writes = ids
            .iter()
            .map(|id| Write::Body(*id, Version::deletion(written)));
        self.write_all("delete_bodies", writes).await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let written = parked.at.0.saturating_mul(1000);
        let version = Version::new(written, parked.clone(), None);
        self.write_all("park", std::iter::once(Write::Park(version)))
            .await
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        self.read("parked", |cluster, view| cluster.parked(at, max, view))
            .await
    }
}

#[async_trait]
impl ClockStore for Handle {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        let node = Who::Node(self.node);
        let row = self.read("clock", |cluster, view| {
            let row = cluster.clock(wheel, freshness, view);
            let version = row.map(|row| row.version);
            cluster.note(
                node,
                format_args!("clock w{} {freshness:?}: {version:?}", wheel.get()),
            );
            row
        });
        row.await?.ok_or_else(|| no_clock(wheel))
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let (from, to) = (*from, *to);
        let swapped = self.swap("swap_clock", |cluster, fate| {
            let swapped = cluster.swap_clock(self.node, (wheel, from, to), fate);
            cluster.note(
                Who::Node(self.node),
                format_args!(
                    "swap_clock w{} {} -> {to:?} {fate:?}: {swapped:?}",
                    wheel.get(),
                    from.version
                ),
            );
            swapped
        });
        swapped.await?.ok_or_else(|| no_clock(wheel))
    }
}

fn no_clock(wheel: WheelNumber) -> Error {
    Error::Unsuitable {
        reason: format!("wheel {} has no clock row", wheel.get()),
    }
}

#[async_trait]
impl TaskStore for Handle {
    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let node = Who::Node(self.node);
        self.read("tasks", |cluster, view| {
            let mut rows = Vec::with_capacity(ids.len());
            for id in ids {
                let row = cluster.task(*id, freshness, view);
                let seen = row.as_ref().map(|row| (row.state, row.attempt));
                cluster.note(node, format_args!("task {id} {freshness:?}: {seen:?}"));
                rows.push(row);
            }
            rows
        })
        .await
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        self.swap_all(transitions).await
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        let expires = Some(self.replicas.time.now().after(kept));
        let writes = heartbeats.iter().map(|beat| {
            let written = beat.at.0.saturating_mul(1000);
            let version = Version::new(written, beat.clone(), expires);
            (1, Write::Heartbeat(version))
        });
        self.write("put_heartbeats", writes).await
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        self.read("heartbeats", |cluster, view| {
            attempts
                .iter()
                .map(|attempt| cluster.heartbeat(*attempt, view))
                .collect()
        })
        .await
    }
}

#[async_trait]
impl NodeStore for Handle {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        let expires = Some(self.replicas.time.now().after(NODE_TTL));
        let version = Version::new(self.time.stamp(), node.clone(), expires);
        let write = Write::Node(node.node, version);
        self.write_all("put_node", std::iter::once(write)).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        let write = Write::Node(node, Version::deletion(self.time.stamp()));
        self.write_all("remove_node", std::iter::once(write)).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        self.read("nodes", |cluster, view| cluster.live_nodes(view))
            .await
    }
}
