//! What a test may do to the queue: planned outcomes of single records, missing topics, an outage.

use std::collections::{BTreeSet, VecDeque};

use super::MemoryQueue;

/// What happens to one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is published and acknowledged.
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
    pub(super) outage: bool,
}

/// Injects faults into a [`MemoryQueue`].
#[derive(Debug, Clone)]
pub struct Faults {
    pub(super) queue: MemoryQueue,
}

impl Faults {
    /// Plans the outcome of `count` more records, behind what is planned already.
    pub fn plan(&self, count: usize, fault: Fault) {
        let mut state = self.queue.state();
        state.plan.next.extend(std::iter::repeat_n(fault, count));
    }

    /// Forgets what is planned and not used.
    pub fn clear(&self) {
        self.queue.state().plan.next.clear();
    }

    /// Makes a topic unknown to publishers, or known again; what it holds stays.
    pub fn missing(&self, topic: &str, missing: bool) {
        let mut state = self.queue.state();
        if missing {
            state.plan.missing.insert(topic.to_owned());
        } else {
            state.plan.missing.remove(topic);
        }
    }

    /// Begins or ends an outage: nothing is answered, nothing is delivered, nobody leaves a group.
    pub fn outage(&self, on: bool) {
        self.queue.state().plan.outage = on;
        self.queue.wake();
    }

    /// Gives every partition to another member of its group, if there is one; what was not handled is delivered again, and so
    /// are the last `lost` records that were: their commit was lost.
    pub fn rebalance(&self, lost: i64) {
        self.queue.state().broker.rebalance(lost);
        self.queue.wake();
    }
}
