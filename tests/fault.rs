//! These tests run real processes, on real servers and on the embedded pair, and kill some of them. In each,
//! 20,000 tasks are due over 20 seconds, and a fault comes halfway.
//!
//! Each scenario shows that every registered task succeeds, none starts early, and no two executions of one
//! task are alive at once. Lateness and duplicates depend on the machine, so they are printed, not asserted.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test that fails may say so by panicking, and prints what it measured"
)]

mod cluster;
mod server;

/// Prints a line that is also seen of a test that passes: the harness captures `println!`.
macro_rules! say {
    ($($part:tt)*) => {
        writeln!(std::io::stdout().lock(), $($part)*).expect("standard output is open")
    };
}

mod kills;
mod queue_away;

// This is the checker of the drill, which has no harness of its own, and the proof that the
// checker finds faults.
#[allow(dead_code, reason = "the drill prints what it finds")]
#[path = "fault/check/mod.rs"]
mod check;
#[path = "fault/forged.rs"]
mod forged;
#[path = "fault/forged_families.rs"]
mod forged_families;
#[path = "fault/forged_kinds.rs"]
mod forged_kinds;

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use cluster::{Cluster, Stack};
use futures_util::{StreamExt, stream};
use server::{Server, free_port};
use tickwheel::{
    api::text::InstantText,
    client::{Client, Task, TaskState},
    model::{ids::TaskId, time::Millis},
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Source, Worker},
};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

/// The scenarios share the machine and break its servers, so they run one at a time.
static ALONE: AsyncMutex<()> = AsyncMutex::const_new(());

const TASKS: i64 = 20_000;
const SPREAD: Duration = Duration::from_secs(20);
const BATCH: i64 = 100;

/// One execution of the callback, by the one clock of this machine.
#[derive(Debug, Clone, Copy)]
struct Execution {
    attempt: u32,
    due: Millis,
    began: Millis,
    ended: Millis,
}

type Executions = Arc<Mutex<HashMap<TaskId, Vec<Execution>>>>;

/// Runs a worker until `stop`.
fn work(
    source: Source,
    servers: &[String],
    executions: &Executions,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let executions = Arc::clone(executions);
    let callback = move |job: Job<u64>, _: Context| {
        let executions = Arc::clone(&executions);
        async move {
            let time = TimeSource::real();
            let began = time.now();
            time.sleep(Duration::from_millis(5)).await;
            let execution = Execution {
                attempt: job.attempt,
                due: Millis::EPOCH.after(job.start_time.duration_since(UNIX_EPOCH).unwrap()),
                began,
                ended: time.now(),
            };
            executions
                .lock()
                .unwrap()
                .entry(job.id)
                .or_default()
                .push(execution);
            Ok(Outcome::Done)
        }
    };
    let worker = Worker::builder()
        .callback("kill_test", callback)
        .source(source)
        .server(servers.join(","))
        .concurrency(256)
        .build()
        .expect("the worker can be built");
    tokio::spawn(async move {
        worker
            .run_until(stop.cancelled_owned())
            .await
            .expect("the worker runs")
    })
}

/// Registers the tasks in batches through the servers in turn; returns those that were acknowledged.
async fn register(servers: &[String], first_start: Millis) -> Vec<TaskId> {
    let clients: Vec<Client> = servers
        .iter()
        .map(|server| Client::connect(server).expect("an address"))
        .collect();
    let batches = (0..TASKS / BATCH).map(|batch| {
        let client = clients[usize::try_from(batch).unwrap() % clients.len()].clone();
        async move {
            let tasks = (batch * BATCH..(batch + 1) * BATCH).map(|n| {
                let start =
                    Millis(first_start.0 + n * i64::try_from(SPREAD.as_millis()).unwrap() / TASKS);
                Task::callback("kill_test")
                    .start_at(InstantText::from(start))
                    .claim_timeout(Duration::from_secs(5))
                    .heartbeat_timeout(Duration::from_secs(10))
                    .max_attempts(20)
                    .json(&n)
                    .expect("a number is JSON")
            });
            let results = client
                .register_batch(tasks.collect())
                .await
                .expect("registration");
            results
                .into_iter()
                .map(|result| result.expect("registration").id)
                .collect::<Vec<_>>()
        }
    });
    stream::iter(batches)
        .buffer_unordered(8)
        .collect::<Vec<_>>()
        .await
        .concat()
}

