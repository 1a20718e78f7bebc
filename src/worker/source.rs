//! Where a worker's messages come from.

use std::{collections::HashMap, fmt};

use crate::queue::{self, Consumer};

/// Where a worker's messages come from.
pub enum Source {
    /// The service's Kafka cluster.
    Kafka {
        /// Its bootstrap servers, separated by commas.
        brokers: String,
    },
    /// A consumer for each callback, already in its group: for tests, and for queues of other kinds.
    Consumers(HashMap<String, Box<dyn Consumer>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka { brokers } => f.debug_struct("Kafka").field("brokers", brokers).finish(),
            Self::Consumers(consumers) => f.debug_set().entries(consumers.keys()).finish(),
        }
    }
}

impl Source {
    /// The service's Kafka cluster: bootstrap servers, separated by commas.
    pub fn kafka(brokers: impl Into<String>) -> Self {
        Self::Kafka {
            brokers: brokers.into(),
        }
    }

    /// A consumer for each callback by name.
    #[must_use]
    pub fn consumers(consumers: Vec<(String, Box<dyn Consumer>)>) -> Self {
        Self::Consumers(consumers.into_iter().collect())
    }

    /// Opens the consumer of a callback: a member of `group` that receives `topics`.
    pub(super) fn open(
        &mut self,
        callback: &str,
        group: &str,
        topics: &[String],
    ) -> Result<Box<dyn Consumer>, queue::Error> {
        match self {
            Self::Kafka { brokers } => {
                let reason = format!("no Kafka consumer yet: {brokers} {group} {topics:?}");
                Err(queue::Error::Unsuitable { reason })
            }
            Self::Consumers(consumers) => {
                consumers
                    .remove(callback)
                    .ok_or_else(|| queue::Error::Unsuitable {
                        reason: format!("no consumer was given for callback {callback:?}"),
                    })
            }
        }
    }
}
