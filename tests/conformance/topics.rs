//! `Topics` makes and reads topics of the service's Kafka for promises.

use std::time::Duration;

use rdkafka::{
    ClientConfig, Message as _,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{Consumer as _, StreamConsumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Headers as _},
};
use tickwheel::time_source::TimeSource;

/// Topics of the service's Kafka.
pub(crate) struct Topics {
    pub(crate) kafka: String,
}

/// A record as it lies in a topic.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Vec<u8>,
    headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(one, _)| one == name);
        found.map(|(_, value)| String::from_utf8(value.clone()).unwrap())
    }
}

impl Topics {
    /// Makes a topic of one partition.
    pub(crate) async fn create(&self, topic: &str) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &self.kafka)
            .create()
            .unwrap();
        let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
        let made = admin.create_topics([&new], &AdminOptions::new()).await;
        made.unwrap().pop().unwrap().unwrap();
    }

    /// Waits for the first record of a topic, which may be so new that its broker does not know it yet.
    pub(crate) async fn first(&self, topic: &str) -> Record {
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.kafka)
            .set(
                "group.id",
                format!("conformance-{:x}", TimeSource::real().random()),
            )
            .set("auto.offset.reset", "earliest")
            .create()
            .unwrap();
        consumer.subscribe(&[topic]).unwrap();
        let read = TimeSource::real()
            .within(Duration::from_secs(60), known(&consumer))
            .await;
        let message = read.expect("a record within a minute");
        let headers = message
            .headers()
            .into_iter()
            .flat_map(|headers| headers.iter());
        Record {
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().unwrap_or_default().to_vec(),
            headers: headers
                .map(|one| (one.key.to_owned(), one.value.unwrap_or_default().to_vec()))
                .collect(),
        }
    }
}

/// Receives the next record. A consumer asks again by itself for a topic that its broker does not know yet.
async fn known(consumer: &StreamConsumer) -> BorrowedMessage<'_> {
    loop {
        match consumer.recv().await {
            Ok(message) => return message,
            Err(KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
            Err(error) => panic!("the topic cannot be read: {error}"),
        }
    }
}
