//! This suite checks the contract of `tickwheel::queue` on every queue.
//!
//! Each case gets an [`Env`] with topic and group names of its own, so that cases run at once against one
//! broker. The cases do not sleep: a case waits in `receive`, up to [`LIMIT`]. The memory queue runs in
//! virtual time.

pub(crate) use std::{collections::HashMap, sync::Arc, time::Duration};

pub(crate) use bytes::Bytes;
pub(crate) use tickwheel::{
    limits,
    model::wheel::WheelNumber,
    queue::{Consumer, Delivery, Partition, Probe, PublishError, Publisher, Record},
    time_source::TimeSource,
};

pub(crate) mod env;
pub(crate) mod groups;

pub(crate) use env::*;
pub(crate) use groups::*;

/// The longest time for a step before the case has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The time of one `receive` of a case that waits.
pub(crate) const STEP: Duration = Duration::from_millis(500);

pub(crate) fn places(deliveries: &[Delivery]) -> Vec<(String, i32, i64)> {
    let place = |one: &Delivery| (one.topic.clone(), one.partition, one.offset);
    deliveries.iter().map(place).collect()
}

pub(crate) fn values(deliveries: &[Delivery]) -> Vec<String> {
    let text = |one: &Delivery| String::from_utf8(one.value.to_vec()).unwrap();
    deliveries.iter().map(text).collect()
}

pub(crate) fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

pub(crate) fn wheel(number: u16) -> WheelNumber {
    WheelNumber::new(number).unwrap()
}

pub(crate) fn numbered(env: &Env, topic: &str, numbers: std::ops::Range<u16>) -> Vec<Record> {
    let one = |number: u16| {
        env.record(
            topic,
            Partition::OfWheel(wheel(number)),
            format!("{number:05}"),
        )
    };
    numbers.map(one).collect()
}

pub(crate) fn expected(numbers: std::ops::Range<u16>) -> Vec<String> {
    numbers.map(|number| format!("{number:05}")).collect()
}

pub(crate) async fn every_group_receives_what_was_acknowledged(env: Env) {
    env.publish(numbered(&env, "t", 0..20)).await;
    for group in ["a", "b"] {
        let mut consumer = env.consumer(group, &["t"]).await;
        let received = env.receive(&mut *consumer, 20).await;
        assert_eq!(sorted(values(&received)), expected(0..20));
    }
}

pub(crate) async fn order_within_a_partition_is_kept(env: Env) {
    for hundred in 0..5_u16 {
        let numbers = hundred * 100..(hundred + 1) * 100;
        let one = |text| env.record("t", Partition::Fixed(2), text);
        env.publish(expected(numbers).into_iter().map(one).collect())
            .await;
    }
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 500).await;
    assert_eq!(values(&received), expected(0..500));
    assert!(
        received
            .windows(2)
            .all(|pair| pair[0].offset < pair[1].offset)
    );
}

pub(crate) async fn keys_values_and_headers_arrive_unchanged(env: Env) {
    let all = env.record("t", Partition::Fixed(0), vec![0, 255, 10]);
    let full = Record {
        key: Some(Bytes::from_static(b"\x00key\xff")),
        headers: vec![
            ("ce_id".into(), Bytes::from_static("Zürich".as_bytes())),
            ("binary".into(), Bytes::from_static(b"\x00\xff")),
            ("empty".into(), Bytes::new()),
        ],
        ..all.clone()
    };
    let bare = Record {
        value: Bytes::new(),
        ..all.clone()
    };
    let empty_key = Record {
        key: Some(Bytes::new()),
        ..all
    };
    let sent = vec![full, bare, empty_key];
    env.publish(sent.clone()).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    for (record, delivery) in sent.iter().zip(&received) {
        assert_eq!(
            (&record.key, &record.value),
            (&delivery.key, &delivery.value)
        );
        assert_eq!(record.headers, delivery.headers);
    }
}

pub(crate) async fn slot_mates_share_a_partition(env: Env) {
    env.publish(numbered(&env, "t", 0..32)).await;
    env.publish(numbered(&env, "t", 0..32)).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    for delivery in env.receive(&mut *consumer, 64).await {
        let number: u16 = values(std::slice::from_ref(&delivery))[0].parse().unwrap();
        assert_eq!(delivery.partition, wheel(number).partition(PARTITIONS));
    }
}

