//! These cases show how the consumers of groups share messages, and which messages still wait.

use super::*;

pub(crate) async fn two_members_share_the_partitions_and_one_takes_over(env: Env) {
    let mut first = env.consumer("g", &["t"]).await;
    let mut second = env.consumer("g", &["t"]).await;
    let until = env.time.moment().after(LIMIT);
    let mut number = 0;
    // Joining takes a moment, so the test goes on until a round is delivered to both.
    loop {
        env.publish(numbered(&env, "t", number..number + 8)).await;
        number += 8;
        let (of_first, of_second) =
            tokio::join!(first.receive(100, STEP), second.receive(100, STEP));
        let (of_first, of_second) = (of_first.unwrap(), of_second.unwrap());
        first.handled(&places(&of_first));
        second.handled(&places(&of_second));
        if !of_first.is_empty() && !of_second.is_empty() {
            let of = |some: &[Delivery]| some.iter().map(|one| one.partition).collect::<Vec<_>>();
            let (of_first, of_second) = (of(&of_first), of(&of_second));
            if of_first
                .iter()
                .all(|partition| !of_second.contains(partition))
            {
                break;
            }
        }
        assert!(
            env.time.moment() < until,
            "the members never shared the partitions"
        );
    }
    second.close().await;
    let marker = |partition| env.record("t", Partition::Fixed(partition), "last");
    env.publish((0..PARTITIONS).map(marker).collect()).await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < PARTITIONS as usize {
        for delivery in first.receive(100, STEP).await.unwrap() {
            if delivery.value.as_ref() == b"last" {
                seen.insert(delivery.partition);
            }
        }
        assert!(env.time.moment() < until, "only {seen:?} were taken over");
    }
}

pub(crate) async fn a_group_that_came_first_sees_a_topic_that_is_created_later(env: Env) {
    let mut consumer = env.consumer("g", &["t", "u"]).await;
    env.publish(numbered(&env, "u", 0..4)).await;
    env.publish(numbered(&env, "t", 4..8)).await;
    let received = env.receive(&mut *consumer, 8).await;
    assert_eq!(sorted(values(&received)), expected(0..8));
}

pub(crate) async fn still_queued_until_it_is_handled(env: Env) {
    let probe = |number: u16, since| Probe {
        topic: env.name("t"),
        group: env.name("g"),
        wheel: wheel(number),
        since,
    };
    let since = env.time.now();
    let probes: Vec<Probe> = (0..4).map(|number| probe(number, since)).collect();
    assert_eq!(
        env.publisher.still_queued(&probes).await,
        [false; 4],
        "nothing was published"
    );
    env.publish(numbered(&env, "t", 0..3)).await;
    let queued = env.publisher.still_queued(&probes).await;
    assert_eq!(
        queued,
        [true, true, true, false],
        "nobody has read the group's partitions"
    );
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 3).await;
    let queued = env.publisher.still_queued(&probes).await;
    assert_eq!(queued, [true, true, true, false], "received is not handled");
    let (handled, rest): (Vec<Delivery>, Vec<Delivery>) = received
        .into_iter()
        .partition(|one| one.value.as_ref() != b"00001");
    assert_eq!(rest.len(), 1);
    env.finish(consumer, &handled).await;
    let queued = env.publisher.still_queued(&probes).await;
    assert_eq!(queued, [false, true, false, false]);
    let later = env.time.now().after(Duration::from_secs(60));
    assert_eq!(
        env.publisher.still_queued(&[probe(1, later)]).await,
        [false]
    );
}

pub(crate) async fn topics_are_created_once_and_the_queue_answers(env: Env) {
    env.publisher.ping().await.unwrap();
    let topics = env.names(&["t", "u"]);
    env.publisher.ensure_topics(&topics).await.unwrap();
    env.publisher.ensure_topics(&topics).await.unwrap();
    let user = Record {
        create_topic: false,
        ..env.record("t", Partition::Fixed(PARTITIONS - 1), "x")
    };
    let answers = env.publisher.publish(vec![user]).await;
    assert_eq!(answers[0].is_ok(), env.takes_others());
    assert_eq!(env.publisher.publish(Vec::new()).await, Vec::new());
    env.publisher.close(Duration::from_secs(5)).await;
}
