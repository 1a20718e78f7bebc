//! The contract runs on the embedded queue, with room for all records and for almost none, and
//! with cases of its own.

use std::path::Path;

use crate::queue_contract::*;

mod roomy {
    use super::*;
    contract!([#[tokio::test(start_paused = true)]] Env::embedded(20_000));
}

mod overflowing {
    use super::*;

    // A group sees as much of a topic as fits into memory at once. A case that handles nothing, or out of
    // order, needs room for all that it receives. 40 records a topic are 10 a partition.
    #[tokio::test(start_paused = true)]
    async fn order_within_a_partition_is_kept() {
        let env = Env::embedded(40);
        let texts = |numbers| expected(numbers).into_iter();
        let one = |text: String| env.record("t", Partition::Fixed(2), text);
        let mut consumer = env.consumer("g", &["t"]).await;
        let (mut seen, mut sent) = (Vec::new(), 0);
        while seen.len() < 1000 {
            if sent < 1000 {
                env.publish(texts(sent..sent + 50).map(one).collect()).await;
                sent += 50;
            }
            let some = env.receive(&mut *consumer, 7.min(1000 - seen.len())).await;
            consumer.handled(&places(&some));
            seen.extend(values(&some));
            if files(&env) > 0 {
                assert!(
                    seen.len() < usize::from(sent),
                    "read back and still on disk"
                );
            }
        }
        assert_eq!(seen, expected(0..1000));
        assert_eq!(files(&env), 0, "what was read back is deleted");
    }

    #[tokio::test(start_paused = true)]
    async fn still_queued_until_it_is_handled() {
        crate::queue_contract::still_queued_until_it_is_handled(Env::embedded(4)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_handled_when_it_closes_does_not_come_again() {
        crate::queue_contract::what_is_handled_when_it_closes_does_not_come_again(Env::embedded(
            40,
        ))
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn two_members_share_the_partitions_and_one_takes_over() {
        crate::queue_contract::two_members_share_the_partitions_and_one_takes_over(Env::embedded(
            40,
        ))
        .await;
    }
}

fn dir(env: &Env) -> &Path {
    match &env.queue {
        Queue::Embedded(dir) => dir.path(),
        Queue::Kafka(_) | Queue::Memory(_) => panic!("these cases are about the embedded queue"),
    }
}

fn files(env: &Env) -> usize {
    std::fs::read_dir(dir(env)).unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn a_callback_without_workers_costs_disk_and_delays_nobody() {
    let env = Env::embedded(40);
    let mut consumer = env.consumer("g", &["other"]).await;
    env.publish(numbered(&env, "idle", 0..2000)).await;
    assert!(files(&env) > 0);
    env.publish(numbered(&env, "other", 0..8)).await;
    assert_eq!(env.receive(&mut *consumer, 8).await.len(), 8);
    let mut late = env.consumer("g", &["idle"]).await;
    let mut seen = Vec::new();
    while seen.len() < 2000 {
        let some = env.receive(&mut *late, 1).await;
        late.handled(&places(&some));
        seen.extend(values(&some));
    }
    assert_eq!(sorted(seen), expected(0..2000));
    assert_eq!(files(&env), 0);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_leaves_the_rest_to_the_looks() {
    let env = Env::embedded(40);
    std::fs::remove_dir_all(dir(&env)).unwrap();
    let answers = env.publisher.publish(numbered(&env, "t", 0..100)).await;
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(taken, 40);
    let Some(Err(PublishError::Unconfirmed(reason))) = answers.last() else {
        panic!("{answers:?}");
    };
    assert!(reason.contains("overflow file"), "{reason}");
    let mut consumer = env.consumer("g", &["t"]).await;
    let some = env.receive(&mut *consumer, 40).await;
    consumer.handled(&places(&some));
    env.publish(numbered(&env, "t", 0..4)).await;
}

#[tokio::test(start_paused = true)]
async fn the_urgent_come_first_and_the_others_do_not_starve() {
    let env = Env::embedded(20_000);
    for topic in ["low", "normal", "high"] {
        let record = |_| env.record(topic, Partition::Fixed(0), topic);
        env.publish((0..100).map(record).collect()).await;
    }
    let mut consumer = env.consumer("g", &["high", "normal", "low"]).await;
    let mut order = Vec::new();
    while order.len() < 42 {
        order.extend(values(&env.receive(&mut *consumer, 1).await));
    }
    let of = |name: &str| order.iter().filter(|one| *one == name).count();
    assert_eq!((of("high"), of("normal"), of("low")), (32, 8, 2));
}

#[tokio::test(start_paused = true)]
async fn a_new_life_begins_empty_and_leaves_other_files_alone() {
    let env = Env::embedded(4);
    env.publish(numbered(&env, "t", 0..100)).await;
    // The files are still there, as after a crash.
    let dir = dir(&env);
    std::fs::write(dir.join("7-0-0.overflow"), "x").unwrap();
    std::fs::write(dir.join("mine.txt"), "x").unwrap();
    let settings = embedded::Settings::default();
    let next = EmbeddedQueue::open(dir, env.time.clone(), settings).unwrap();
    let names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    assert_eq!(names, ["mine.txt"]);
    let mut consumer = next.consumer(&env.name("g"), &env.names(&["t"]));
    assert_eq!(consumer.receive(10, STEP).await.unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_consumer_is_woken_at_once() {
    let env = Env::embedded(40);
    let mut consumer = env.consumer("g", &["t"]).await;
    let begun = env.time.moment();
    let publish = async {
        env.time.sleep(Duration::from_millis(7)).await;
        env.publish(numbered(&env, "t", 0..1)).await;
    };
    let (received, ()) = tokio::join!(consumer.receive(5, LIMIT), publish);
    assert_eq!(received.unwrap().len(), 1);
    assert!(env.time.moment().since(begun) < Duration::from_millis(9));
}
