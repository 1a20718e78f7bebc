//! The queue seam gives the service and its workers one interface to every queue, and this contract to rely
//! on.
//!
//! # Contract (tested by `tests/queue_contract.rs` on every implementation)
//! - **An acknowledged publication is durable**: it is delivered to every consumer group of its topic at
//!   least once, until the topic's own retention ends. A record without acknowledgement may be delivered all
//!   the same, once or several times.
//! - Batches are answered item by item, in order. Within one partition, records of one batch keep their
//!   order.
//! - **A consumer's delivery counts as handled only when [`Consumer::handled`] was called** for it. After a
//!   crash or a rebalance the deliveries that were not handled come again, perhaps together with some that
//!   were.
//! - **A topic that does not answer delays no other**: its records are unconfirmed after a moment, and at
//!   once while it is known to be silent. So a batch is answered about when its other records are. While
//!   nothing at all is acknowledged, a call may take as long as the queue's own time limit.
//! - A record that was answered as unconfirmed may be on its way. A queue that can tell that it is repeated
//!   sends it once.
//! - Every call ends within the queue's own time limit. A full buffer makes the caller wait (back-pressure)
//!   and never fails.

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use crate::model::{ids::NodeId, time::Millis, wheel::WheelNumber};

#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod low_water;
pub mod message;
pub(crate) mod partitioner;
pub mod ready;
pub mod survivors;
pub mod weighted_round_robin;

/// The partition that a record goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// The one of a wheel: wheel mod the topic's number of partitions.
    OfWheel(WheelNumber),
    /// This one.
    Fixed(i32),
    /// The partition that the hash of the key gives.
    ByKey,
}

/// Headers of a record, in order; a name may come more than once.
pub type Headers = Vec<(Cow<'static, str>, Bytes)>;

/// A record to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The topic.
    pub topic: String,
    /// The topic is one of Tickwheel's own and is created when it does not exist.
    pub create_topic: bool,
    /// The partition.
    pub partition: Partition,
    /// The key; none is a record without key.
    pub key: Option<Bytes>,
    /// The value; never null.
    pub value: Bytes,
    /// The headers, in order.
    pub headers: Headers,
}

impl Record {
    /// Returns about how much memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.len() + headers + self.topic.len()
    }
}

/// The reason why a record was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// It will never be acknowledged: too large, not authorised, not valid.
    #[error("the queue refuses the record: {0}")]
    Refused(String),
    /// The topic (or the partition) does not exist now.
    #[error("the topic is unknown to the queue: {0}")]
    NoSuchTopic(String),
    /// No acknowledgement in time: it may have been published or not.
    #[error("the queue did not acknowledge the record: {0}")]
    Unconfirmed(String),
}

/// A fault of the queue.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// It did not answer in time: try again later.
    #[error("the queue is unavailable while trying to {operation}: {reason}")]
    Unavailable {
        /// The attempted operation, as a verb phrase.
        operation: &'static str,
        /// The reason.
        reason: String,
    },
    /// It is not set up as this program needs it; the reason says what to do.
    #[error("the queue cannot be used: {reason}")]
    Unsuitable {
        /// The defect, and what to do.
        reason: String,
    },
}

/// A question whether the records published at an instant still wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Probe {
    /// The topic.
    pub topic: String,
    /// The consumer group that would have handled it.
    pub group: String,
    /// The wheel whose partition is asked about.
    pub wheel: WheelNumber,
    /// When it was published.
    pub since: Millis,
}

/// The publishing side.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Publishes records and waits for their acknowledgements, except for those of topics that do not answer.
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>>;
    /// Creates topics of Tickwheel's own where they do not exist.
    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error>;
    /// Returns the name by which the queue knows a topic, or a group, of Tickwheel's own: what workers in other languages ask
    /// its servers for.
    fn name(&self, own: &str) -> String {
        own.to_owned()
    }
    /// Tells for each probe whether the records published then are certainly still waiting. In doubt the
    /// answer is no, which costs a duplicate that its claim refuses.
    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool>;
    /// Returns how many records of one wheel are worth having under way at once, if the queue gains nothing
    /// from more. A queue in the process does its work on the cores that everything else waits for.
    fn records_at_once(&self) -> Option<usize> {
        None
    }
    /// Tells whether messages to workers stay in this process. Then a content that is kept apart stays in the store until its
    /// task is claimed: a copy in the queue would be written and read for nothing.
    fn leaves_contents(&self) -> bool {
        false
    }
    /// Finds out whether the queue answers.
    async fn ping(&self) -> Result<(), Error>;
    /// Sends the buffered records and stops, within `limit`.
    async fn close(&self, limit: Duration);
}

/// A record that a consumer received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Bytes,
    /// The headers, in order.
    pub headers: Headers,
}

/// The consuming side: one member of one consumer group.
#[async_trait]
pub trait Consumer: Send {
    /// Waits for deliveries and returns up to `max` of them; none if none came within `wait`.
    ///
    /// With `max` = 0 it only keeps the membership alive: the group must not take a consumer whose pool is
    /// full for dead.
    /// Cancel-safe: deliveries that were not returned are returned by the next call.
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error>;
    /// Marks deliveries as handled, in any order. A crash repeats from the oldest one that was not handled.
    fn handled(&mut self, deliveries: &[(String, i32, i64)]);
    /// Stops receiving, commits the handled deliveries and leaves the group, so that others take over at
    /// once.
    async fn close(&mut self);
}

/// A maker of consumers of any queue, for parts of a node that consume for others.
#[async_trait]
pub trait Subscriptions: Send + Sync {
    /// Returns a new member of a group, which receives the records of the topics. Topics named first are more
    /// urgent.
    async fn subscribe(&self, group: &str, topics: &[String]) -> Result<Box<dyn Consumer>, Error>;
    /// Looks for members of a dead node in the groups that this process has members of, and takes them out if it is this
    /// process's turn ([`survivors`]). So the others get their partitions before the queue finds out by itself. It is to be
    /// repeated, and repeating it is safe. A member that lives after all joins again.
    async fn take_out(&self, _dead: NodeId) -> Result<(), Error> {
        Ok(())
    }
    /// Tells whether any of the topics is there, or costs nothing to make. A name that a stranger has made up is no reason to
    /// create a topic for it.
    async fn has_any(&self, _topics: &[String]) -> Result<bool, Error> {
        Ok(true)
    }
}
