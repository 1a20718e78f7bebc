//! Three nodes under load are restarted one by one: no call of a client fails, and no task is lost, early or late by much.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use tickwheel::{
    client::{Client, Task, TaskId, TaskState},
    model::time::Millis,
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Source, Worker},
};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Node, Stack};

const SECOND: Duration = Duration::from_secs(1);

/// Long enough for clients to see at `/readyz` that the node leaves.
const NODE: [&str; 2] = ["--drain-delay", "2s"];

/// Time from one registration to the next of each client: some 60 a second in all on a debug build.
const PACE: Duration = Duration::from_millis(50);
const CLIENTS: usize = 3;

/// A message whose claim met a node that left comes again with the look of its task: after a claim timeout of a minute.
const LATE_MAX: Duration = Duration::from_secs(90);

/// When an attempt was due and began, and its end.
type Executions = Arc<Mutex<HashMap<TaskId, Vec<(Millis, Millis, Millis)>>>>;

fn worker(
    servers: &[String],
    kafka: &str,
    seen: &Executions,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let seen = Arc::clone(seen);
    let callback = move |job: Job<u64>, _: Context| {
        let seen = Arc::clone(&seen);
        async move {
            let time = TimeSource::real();
            let due = Millis::EPOCH.after(job.start_time.duration_since(UNIX_EPOCH)?);
            let began = time.now();
            time.sleep(Duration::from_millis(5)).await;
            seen.lock()
                .unwrap()
                .entry(job.id)
                .or_default()
                .push((due, began, time.now()));
            Ok(Outcome::Done)
        }
    };
    let worker = Worker::builder()
        .callback("rolling", callback)
        .source(Source::kafka(kafka))
        .server(servers.join(","))
        .build()
        .unwrap();
    tokio::spawn(async move { worker.run_until(stop.cancelled_owned()).await.unwrap() })
}

/// Registers until it is told to stop; returns the tasks. A call that fails after the client's own repetition fails the test.
async fn register(servers: Vec<String>, stop: Arc<AtomicBool>) -> Vec<TaskId> {
    let (client, time) = (Client::connect_any(servers).unwrap(), TimeSource::real());
    let mut ids = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let delay = Duration::from_millis(time.random() % 5000);
        let task = Task::callback("rolling").delay(delay).json(&1u64).unwrap();
        let registered = client.register(task).await;
        let task = registered.unwrap_or_else(|error| panic!("task {}: {error}", ids.len()));
        ids.push(task.id);
        if ids.len() % 20 == 0 {
            client
                .get(ids[0])
                .await
                .unwrap_or_else(|error| panic!("a read: {error}"));
        }
        time.sleep(PACE).await;
    }
    ids
}

async fn all_succeed(servers: Vec<String>, ids: &[TaskId]) {
    let client = Client::connect_any(servers).unwrap();
    let time = TimeSource::real();
    let until = time.moment().after(LATE_MAX);
    for id in ids {
        loop {
            let task = client.wait(*id, 20 * SECOND).await.unwrap();
            if task.state == TaskState::Succeeded {
                break;
            }
            assert!(time.moment() < until, "{id} is {:?}", task.state);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it restarts three nodes under load, two minutes: make test-all"]
async fn nodes_that_are_restarted_one_by_one_fail_nobody() {
    let cluster = Cluster::init(Stack::of_this_run(), 8);
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=3 {
        nodes.push(cluster.node_with(number, &NODE).await);
    }
    let servers: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let (executions, stop) = (Executions::default(), CancellationToken::new());
    let working = worker(&servers, &cluster.stack().kafka, &executions, stop.clone());
    let enough = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|first| {
            // Each client asks another node first.
            let mut servers = servers.clone();
            servers.rotate_left(first);
            tokio::spawn(register(servers, Arc::clone(&enough)))
        })
        .collect();
    let time = TimeSource::real();
    time.sleep(10 * SECOND).await;
    for node in &mut nodes {
        let began = time.moment();
        assert!(node.terminate().success(), "it drains and ends well");
        eprintln!(
            "node {} ended after {:?}",
            node.number,
            time.moment().since(began)
        );
        *node = cluster.restart_with(node, &NODE).await;
        time.sleep(5 * SECOND).await;
    }
    enough.store(true, Ordering::SeqCst);
    let mut ids = Vec::new();
    for client in clients {
        ids.extend(client.await.expect("no call failed"));
    }
    all_succeed(servers, &ids).await;
    stop.cancel();
    working.await.unwrap();
    let executions = executions.lock().unwrap();
    let mut lateness: Vec<i64> = Vec::new();
    for id in &ids {
        let mut runs = executions[id].clone();
        runs.sort_by_key(|(_, began, _)| began.0);
        let (due, began, _) = runs[0];
        assert!(began >= due, "{id} began {} ms early", due.0 - began.0);
        assert!(
            runs.windows(2).all(|two| two[0].2 <= two[1].1),
            "{id} ran twice at once: {runs:?}"
        );
        lateness.push(began.0 - due.0);
    }
    lateness.sort_unstable();
    let (p99, most) = (
        lateness[lateness.len() * 99 / 100],
        lateness[lateness.len() - 1],
    );
    eprintln!(
        "{} tasks over three restarts: p99 {p99} ms, at most {most} ms late",
        ids.len()
    );
    assert!(
        most < i64::try_from(LATE_MAX.as_millis()).unwrap(),
        "a task was {most} ms late"
    );
}
