//! The broker keeps topics, groups and assignments for the memory queue, without locks, waiting or faults.
//!
//! Every collection is ordered, so that the same calls give the same answers in every run.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    limits,
    model::{ids::NodeId, time::Millis},
    queue::{
        Delivery, Probe, PublishError, Record, low_water::LowWater, partitioner::Partitioner,
        survivors::Listed,
    },
};

use super::{
    Keep,
    group::{Group, Held, Member},
};

/// A record in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its partition.
    pub partition: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// When it was published, by the queue's clock.
    pub at: Millis,
    /// The record.
    pub record: Record,
}

#[derive(Debug, Default)]
struct Log {
    /// Offset of the first record kept.
    begin: i64,
    records: VecDeque<Arc<Published>>,
}

impl Log {
    fn end(&self) -> i64 {
        self.begin + i64::try_from(self.records.len()).unwrap_or(i64::MAX)
    }

    fn get(&self, offset: i64) -> Option<&Arc<Published>> {
        self.records.get(usize::try_from(offset - self.begin).ok()?)
    }
}

#[derive(Debug, Default)]
struct Topic {
    partitions: Vec<Log>,
    bytes: usize,
    records: usize,
    partitioner: Partitioner,
}

#[derive(Debug)]
pub(super) struct Broker {
    keep: Keep,
    partitions: i32,
    retention: Option<Duration>,
    topics: BTreeMap<String, Topic>,
    groups: BTreeMap<String, Group>,
    /// How long the partitions of a dead member wait for it; zero where a member that dies leaves at once.
    session: Duration,
    last_member: Member,
    journal: Vec<Arc<Published>>,
}

impl Broker {
    pub(super) const fn new(partitions: i32, keep: Keep) -> Self {
        Self {
            keep,
            partitions,
            retention: None,
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            session: Duration::ZERO,
            last_member: 0,
            journal: Vec::new(),
        }
    }

    /// Creates a topic unless it exists.
    pub(super) fn create(&mut self, topic: &str, partitions: Option<i32>) {
        if self.topics.contains_key(topic) {
            return;
        }
        let created = Topic {
            partitions: (0..partitions.unwrap_or(self.partitions).max(1))
                .map(|_| Log::default())
                .collect(),
            ..Topic::default()
        };
        self.topics.insert(topic.to_owned(), created);
        let counts = self.counts();
        for group in self.groups.values_mut() {
            group.assign(&counts);
        }
    }

    /// Returns how many partitions each topic has.
    fn counts(&self) -> BTreeMap<String, i32> {
        let topics = self.topics.iter();
        topics
            .map(|(name, topic)| (name.clone(), topic.count()))
            .collect()
    }

    /// Gives groups sessions of this length, and rebalances that take time.
    pub(super) const fn set_session(&mut self, session: Duration) {
        self.session = session;
    }

    pub(super) const fn session(&self) -> Duration {
        self.session
    }

    /// Sets how long records are kept.
    pub(super) const fn set_retention(&mut self, kept: Option<Duration>) {
        self.retention = kept;
    }

    /// Drops records that are older than the retention.
    pub(super) fn expire(&mut self, now: Millis) {
        let Some(kept) = self.retention else { return };
        let from = now.before(kept);
        for topic in self.topics.values_mut() {
            for log in &mut topic.partitions {
                while log.records.front().is_some_and(|first| first.at < from)
                    && let Some(published) = log.records.pop_front()
                {
                    log.begin += 1;
                    topic.records -= 1;
                    topic.bytes -= published.record.bytes();
                }
            }
        }
    }

    /// Forgets how far a group has come.
    pub(super) fn forget_offsets(&mut self, group: &str) {
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        for (key, held) in &mut group.held {
            let log = self.topics.get(&key.0).and_then(|topic| topic.log(key.1));
            let begin = log.map_or(0, |log| log.begin);
            held.position = begin;
            held.low_water = LowWater::new(begin);
        }
    }

    /// Tells whether a record has to wait until consumers have caught up.
    pub(super) fn is_full(&self, topic: &str) -> bool {
        self.keep == Keep::UntilHandled
            && self.topics.get(topic).is_some_and(|topic| {
                topic.records >= limits::MEMORY_TOPIC_RECORDS_MAX
                    || topic.bytes >= limits::MEMORY_TOPIC_BYTES_MAX
            })
    }

