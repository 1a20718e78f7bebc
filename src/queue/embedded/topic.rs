//! A topic keeps partitions for consumer groups, and notes how far each group has handled them.
//!
//! It never waits: a consumer is woken by its [`Notify`].

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::{
    budget::Budget,
    kept::Kept,
    log::{Log, Room},
};
use crate::{
    limits,
    model::{time::Millis, wheel::WheelNumber},
    queue::{Delivery, PublishError, Record, partitioner::Partitioner},
};

/// The number of a member, in the order of joining.
pub(super) type Member = u64;

/// How far a group is in a partition.
#[derive(Debug)]
struct Progress {
    owner: Option<Member>,
    /// The first offset that was not delivered yet.
    next: i64,
    /// Delivered to the owner and not handled yet.
    out: BTreeSet<i64>,
    /// Delivered to a member that has left, and not handled.
    again: BTreeSet<i64>,
    /// The highest offset that was handled.
    handled: i64,
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<Member, Arc<Notify>>,
    partitions: Vec<Progress>,
}

#[derive(Debug)]
struct State {
    logs: Vec<Log>,
    groups: BTreeMap<String, Group>,
    partitioner: Partitioner,
}

/// A topic.
#[derive(Debug)]
pub(super) struct Topic {
    name: String,
    state: Mutex<State>,
}