pub(crate) async fn one_key_goes_to_one_partition(env: Env) {
    let keyed = |key: &'static str| Record {
        key: Some(Bytes::from_static(key.as_bytes())),
        ..env.record("t", Partition::ByKey, key)
    };
    let keys = ["a", "b", "c", "d", "e", "f"];
    env.publish(keys.iter().map(|key| keyed(key)).collect())
        .await;
    env.publish(keys.iter().map(|key| keyed(key)).collect())
        .await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let mut homes: HashMap<Bytes, i32> = HashMap::new();
    for delivery in env.receive(&mut *consumer, 12).await {
        let home = *homes.entry(delivery.value).or_insert(delivery.partition);
        assert_eq!(delivery.partition, home);
    }
}

pub(crate) async fn a_missing_topic_or_partition_is_told_and_holds_nothing_up(env: Env) {
    env.publish(numbered(&env, "t", 0..1)).await;
    let missing = Record {
        create_topic: false,
        ..env.record("nowhere", Partition::ByKey, "x")
    };
    let outside = env.record("t", Partition::Fixed(PARTITIONS), "x");
    let negative = env.record("t", Partition::Fixed(-1), "x");
    let good = env.record("t", Partition::Fixed(0), "good");
    let begun = env.time.moment();
    let batch = vec![missing, outside, good.clone(), negative, good];
    let answers = env.publisher.publish(batch).await;
    assert!(env.time.moment().since(begun) < Duration::from_millis(2500));
    let told: Vec<&str> = answers
        .iter()
        .map(|answer| match answer {
            Ok(()) => "ok",
            Err(PublishError::NoSuchTopic(_)) => "no such topic",
            Err(PublishError::Refused(_)) if !env.takes_others() => "not taken",
            Err(error) => panic!("{error}"),
        })
        .collect();
    let missing = if env.takes_others() {
        "no such topic"
    } else {
        "not taken"
    };
    assert_eq!(
        told,
        [missing, "no such topic", "ok", "no such topic", "ok"]
    );
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    assert_eq!(sorted(values(&received)), ["00000", "good", "good"]);
}

pub(crate) async fn what_is_too_large_is_refused_and_the_rest_published(env: Env) {
    let of = |bytes: usize| env.record("t", Partition::Fixed(0), vec![b'x'; bytes]);
    let largest = limits::CONTENT_BYTES_MAX_DEFAULT + limits::ENVELOPE_BYTES_MAX;
    let batch = vec![of(1), of(limits::RECORD_BYTES_MAX + 1), of(largest), of(2)];
    let answers = env.publisher.publish(batch).await;
    assert!(
        matches!(
            answers.as_slice(),
            [Ok(()), Err(PublishError::Refused(_)), Ok(()), Ok(())]
        ),
        "{answers:?}"
    );
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    let sizes: Vec<usize> = received.iter().map(|one| one.value.len()).collect();
    assert_eq!(sizes, [1, largest, 2]);
}

pub(crate) async fn unhandled_deliveries_come_again_after_a_crash(env: Env) {
    let one = |number: u16| env.record("t", Partition::Fixed(0), format!("{number:05}"));
    env.publish((0..10).map(one).collect()).await;
    let mut first = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *first, 10).await;
    first.handled(&places(&received[..4]));
    drop(first);
    let mut second = env.consumer("g", &["t"]).await;
    let again = env.receive(&mut *second, 6).await;
    assert_eq!(values(&again), expected(4..10));
}

pub(crate) async fn handling_out_of_order_skips_nothing(env: Env) {
    let one = |number: u16| env.record("t", Partition::Fixed(0), format!("{number:05}"));
    env.publish((0..10).map(one).collect()).await;
    let mut first = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *first, 10).await;
    first.handled(&places(&received[5..]));
    first.handled(&places(&received[..2]));
    first.close().await;
    let mut second = env.consumer("g", &["t"]).await;
    let end = if env.repeats_handled() { 10 } else { 5 };
    let again = env.receive(&mut *second, usize::from(end) - 2).await;
    assert_eq!(
        values(&again),
        expected(2..end),
        "from the oldest that was not handled"
    );
}

pub(crate) async fn what_is_handled_when_it_closes_does_not_come_again(env: Env) {
    env.publish(numbered(&env, "t", 0..40)).await;
    let mut first = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *first, 40).await;
    env.finish(first, &received).await;
    env.publish(numbered(&env, "t", 40..44)).await;
    let mut second = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *second, 4).await;
    assert_eq!(sorted(values(&received)), expected(40..44));
}

