//! Three nodes on one real Cassandra and one real Kafka lose one of themselves again and again, under load of polled callbacks,
//! of tasks over HTTP and of records of Kafka. The test prints how late what falls due around each fault is.
//!
//! A node is killed, or stopped and let go on. Consumer groups have the settings that a broker has by default. Nothing is lost,
//! nothing is early, and polls do not wait for the session of a dead node's members. `TICKWHEEL_FAILOVER_RATE` is the number of
//! tasks of each kind a second, `TICKWHEEL_FAILOVER_ROUNDS` that of faults, and `TICKWHEEL_TEST_PROGRAM` names another build of
//! the program to compare with.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Bytes, routing::post};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
};
use tickwheel::{
    api::text::InstantText,
    client::{Client, Task},
    model::time::Millis,
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Source, Worker},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{Cluster, Node, Stack},
    conformance::Topics,
};

const SECOND: Duration = Duration::from_secs(1);

/// A fault lasts as long: longer than a lease, and than a session.
const FAULT: Duration = Duration::from_secs(15);

/// The nodes are left in peace as long behind it.
const PEACE: Duration = Duration::from_secs(20);

/// Tasks that fall due from this long before a fault until this long behind it are around the fault.
const BEFORE: Duration = SECOND;
const BEHIND: Duration = Duration::from_secs(10);

/// Tasks fall due at most this long behind their registration; some wait in the memory of a node, and some in the wheel.
const AHEAD: Duration = Duration::from_secs(15);

/// Polled tasks around a fault are later than records by as much at most, one in a hundred excepted. Both wait for the wheels of
/// the dead node; with a session of 10 s polls waited for four to six seconds more.
const BEHIND_RECORDS: Duration = Duration::from_secs(3);

const KINDS: [Kind; 3] = [Kind::Polled, Kind::Http, Kind::Record];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Polled,
    Http,
    Record,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Pause,
}

/// The tasks that were asked for, and those that came. The numbers of tasks are their payloads.
#[derive(Default)]
struct Load {
    last: AtomicU64,
    /// When each task was due, or acknowledged if that came later.
    asked: Mutex<HashMap<(Kind, u64), (Millis, Millis)>>,
    came: Mutex<HashMap<(Kind, u64), Vec<Millis>>>,
}