    /// Appends a record.
    pub(super) fn append(&mut self, record: &Record, at: Millis) -> Result<(), PublishError> {
        if record.bytes() > limits::RECORD_BYTES_MAX {
            return Err(PublishError::Refused(format!(
                "it has {} bytes, {} are allowed",
                record.bytes(),
                limits::RECORD_BYTES_MAX
            )));
        }
        if record.create_topic {
            self.create(&record.topic, None);
        }
        let missing = || PublishError::NoSuchTopic(record.topic.clone());
        let topic = self.topics.get_mut(&record.topic).ok_or_else(missing)?;
        let count = topic.count();
        let partition = topic.partitioner.choose(record, count);
        let log = usize::try_from(partition)
            .ok()
            .and_then(|partition| topic.partitions.get_mut(partition))
            .ok_or_else(missing)?;
        let published = Arc::new(Published {
            partition,
            offset: log.end(),
            at,
            record: record.clone(),
        });
        log.records.push_back(Arc::clone(&published));
        topic.bytes += record.bytes();
        topic.records += 1;
        if self.keep == Keep::Everything {
            self.journal.push(published);
        }
        Ok(())
    }

    /// Returns all published records, in order; only while everything is kept.
    pub(super) fn journal(&self) -> &[Arc<Published>] {
        &self.journal
    }

    /// Takes a member into a group.
    pub(super) fn join(
        &mut self,
        group: &str,
        topics: &[String],
        node: Option<NodeId>,
        now: Millis,
    ) -> Member {
        self.last_member += 1;
        let member = self.last_member;
        self.change(group, now, |group| group.join(member, topics, node));
        member
    }

    /// Takes a member out of its group. Records that it did not handle are delivered to the others.
    pub(super) fn leave(&mut self, group: &str, member: Member, now: Millis) {
        self.change(group, now, |group| group.leave(member));
    }

    /// A member is heard of no more: its partitions wait for the end of its session.
    pub(super) fn die(&mut self, group: &str, member: Member, now: Millis) {
        if self.session.is_zero() {
            return self.leave(group, member, now);
        }
        let ends = now.after(self.session);
        if let Some(group) = self.groups.get_mut(group) {
            group.dies(member, ends);
        }
    }

    /// Returns the members of a group and their nodes.
    pub(super) fn listed(&self, group: &str) -> Vec<Listed<Member>> {
        self.groups
            .get(group)
            .map(Group::listed)
            .unwrap_or_default()
    }

    /// Changes the members of a group.
    fn change(&mut self, name: &str, now: Millis, act: impl FnOnce(&mut Group) -> bool) {
        let counts = self.counts();
        let group = self.groups.entry(name.to_owned()).or_default();
        if !act(group) {
            return;
        }
        if self.session.is_zero() {
            group.assign(&counts);
        } else {
            group.rebalance_from(now);
        }
    }

    /// Ends the sessions and rebalances whose time has come.
    pub(super) fn go_on(&mut self, now: Millis) {
        if self.session.is_zero() {
            return;
        }
        let counts = self.counts();
        for group in self.groups.values_mut() {
            group.go_on(now, &counts);
        }
    }

    /// Returns when the next session or rebalance ends.
    pub(super) fn next_change(&self) -> Option<Millis> {
        self.groups.values().filter_map(Group::next_change).min()
    }

    /// Tells whether a group has the member still.
    pub(super) fn has(&self, group: &str, member: Member) -> bool {
        let group = self.groups.get(group);
        group.is_some_and(|group| group.has(member))
    }

    /// Moves every partition on to the next member. Records that were not committed are read again, and so
    /// are the last `lost` that were.
    pub(super) fn rebalance(&mut self, lost: i64) {
        let counts = self.counts();
        for group in self.groups.values_mut() {
            group.turns += 1;
            for (key, held) in &mut group.held {
                let begin = self
                    .topics
                    .get(&key.0)
                    .and_then(|topic| topic.log(key.1))
                    .map_or(0, |log| log.begin);
                let mark = (held.low_water.mark() - lost).max(begin);
                held.position = mark;
                held.low_water = LowWater::new(mark);
            }
            group.assign(&counts);
        }
    }