pub(crate) async fn what_is_handled_is_committed_while_the_consumer_runs(env: Env) {
    let since = env.time.now();
    let topic = || env.record("t", Partition::OfWheel(wheel(1)), "x");
    env.publish((0..20).map(|_| topic()).collect()).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 20).await;
    // One by one, so that the first commit is not the last.
    for delivery in &received {
        consumer.handled(&places(std::slice::from_ref(delivery)));
        consumer
            .receive(1, Duration::from_millis(20))
            .await
            .unwrap();
    }
    let probe = Probe {
        topic: env.name("t"),
        group: env.name("g"),
        wheel: wheel(1),
        since,
    };
    let until = env.time.moment().after(Duration::from_secs(2));
    while env
        .publisher
        .still_queued(std::slice::from_ref(&probe))
        .await
        == [true]
    {
        assert!(
            env.time.moment() < until,
            "the last handled delivery is not committed"
        );
        consumer
            .receive(1, Duration::from_millis(20))
            .await
            .unwrap();
    }
}

pub(crate) async fn a_full_worker_stays_a_member_and_goes_on_later(env: Env) {
    let mut consumer = env.consumer("g", &["t"]).await;
    env.publish(numbered(&env, "t", 0..4)).await;
    let first = env.receive(&mut *consumer, 4).await;
    // More than is taken in hand, so that the partitions are paused as well.
    env.publish(numbered(&env, "t", 4..900)).await;
    for _ in 0..4 {
        let none = consumer.receive(0, STEP).await.unwrap();
        assert_eq!(none, Vec::new());
    }
    consumer.handled(&places(&first));
    let rest = env.receive(&mut *consumer, 896).await;
    assert_eq!(sorted(values(&rest)), expected(4..900));
    env.finish(consumer, &rest).await;
    env.publish(numbered(&env, "t", 900..901)).await;
    let mut next = env.consumer("g", &["t"]).await;
    assert_eq!(
        values(&env.receive(&mut *next, 1).await),
        expected(900..901)
    );
}

pub(crate) async fn a_receive_that_is_given_up_loses_nothing(env: Env) {
    let mut consumer = env.consumer("g", &["t"]).await;
    let publisher = Arc::clone(&env.publisher);
    let batches: Vec<_> = (0..20)
        .map(|at| numbered(&env, "t", at * 5..(at + 1) * 5))
        .collect();
    let publishing = tokio::spawn(async move {
        for batch in batches {
            for answer in publisher.publish(batch).await {
                answer.unwrap();
            }
        }
    });
    let until = env.time.moment().after(LIMIT);
    let mut received = Vec::new();
    while received.len() < 100 {
        let impatient = Duration::from_micros(700);
        let some = env.time.within(impatient, consumer.receive(7, STEP)).await;
        received.extend(some.map(Result::unwrap).unwrap_or_default());
        assert!(
            env.time.moment() < until,
            "{} of 100 in time",
            received.len()
        );
    }
    publishing.await.unwrap();
    assert_eq!(sorted(values(&received)), expected(0..100));
}

/// Runs every case of the contract as a test of its own.
macro_rules! contract {
    ([$(#[$test:meta])*] $env:expr) => {
        contract!(@each [$(#[$test])*] $env;
            every_group_receives_what_was_acknowledged,
            order_within_a_partition_is_kept,
            keys_values_and_headers_arrive_unchanged,
            slot_mates_share_a_partition,
            one_key_goes_to_one_partition,
            a_missing_topic_or_partition_is_told_and_holds_nothing_up,
            what_is_too_large_is_refused_and_the_rest_published,
            unhandled_deliveries_come_again_after_a_crash,
            handling_out_of_order_skips_nothing,
            what_is_handled_when_it_closes_does_not_come_again,
            what_is_handled_is_committed_while_the_consumer_runs,
            a_full_worker_stays_a_member_and_goes_on_later,
            a_receive_that_is_given_up_loses_nothing,
            two_members_share_the_partitions_and_one_takes_over,
            a_group_that_came_first_sees_a_topic_that_is_created_later,
            still_queued_until_it_is_handled,
            topics_are_created_once_and_the_queue_answers,
        );
    };
    (@each $tests:tt $env:expr; $($case:ident,)*) => {
        $(contract!(@one $tests $env; $case);)*
    };
    (@one [$(#[$test:meta])*] $env:expr; $case:ident) => {
        $(#[$test])*
        async fn $case() {
            $crate::queue_contract::$case($env).await;
        }
    };
}
pub(crate) use contract;
