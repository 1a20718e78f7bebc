//! The Kafka adapter publishes and consumes records for the service and its workers through librdkafka.
//!
//! A publisher is an idempotent producer with `acks=all`, and a second one for topics that are sick. A
//! consumer is one member of one group that commits records that were handled, never records that were only
//! received. All survive any outage of the brokers: librdkafka reconnects by itself, and after an error that
//! it calls fatal the client is replaced. Durability, retention and access rights are the cluster's.
//!
//! No async task waits on the network here: librdkafka's blocking questions run on blocking threads, each
//! with a time limit.

mod abandoned;
mod access;
mod call;
pub mod conditions;
mod consumer;
mod delivery;
mod events;
mod in_hand;
mod lanes;
mod link;
mod members;
mod metadata;
mod only;
mod outgoing;
mod ping;
mod prefetch;
mod producers;
mod progress;
mod properties;
mod publisher;
mod session;
pub mod signature;
mod stall;
mod take_out;
mod topics;

use std::{collections::BTreeMap, fmt, time::Duration};

use rdkafka::{
    config::{ClientConfig, RDKafkaLogLevel},
    error::KafkaError,
};

use tokio::sync::oneshot;

pub use self::{
    consumer::{KafkaConsumer, KafkaSubscriptions},
    publisher::KafkaPublisher,
};
use super::Error;
use crate::{
    limits,
    model::{
        server_access::{Mechanism, ServerAccess},
        signing::Signing,
        topic_names::TopicNames,
    },
    time_source::{Moment, TimeSource},
};

/// A topic that is asked for only to find out whether the brokers answer. It does not matter whether it
/// exists.
const QUESTION_TOPIC: &str = "tickwheel.ping";

/// The least that a fetch of a consumer may take: librdkafka refuses one that is smaller than the largest message, which is this
/// unless it is set.
const FETCH_BYTES_MIN: usize = 1_000_000;

/// The way in which members of a group agree on who reads which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupProtocol {
    /// The classic protocol with the range assignor. Every broker speaks it, and a partition pauses 20 to 120
    /// ms when a member joins or leaves. The next one is faster only where the broker's heartbeats were set
    /// to 200 ms; with its default of 5 s a joining member costs up to 5 s.
    #[default]
    Classic,
    /// The broker assigns partitions (KIP-848, Kafka 4).
    Consumer,
}

/// The way to reach and use the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `host:port`, several separated by commas.
    pub brokers: String,
    /// The name under which the cluster's logs and quotas know this program.
    pub client_id: String,
    /// How the brokers call topics and groups of the service.
    pub names: TopicNames,
    /// Partitions of the topics created here: a power of two, at most the number of wheels.
    pub partitions: i32,
    /// Copies of the topics created here; the broker's default when none.
    pub replication_factor: Option<i32>,
    /// How long a record waits for others to travel with.
    pub linger: Duration,
    /// How long a record waits for its acknowledgement.
    pub publish_timeout: Duration,
    /// How long a call waits for a topic that does not answer before the records of other topics are more
    /// important.
    pub patience: Duration,
    /// The protocol of consumer groups.
    pub group_protocol: GroupProtocol,
    /// The login, and the terms of encryption.
    pub access: ServerAccess,
    /// How messages are signed and checked.
    pub signing: Signing,
    /// How the brokers learn the password.
    pub mechanism: Mechanism,
    /// Further properties of librdkafka; they override ours.
    pub properties: BTreeMap<String, String>,
}

