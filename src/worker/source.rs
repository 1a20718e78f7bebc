//! The source names for a worker where its tasks come from.

use std::fmt;

#[cfg(feature = "kafka")]
use crate::queue::kafka::Settings;
#[cfg(feature = "queue")]
use crate::{
    queue::{self, Consumer},
    time_source::TimeSource,
};

/// Where a worker's tasks come from.
pub struct Source(Kind);

enum Kind {
    /// The service itself, at these addresses.
    Poll(String),
    /// The service's Kafka cluster.
    #[cfg(feature = "kafka")]
    Kafka(Box<Settings>),
    /// A consumer for each callback, already in its group.
    #[cfg(feature = "queue")]
    Consumers(std::collections::HashMap<String, Box<dyn Consumer>>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Poll(servers) => f.debug_tuple("Poll").field(servers).finish(),
            #[cfg(feature = "kafka")]
            Kind::Kafka(settings) => f.debug_tuple("Kafka").field(&settings.brokers).finish(),
            #[cfg(feature = "queue")]
            Kind::Consumers(consumers) => f.debug_set().entries(consumers.keys()).finish(),
        }
    }
}

/// The way to reach a Kafka cluster.
#[cfg(feature = "kafka")]
#[derive(Clone)]
#[must_use = "settings do nothing until they are given to a source"]
pub struct KafkaSettings {
    brokers: String,
    client_id: Option<String>,
    properties: Vec<(String, String)>,
}

#[cfg(feature = "kafka")]
impl KafkaSettings {
    /// Takes bootstrap servers, as `host:port`, separated by commas.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            client_id: None,
            properties: Vec::new(),
        }
    }

    /// Sets the name under which the cluster's logs and quotas know the worker; `tickwheel` by default.
    pub fn client_id(mut self, name: impl Into<String>) -> Self {
        self.client_id = Some(name.into());
        self
    }

    /// Sets a property of librdkafka, for example `sasl.username`. It overrides the worker's own.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    fn settings(self) -> Settings {
        let mut settings = Settings::new(&self.brokers);
        if let Some(name) = self.client_id {
            settings.client_id = name;
        }
        settings.properties.extend(self.properties);
        settings
    }
}

#[cfg(feature = "kafka")]
impl<T: Into<String>> From<T> for KafkaSettings {
    fn from(brokers: T) -> Self {
        Self::new(brokers)
    }
}

#[cfg(feature = "kafka")]
impl fmt::Debug for KafkaSettings {
    /// Leaves out the values of properties, which may be passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .properties
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        f.debug_struct("KafkaSettings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("properties", &names)
            .finish()
    }
}

impl Source {
    /// The service itself, which hands out tasks to workers that ask, so that no connection to Kafka is
    /// needed. The addresses are those of nodes with the role `controller`, separated by commas. All other
    /// calls go there, too, unless the builder is given servers of its own.
    #[must_use]
    pub fn poll(servers: &str) -> Self {
        Self(Kind::Poll(servers.to_owned()))
    }

    /// The service's Kafka cluster: bootstrap servers, separated by commas, or [`KafkaSettings`].
    #[cfg(feature = "kafka")]
    #[must_use]
    pub fn kafka(cluster: impl Into<KafkaSettings>) -> Self {
        Self(Kind::Kafka(Box::new(cluster.into().settings())))
    }

    /// A consumer for each callback by name: for tests, and for queues of other kinds.
    #[cfg(feature = "queue")]
    #[doc(hidden)]
    #[must_use]
    pub fn consumers(consumers: Vec<(String, Box<dyn Consumer>)>) -> Self {
        Self(Kind::Consumers(consumers.into_iter().collect()))
    }

    /// The addresses that are polled, when tasks come from the service itself.
    pub(super) fn polled(&self) -> Option<&str> {
        match &self.0 {
            Kind::Poll(servers) => Some(servers),
            #[cfg(feature = "kafka")]
            Kind::Kafka(_) => None,
            #[cfg(feature = "queue")]
            Kind::Consumers(_) => None,
        }
    }

    /// Opens the consumer of a callback: a member of `group` that receives `topics`.
    #[cfg(feature = "queue")]
    pub(super) async fn open(
        &mut self,
        callback: &str,
        group: &str,
        topics: &[String],
        time: &TimeSource,
    ) -> Result<Box<dyn Consumer>, queue::Error> {
        match &mut self.0 {
            Kind::Poll(_) => Err(queue::Error::Unsuitable {
                reason: "a worker that polls consumes no queue".to_owned(),
            }),
            #[cfg(feature = "kafka")]
            Kind::Kafka(settings) => {
                let connected = queue::kafka::KafkaConsumer::connect(
                    (**settings).clone(),
                    time.clone(),
                    group,
                    topics,
                );
                Ok(Box::new(connected.await?))
            }
            Kind::Consumers(consumers) => {
                consumers
                    .remove(callback)
                    .ok_or_else(|| queue::Error::Unsuitable {
                        reason: format!("no consumer was given for callback {callback:?}"),
                    })
            }
        }
    }
}

#[cfg(all(test, feature = "kafka"))]
mod tests {
    use super::*;

    #[test]
    fn properties_of_kafka_reach_the_client_and_no_log() {
        let settings = KafkaSettings::new("a:9092,b:9092")
            .client_id("mailer")
            .property("sasl.password", "secret");
        let shown = format!("{settings:?} {:?}", Source::kafka(settings.clone()));
        assert!(
            shown.contains("sasl.password") && !shown.contains("secret"),
            "{shown}"
        );
        let settings = settings.settings();
        assert_eq!(settings.brokers, "a:9092,b:9092");
        assert_eq!(settings.client_id, "mailer");
        let password = settings.properties.get("sasl.password");
        assert_eq!(password.map(String::as_str), Some("secret"));
        assert_eq!(
            KafkaSettings::from("c:9092").settings(),
            Settings::new("c:9092")
        );
    }
}
