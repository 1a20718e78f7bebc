//! The memory store answers the calls of the contract for tests: each is done at once, under one lock.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::MemoryStore;
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

#[async_trait]
impl WheelStore for MemoryStore {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let mut data = self.lock();
        for entry in entries {
            data.put_row(&self.shape, entry.key, entry.written, Ok(entry.clone()));
        }
        vec![Ok(()); entries.len()]
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        Ok(self.lock().scan(scan))
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        Ok(self.lock().find(&self.shape, id, dues))
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let mut data = self.lock();
        for tick in ticks {
            data.erase(&self.shape, wheel, tick);
        }
        Ok(())
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let after = |ttl| self.time.now().after(Duration::from_secs(u64::from(ttl)));
        let expires = ttl_seconds.map(after);
        let mut data = self.lock();
        for (id, content) in bodies {
            data.put_body(*id, Some(Content::clone(content)), written, expires);
        }
        vec![Ok(()); bodies.len()]
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        let (data, now) = (self.lock(), self.time.now());
        if let Some(id) = ids.iter().find(|id| data.spoiled_bodies.contains(id)) {
            return Err(Error::Corrupt {
                operation: "read bodies",
                reason: format!("the content of {id} ends in the middle"),
            });
        }
        Ok(ids.iter().map(|id| data.body(*id, now)).collect())
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let mut data = self.lock();
        for id in ids {
            data.put_body(*id, None, written, Some(Millis(i64::MIN)));
        }
        Ok(())
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let mut data = self.lock();
        data.parked.retain(|there| there.key != parked.key);
        data.parked.push(parked.clone());
        Ok(())
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        const DAY_MS: i64 = 86_400_000;
        let data = self.lock();
        let day = at.0.div_euclid(DAY_MS);
        let of_day = data
            .parked
            .iter()
            .filter(|parked| parked.at.0.div_euclid(DAY_MS) == day);
        Ok(of_day.take(max).cloned().collect())
    }
}

#[async_trait]
impl ClockStore for MemoryStore {
    async fn clock(&self, wheel: WheelNumber, _freshness: Freshness) -> Result<ClockRow, Error> {
        let row = self.clock_row(wheel);
        row.ok_or_else(|| no_clock(wheel))
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let swapped = self.lock().swap_clock(&self.shape, wheel, from, to);
        swapped.ok_or_else(|| no_clock(wheel))
    }
}

fn no_clock(wheel: WheelNumber) -> Error {
    Error::Unsuitable {
        reason: format!("wheel {} has no clock row", wheel.get()),
    }
}

#[async_trait]
impl TaskStore for MemoryStore {
    async fn tasks(
        &self,
        ids: &[TaskId],
        _freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let (data, now) = (self.lock(), self.time.now());
        // As in a real store, a read that meets such a row fails as a whole.
        ids.iter().map(|id| data.read_task(*id, now)).collect()
    }

    async fn tasks_each(
        &self,
        ids: &[TaskId],
        _freshness: Freshness,
    ) -> Vec<Result<Option<TaskRow>, Error>> {
        let (data, now) = (self.lock(), self.time.now());
        ids.iter().map(|id| data.read_task(*id, now)).collect()
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let (mut data, now) = (self.lock(), self.time.now());
        let swap = |transition| Ok(data.swap_task(transition, now));
        transitions.iter().map(swap).collect()
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        let mut data = self.lock();
        let expires = self.time.now().after(kept);
        for beat in heartbeats {
            let last = data.heartbeats.get(&(beat.id, beat.attempt));
            if last.is_none_or(|(last, _)| last.at <= beat.at) {
                data.spoiled_beats.remove(&(beat.id, beat.attempt));
                data.heartbeats
                    .insert((beat.id, beat.attempt), (beat.clone(), expires));
            }
        }
        vec![Ok(()); heartbeats.len()]
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        let (data, now) = (self.lock(), self.time.now());
        let read = |attempt| {
            if data.spoiled_beats.contains(attempt) {
                return Err(Error::Corrupt {
                    operation: "read heartbeats",
                    reason: "a column is missing".to_owned(),
                });
            }
            let found = data.heartbeats.get(attempt);
            let kept = found.filter(|(_, expires)| now < *expires);
            Ok(kept.map(|(beat, _)| beat.clone()))
        };
        attempts.iter().map(read).collect()
    }
}

#[async_trait]
impl NodeStore for MemoryStore {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        self.lock().nodes.insert(node.node, node.clone());
        Ok(())
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        self.lock().nodes.remove(&node);
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        Ok(self.lock().live_nodes(self.time.now()))
    }
}
