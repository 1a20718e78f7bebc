//! Tasks that fall due while Kafka is away go out with its return, whatever their claim timeout: their looks, which come a claim
//! timeout later, are the net below that.

use std::{collections::HashMap, io::Write as _, sync::Arc, time::Duration};

use tickwheel::{
    api::text::InstantText,
    client::{Client, Task},
    model::{ids::TaskId, time::Millis},
    time_source::TimeSource,
    worker::Source,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ALONE, Executions,
    cluster::{Cluster, Stack},
    not_succeeded, work,
};

/// Kafka is stopped as long.
const AWAY: Duration = Duration::from_secs(67);

/// Tasks a second of each claim timeout.
const RATE: u32 = 6;

const CLAIM_TIMEOUTS: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(60),
    Duration::from_secs(300),
];

/// Kafka has all of them this long after its return at the latest.
const PUBLISHED: i64 = 5_000;

/// All are executed this long after Kafka's return at the latest. The worker first gets its partitions back, which takes the
/// session of its consumer group (10 s). The looks of the longest claim timeout come minutes later.
const BACK: Duration = Duration::from_secs(30);

/// Registers tasks of each claim timeout that are due evenly while Kafka is away.
async fn register(server: &str, from: Millis) -> HashMap<TaskId, Duration> {
    let client = Client::connect(server).expect("an address");
    let count = RATE * u32::try_from(AWAY.as_secs()).expect("seconds");
    let mut registered = HashMap::new();
    for claim_timeout in CLAIM_TIMEOUTS {
        let task = |number: u32| {
            Task::callback("kill_test")
                .start_at(InstantText::from(from.after(AWAY * number / count)))
                .claim_timeout(claim_timeout)
                .max_attempts(20)
                .json(&u64::from(number))
                .expect("a number is JSON")
        };
        let tasks: Vec<Task> = (0..count).map(task).collect();
        let results = client.register_batch(tasks).await.expect("an answer");
        let ids = results.into_iter().map(|one| one.expect("a task").id);
        registered.extend(ids.map(|id| (id, claim_timeout)));
    }
    registered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_fall_due_while_kafka_is_away_come_with_its_return() {
    let _alone = ALONE.lock().await;
    let time = TimeSource::real();
    let cluster = Arc::new(Cluster::init(Stack::of_this_run(), 8));
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(cluster.node(number).await);
    }
    let servers: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let (executions, stop) = (Executions::default(), CancellationToken::new());
    let source = Source::kafka(&cluster.stack().kafka);
    let worker = work(source, &servers, &executions, stop.clone());
    let from = time.now().after(Duration::from_secs(15));
    let registered = register(&servers[0], from).await;
    time.sleep_until_wall(from.before(Duration::from_secs(2)))
        .await;
    cluster.stack().command("stop", "kafka", &[]);
    time.sleep_until_wall(from.after(AWAY)).await;
    cluster.stack().command("start", "kafka", &[]);
    let returned = time.now();
    let ids: Vec<TaskId> = registered.keys().copied().collect();
    let failed = not_succeeded(&servers, &ids, Duration::from_secs(400)).await;
    assert!(failed.is_empty(), "{failed:?}");
    let client = Client::connect(&servers[0]).expect("an address");
    let mut published = Vec::new();
    for id in &ids {
        let task = client.get(*id).await.expect("a task");
        let fired: jiff::Timestamp = task
            .fire_time
            .expect("it went out")
            .0
            .parse()
            .expect("a time");
        published.push(fired.as_millisecond() - returned.0);
    }
    published.sort_unstable();
    let [middle, last] = [published.len() / 2, published.len() - 1].map(|at| published[at]);
    say!("Kafka had {middle} ms (p50) and {last} ms (most) behind its return");
    assert!(last <= PUBLISHED, "{last} ms");
    let executions = executions.lock().unwrap().clone();
    let mut late = Vec::new();
    for claim_timeout in CLAIM_TIMEOUTS {
        let mut waited: Vec<i64> = registered
            .iter()
            .filter(|(_, of)| **of == claim_timeout)
            .map(|(id, _)| executions[id].iter().map(|run| run.began.0).min())
            .map(|began| began.expect("an execution") - returned.0)
            .collect();
        waited.sort_unstable();
        let (middle, last) = (waited[waited.len() / 2], waited[waited.len() - 1]);
        say!(
            "claim timeout {claim_timeout:?}: {} tasks, {middle} ms (p50) and {last} ms (most) behind Kafka's return",
            waited.len()
        );
        late.push(Duration::from_millis(u64::try_from(last).unwrap_or(0)));
    }
    stop.cancel();
    worker.await.expect("the worker ends");
    assert!(late.iter().all(|last| *last <= BACK), "{late:?}");
}
