//! A stuck producer is replaced for the publisher.

use bytes::Bytes;
use rdkafka::mocking::MockCluster;

use super::*;
use crate::queue::Partition;

fn record(topic: &str) -> Record {
    Record {
        topic: topic.to_owned(),
        create_topic: false,
        partition: Partition::Fixed(0),
        key: None,
        value: Bytes::from_static(b"x"),
        headers: Vec::new(),
    }
}

/// The main producer cannot reach the brokers and the spare one can. A producer that has lost a
/// partition's leader for good looks like this (librdkafka#5430).
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_is_stuck_while_another_gets_through_is_replaced() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let time = TimeSource::real();
    let settings = Settings::new(&cluster.bootstrap_servers());
    let mut publisher = KafkaPublisher::connect(settings.clone(), time.clone()).unwrap();
    let stuck = Settings::new("127.0.0.1:1");
    let producers = Producers::new(stuck, time.clone()).unwrap();
    publisher.producers = Arc::new(producers.with_settings(settings));
    let until = time.moment().after(Duration::from_secs(20));
    while publisher.replacements() == 0 {
        assert!(time.moment() < until, "it was not replaced");
        publisher.publish(vec![record("t")]).await;
    }
    for answer in publisher.publish(vec![record("t")]).await {
        answer.unwrap();
    }
}
