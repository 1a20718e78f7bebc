//! Where a worker's messages come from.

use std::{collections::HashMap, fmt};

use crate::{
    queue::{
        self, Consumer,
        kafka::{KafkaConsumer, Settings},
    },
    time_source::TimeSource,
};

/// Where a worker's messages come from.
pub enum Source {
    /// The service's Kafka cluster.
    Kafka(Settings),
    /// The service itself, at these addresses.
    Poll(String),
    /// A consumer for each callback, already in its group: for tests, and for queues of other kinds.
    Consumers(HashMap<String, Box<dyn Consumer>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka(settings) => f.debug_tuple("Kafka").field(&settings.brokers).finish(),
            Self::Poll(servers) => f.debug_tuple("Poll").field(servers).finish(),
            Self::Consumers(consumers) => f.debug_set().entries(consumers.keys()).finish(),
        }
    }
}

impl Source {
    /// The service's Kafka cluster: bootstrap servers, separated by commas.
    #[must_use]
    pub fn kafka(brokers: &str) -> Self {
        Self::Kafka(Settings::new(brokers))
    }

    /// The service itself, which hands out tasks to workers that ask: no connection to Kafka is needed. Addresses of
    /// nodes with the role `controller`, separated by commas; all other calls go there, too, unless the builder is given
    /// servers of its own.
    #[must_use]
    pub fn poll(servers: &str) -> Self {
        Self::Poll(servers.to_owned())
    }

    /// A consumer for each callback by name.
    #[must_use]
    pub fn consumers(consumers: Vec<(String, Box<dyn Consumer>)>) -> Self {
        Self::Consumers(consumers.into_iter().collect())
    }

    /// Opens the consumer of a callback: a member of `group` that receives `topics`.
    pub(super) async fn open(
        &mut self,
        callback: &str,
        group: &str,
        topics: &[String],
        time: &TimeSource,
    ) -> Result<Box<dyn Consumer>, queue::Error> {
        match self {
            Self::Kafka(settings) => {
                let connected =
                    KafkaConsumer::connect(settings.clone(), time.clone(), group, topics);
                Ok(Box::new(connected.await?))
            }
            Self::Poll(_) => Err(queue::Error::Unsuitable {
                reason: "a worker that polls consumes no queue".to_owned(),
            }),
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