    /// Returns up to `max` records for a member, beginning with the partitions behind `after`, so that a full one does
    /// not starve the others.
    pub(super) fn take(
        &mut self,
        group: &str,
        member: Member,
        max: usize,
        after: &(String, i32),
    ) -> Vec<Delivery> {
        let mut taken = Vec::new();
        let group = self.groups.get_mut(group);
        let Some(group) = group.filter(|group| !group.is_rebalancing()) else {
            return taken;
        };
        let own = |held: &Held| held.owner == Some(member);
        let keys: Vec<(String, i32)> = group
            .held
            .iter()
            .filter(|(_, held)| own(held))
            .map(|(key, _)| key.clone())
            .collect();
        let split = keys.partition_point(|key| key <= after);
        let (first, last) = keys.split_at(split);
        for key in last.iter().chain(first) {
            let Some(held) = group.held.get_mut(key) else {
                continue;
            };
            let log = self.topics.get(&key.0).and_then(|topic| topic.log(key.1));
            let Some(log) = log else { continue };
            held.position = held.position.max(log.begin);
            while taken.len() < max
                && let Some(published) = log.get(held.position)
            {
                held.low_water.delivered(published.offset);
                held.position = published.offset + 1;
                taken.push(published.delivery());
            }
        }
        taken
    }

    /// Notes which records a member has handled. Records that belong to another member by now are ignored, as
    /// after a rebalance.
    pub(super) fn handled(&mut self, group: &str, member: Member, done: &[(String, i32, i64)]) {
        let Some(found) = self.groups.get_mut(group) else {
            return;
        };
        for (topic, partition, offset) in done {
            let held = found.held.get_mut(&(topic.clone(), *partition));
            if let Some(held) = held.filter(|held| held.owner == Some(member)) {
                held.low_water.handled(*offset);
            }
        }
        if self.keep == Keep::UntilHandled {
            self.forget(done);
        }
    }

    /// Drops records that every group that reads their topic has handled.
    fn forget(&mut self, done: &[(String, i32, i64)]) {
        for (name, partition, _) in done {
            let key = (name.clone(), *partition);
            let readers = self
                .groups
                .values()
                .filter_map(|group| group.held.get(&key));
            let Some(mark) = readers.map(|held| held.low_water.mark()).min() else {
                continue;
            };
            let Some(topic) = self.topics.get_mut(name) else {
                continue;
            };
            let log = usize::try_from(*partition)
                .ok()
                .and_then(|partition| topic.partitions.get_mut(partition));
            let Some(log) = log else { continue };
            while log.begin < mark
                && let Some(published) = log.records.pop_front()
            {
                log.begin += 1;
                topic.records -= 1;
                topic.bytes -= published.record.bytes();
            }
        }
    }

    /// Tells whether the records published to a wheel's partition at an instant wait for a group.
    pub(super) fn still_queued(&self, probe: &Probe) -> bool {
        let Some(topic) = self.topics.get(&probe.topic) else {
            return false;
        };
        let partition = probe.wheel.partition(topic.count());
        let Some(log) = topic.log(partition) else {
            return false;
        };
        let since = probe.since.before(limits::QUEUE_CLOCK_SKEW_MAX);
        let Some(first) = log.records.iter().find(|published| published.at >= since) else {
            return false;
        };
        let held = self
            .groups
            .get(&probe.group)
            .and_then(|group| group.held.get(&(probe.topic.clone(), partition)));
        // A group that never committed begins with the oldest record.
        held.map_or(log.begin, |held| held.low_water.mark()) <= first.offset
    }
}

impl Topic {
    fn count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }

    fn log(&self, partition: i32) -> Option<&Log> {
        self.partitions.get(usize::try_from(partition).ok()?)
    }
}

impl Published {
    fn delivery(&self) -> Delivery {
        Delivery {
            topic: self.record.topic.clone(),
            partition: self.partition,
            offset: self.offset,
            key: self.record.key.clone(),
            value: self.record.value.clone(),
            headers: self.record.headers.clone(),
        }
    }
}
