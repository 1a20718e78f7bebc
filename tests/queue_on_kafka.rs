//! The contract runs on Kafka, with cases of its own for the work of a real broker.

mod on_brokers;
mod survivors;

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    config::ClientConfig,
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};
use tickwheel::{
    model::{
        signing::{Signing, SigningKey},
        task::Priority,
        topic_names::TopicNames,
    },
    queue::{
        kafka::{GroupProtocol, KafkaPublisher, KafkaSubscriptions, Settings},
        message,
    },
};

use crate::queue_contract::*;
use on_brokers::brokers;

contract!([#[tokio::test(flavor = "multi_thread")]] Env::kafka(GroupProtocol::Classic));

#[tokio::test(flavor = "multi_thread")]
async fn the_brokers_own_group_protocol_works_as_well() {
    let env = Env::kafka(GroupProtocol::Consumer);
    crate::queue_contract::two_members_share_the_partitions_and_one_takes_over(env).await;
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
    let begun = env.time.moment();
    // A broker learns of a topic a moment after its creation was answered.
    let answers = loop {
        // The records travel together, and the broker refuses the whole batch.
        let batch = vec![of(10), of(20), of(2000), of(30)];
        let answers = env.publisher.publish(batch).await;
        let unknown = |answer| matches!(answer, &Err(PublishError::NoSuchTopic(_)));
        if !answers.iter().all(unknown) || env.time.moment().since(begun) > LIMIT {
            break answers;
        }
    };
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

/// A paused partition loses its fetched messages, and the next ones come up to a second later. A pool that is
/// full again and again, for the moment of a claim, came to only a thousand records a second.
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

/// A broker inside librdkafka refuses each produce request of any producer with a reason to try again. This
/// is the topic's fault. A new producer every few seconds would cost all other topics.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_is_not_replaced_for_a_topic_that_no_producer_reaches() {
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
    let busy = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(RDKafkaApiKey::Produce, &[busy; 10_000]);
    let until = time.moment().after(Duration::from_secs(9));
    while time.moment() < until {
        let answer = publish().await;
        assert!(
            matches!(answer, Err(PublishError::Unconfirmed(_))),
            "{answer:?}"
        );
        time.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(publisher.replacements(), 0);
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    let until = time.moment().after(LIMIT);
    while publish().await.is_err() {
        assert!(time.moment() < until, "it did not recover");
    }
    assert_eq!(publisher.replacements(), 0);
}

/// A broker inside librdkafka with these topics, of one partition each.
fn with_topics(topics: &[&str]) -> (MockCluster<'static, DefaultProducerContext>, Env) {
    let cluster = MockCluster::new(1).unwrap();
    let time = TimeSource::real();
    let brokers = cluster.bootstrap_servers();
    let settings = Settings::new(&brokers);
    let publisher = KafkaPublisher::connect(settings.clone(), time.clone()).unwrap();
    let env = Env {
        publisher: Arc::new(publisher),
        subscriptions: Arc::new(KafkaSubscriptions::new(settings, time.clone())),
        queue: Queue::Kafka(brokers),
        prefix: "test".to_owned(),
        time,
    };
    for topic in topics {
        cluster.create_topic(&env.name(topic), 1, 1).unwrap();
    }
    (cluster, env)
}

/// A poll may name any callback: nothing is created for a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_asked_for_is_not_created() {
    let (cluster, env) = with_topics(&["there"]);
    let any = async |names: &[&str]| env.subscriptions.has_any(&env.names(names)).await.unwrap();
    assert!(!any(&["made-up"]).await && any(&["made-up", "there"]).await);
    cluster.create_topic(&env.name("made-up"), 1, 1).unwrap();
    env.time.sleep(Duration::from_millis(1100)).await;
    assert!(any(&["made-up"]).await);
}

/// Two services on one Kafka: each with a prefix of its own reads its own messages alone.
#[tokio::test(flavor = "multi_thread")]
async fn services_with_prefixes_of_their_own_share_a_kafka() {
    let env = Env::kafka(GroupProtocol::Classic);
    let callback = format!("shared-{}", env.time.random_uuid().simple());
    let (topic, group) = (
        message::topic(&callback, Priority::Normal),
        message::group(&callback),
    );
    let mut services = Vec::new();
    for prefix in ["tickwheel", "a-second", "a.third"] {
        let settings = Settings {
            names: TopicNames::new(prefix).unwrap(),
            partitions: 1,
            ..Settings::new(&brokers(&env))
        };
        let publisher = KafkaPublisher::connect(settings.clone(), env.time.clone()).unwrap();
        let subscriptions = KafkaSubscriptions::new(settings, env.time.clone());
        let own = publisher.name(&topic);
        assert_eq!(own, format!("{prefix}.{callback}.normal"));
        let record = |create_topic, topic: &str| Record {
            create_topic,
            topic: topic.to_owned(),
            ..env.record("unused", Partition::Fixed(0), prefix)
        };
        publisher
            .publish(vec![record(true, &topic)])
            .await
            .remove(0)
            .unwrap();
        // A service takes records of its own topics from itself only.
        let forged = publisher.publish(vec![record(false, &own)]).await.remove(0);
        assert!(
            matches!(forged, Err(PublishError::Refused(_))),
            "{forged:?}"
        );
        services.push((prefix, subscriptions));
    }
    for (prefix, subscriptions) in services {
        let subscribed = subscriptions
            .subscribe(&group, std::slice::from_ref(&topic))
            .await;
        let mut consumer = subscribed.unwrap();
        let received = env.receive(&mut *consumer, 1).await;
        assert_eq!(received.first().unwrap().value, prefix.as_bytes());
        let more = consumer.receive(1, Duration::from_secs(1)).await.unwrap();
        assert_eq!(more.len(), 0, "{prefix} reads nothing of the others");
        consumer.close().await;
    }
}

/// A consumer with keys takes what one of them has signed, and goes on behind the rest.
#[tokio::test(flavor = "multi_thread")]
async fn messages_without_a_signature_are_passed_over() {
    let env = Env::kafka(GroupProtocol::Classic);
    let (old, new) = ([b'o'; 32], [b'n'; 32]);
    let settings = |keys: &[[u8; 32]]| {
        let keys = keys.iter().map(|key| SigningKey::new(key).unwrap());
        Settings {
            partitions: 1,
            signing: Signing {
                keys: keys.collect(),
                ..Signing::default()
            },
            ..Settings::new(&brokers(&env))
        }
    };
    for (keys, value) in [
        (&[old][..], "by the old key"),
        (&[], "by nobody"),
        (&[[b'x'; 32]], "by another key"),
        (&[new, old], "by the new key"),
    ] {
        let publisher = KafkaPublisher::connect(settings(keys), env.time.clone()).unwrap();
        let record = env.record("signed", Partition::Fixed(0), value);
        publisher.publish(vec![record]).await.remove(0).unwrap();
    }
    let (group, topics) = (env.name("signed-group"), env.names(&["signed"]));
    let subscriptions = KafkaSubscriptions::new(settings(&[new, old]), env.time.clone());
    let mut consumer = subscriptions.subscribe(&group, &topics).await.unwrap();
    let received = env.receive(&mut *consumer, 2).await;
    assert_eq!(values(&received), ["by the old key", "by the new key"]);
    consumer.handled(&places(&received));
    consumer.close().await;
    // Those that were passed over count as handled: the next member begins behind all of them.
    let mut plain = env.subscriptions.subscribe(&group, &topics).await.unwrap();
    assert_eq!(plain.receive(9, Duration::from_secs(2)).await.unwrap(), []);
    plain.close().await;
}

/// A broker that does not lead a new partition yet refuses the first batches and takes the next. librdkafka counted
/// the first ones as stored.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_new_partition_refuses_at_first_is_not_lost() {
    let (cluster, env) = with_topics(&["t"]);
    // Each of these is a request of its own.
    let of = |letter: u8| Record {
        create_topic: false,
        ..env.record("t", Partition::Fixed(0), vec![letter; 900_000])
    };
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refused; 2]);
    env.publish(vec![of(b'a'), of(b'b'), of(b'c')]).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    let mut letters: Vec<u8> = received.iter().map(|one| one.value[0]).collect();
    letters.sort_unstable();
    assert_eq!(letters, *b"abc");
}

