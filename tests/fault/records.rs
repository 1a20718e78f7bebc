//! This module creates the topics of a user's own consumers before the load, and reads them from their
//! beginning at the end.

use std::time::Duration;

use rdkafka::{
    ClientConfig, Message as _,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{Consumer as _, StreamConsumer},
    message::{BorrowedMessage, Headers as _},
};
use serde_json::{Value, json};

use crate::{journal::Journal, members::Kind, servers::BROKER_PORT, site::Site};

pub(crate) const TOPIC: &str = "drill-records";

/// A topic that wants all of its copies in sync; with one broker down it takes nothing.
pub(crate) const SICK_TOPIC: &str = "drill-sick";

const COPIES: i32 = 3;

/// After this long without a record the topic is at its end: brokers answer a fetch within half a second.
const SILENCE: Duration = Duration::from_secs(10);

fn config(site: &Site) -> ClientConfig {
    let mut config = ClientConfig::new();
    let brokers = site.net.addresses(Kind::Broker, BROKER_PORT);
    config.set("bootstrap.servers", brokers);
    config
}

pub(crate) async fn create_topics(site: &Site) {
    let admin: AdminClient<DefaultClientContext> = config(site).create().expect("a client");
    let topic = NewTopic::new(TOPIC, 3, TopicReplication::Fixed(COPIES));
    let copies = COPIES.to_string();
    let sick = NewTopic::new(SICK_TOPIC, 3, TopicReplication::Fixed(COPIES))
        .set("min.insync.replicas", &copies);
    let options = AdminOptions::new().operation_timeout(Some(SILENCE));
    let created = admin.create_topics(&[topic, sick], &options).await;
    let created = created.expect("the brokers answer");
    assert!(created.iter().all(Result::is_ok), "{created:?}");
}

/// Writes down every record that lies in the topics.
pub(crate) async fn read_all(site: &Site) {
    let journal = Journal::open(&site.root, "records");
    let mut config = config(site);
    config.set("group.id", "drill-reader");
    config.set("auto.offset.reset", "earliest");
    let consumer: StreamConsumer = config.create().expect("a client");
    consumer
        .subscribe(&[TOPIC, SICK_TOPIC])
        .expect("two topics");
    // The first record comes only after the group was formed.
    let mut patience = 3 * SILENCE;
    while let Some(received) = site.time.within(patience, consumer.recv()).await {
        match received {
            Ok(message) => {
                journal.note(line(&message));
                patience = SILENCE;
            }
            Err(error) => say!("records: {error}"),
        }
    }
}

fn line(message: &BorrowedMessage<'_>) -> Value {
    let payload: Value =
        serde_json::from_slice(message.payload().unwrap_or_default()).unwrap_or_default();
    let headers = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter());
    let id = headers
        .filter(|header| header.key == "tickwheel-task-id")
        .filter_map(|header| header.value.map(String::from_utf8_lossy))
        .next();
    json!({"what": "record", "n": payload["n"], "id": id.unwrap_or_default(), "at": message.timestamp().to_millis()})
}
