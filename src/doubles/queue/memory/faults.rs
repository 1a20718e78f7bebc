//! The faults of the queue serve tests: planned outcomes of single records, missing and silent topics, an outage, a retention.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use super::MemoryQueue;
use crate::queue::Record;

/// The fate of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault: it is published and acknowledged.
    None,
    /// It is published twice and acknowledged.
    Duplicate,
    /// It is published, and the acknowledgement is lost.
    UnconfirmedApplied,
    /// It is lost, and so is the answer.
    UnconfirmedLost,
    /// It is refused for good.
    Refuse,
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) next: VecDeque<Fault>,
    pub(super) missing: BTreeSet<String>,
    pub(super) silent: BTreeMap<String, Silence>,
    pub(super) outage: bool,
}

/// A topic that takes records and answers none.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// A batch has waited for it in vain.
    pub(super) known: bool,
    /// Records that are published when it answers again: as few as a producer keeps open for a sick topic.
    pub(super) open: Vec<Record>,
}

/// Injects faults into a [`MemoryQueue`].
#[derive(Debug, Clone)]
pub struct Faults {
    pub(super) queue: MemoryQueue,
}

impl Faults {
    /// Plans the outcome of `count` more records, behind those that are planned already.
    pub fn plan(&self, count: usize, fault: Fault) {
        let mut state = self.queue.state();
        state.plan.next.extend(std::iter::repeat_n(fault, count));
    }

    /// Forgets the planned outcomes that were not used.
    pub fn clear(&self) {
        self.queue.state().plan.next.clear();
    }

    /// Makes a topic unknown to publishers, or known again. The records in it stay.
    pub fn missing(&self, topic: &str, missing: bool) {
        let mut state = self.queue.state();
        if missing {
            state.plan.missing.insert(topic.to_owned());
        } else {
            state.plan.missing.remove(topic);
        }
    }

    /// Makes a topic silent: records published to it are not acknowledged, as below `min.insync.replicas`. Or
    /// makes it answer again, which publishes the last few records that it was given.
    pub fn silent(&self, topic: &str, silent: bool) {
        let mut state = self.queue.state();
        if silent {
            state.plan.silent.entry(topic.to_owned()).or_default();
        } else if let Some(ended) = state.plan.silent.remove(topic) {
            let now = self.queue.shared.time.now();
            for record in &ended.open {
                // A topic that does not exist cannot answer.
                drop(state.broker.append(record, now));
            }
        }
        drop(state);
        self.queue.wake();
    }

    /// Drops every record that is older than `kept`, as a broker does. Records that consumers have not
    /// received by then are lost to them.
    pub fn retention(&self, kept: Option<Duration>) {
        self.queue.state().broker.set_retention(kept);
    }

    /// Forgets how far a group has come, as a broker does that keeps offsets for a week. The group begins
    /// with the oldest record then.
    pub fn forget_offsets(&self, group: &str) {
        self.queue.state().broker.forget_offsets(group);
        self.queue.wake();
    }

    /// Begins or ends an outage: nothing is answered or delivered, and no member leaves a group.
    pub fn outage(&self, on: bool) {
        self.queue.state().plan.outage = on;
        self.queue.wake();
    }

    /// Gives every partition to another member of its group, if there is one. Records that were not handled
    /// are delivered again, and so are the last `lost` that were: their commit was lost.
    pub fn rebalance(&self, lost: i64) {
        self.queue.state().broker.rebalance(lost);
        self.queue.wake();
    }
}
