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
    /// A consumer for each callback, already in its group: for tests, and for queues of other kinds.
    Consumers(HashMap<String, Box<dyn Consumer>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kafka(settings) => f.debug_tuple("Kafka").field(&settings.brokers).finish(),
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