/// Waits until every task has ended, and returns those that did not succeed.
async fn not_succeeded(servers: &[String], ids: &[TaskId], limit: Duration) -> Vec<String> {
    let time = TimeSource::real();
    let client = Client::connect_any(servers.to_vec()).expect("addresses");
    let end = time.moment().after(limit);
    let waits = ids.iter().map(|id| {
        let (client, time) = (client.clone(), time.clone());
        async move {
            loop {
                let left = end.since(time.moment());
                match client.wait(*id, left.min(Duration::from_secs(20))).await {
                    Ok(task) if task.state == TaskState::Succeeded => return None,
                    Ok(task) if left.is_zero() => return Some(format!("{id} is {:?}", task.state)),
                    Err(error) if left.is_zero() => return Some(format!("{id}: {error}")),
                    Ok(_) | Err(_) => time.sleep(Duration::from_millis(200)).await,
                }
            }
        }
    });
    stream::iter(waits)
        .buffer_unordered(64)
        .filter_map(std::future::ready)
        .collect()
        .await
}

fn check(name: &str, executions: &Executions) {
    let executions = executions.lock().unwrap();
    let mut lateness: Vec<i64> = Vec::new();
    let mut runs = 0;
    for (id, of_task) in executions.iter() {
        let mut of_task = of_task.clone();
        of_task.sort_by_key(|execution| execution.began.0);
        runs += of_task.len();
        let first = of_task[0];
        assert!(
            first.began >= first.due,
            "{name}: {id} began early: {first:?}"
        );
        lateness.push(first.began.0 - first.due.0);
        for pair in of_task.windows(2) {
            assert!(
                pair[0].ended <= pair[1].began,
                "{name}: two live executions of {id}: {pair:?}"
            );
            assert!(
                pair[0].attempt < pair[1].attempt,
                "{name}: attempts of {id} out of order: {pair:?}"
            );
        }
    }
    lateness.sort_unstable();
    let at = |permille: usize| lateness[(lateness.len() - 1) * permille / 1000];
    say!(
        "{name}: {} tasks, {} executions beyond the first; due to callback p50 {} ms, p99 {} ms, p99.9 {} ms, max {} ms",
        executions.len(),
        runs - executions.len(),
        at(500),
        at(990),
        at(999),
        at(1000),
    );
}

/// Registers, lets `disturb` break something ten seconds into the due times, and checks the end.
async fn scenario<F: Future<Output = ()>>(
    name: &str,
    disturb: impl FnOnce(Arc<Cluster>, Vec<cluster::Node>) -> F,
) {
    let _alone = ALONE.lock().await;
    let cluster = Arc::new(Cluster::init(Stack::of_this_run(), 8));
    let nodes = vec![cluster.node(1).await, cluster.node(2).await];
    let servers: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let source = || Source::kafka(&cluster.stack().kafka);
    run(name, &servers, source, disturb(Arc::clone(&cluster), nodes)).await;
}

