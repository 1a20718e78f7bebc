//! The contract on Kafka, and what only a broker does.

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    config::ClientConfig,
    mocking::MockCluster,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use super::*;

contract!([#[tokio::test(flavor = "multi_thread")]] Env::kafka(GroupProtocol::Classic));

fn brokers(env: &Env) -> String {
    match &env.queue {
        Queue::Kafka(settings) => settings.brokers.clone(),
        Queue::Memory(_) | Queue::Embedded(_) => panic!("these cases are about Kafka"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_brokers_own_group_protocol_works_as_well() {
    let env = Env::kafka(GroupProtocol::Consumer);
    super::two_members_share_the_partitions_and_one_takes_over(env).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_topic_refuses_only_what_is_too_large_for_it() {
    let env = Env::kafka(GroupProtocol::Classic);
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers(&env))
        .create()
        .unwrap();
    let name = env.name("small");
    let topic =
        NewTopic::new(&name, 1, TopicReplication::Fixed(1)).set("max.message.bytes", "1000");
    for created in admin
        .create_topics(&[topic], &AdminOptions::new())
        .await
        .unwrap()
    {
        created.unwrap();
    }
    let of = |bytes: usize| Record {
        create_topic: false,
        ..env.record("small", Partition::Fixed(0), vec![b'x'; bytes])
    };
    // They travel together, and the broker refuses the whole batch.
    let answers = env
        .publisher
        .publish(vec![of(10), of(20), of(2000), of(30)])
        .await;
    assert!(
        matches!(
            answers.as_slice(),
            [Ok(()), Ok(()), Err(PublishError::Refused(_)), Ok(())]
        ),
        "{answers:?}"
    );
    let mut consumer = env.consumer("g", &["small"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    let sizes: Vec<usize> = received.iter().map(|one| one.value.len()).collect();
    assert_eq!(sizes, [10, 20, 30]);
}

/// Pausing a partition throws away what was fetched, and what is fetched afterwards comes up to a second later: a pool that
/// is full again and again, for the moment that a claim takes, came to a thousand records a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_full_for_a_moment_is_not_slowed() {
    const RECORDS: u16 = 25_000;
    let env = Env::kafka(GroupProtocol::Classic);
    let numbers = 0..RECORDS;
    let spread = |number: u16| Partition::OfWheel(wheel(number % 16));
    let record = |number: u16| env.record("t", spread(number), format!("{number:05}"));
    env.publish(numbers.map(record).collect()).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let mut received = env.receive(&mut *consumer, 1).await;
    let begun = env.time.moment();
    while received.len() < usize::from(RECORDS) {
        let more = consumer.receive(200, STEP).await.unwrap();
        consumer.handled(&places(&more));
        received.extend(more);
        let moment = Duration::from_millis(2);
        assert_eq!(consumer.receive(0, moment).await.unwrap(), Vec::new());
        let (took, seen) = (env.time.moment().since(begun), received.len());
        assert!(took < LIMIT, "{seen} records in {took:?}");
    }
    assert_eq!(sorted(values(&received)), expected(0..RECORDS));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_no_topic_can_have_are_refused() {
    let env = Env::kafka(GroupProtocol::Classic);
    let named = |topic: &str| Record {
        topic: topic.to_owned(),
        create_topic: false,
        ..env.record("t", Partition::ByKey, "x")
    };
    let answers = env
        .publisher
        .publish(vec![named("no spaces"), named("nul\0inside")])
        .await;
    assert!(
        matches!(
            answers.as_slice(),
            [Err(PublishError::Refused(_)), Err(PublishError::Refused(_))]
        ),
        "{answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_every_call_ends_in_time() {
    let time = TimeSource::real();
    let settings = Settings {
        publish_timeout: Duration::from_secs(2),
        ..Settings::new("127.0.0.1:1")
    };
    let publisher = KafkaPublisher::connect(settings.clone(), time.clone()).unwrap();
    let record = Record {
        topic: "t".to_owned(),
        create_topic: true,
        partition: Partition::ByKey,
        key: None,
        value: Bytes::new(),
        headers: Vec::new(),
    };
    let begun = time.moment();
    let answers = publisher.publish(vec![record]).await;
    assert!(
        matches!(answers.as_slice(), [Err(PublishError::Unconfirmed(_))]),
        "{answers:?}"
    );
    assert!(publisher.ping().await.is_err());
    let probe = Probe {
        topic: "t".to_owned(),
        group: "g".to_owned(),
        wheel: wheel(0),
        since: time.now(),
    };
    assert_eq!(publisher.still_queued(&[probe]).await, [false]);
    let topics = ["t".to_owned()];
    let mut consumer =
        tickwheel::queue::kafka::KafkaConsumer::connect(settings, time.clone(), "g", &topics)
            .await
            .unwrap();
    assert_eq!(
        consumer
            .receive(10, Duration::from_millis(100))
            .await
            .unwrap(),
        Vec::new()
    );
    consumer.close().await;
    publisher.close(Duration::from_secs(1)).await;
    let took = time.moment().since(begun);
    assert!(took < LIMIT, "{took:?}");
}

/// A broker inside librdkafka refuses each produce request with a reason to try again, for longer than a record may wait:
/// what a producer sees that has lost a partition's leader for good (librdkafka#5430).
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_is_stuck_while_the_brokers_answer_is_replaced() {
    let time = TimeSource::real();
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let settings = Settings {
        publish_timeout: Duration::from_secs(6),
        ..Settings::new(&cluster.bootstrap_servers())
    };
    let publisher = KafkaPublisher::connect(settings, time.clone()).unwrap();
    let publish = || async {
        let record = Record {
            topic: "t".to_owned(),
            create_topic: false,
            partition: Partition::Fixed(0),
            key: None,
            value: Bytes::from_static(b"x"),
            headers: Vec::new(),
        };
        publisher.publish(vec![record]).await.remove(0)
    };
    publish().await.unwrap();
    assert_eq!(publisher.replacements(), 0);
    let busy = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(RDKafkaApiKey::Produce, &[busy; 10_000]);
    let answer = publish().await;
    assert!(
        matches!(answer, Err(PublishError::Unconfirmed(_))),
        "{answer:?}"
    );
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    publish().await.unwrap();
    assert_eq!(publisher.replacements(), 1);
}
