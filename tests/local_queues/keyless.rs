//! A record without a key goes to another partition when one of several partitions does not answer.

use futures_util::future::join_all;
use rdkafka::mocking::MockCluster;
use tickwheel::queue::kafka::{KafkaPublisher, Settings};

use crate::queue_contract::*;

fn record(number: usize, partition: Partition) -> Record {
    Record {
        topic: "t".to_owned(),
        create_topic: false,
        partition,
        key: None,
        value: Bytes::from_static(b"x"),
        headers: vec![
            ("tickwheel-task-id".into(), Bytes::from(number.to_string())),
            ("tickwheel-start-time".into(), Bytes::from_static(b"0")),
        ],
    }
}

/// The brokers are inside librdkafka; one of them takes requests and answers none.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for twenty seconds: make test-all"]
async fn records_without_a_key_do_not_wait_for_a_partition_that_is_silent() {
    let cluster = MockCluster::new(2).unwrap();
    cluster.create_topic("t", 2, 1).unwrap();
    for partition in 0..2 {
        cluster
            .partition_leader("t", partition, Some(partition + 1))
            .unwrap();
    }
    let time = TimeSource::real();
    let settings = Settings::new(&cluster.bootstrap_servers());
    let publisher = KafkaPublisher::connect(settings, time.clone()).unwrap();
    for partition in 0..2 {
        let first = record(0, Partition::Fixed(partition));
        publisher.publish(vec![first]).await.remove(0).unwrap();
    }
    cluster
        .broker_round_trip_time(1, Duration::from_secs(60))
        .unwrap();
    let (publisher, time) = (&publisher, &time);
    let begun = time.moment();
    let sent = (1..200_usize).map(|number| async move {
        time.sleep(Duration::from_millis(20) * u32::try_from(number).unwrap())
            .await;
        let from = time.moment();
        // The stages do it in this way.
        while publisher
            .publish(vec![record(number, Partition::ByKey)])
            .await
            .iter()
            .any(Result::is_err)
        {
            time.sleep(Duration::from_millis(200)).await;
        }
        (from.since(begun), time.moment().since(from))
    });
    let sent = join_all(sent).await;
    // Until the partition is known to be silent, its records wait as long as a record may.
    let late = sent.iter().filter(|(from, _)| *from > LATEST_KNOWN);
    let slowest = late.map(|(_, took)| *took).max().unwrap();
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

/// After this time the partition is known to be silent.
const LATEST_KNOWN: Duration = Duration::from_millis(1500);