/// A broker inside librdkafka with two topics, `t` and `sick`. The latter's partition has no leader, so that librdkafka
/// holds its records for as long as a record may wait.
fn with_sick_topic() -> (MockCluster<'static, DefaultProducerContext>, Env) {
    let (cluster, env) = with_topics(&["t", "sick"]);
    let sick = env.name("sick");
    cluster.partition_leader(&sick, 0, None).unwrap();
    (cluster, env)
}

fn named_task(record: Record, number: usize) -> Record {
    let id = Bytes::from(number.to_string());
    Record {
        headers: vec![
            ("tickwheel-task-id".into(), id),
            ("tickwheel-start-time".into(), Bytes::from_static(b"0")),
        ],
        create_topic: false,
        ..record
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_without_leader_delays_no_other() {
    let (_cluster, env) = with_sick_topic();
    let sick = |number| named_task(env.record("sick", Partition::Fixed(0), "x"), number);
    let mut slowest = Duration::ZERO;
    for batch in 0..100_usize {
        let good = env.record("t", Partition::Fixed(0), format!("{batch:05}"));
        let begun = env.time.moment();
        let answers = env
            .publisher
            .publish(vec![sick(batch * 2), good, sick(batch * 2 + 1)])
            .await;
        assert!(
            matches!(
                answers.as_slice(),
                [
                    Err(PublishError::Unconfirmed(_)),
                    Ok(()),
                    Err(PublishError::Unconfirmed(_))
                ]
            ),
            "{answers:?}"
        );
        // The first batch finds the topic silent.
        if batch > 0 {
            slowest = slowest.max(env.time.moment().since(begun));
        }
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

/// A task of a sick topic is tried again and again. It must have gone out once when the topic is well again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_tried_again_while_its_topic_is_sick_goes_out_once() {
    let (cluster, env) = with_sick_topic();
    let sick = |number| named_task(env.record("sick", Partition::Fixed(0), "x"), number);
    let mut open: Vec<usize> = (0..12).collect();
    for _ in 0..4 {
        let batch = open.iter().map(|number| sick(*number)).collect();
        env.publisher.publish(batch).await;
        env.publish(vec![env.record("t", Partition::Fixed(0), "good")])
            .await;
    }
    cluster
        .partition_leader(&env.name("sick"), 0, Some(1))
        .unwrap();
    let until = env.time.moment().after(LIMIT);
    while !open.is_empty() {
        assert!(env.time.moment() < until, "{} are left", open.len());
        let batch = open.iter().map(|number| sick(*number)).collect();
        let answers = env.publisher.publish(batch).await;
        let mut answers = answers.into_iter();
        open.retain(|_| answers.next().is_some_and(|answer| answer.is_err()));
        env.publish(vec![env.record("t", Partition::Fixed(0), "good")])
            .await;
    }
    let mut consumer = env.consumer("g", &["sick"]).await;
    let received = env.receive(&mut *consumer, 12).await;
    let more = consumer.receive(100, STEP).await.unwrap();
    let id = |one: &Delivery| String::from_utf8(one.headers[0].1.to_vec()).unwrap();
    let mut ids: Vec<String> = received.iter().chain(&more).map(id).collect();
    ids.sort_by_key(|id| id.parse::<usize>().unwrap());
    let expected: Vec<String> = (0..12).map(|number: usize| number.to_string()).collect();
    assert_eq!(ids, expected);
}

/// Our topics may not keep messages for longer than the rows of tasks live: a message without row is a new task.
#[tokio::test(flavor = "multi_thread")]
async fn topics_forget_messages_before_the_rows_of_their_tasks_go() {
    let env = Env::kafka(GroupProtocol::Classic);
    env.publish(numbered(&env, "t", 0..1)).await;
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers(&env))
        .create()
        .unwrap();
    let name = env.name("t");
    let described = admin
        .describe_configs(&[ResourceSpecifier::Topic(&name)], &AdminOptions::new())
        .await
        .unwrap();
    let config = described.into_iter().next().unwrap().unwrap();
    let millis = |name: &str| -> u64 {
        let value = config.get(name).and_then(|entry| entry.value.clone());
        value.unwrap().parse().unwrap()
    };
    let kept = Duration::from_millis(millis("retention.ms") + millis("segment.ms"));
    let day = Duration::from_secs(24 * 3600);
    assert!(
        kept + day < tickwheel::model::state::TERMINAL_TTL_MIN,
        "{kept:?}"
    );
}

/// Ten thousand invented topic names cost one question, not a millisecond each, and delay others
/// only briefly.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_missing_topics_hold_nobody_up() {
    let env = Env::kafka(GroupProtocol::Classic);
    env.publish(numbered(&env, "t", 0..4)).await;
    let missing = |number: usize| Record {
        create_topic: false,
        ..env.record(&format!("none-{number}"), Partition::ByKey, "x")
    };
    let invented = |batch: usize| (batch * 500..(batch + 1) * 500).map(missing).collect();
    let begun = env.time.moment();
    let flood = (0..20).map(|batch| env.publisher.publish(invented(batch)));
    let flood = futures_util::future::join_all(flood);
    let beside = async {
        env.publish(numbered(&env, "t", 4..8)).await;
        env.time.moment().since(begun)
    };
    let (_, took) = tokio::join!(flood, beside);
    assert!(took < Duration::from_millis(400), "{took:?}");
    let told = env.publisher.publish(vec![missing(1)]).await.remove(0);
    assert!(
        matches!(told, Err(PublishError::NoSuchTopic(_))),
        "{told:?}"
    );
}