impl Settings {
    /// Returns the defaults for a cluster.
    #[must_use]
    pub fn new(brokers: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            client_id: "tickwheel".to_owned(),
            names: TopicNames::default(),
            partitions: 8,
            replication_factor: None,
            linger: Duration::from_millis(1),
            publish_timeout: limits::PUBLISH_TIMEOUT,
            patience: limits::TOPIC_PATIENCE,
            group_protocol: GroupProtocol::default(),
            access: ServerAccess::default(),
            signing: Signing::default(),
            mechanism: Mechanism::default(),
            properties: BTreeMap::new(),
        }
    }

    /// Returns the settings that all clients share.
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("client.id", &self.client_id)
            // After an outage the default of 10 s makes the gap longer than the outage.
            .set("reconnect.backoff.max.ms", "500")
            .set("allow.auto.create.topics", "false")
            // New topics and partitions are noticed in seconds; the default is five minutes.
            .set("topic.metadata.refresh.interval.ms", "10000")
            .set("socket.keepalive.enable", "true")
            .set("socket.timeout.ms", "10000")
            // A connection made into a full backlog is never answered, and the default waits 30 s for it.
            .set("socket.connection.setup.timeout.ms", "5000");
        access::set(&mut config, &self.access, self.mechanism);
        config
    }

    /// Lets the user's own properties win, at the end.
    fn overridden(&self, mut config: ClientConfig) -> ClientConfig {
        // The binding would hide what `debug` asks for; our own log level decides which lines are shown.
        config.set_log_level(if self.properties.contains_key("debug") {
            RDKafkaLogLevel::Debug
        } else {
            RDKafkaLogLevel::Info
        });
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config
    }

    fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("linger.ms", millis(self.linger))
            .set("message.timeout.ms", millis(self.publish_timeout))
            .set("message.max.bytes", limits::RECORD_BYTES_MAX.to_string())
            .set(
                "queue.buffering.max.messages",
                limits::PRODUCER_RECORDS_MAX.to_string(),
            )
            .set(
                "queue.buffering.max.kbytes",
                (limits::PRODUCER_BYTES_MAX / 1024).to_string(),
            )
            // Java clients use this hash: a user's keyed record goes where the user's own producers send it.
            .set("partitioner", "murmur2_random")
            // A topic that vanished is reported after this, not after 30 s.
            .set("topic.metadata.propagation.max.ms", "1000");
        if self.properties.contains_key("partitioner") {
            // It is not known which partition's first record has to travel alone (`lanes.rs`).
            config.set("max.in.flight.requests.per.connection", "1");
        }
        self.overridden(config)
    }

    fn consumer(&self, group: &str, ahead_bytes: usize) -> ClientConfig {
        let mut config = self.client();
        config
            .set("group.id", group)
            // `KafkaConsumer` commits, one commit at a time. librdkafka's own timer sends one after the other
            // even while none is answered. If the coordinator has moved meanwhile, they can keep a member
            // from ever joining again.
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // A new group must see the records that were published before it subscribed.
            .set("auto.offset.reset", "earliest")
            // Frees a stuck worker's partitions; one that is merely full keeps polling.
            .set("max.poll.interval.ms", "60000")
            .set("fetch.queue.backoff.ms", "20")
            .set(
                "fetch.message.max.bytes",
                ahead_bytes.min(512 * 1024).to_string(),
            )
            .set(
                "fetch.max.bytes",
                ahead_bytes.max(FETCH_BYTES_MIN).to_string(),
            )
            .set("queued.min.messages", "5000")
            .set(
                "queued.max.messages.kbytes",
                (ahead_bytes / 1024).to_string(),
            );
        match self.group_protocol {
            GroupProtocol::Classic => config
                .set("group.protocol", "classic")
                .set("partition.assignment.strategy", "range")
                .set("session.timeout.ms", millis(limits::CONSUMER_SESSION))
                .set("heartbeat.interval.ms", "1000"),
            // In this protocol the broker sets session and heartbeat times.
            GroupProtocol::Consumer => config.set("group.protocol", "consumer"),
        };
        self.overridden(config)
    }

    /// A consumer's configuration for questions only: it never joins.
    fn observer(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false");
        self.overridden(config)
    }

    fn admin(&self) -> ClientConfig {
        self.overridden(self.client())
    }
}

