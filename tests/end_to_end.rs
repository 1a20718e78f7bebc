//! These tests run the real program on real Cassandra and Kafka, through REST, the command line and the SDK.

use std::{
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    client::{Client, RescheduleOutcome, Task, TaskState},
    model::ids::TaskId,
    queue::{
        Consumer as _, Delivery, Publisher as _,
        kafka::{self, KafkaConsumer, KafkaPublisher},
    },
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Source, Worker},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Cluster, Stack},
    readme_block::block_of,
    server::Server,
};

const SECOND: Duration = Duration::from_secs(1);

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A message that is between two consumers waits for the look of its task: a claim timeout and some seconds.
const END_MAX: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_goes_through_kafka_to_its_callback_and_back() {
    let cluster = Cluster::init(Stack::of_this_run(), 4);
    let node = cluster.node(1).await;
    there_and_back(&node.url, Source::kafka(&cluster.stack().kafka)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_goes_through_one_process_to_its_callback_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    there_and_back(&server.url, Source::poll(&server.url)).await;
}

/// Registers tasks that are due at once, soon and later, and fail once each.
async fn there_and_back(url: &str, source: Source) {
    let name = format!("end_to_end_{:x}", TimeSource::real().random());
    let (stop, calls) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&calls);
    let worker = Worker::builder()
        .callback(name.clone(), move |job: Job<u64>, context: Context| {
            let calls = Arc::clone(&counted);
            async move {
                calls.fetch_add(1, Ordering::SeqCst);
                if context.attempt() == 1 {
                    return Ok(Outcome::RetryAfter(SECOND / 10, "once more".to_owned()));
                }
                Outcome::done_with(&(job.payload * 2))
            }
        })
        .source(source)
        .server(url)
        .build()
        .unwrap();
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let client = Client::connect(url).unwrap();
    for delay in [0, 300, 4000] {
        let task = Task::callback(&name)
            .delay(Duration::from_millis(delay))
            .json(&21u64)
            .unwrap();
        let id = client.register(task).await.unwrap().id;
        let task = client.wait(id, END_MAX).await.unwrap();
        assert_eq!(
            task.state,
            TaskState::Succeeded,
            "due in {delay} ms: {task:?}"
        );
        assert_eq!(
            (task.attempt, task.result.map(|json| json.to_string())),
            (2, Some("42".to_owned()))
        );
    }
    assert_eq!(calls.load(Ordering::SeqCst), 6);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_task_runs_again_on_a_cluster() {
    let cluster = Cluster::init(Stack::of_this_run(), 4);
    let node = cluster.node(1).await;
    dead_and_again(&node.url, Source::kafka(&cluster.stack().kafka)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_task_runs_again_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    dead_and_again(&server.url, Source::poll(&server.url)).await;
}

/// Registers a small and a large task of two attempts that fail three times, and runs each again when it is dead.
async fn dead_and_again(url: &str, source: Source) {
    let name = format!("dead_{:x}", TimeSource::real().random());
    let stop = CancellationToken::new();
    let worker = Worker::builder()
        .callback(
            name.clone(),
            move |job: Job<String>, context: Context| async move {
                if context.attempt() <= 3 {
                    return Ok(Outcome::RetryAfter(SECOND / 10, "no".to_owned()));
                }
                Outcome::done_with(&job.payload.len())
            },
        )
        .source(source)
        .server(url)
        .build()
        .unwrap();
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    let client = Client::connect(url).unwrap();
    for bytes in [10, 50_000] {
        let task = Task::callback(&name).max_attempts(2);
        let task = task.json(&"x".repeat(bytes)).unwrap();
        let id = client.register(task).await.unwrap().id;
        let dead = client.wait(id, END_MAX).await.unwrap();
        assert_eq!((dead.state, dead.attempt), (TaskState::Dead, 2), "{dead:?}");
        let again = client.run_now(id).await.unwrap();
        assert_eq!(again.outcome, RescheduleOutcome::Rescheduled);
        assert_eq!((again.task.generation, again.task.end_time), (1, None));
        let task = client.wait(id, END_MAX).await.unwrap();
        assert_eq!(
            (task.state, task.attempt),
            (TaskState::Succeeded, 4),
            "{task:?}"
        );
        let result = task.result.map(|json| json.to_string());
        assert_eq!(result, Some(bytes.to_string()));
        let late = client.run_now(id).await.unwrap();
        assert_eq!(late.outcome, RescheduleOutcome::TooLate);
        assert_eq!(
            late.reason.as_deref(),
            Some("it has ended: it is succeeded")
        );
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_arrives_as_it_was_registered() {
    let cluster = Cluster::init(Stack::of_this_run(), 2);
    let node = cluster.node(1).await;
    let topic = format!("users-{:x}", cluster.time.random());
    let settings = kafka::Settings::new(&cluster.stack().kafka);
    let publisher = KafkaPublisher::connect(settings.clone(), cluster.time.clone()).unwrap();
    publisher
        .ensure_topics(std::slice::from_ref(&topic))
        .await
        .unwrap();
    let client = Client::connect(&node.url).unwrap();
    let value: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut sent = Vec::new();
    for delay in [100, 5000] {
        let task = Task::kafka(&topic)
            .delay(Duration::from_millis(delay))
            .record_key(b"key \xff")
            .header("one", b"\x00\x01")
            .bytes(&value);
        sent.push(client.register(task).await.unwrap().task.start_time.0);
    }
    let mut consumer = KafkaConsumer::connect(
        settings,
        cluster.time.clone(),
        &topic,
        std::slice::from_ref(&topic),
    )
    .await
    .unwrap();
    let mut received = Vec::new();
    for _ in 0..40 {
        received.extend(consumer.receive(10, SECOND).await.unwrap());
        if received.len() >= 2 {
            break;
        }
    }
    consumer.close().await;
    assert_eq!(received.len(), 2);
    for (delivery, start) in received.iter().zip(sent) {
        assert_eq!(delivery.value, value);
        assert_eq!(delivery.key.as_deref(), Some(b"key \xff".as_slice()));
        assert_eq!(header(delivery, "one"), Some(b"\x00\x01".as_slice()));
        assert_eq!(
            header(delivery, "tickwheel-start-time"),
            Some(start.as_bytes())
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_says_what_happened() {
    let cluster = Cluster::init(Stack::of_this_run(), 2);
    let again = cluster
        .program("init")
        .args(["--replication-factor", "1", "--wheels", "2"])
        .output()
        .unwrap();
    assert!(
        again.status.success() && text(&again).contains("was ready already"),
        "{}",
        text(&again)
    );
    let other = cluster
        .program("init")
        .args(["--replication-factor", "1", "--wheels", "4"])
        .output()
        .unwrap();
    assert!(
        !other.status.success() && text(&other).contains("wheels"),
        "{}",
        text(&other)
    );
    let missing = cluster
        .program_in("never_made", "serve")
        .args(["--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert!(
        !missing.status.success() && text(&missing).contains("tickwheel init"),
        "{}",
        text(&missing)
    );

    let mut node = cluster.node(1).await;
    let task = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command
            .arg("task")
            .args(arguments)
            .args(["--server", &node.url, "-o", "json"])
            .output()
            .unwrap()
    };
    let registered = task(&[
        "register",
        "--callback",
        "nobody",
        "--delay",
        "1h",
        "--payload",
        "{\"a\":1}",
    ]);
    assert!(registered.status.success(), "{}", text(&registered));
    let json: serde_json::Value = serde_json::from_slice(&registered.stdout).unwrap();
    let id = json["id"].as_str().unwrap().to_owned();
    let moved = task(&["reschedule", &id, "--delay", "2h"]);
    assert!(
        moved.status.success() && text(&moved).contains("rescheduled"),
        "{}",
        text(&moved)
    );
    let cancelled = task(&["cancel", &id]);
    assert!(
        cancelled.status.success() && text(&cancelled).contains("cancelled"),
        "{}",
        text(&cancelled)
    );
    let read = task(&["get", &id]);
    let json: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(
        (json["state"].as_str(), json["payload"]["a"].as_i64()),
        (Some("cancelled"), Some(1))
    );
    let last = if id.ends_with('0') { '1' } else { '0' };
    let unknown = task(&["get", &format!("{}{last}", &id[..35])]);
    assert!(
        !unknown.status.success() && text(&unknown).lines().count() == 1,
        "{}",
        text(&unknown)
    );

    // A node needs a moment to own its wheels: until then the doctor says so.
    let mut healthy = cluster.program("doctor").output().unwrap();
    for _ in 0..20 {
        if healthy.status.success() {
            break;
        }
        cluster.time.sleep(SECOND / 2).await;
        healthy = cluster.program("doctor").output().unwrap();
    }
    assert!(healthy.status.success(), "{}", text(&healthy));
    for about in [
        "replication: 1 of each row on 1",
        "repairs: one server",
        "topics: ",
    ] {
        assert!(text(&healthy).contains(about), "{}", text(&healthy));
    }
    assert_eq!(
        node.terminate().code(),
        Some(0),
        "SIGTERM drains and exits with 0"
    );
}

fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a [u8]> {
    let mut named = delivery.headers.iter().filter(|(found, _)| found == name);
    named.next().map(|(_, value)| value.as_ref())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_poll_share_what_comes_through_kafka() {
    let cluster = Cluster::init(Stack::of_this_run(), 4);
    let (one, other) = tokio::join!(cluster.node(1), cluster.node(2));
    let name = format!("polled_{:x}", cluster.time.random());
    let calls = Arc::new(AtomicU32::new(0));
    let worker = |url: &str, stop: &CancellationToken| {
        let calls = Arc::clone(&calls);
        let worker = Worker::builder()
            .callback(name.clone(), move |job: Job<u64>, _: Context| {
                calls.fetch_add(1, Ordering::SeqCst);
                async move { Outcome::done_with(&(job.payload * 2)) }
            })
            .source(Source::poll(url))
            .concurrency(16)
            .build()
            .unwrap();
        tokio::spawn(worker.run_until(stop.clone().cancelled_owned()))
    };
    let (stop_first, stop) = (CancellationToken::new(), CancellationToken::new());
    let first = worker(&one.url, &stop_first);
    let second = worker(&other.url, &stop);
    let client = Client::connect(&one.url).unwrap();
    let register = async |numbers: std::ops::Range<u64>| {
        let task = |n: u64| {
            Task::callback(&name)
                .delay(SECOND * 3 + SECOND / 20 * (n % 20) as u32)
                .json(&n)
                .unwrap()
        };
        let registered = client.register_batch(numbers.map(task).collect()).await;
        let ids = registered.unwrap().into_iter();
        ids.map(|task| task.unwrap().id).collect::<Vec<_>>()
    };
    let mut ids = register(0..60).await;
    for id in &ids {
        assert_eq!(
            client.wait(*id, SECOND * 60).await.unwrap().state,
            TaskState::Succeeded
        );
    }
    // One worker leaves. Its node closes its consumer a minute later, and waits for other polls until then. A
    // node that stops leaves its partitions to the other one at once.
    stop_first.cancel();
    first.await.unwrap().unwrap();
    ids.extend(register(60..100).await);
    let mut one = one;
    assert_eq!(one.terminate().code(), Some(0));
    let client = Client::connect(&other.url).unwrap();
    for (n, id) in ids.iter().enumerate() {
        let task = client.wait(*id, SECOND * 90).await.unwrap();
        assert_eq!(task.state, TaskState::Succeeded, "{n}: {task:?}");
    }
    assert!(calls.load(Ordering::SeqCst) >= 100);
    stop.cancel();
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_of_ones_own_is_registered_like_this() {
    let cluster = Cluster::init(Stack::of_this_run(), 1);
    let node = cluster.node(1).await;
    let address = node.url.trim_start_matches("http://");
    let page = include_str!("../docs/guides/record.md");
    let text = block_of(page, "kafka").replace("localhost:7420", address);
    let answered = Command::new("sh").args(["-euc", &text]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answered.stdout).unwrap();
    assert_eq!(answer["start_time"], "2030-01-31T09:00:00.250Z", "{answer}");
    let id: TaskId = answer["id"].as_str().unwrap().parse().unwrap();
    let client = Client::connect(&node.url).unwrap();
    assert_eq!(client.get(id).await.unwrap().state, TaskState::Scheduled);
}