impl Load {
    fn came(&self, kind: Kind, number: u64) {
        let now = TimeSource::real().now();
        let mut came = self.came.lock().unwrap();
        came.entry((kind, number)).or_default().push(now);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs a worker that polls one node, and reports to whichever answers.
fn worker(load: &Arc<Load>, node: &str, servers: &str, stop: CancellationToken) {
    let load = Arc::clone(load);
    let callback = move |job: Job<u64>, _: Context| {
        load.came(Kind::Polled, job.payload);
        async move { Ok(Outcome::Done) }
    };
    let worker = Worker::builder()
        .callback("failover", callback)
        .source(Source::poll(node))
        .server(servers)
        .build()
        .unwrap();
    tokio::spawn(async move { worker.run_until(stop.cancelled_owned()).await });
}

/// Starts a receiver of tasks over HTTP, and returns its address.
async fn receiver(load: &Arc<Load>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let load = Arc::clone(load);
    let take = post(move |body: Bytes| async move {
        load.came(Kind::Http, serde_json::from_slice(&body).unwrap());
    });
    let router = Router::new().route("/", take);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Reads a topic of one partition on a thread of its own.
fn read(load: &Arc<Load>, kafka: &str, topic: &str, stop: CancellationToken) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("group.id", "unused: partitions are assigned")
        .create()
        .unwrap();
    let mut partition = TopicPartitionList::new();
    partition
        .add_partition_offset(topic, 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&partition).unwrap();
    let load = Arc::clone(load);
    std::thread::spawn(move || {
        while !stop.is_cancelled() {
            if let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) {
                let number = serde_json::from_slice(record.payload().unwrap()).unwrap();
                load.came(Kind::Record, number);
            }
        }
    });
}

/// Registers tasks of each kind at an even rate until it is told to stop.
async fn register(
    load: Arc<Load>,
    servers: Vec<String>,
    (url, topic): (String, String),
    rate: u64,
    stop: Arc<AtomicBool>,
) {
    let (time, client) = (TimeSource::real(), Client::connect_any(servers).unwrap());
    let mut calls = JoinSet::new();
    let mut due = time.moment();
    while !stop.load(Ordering::SeqCst) {
        for kind in KINDS {
            let mut tasks = Vec::new();
            let mut starts = Vec::new();
            for _ in 0..rate.div_ceil(4) {
                let number = load.last.fetch_add(1, Ordering::SeqCst);
                let delay = Duration::from_millis(500 + time.random() % 1000 * 15);
                let start = time.now().after(delay.min(AHEAD));
                let task = match kind {
                    Kind::Polled => Task::callback("failover").heartbeat_timeout(5 * SECOND),
                    Kind::Http => Task::http(&url),
                    Kind::Record => Task::kafka(&topic),
                };
                let task = task.start_at(InstantText::from(start)).json(&number);
                tasks.push(task.unwrap());
                starts.push((number, start));
            }
            let (client, load) = (client.clone(), Arc::clone(&load));
            calls.spawn(async move {
                let Ok(answers) = client.register_batch(tasks).await else {
                    return;
                };
                let acknowledged = TimeSource::real().now();
                let mut asked = load.asked.lock().unwrap();
                for ((number, start), answer) in starts.into_iter().zip(answers) {
                    if answer.is_ok() {
                        asked.insert((kind, number), (start, start.max(acknowledged)));
                    }
                }
            });
        }
        due = due.after(SECOND / 4);
        time.sleep_until(due).await;
    }
    calls.join_all().await;
}

/// Breaks one node after the other; returns what was done and when.
async fn disturb(cluster: &Cluster, nodes: &mut [Node], more: &[&str]) -> Vec<(Fault, Millis)> {
    let mut done = Vec::new();
    for round in 0..number("TICKWHEEL_FAILOVER_ROUNDS", 6) {
        let fault = [Fault::Kill, Fault::Pause][usize::try_from(round % 2).unwrap()];
        let at = usize::try_from(round).unwrap() % nodes.len();
        done.push((fault, cluster.time.now()));
        match fault {
            Fault::Kill => nodes[at].kill(),
            Fault::Pause => nodes[at].signal("STOP"),
        }
        cluster.time.sleep(FAULT).await;
        match fault {
            Fault::Kill => nodes[at] = cluster.restart_with(&nodes[at], more).await,
            Fault::Pause => nodes[at].signal("CONT"),
        }
        cluster.time.sleep(PEACE).await;
    }
    done
}

/// Waits until everything that was acknowledged has come; returns what has not.
async fn missing(load: &Load, limit: Duration) -> Vec<(Kind, u64)> {
    let time = TimeSource::real();
    let until = time.moment().after(limit);
    loop {
        let missing: Vec<_> = {
            let (asked, came) = (load.asked.lock().unwrap(), load.came.lock().unwrap());
            let missing = asked.keys().filter(|task| !came.contains_key(task));
            missing.copied().collect()
        };
        if missing.is_empty() || time.moment() >= until {
            return missing;
        }
        time.sleep(SECOND).await;
    }
}

/// Lateness of one kind of tasks around one kind of faults, and how often tasks came again.
#[derive(Default)]
struct Row {
    late: Vec<i64>,
    again: usize,
}

impl Row {
    fn at(&self, permille: usize) -> i64 {
        self.late[(self.late.len() - 1) * permille / 1000]
    }
}

/// Sorts out what fell due around the faults, and beside them (none).
fn rows(load: &Load, faults: &[(Fault, Millis)]) -> BTreeMap<(Option<Fault>, Kind), Row> {
    let (asked, came) = (load.asked.lock().unwrap(), load.came.lock().unwrap());
    let mut rows: BTreeMap<_, Row> = BTreeMap::new();
    for ((kind, number), (start, from)) in asked.iter() {
        let Some(came) = came.get(&(*kind, *number)) else {
            continue;
        };
        let first = came.iter().min().expect("it came");
        assert!(first >= start, "{kind:?} {number} is early");
        let around = |at: &Millis| *start >= at.before(BEFORE) && *start < at.after(BEHIND);
        let beside =
            |at: &Millis| *start < at.before(AHEAD) || *start > at.after(FAULT + PEACE / 2);
        let fault = faults.iter().find(|(_, at)| around(at));
        if fault.is_none() && !faults.iter().all(|(_, at)| beside(at)) {
            continue;
        }
        let row = rows.entry((fault.map(|(fault, _)| *fault), *kind));
        let row = row.or_default();
        row.late.push(first.0 - from.0);
        row.again += came.len() - 1;
    }
    for row in rows.values_mut() {
        row.late.sort_unstable();
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it kills and stops nodes for some four minutes: make test-all"]
async fn tasks_around_a_dead_node_do_not_wait_for_its_sessions() {
    let cluster = Cluster::init(Stack::of_this_run(), 16);
    let more = ["--http-allow", "127.0.0.0/8"];
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(cluster.node_with(number, &more).await);
    }
    let servers: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let (load, stop) = (Arc::new(Load::default()), CancellationToken::new());
    let kafka = cluster.stack().kafka.clone();
    let topic = format!("failover-{:x}", cluster.time.random());
    let topics = Topics {
        kafka: kafka.clone(),
    };
    topics.create(&topic).await;
    read(&load, &kafka, &topic, stop.clone());
    let url = receiver(&load).await;
    for server in &servers {
        worker(&load, server, &servers.join(","), stop.clone());
    }
    let enough = Arc::new(AtomicBool::new(false));
    let rate = number("TICKWHEEL_FAILOVER_RATE", 20);
    let registering = tokio::spawn(register(
        Arc::clone(&load),
        servers,
        (url, topic),
        rate,
        Arc::clone(&enough),
    ));
    // Groups form, and wheels find their nodes.
    cluster.time.sleep(30 * SECOND).await;
    let faults = disturb(&cluster, &mut nodes, &more).await;
    enough.store(true, Ordering::SeqCst);
    registering.await.unwrap();
    let lost = missing(&load, 120 * SECOND).await;
    stop.cancel();
    let rows = rows(&load, &faults);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{rate} tasks of each kind a second, {} faults",
        faults.len()
    )
    .unwrap();
    for ((fault, kind), row) in &rows {
        let [p50, p99, most] = [500, 990, 1000].map(|permille| row.at(permille));
        let fault = fault.map_or_else(|| "none".to_owned(), |fault| format!("{fault:?}"));
        writeln!(
            out,
            "| {fault} | {kind:?} | {} | {p50} | {p99} | {most} | {} |",
            row.late.len(),
            row.again
        )
        .unwrap();
    }
    assert!(lost.is_empty(), "{} tasks are lost: {lost:?}", lost.len());
    for fault in [Fault::Kill, Fault::Pause] {
        let p99 = |kind| rows[&(Some(fault), kind)].at(990);
        let behind = p99(Kind::Polled) - p99(Kind::Record);
        let allowed = BEHIND_RECORDS.as_millis() as i64;
        assert!(behind < allowed, "{fault:?}: {behind} ms behind records");
    }
}
