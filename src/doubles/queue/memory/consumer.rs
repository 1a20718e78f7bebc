//! The consumer of the memory queue receives records for one member of a group.

use std::time::Duration;

use super::{MemoryQueue, group::Member, process::Process};
use crate::{
    queue::{Consumer, Delivery, Error},
    wake::Watcher,
};
use async_trait::async_trait;

/// A member of a consumer group; it leaves when it is closed or dropped.
#[derive(Debug)]
pub struct MemoryConsumer {
    queue: MemoryQueue,
    process: Process,
    group: String,
    topics: Vec<String>,
    member: Member,
    /// The partition served last: the next call begins behind it.
    last: (String, i32),
    changes: Watcher,
}

impl MemoryConsumer {
    pub(super) fn new(
        queue: MemoryQueue,
        process: Process,
        group: &str,
        topics: &[String],
    ) -> Self {
        let member = process.join(group, topics);
        let changes = queue.shared.changes.watcher();
        Self {
            queue,
            process,
            group: group.to_owned(),
            topics: topics.to_vec(),
            member,
            last: (String::new(), 0),
            changes,
        }
    }

    /// Takes the records that are there, without waiting.
    fn take(&mut self, max: usize) -> Vec<Delivery> {
        self.changes.mark_unchanged();
        let mut state = self.queue.state();
        if state.plan.outage || self.process.is_killed() {
            return Vec::new();
        }
        let now = self.queue.shared.time.now();
        if self.process.paused_until(now).is_some() {
            return Vec::new();
        }
        state.broker.go_on(now);
        if !state.broker.has(&self.group, self.member) {
            // Its session has ended, or others took it for dead.
            drop(state);
            self.member = self.process.join(&self.group, &self.topics);
            return Vec::new();
        }
        state.broker.expire(now);
        let taken = state.broker.take(&self.group, self.member, max, &self.last);
        if let Some(last) = taken.last() {
            self.last = (last.topic.clone(), last.partition);
        }
        taken
    }

    /// How long until a session or a rebalance of the queue ends.
    fn until_change(&self) -> Duration {
        let now = self.queue.shared.time.now();
        let next = match self.process.paused_until(now) {
            Some(until) => Some(until),
            None => self.queue.state().broker.next_change(),
        };
        next.map_or(Duration::MAX, |next| {
            next.since(now).max(Duration::from_millis(1))
        })
    }

    fn leave(&self) {
        if !self.process.is_killed() {
            let now = self.queue.shared.time.now();
            let mut state = self.queue.state();
            state.broker.leave(&self.group, self.member, now);
            drop(state);
            self.queue.wake();
        }
    }
}

#[async_trait]
impl Consumer for MemoryConsumer {
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error> {
        let process = self.process.clone();
        process.pass("receive", false).await;
        let time = self.queue.shared.time.clone();
        let until = time.moment().after(wait);
        loop {
            // Between taking and returning there is no point at which this call could be cancelled, except in a process
            // that is dead.
            let taken = self.take(max);
            if !taken.is_empty() {
                process.pass("receive", true).await;
                return Ok(taken);
            }
            let left = until.since(time.moment()).min(self.until_change());
            let changed = time.within(left, self.changes.changed()).await;
            if changed.is_none() && until.since(time.moment()).is_zero() {
                process.pass("receive", true).await;
                return Ok(Vec::new());
            }
        }
    }

    fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        if !self.process.is_killed() {
            let mut state = self.queue.state();
            state.broker.handled(&self.group, self.member, deliveries);
            drop(state);
            self.queue.wake();
        }
    }

    async fn close(&mut self) {
        self.process.pass("leave", false).await;
        self.leave();
        self.process.pass("leave", true).await;
    }
}

impl Drop for MemoryConsumer {
    fn drop(&mut self) {
        self.leave();
    }
}