/// Runs a scenario on any kind of servers.
async fn run(
    name: &str,
    servers: &[String],
    source: impl Fn() -> Source,
    disturb: impl Future<Output = ()>,
) {
    let time = TimeSource::real();
    let (executions, stop) = (Executions::default(), CancellationToken::new());
    let workers = [
        work(source(), servers, &executions, stop.clone()),
        work(source(), servers, &executions, stop.clone()),
    ];
    let first_start = time.now().after(Duration::from_secs(15));
    let ids = register(servers, first_start).await;
    say!(
        "{name}: {} tasks registered, first due in {:?}",
        ids.len(),
        time.now().until(first_start)
    );
    time.sleep_until_wall(first_start.after(SPREAD / 2)).await;
    disturb.await;
    let failed = not_succeeded(servers, &ids, Duration::from_secs(180)).await;
    assert!(
        failed.is_empty(),
        "{name}: {} of {TASKS} did not succeed, for example {}",
        failed.len(),
        failed[0]
    );
    check(name, &executions);
    stop.cancel();
    for worker in workers {
        worker.await.expect("the worker ends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_with_store_and_queue_of_its_own_loses_nothing() {
    let _alone = ALONE.lock().await;
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let mut server = Server::spawn(directory.path(), port, &[]);
    server.ready().await;
    let url = server.url.clone();
    let disturb = async {
        server.kill();
        TimeSource::real().sleep(Duration::from_secs(3)).await;
        server = Server::spawn(directory.path(), port, &[]);
        server.ready().await;
    };
    let source = || Source::poll(&url);
    run(
        "process killed",
        std::slice::from_ref(&url),
        source,
        disturb,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_loses_nothing() {
    scenario("node killed", |cluster, mut nodes| async move {
        let mut killed = nodes.pop().expect("two nodes");
        killed.kill();
        cluster.time.sleep(Duration::from_secs(3)).await;
        let back = cluster.restart(&killed).await;
        // Both live until everything has ended.
        keep(&cluster, vec![nodes.pop().expect("the other"), back]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_seconds_without_kafka_lose_nothing() {
    scenario("kafka stopped", |cluster, nodes| async move {
        cluster.stack().command("stop", "kafka", &[]);
        cluster.time.sleep(Duration::from_secs(20)).await;
        cluster.stack().command("start", "kafka", &[]);
        keep(&cluster, nodes).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_seconds_without_cassandra_lose_nothing() {
    scenario("cassandra stopped", |cluster, nodes| async move {
        cluster.stack().command("stop", "cassandra", &[]);
        cluster.time.sleep(Duration::from_secs(20)).await;
        cluster.stack().command("start", "cassandra", &[]);
        keep(&cluster, nodes).await;
    })
    .await;
}

/// Registers a task by hand: the status, and whether the answer says when to try again.
async fn try_register(http: &reqwest::Client, url: &str) -> (u16, bool) {
    let request = http
        .post(format!("{url}/v1/tasks"))
        .header("content-type", "application/json")
        .timeout(Duration::from_secs(20))
        .body(r#"{"callback": "nobody", "delay": "1h"}"#);
    let answer = request.send().await.expect("an answer, whatever it says");
    (
        answer.status().as_u16(),
        answer.headers().contains_key("retry-after"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_waits_for_its_servers_and_says_so() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::init(Stack::of_this_run(), 2);
    let http = reqwest::Client::new();
    cluster.stack().command("stop", "cassandra", &[]);
    let mut node = cluster.spawn(1);
    let get = async |path: &str| {
        loop {
            match http.get(format!("{}{path}", node.url)).send().await {
                Ok(answer) => {
                    break (
                        answer.status().as_u16(),
                        answer.text().await.expect("a body"),
                    );
                }
                // The process has not begun to listen.
                Err(_) => cluster.time.sleep(Duration::from_millis(50)).await,
            }
        }
    };
    assert_eq!(get("/livez").await.0, 200);
    let (status, reason) = get("/readyz").await;
    assert!(
        status == 503 && reason.contains("store"),
        "{status} {reason}"
    );
    assert_eq!(
        try_register(&http, &node.url).await,
        (503, true),
        "no store: not registered, try again"
    );
    cluster.stack().command("start", "cassandra", &[]);
    cluster.ready(&mut node, 0).await;
    assert_eq!(try_register(&http, &node.url).await, (201, false));
    cluster.stack().command("stop", "kafka", &[]);
    assert_eq!(
        try_register(&http, &node.url).await,
        (201, false),
        "no broker: registration goes on"
    );
    cluster.stack().command("stop", "cassandra", &[]);
    assert_eq!(try_register(&http, &node.url).await, (503, true));
    cluster.stack().command("start", "kafka", &[]);
    cluster.stack().command("start", "cassandra", &[]);
    for tries in 0.. {
        if try_register(&http, &node.url).await == (201, false) {
            break;
        }
        assert!(
            tries < 60,
            "registration does not work again after an outage"
        );
        cluster.time.sleep(Duration::from_millis(500)).await;
    }
}

/// Keeps nodes running in the background until the test's runtime ends.
async fn keep(cluster: &Arc<Cluster>, nodes: Vec<cluster::Node>) {
    let cluster = Arc::clone(cluster);
    tokio::spawn(async move {
        let _nodes = nodes;
        cluster.time.sleep(Duration::from_secs(600)).await;
    });
}
