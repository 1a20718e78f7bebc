//! The source names for a worker where its tasks come from.

use std::fmt;

#[cfg(all(feature = "kafka", feature = "tls"))]
use crate::model::server_access::{Identity, Pem, Tls};
#[cfg(feature = "kafka")]
use crate::{
    model::{
        server_access::{Login, Mechanism, Protocol, ServerAccess},
        signing::{Signing, SigningKey},
    },
    queue::kafka::Settings,
};
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

/// How the brokers of a Kafka cluster learn the password of a worker.
#[cfg(feature = "kafka")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslMechanism {
    /// `PLAIN`: the password is sent as it is, so use it over TLS alone.
    Plain,
    /// `SCRAM-SHA-256`: its knowledge is proved. Needs the feature `tls`.
    ScramSha256,
    /// `SCRAM-SHA-512`, in the same way.
    ScramSha512,
}

/// The way to reach a Kafka cluster.
#[cfg(feature = "kafka")]
#[derive(Clone)]
#[must_use = "settings do nothing until they are given to a source"]
pub struct KafkaSettings {
    brokers: String,
    client_id: Option<String>,
    access: ServerAccess,
    mechanism: Mechanism,
    signing: Signing,
    properties: Vec<(String, String)>,
}

#[cfg(feature = "kafka")]
impl KafkaSettings {
    /// Takes bootstrap servers, as `host:port`, separated by commas.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            client_id: None,
            access: ServerAccess::default(),
            mechanism: Mechanism::default(),
            signing: Signing::default(),
            properties: Vec::new(),
        }
    }

    /// Sets the name under which the cluster's logs and quotas know the worker; `tickwheel` by default.
    pub fn client_id(mut self, name: impl Into<String>) -> Self {
        self.client_id = Some(name.into());
        self
    }

    /// Logs the worker in, for brokers with SASL.
    pub fn login(
        mut self,
        mechanism: SaslMechanism,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.mechanism = match mechanism {
            SaslMechanism::Plain => Mechanism::Plain,
            SaslMechanism::ScramSha256 => Mechanism::ScramSha256,
            SaslMechanism::ScramSha512 => Mechanism::ScramSha512,
        };
        self.access.login = Some(Login {
            user: user.into(),
            password: password.into(),
        });
        self
    }

    /// Encrypts the connections. Brokers are believed that the authorities of this machine have signed, unless
    /// [`KafkaSettings::ca`] names others.
    #[cfg(feature = "tls")]
    pub fn tls(mut self) -> Self {
        self.access.tls.get_or_insert_default();
        self
    }

    /// Encrypts the connections, and believes the brokers that these authorities, in PEM form, have signed.
    #[cfg(feature = "tls")]
    pub fn ca(mut self, pem: impl Into<String>) -> Self {
        let tls: &mut Tls = self.access.tls.get_or_insert_default();
        tls.authorities = Some(Pem::Text(pem.into()));
        self
    }

    /// Encrypts the connections, and shows brokers that ask for it this certificate with its private key, both in PEM
    /// form, the key not encrypted.
    #[cfg(feature = "tls")]
    pub fn identity(mut self, certificate: impl Into<String>, key: impl Into<String>) -> Self {
        let tls: &mut Tls = self.access.tls.get_or_insert_default();
        tls.identity = Some(Identity {
            certificate: Pem::Text(certificate.into()),
            key: Pem::Text(key.into()),
        });
        self
    }

    /// Passes over messages that were not signed with this key, for a service that signs its messages
    /// (`kafka_signing_key_file`). Called again it adds a key, for the time in which one is replaced.
    ///
    /// # Errors
    /// A text about the length of the key, which has 24 to 256 bytes.
    pub fn signing_key(mut self, key: impl AsRef<[u8]>) -> Result<Self, String> {
        self.signing.keys.push(SigningKey::new(key.as_ref())?);
        Ok(self)
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
        settings.access = self.access;
        settings.mechanism = self.mechanism;
        settings.signing = self.signing;
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
            .field("protocol", &Protocol::of(&self.access).name())
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
    #[cfg_attr(
        not(feature = "kafka"),
        expect(unused_variables, reason = "a consumer of Kafka needs them")
    )]
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
    #[cfg(feature = "tls")]
    fn certificates_encrypt_and_are_not_shown() {
        let settings = KafkaSettings::new("a:9092")
            .ca("secret")
            .identity("secret", "secret");
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("\"ssl\"") && !shown.contains("secret"),
            "{shown}"
        );
        let tls = settings.settings().access.tls.unwrap();
        assert_eq!(tls.authorities, Some(Pem::Text("secret".to_owned())));
        assert!(tls.identity.is_some());
        let without = KafkaSettings::new("a:9092").tls().settings();
        assert_eq!(without.access.tls, Some(Tls::default()));
    }

    #[test]
    fn properties_of_kafka_reach_the_client_and_no_log() {
        let settings = KafkaSettings::new("a:9092,b:9092")
            .client_id("mailer")
            .login(SaslMechanism::ScramSha256, "ada", "secret")
            .property("sasl.password", "secret");
        let shown = format!("{settings:?} {:?}", Source::kafka(settings.clone()));
        assert!(
            shown.contains("sasl.password")
                && shown.contains("sasl_plaintext")
                && !shown.contains("secret"),
            "{shown}"
        );
        let settings = settings.settings();
        assert_eq!(settings.brokers, "a:9092,b:9092");
        assert_eq!(settings.client_id, "mailer");
        assert_eq!(settings.mechanism, Mechanism::ScramSha256);
        let login = settings.access.login.as_ref();
        assert_eq!(login.map(|login| &*login.user), Some("ada"));
        let password = settings.properties.get("sasl.password");
        assert_eq!(password.map(String::as_str), Some("secret"));
        assert_eq!(
            KafkaSettings::from("c:9092").settings(),
            Settings::new("c:9092")
        );
    }
}