impl fmt::Debug for Settings {
    /// Prints the names of the further properties without their values, since some are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("names", &self.names)
            .field("partitions", &self.partitions)
            .field("replication_factor", &self.replication_factor)
            .field("linger", &self.linger)
            .field("publish_timeout", &self.publish_timeout)
            .field("patience", &self.patience)
            .field("group_protocol", &self.group_protocol)
            .field("access", &self.access)
            .field("signing", &self.signing)
            .field("mechanism", &self.mechanism)
            .field("properties", &self.properties.keys())
            .finish()
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Returns the error for a client that cannot even be made because its settings are wrong.
fn unsuitable(error: &KafkaError) -> Error {
    Error::Unsuitable {
        reason: format!("kafka client settings are not accepted: {error}"),
    }
}

fn unavailable(operation: &'static str, reason: impl fmt::Display) -> Error {
    Error::Unavailable {
        operation,
        reason: reason.to_string(),
    }
}

/// The time that a blocking question, or several in a row, may take together.
#[derive(Debug, Clone)]
struct Limit {
    time: TimeSource,
    until: Moment,
}

impl Limit {
    fn new(time: &TimeSource, limit: Duration) -> Self {
        Self {
            time: time.clone(),
            until: time.moment().after(limit),
        }
    }

    fn left(&self) -> Duration {
        self.until.since(self.time.moment())
    }

    /// Returns a shorter one, which begins now.
    fn within(&self, limit: Duration) -> Self {
        Self::new(&self.time, limit.min(self.left()))
    }
}

/// Runs a blocking question on a thread that may block.
async fn blocking<T: Send + 'static>(
    question: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(question)
        .await
        .map_err(|error| format!("the question was given up: {error}"))
}

/// Runs work that may block for long, in the worst case for ever, on a thread of its own. It delays no other
/// work, not even the end of the process.
fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (done, wait) = oneshot::channel();
    let thread = std::thread::Builder::new().name("kafka".to_owned());
    let spawned = thread.spawn(move || {
        // The caller may not wait for it when the outcome does not matter.
        drop(done.send(work()));
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start a thread");
    }
    wait
}

/// Drops a client on a thread where its own threads may be waited for. Resolves when the client is gone.
fn discard<T: Send + 'static>(client: T) -> oneshot::Receiver<()> {
    on_thread(move || drop(client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::server_access::Login;
    #[cfg(feature = "tls")]
    use crate::model::server_access::{Protocol, Tls};
    use rdkafka::consumer::BaseConsumer;

    #[test]
    fn every_configuration_is_accepted_by_librdkafka() {
        for group_protocol in [GroupProtocol::Classic, GroupProtocol::Consumer] {
            let settings = Settings {
                group_protocol,
                ..Settings::new("127.0.0.1:1")
            };
            for config in [
                settings.producer(),
                settings.consumer("group", limits::CONSUMER_BYTES_MIN),
                settings.observer("group"),
                settings.admin(),
            ] {
                config.create_native_config().unwrap();
            }
            // Some properties are compared with each other only where a client is made of them.
            let consumer = settings.consumer("group", limits::CONSUMER_BYTES_MIN);
            let client: BaseConsumer = consumer.create().unwrap();
            drop(client);
        }
    }

    #[test]
    #[cfg(feature = "tls")]
    fn every_access_is_accepted_by_librdkafka() {
        let login = Login {
            user: "ada".to_owned(),
            password: "s3cr3t".to_owned(),
        };
        for mechanism in Mechanism::ALL {
            for (login, tls) in [
                (Some(&login), None),
                (None, Some(Tls::default())),
                (Some(&login), Some(Tls::default())),
            ] {
                let access = ServerAccess {
                    login: login.cloned(),
                    tls,
                };
                let settings = Settings {
                    access: access.clone(),
                    mechanism,
                    ..Settings::new("127.0.0.1:1")
                };
                let config = settings.admin();
                let protocol = Protocol::of(&access).name();
                assert_eq!(config.get("security.protocol"), Some(protocol));
                config.create_native_config().unwrap();
                let client: BaseConsumer = settings.observer("group").create().unwrap();
                drop(client);
            }
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = Settings::new("127.0.0.1:1");
        settings.access.login = Some(Login {
            user: "ada".to_owned(),
            password: "hunter2".to_owned(),
        });
        let secret = ("sasl.password".to_owned(), "hunter2".to_owned());
        settings.properties.extend([secret]);
        let shown = format!("{settings:?}");
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"));
    }

    #[test]
    fn own_properties_win() {
        let mut settings = Settings::new("127.0.0.1:1");
        let longer = ("linger.ms".to_owned(), "7".to_owned());
        settings.properties.extend([longer]);
        assert_eq!(settings.producer().get("linger.ms"), Some("7"));
    }
}