impl Topic {
    /// Returns an empty topic whose files would be called `stem` and the number of a partition.
    pub(super) fn new(
        name: &str,
        partitions: i32,
        room: Room,
        budget: &Arc<Budget>,
        stem: &Path,
    ) -> Self {
        let log = |partition| {
            let mut name = stem.as_os_str().to_owned();
            name.push(format!("-{partition}"));
            Log::new(room, Arc::clone(budget), name.into())
        };
        let logs = (0..partitions.max(1)).map(log).collect();
        Self {
            name: name.to_owned(),
            state: Mutex::new(State {
                logs,
                groups: BTreeMap::new(),
                partitioner: Partitioner::default(),
            }),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Tells whether nobody wants any record in it.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().logs.iter().all(Log::is_empty)
    }

    /// Appends records, in order, and wakes the consumers that wait for them.
    pub(super) fn publish(
        &self,
        records: impl Iterator<Item = Record>,
        at: Millis,
    ) -> Vec<Result<(), PublishError>> {
        let mut state = self.lock();
        let mut answers = Vec::new();
        let mut batches: BTreeMap<usize, (Vec<usize>, Vec<Kept>)> = BTreeMap::new();
        for (index, record) in records.enumerate() {
            let place = state.place_of(&record);
            if let Ok(place) = place {
                let (indices, batch) = batches.entry(place).or_default();
                indices.push(index);
                batch.push(Kept::new(at, record.key, record.value, record.headers));
            }
            answers.push(place.map(|_| ()));
        }
        let touched: BTreeSet<usize> = batches.keys().copied().collect();
        for (place, (indices, batch)) in batches {
            let (appended, refused) = state.append(place, batch);
            for index in indices.into_iter().skip(appended) {
                if let Some(answer) = answers.get_mut(index) {
                    answer.clone_from(&refused);
                }
            }
        }
        state.wake(|place, _| touched.contains(&place));
        answers
    }

    /// Takes a member into a group.
    pub(super) fn join(&self, group: &str, member: Member, wakes: &Arc<Notify>) {
        let mut state = self.lock();
        let begins: Vec<i64> = state.logs.iter().map(Log::begin).collect();
        let group = state.groups.entry(group.to_owned()).or_default();
        if group.partitions.is_empty() {
            group.partitions = begins.into_iter().map(Progress::new).collect();
        }
        group.members.insert(member, Arc::clone(wakes));
        group.assign();
    }

    /// Takes a member out of its group. Records that it did not handle are delivered to the others.
    pub(super) fn leave(&self, group: &str, member: Member) {
        if let Some(group) = self.lock().groups.get_mut(group) {
            group.members.remove(&member);
            group.assign();
        }
    }

    /// Returns an upper bound of the number of records for a member.
    pub(super) fn ready(&self, group: &str, member: Member) -> usize {
        let state = self.lock();
        let Some(group) = state.groups.get(group) else {
            return 0;
        };
        let counts = group.partitions.iter().zip(&state.logs);
        counts
            .filter(|(progress, _)| progress.owner == Some(member))
            .map(|(progress, log)| {
                let new = log.window_end() - progress.next.max(log.begin());
                progress.again.len() + usize::try_from(new).unwrap_or(0)
            })
            .sum()
    }

    /// Returns up to `max` records for a member, beginning behind the partition that was served last.
    pub(super) fn take(
        &self,
        group: &str,
        member: Member,
        max: usize,
        last: &mut usize,
    ) -> Vec<Delivery> {
        let mut state = self.lock();
        let State { logs, groups, .. } = &mut *state;
        let mut taken = Vec::new();
        let Some(group) = groups.get_mut(group) else {
            return taken;
        };
        let count = logs.len();
        for place in (*last + 1..=*last + count).map(|place| place % count.max(1)) {
            let (Some(log), Some(progress)) = (logs.get(place), group.partitions.get_mut(place))
            else {
                continue;
            };
            if progress.owner != Some(member) {
                continue;
            }
            while taken.len() < max
                && let Some((offset, kept)) = progress.deliver(log)
            {
                *last = place;
                taken.push(delivery(&self.name, place, offset, kept));
            }
        }
        taken
    }

    /// Notes which records a member has handled. Records that belong to another member by now are ignored.
    pub(super) fn handled(
        &self,
        group: &str,
        member: Member,
        done: impl Iterator<Item = (i32, i64)>,
    ) {
        let mut state = self.lock();
        let mut touched = BTreeSet::new();
        for (partition, offset) in done {
            let Ok(place) = usize::try_from(partition) else {
                continue;
            };
            let progress = state
                .groups
                .get_mut(group)
                .and_then(|group| group.partitions.get_mut(place));
            let Some(progress) = progress.filter(|progress| progress.owner == Some(member)) else {
                continue;
            };
            if progress.out.remove(&offset) {
                progress.handled = progress.handled.max(offset);
                state.release(place, offset);
                touched.insert(place);
            }
        }
        touched.retain(|place| state.logs.get_mut(*place).is_some_and(Log::refill));
        state.wake(|place, _| touched.contains(&place));
    }

    /// Tells whether a group has handled none of the records that were published to a wheel's partition since
    /// an instant. If there are no such records, the answer is no.
    pub(super) fn still_queued(&self, group: &str, wheel: WheelNumber, since: Millis) -> bool {
        let state = self.lock();
        let place = usize::try_from(wheel.partition(state.count())).unwrap_or(0);
        let Some(first) = state.logs.get(place).and_then(|log| log.first_since(since)) else {
            return false;
        };
        // A group that was never seen has handled nothing.
        let progress = state.groups.get(group);
        let progress = progress.and_then(|group| group.partitions.get(place));
        progress.is_none_or(|progress| progress.handled < first)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn count(&self) -> i32 {
        i32::try_from(self.logs.len()).unwrap_or(i32::MAX)
    }

    /// Returns the index of the partition that a record belongs to.
    fn place_of(&mut self, record: &Record) -> Result<usize, PublishError> {
        let bytes = record.bytes();
        if bytes > limits::RECORD_BYTES_MAX {
            let limit = limits::RECORD_BYTES_MAX;
            let reason = format!("it has {bytes} bytes, {limit} are allowed");
            return Err(PublishError::Refused(reason));
        }
        let count = self.count();
        let place = usize::try_from(self.partitioner.choose(record, count)).ok();
        place
            .filter(|place| *place < self.logs.len())
            .ok_or_else(|| PublishError::NoSuchTopic(record.topic.clone()))
    }

    /// Appends records to a partition. Returns how many were appended, and the answer to the others.
    fn append(&mut self, place: usize, records: Vec<Kept>) -> (usize, Result<(), PublishError>) {
        let Some(log) = self.logs.get_mut(place) else {
            let reason = format!("partition {place} does not exist");
            return (0, Err(PublishError::Unconfirmed(reason)));
        };
        let (appended, answer) = log.append(records);
        let refused = |error| {
            PublishError::Unconfirmed(format!(
                "memory is full of records that no worker has taken, and the overflow file cannot be written: {error}"
            ))
        };
        (appended, answer.map_err(refused))
    }

    /// Releases a record when no group needs it any more.
    fn release(&mut self, place: usize, offset: i64) {
        let mut groups = self.groups.values();
        let done = groups.all(|group| {
            let progress = group.partitions.get(place);
            progress.is_none_or(|progress| progress.is_done(offset))
        });
        if done && let Some(log) = self.logs.get_mut(place) {
            log.release(offset);
        }
    }

    /// Wakes the owners of partitions, of every group.
    fn wake(&self, whose: impl Fn(usize, &Progress) -> bool) {
        for group in self.groups.values() {
            group.wake(&whose);
        }
    }
}

impl Group {
    /// Gives each partition to one member. Records that the member before did not handle are delivered again.
    fn assign(&mut self) {
        let members: Vec<Member> = self.members.keys().copied().collect();
        for (place, progress) in self.partitions.iter_mut().enumerate() {
            let place = place.checked_rem(members.len()).unwrap_or(0);
            let owner = members.get(place).copied();
            if progress.owner != owner {
                progress.owner = owner;
                progress.again.append(&mut progress.out);
            }
        }
        self.wake(|_, _| true);
    }

    fn wake(&self, whose: impl Fn(usize, &Progress) -> bool) {
        let woken = self.partitions.iter().enumerate();
        let owners: BTreeSet<Member> = woken
            .filter(|(place, progress)| whose(*place, progress))
            .filter_map(|(_, progress)| progress.owner)
            .collect();
        for owner in owners {
            if let Some(wakes) = self.members.get(&owner) {
                wakes.notify_one();
            }
        }
    }
}

impl Progress {
    const fn new(next: i64) -> Self {
        Self {
            owner: None,
            next,
            out: BTreeSet::new(),
            again: BTreeSet::new(),
            handled: next - 1,
        }
    }

    fn is_done(&self, offset: i64) -> bool {
        offset < self.next && !self.out.contains(&offset) && !self.again.contains(&offset)
    }

    /// Returns the next record for the owner.
    fn deliver<'a>(&mut self, log: &'a Log) -> Option<(i64, &'a Kept)> {
        while let Some(offset) = self.again.pop_first() {
            if let Some(kept) = log.get(offset) {
                self.out.insert(offset);
                return Some((offset, kept));
            }
        }
        self.next = self.next.max(log.begin());
        while self.next < log.window_end() {
            let offset = self.next;
            self.next += 1;
            if let Some(kept) = log.get(offset) {
                self.out.insert(offset);
                return Some((offset, kept));
            }
        }
        None
    }
}

fn delivery(topic: &str, place: usize, offset: i64, kept: &Kept) -> Delivery {
    Delivery {
        topic: topic.to_owned(),
        partition: i32::try_from(place).unwrap_or(i32::MAX),
        offset,
        key: kept.key.clone(),
        value: kept.value.clone(),
        headers: kept.headers.clone(),
    }
}
