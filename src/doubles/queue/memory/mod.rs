//! The memory queue carries records inside one process for tests, for the simulation and, with
//! [`Keep::UntilHandled`], for a single process that needs no broker.
//!
//! It keeps the contract of [`crate::queue`] as long as the process lives. It is deterministic: collections
//! are ordered, and the only clock and randomness are those of its [`TimeSource`]. Faults are injected by
//! [`Faults`]. A simulated process uses its own [`MemoryPublisher`], which can be killed at any operation.
//! Durability is left to real brokers.

mod broker;
mod consumer;
mod faults;
mod group;
mod process;
mod publisher;

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use self::{broker::Broker, faults::Plan};
pub use self::{
    broker::Published,
    consumer::MemoryConsumer,
    faults::{Fault, Faults},
    process::Hook,
    publisher::MemoryPublisher,
};
use crate::{time_source::TimeSource, wake::Changes};

/// How long records are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// For ever, so that a test can read the published records.
    Everything,
    /// Until every group that reads the topic has handled them. A full topic makes its publishers wait.
    UntilHandled,
}

/// The queue. Cheap to clone; clones are the same queue.
#[derive(Debug, Clone)]
pub struct MemoryQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    time: TimeSource,
    state: Mutex<State>,
    /// Counts what consumers and waiting publishers wait for: records, assignments, room.
    changes: Arc<Changes>,
}

#[derive(Debug)]
struct State {
    broker: Broker,
    plan: Plan,
}

impl MemoryQueue {
    /// Returns an empty queue whose topics get `partitions` partitions.
    #[must_use]
    pub fn new(time: TimeSource, partitions: i32, keep: Keep) -> Self {
        let state = State {
            broker: Broker::new(partitions, keep),
            plan: Plan::default(),
        };
        let shared = Shared {
            time,
            state: Mutex::new(state),
            changes: Arc::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Creates a topic, with its own number of partitions if given. Does nothing when it exists.
    pub fn create_topic(&self, topic: &str, partitions: Option<i32>) {
        self.state().broker.create(topic, partitions);
        self.wake();
    }

    /// Returns a publisher of its own for one simulated process.
    #[must_use]
    pub fn handle(&self) -> MemoryPublisher {
        MemoryPublisher::new(self.clone())
    }

    /// Returns a new member of a group. Dropping it leaves the group, as a crash does.
    #[must_use]
    pub fn consumer(&self, group: &str, topics: &[String]) -> MemoryConsumer {
        self.handle().consumer(group, topics)
    }

    /// Returns the handle that injects faults.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults {
            queue: self.clone(),
        }
    }

    /// Returns everything published, over all topics in order. Needs [`Keep::Everything`].
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Published>> {
        self.state().broker.journal().to_vec()
    }

    /// Returns everything published to a topic, in order. Needs [`Keep::Everything`].
    #[must_use]
    pub fn records(&self, topic: &str) -> Vec<Arc<Published>> {
        let state = self.state();
        let journal = state.broker.journal().iter();
        journal
            .filter(|published| published.record.topic == topic)
            .cloned()
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// Gives consumer groups sessions of this length and rebalances, as a broker does. Without, a member that dies leaves at
    /// once.
    pub fn sessions(&self, session: Duration) {
        self.state().broker.set_session(session);
    }

    fn wake(&self) {
        self.shared.changes.announce();
    }
}
