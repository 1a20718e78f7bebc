//! The contract runs on the memory queue, with cases for the faults that it injects.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tickwheel::doubles::queue::memory::Fault;

use crate::queue_contract::*;

contract!([#[tokio::test(start_paused = true)]] Env::memory());

fn queue(env: &Env) -> &MemoryQueue {
    match &env.queue {
        Queue::Memory(queue) => queue,
        Queue::Kafka(_) | Queue::Embedded(_) => panic!("these cases are about the memory queue"),
    }
}

fn published(env: &Env) -> Vec<String> {
    let text = |value: &Bytes| String::from_utf8(value.to_vec()).unwrap();
    let records = queue(env).records(&env.name("t"));
    records
        .iter()
        .map(|published| text(&published.record.value))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn planned_faults_hit_one_record_each() {
    let env = Env::memory();
    let faults = queue(&env).faults();
    for fault in [
        Fault::Duplicate,
        Fault::None,
        Fault::UnconfirmedApplied,
        Fault::UnconfirmedLost,
        Fault::Refuse,
    ] {
        faults.plan(1, fault);
    }
    let answers = env.publisher.publish(numbered(&env, "t", 0..6)).await;
    assert!(
        matches!(
            answers.as_slice(),
            [
                Ok(()),
                Ok(()),
                Err(PublishError::Unconfirmed(_)),
                Err(PublishError::Unconfirmed(_)),
                Err(PublishError::Refused(_)),
                Ok(()),
            ]
        ),
        "{answers:?}"
    );
    assert_eq!(
        published(&env),
        ["00000", "00000", "00001", "00002", "00005"]
    );
    assert_eq!(queue(&env).all().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_that_is_sent_again_is_delivered_twice() {
    let env = Env::memory();
    queue(&env).faults().plan(1, Fault::UnconfirmedApplied);
    let batch = numbered(&env, "t", 0..1);
    assert!(env.publisher.publish(batch.clone()).await[0].is_err());
    env.publish(batch).await;
    let mut consumer = env.consumer("g", &["t"]).await;
    let received = env.receive(&mut *consumer, 2).await;
    assert_eq!(values(&received), ["00000", "00000"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_limit_is_unconfirmed() {
    let env = Env::memory();
    queue(&env).faults().outage(true);
    assert!(env.publisher.ping().await.is_err());
    let begun = env.time.moment();
    let answers = env.publisher.publish(numbered(&env, "t", 0..2)).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Err(PublishError::Unconfirmed(_)))),
        "{answers:?}"
    );
    assert_eq!(
        env.time.moment().since(begun).as_secs(),
        limits::PUBLISH_TIMEOUT.as_secs()
    );
    assert_eq!(published(&env), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_only_delays() {
    let env = Env::memory();
    let mut consumer = env.consumer("g", &["t"]).await;
    let faults = queue(&env).faults();
    faults.outage(true);
    let end = async {
        env.time.sleep(Duration::from_secs(3)).await;
        faults.outage(false);
    };
    let ((), ()) = tokio::join!(env.publish(numbered(&env, "t", 0..2)), end);
    assert_eq!(env.receive(&mut *consumer, 2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_topic_can_go_missing_and_come_back() {
    let env = Env::memory();
    let faults = queue(&env).faults();
    faults.missing(&env.name("t"), true);
    let answers = env.publisher.publish(numbered(&env, "t", 0..1)).await;
    assert!(
        matches!(answers.as_slice(), [Err(PublishError::NoSuchTopic(_))]),
        "{answers:?}"
    );
    faults.missing(&env.name("t"), false);
    env.publish(numbered(&env, "t", 0..1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_kills_a_process_at_the_operation_it_chooses() {
    let env = Env::memory();
    let process = queue(&env).handle();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (count, log) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&seen));
    process.set_hook(Arc::new(move |operation, over| {
        log.lock().unwrap().push((operation, over));
        count.fetch_add(1, Ordering::Relaxed) == 3
    }));
    process.ping().await.unwrap();
    let publishing = process.publish(numbered(&env, "t", 0..2));
    assert!(
        env.time.within(LIMIT, publishing).await.is_none(),
        "a dead process answered"
    );
    assert!(process.is_killed());
    let publishing = process.publish(numbered(&env, "t", 2..4));
    assert!(env.time.within(LIMIT, publishing).await.is_none());
    let operations = [
        ("ping", false),
        ("ping", true),
        ("publish", false),
        ("publish", true),
    ];
    assert_eq!(*seen.lock().unwrap(), operations);
    assert_eq!(
        published(&env),
        expected(0..2),
        "it died after the record was applied"
    );
}

#[tokio::test(start_paused = true)]
async fn a_killed_process_leaves_its_deliveries_to_others() {
    let env = Env::memory();
    env.publish(numbered(&env, "t", 0..8)).await;
    let process = queue(&env).handle();
    let mut dying = process.consumer(&env.name("g"), &env.names(&["t"]));
    let received = env.receive(&mut dying, 8).await;
    dying.handled(&places(&received[..1]));
    process.kill();
    dying.handled(&places(&received));
    assert!(
        env.time
            .within(LIMIT, dying.receive(1, STEP))
            .await
            .is_none()
    );
    let mut other = env.consumer("g", &["t"]).await;
    assert_eq!(env.receive(&mut *other, 7).await.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_publishers_wait_for_consumers() {
    let time = TimeSource::simulated(tickwheel::model::time::Millis(1_800_000_000_000), 1);
    let queue = MemoryQueue::new(time.clone(), PARTITIONS, Keep::UntilHandled);
    let env = Env::of_memory(time, queue);
    let mut consumer = env.consumer("g", &["t"]).await;
    let large = || env.record("t", Partition::Fixed(0), vec![0; 1024 * 1024]);
    let room = limits::MEMORY_TOPIC_BYTES_MAX / (1024 * 1024);
    env.publish((0..room).map(|_| large()).collect()).await;
    let answers = env.publisher.publish(vec![large()]).await;
    assert!(
        matches!(answers.as_slice(), [Err(PublishError::Unconfirmed(_))]),
        "{answers:?}"
    );
    let consume = async {
        let received = env.receive(&mut *consumer, 1).await;
        consumer.handled(&places(&received));
    };
    let ((), ()) = tokio::join!(env.publish(vec![large()]), consume);
}
