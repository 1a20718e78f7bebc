//! Catching up does little harm to tasks that can be in time, on servers that all work has to share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{base::context::Context, stages::node::Node},
    model::{ids::TaskId, task::Priority, time::Millis},
    queue::{
        Error, Probe, PublishError, Publisher, Record,
        message::{self, TaskMessage},
    },
    time_source::{Moment, TimeSource},
};

use crate::world::{World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Reads that are under way: each takes the same time, and they begin in order.
#[derive(Clone)]
struct Reads {
    length: Duration,
    began: Arc<Mutex<Vec<Moment>>>,
}

impl Reads {
    fn of(length: Duration) -> Self {
        let began = Arc::default();
        Self { length, began }
    }

    fn fate(&self, call: Call, now: Moment) -> Fate {
        if call.operation != "scan" {
            return Fate::Go;
        }
        self.began.lock().unwrap().push(now);
        Fate::Delay(self.length)
    }

    fn under_way(&self, now: Moment) -> u32 {
        let mut began = self.began.lock().unwrap();
        began.retain(|began| now.since(*began) < self.length);
        u32::try_from(began.len()).unwrap()
    }
}

/// A queue with slow publications.
struct SlowQueue<Q, W> {
    queue: Q,
    time: TimeSource,
    wait: W,
}

#[async_trait]
impl<Q: Publisher, W: Fn() -> Duration + Send + Sync> Publisher for SlowQueue<Q, W> {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        self.time.sleep((self.wait)()).await;
        self.queue.publish(records).await
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.queue.ensure_topics(topics).await
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        self.queue.still_queued(probes).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.queue.ping().await
    }

    async fn close(&self, limit: Duration) {
        self.queue.close(limit).await;
    }
}

/// When each task first came to the queue; the messages do not tell it, since they are made before.
fn came(world: &World) -> HashMap<TaskId, Millis> {
    let topic = message::topic("work", Priority::Normal);
    let mut came = HashMap::new();
    for published in world.queue.records(&topic) {
        let message = TaskMessage::decode(published.record.value.clone()).unwrap();
        came.entry(message.dispatch.id).or_insert(published.at);
    }
    came
}

/// Stops all scans for a while, then starts a node whose reads take `read` and whose queue takes the time
/// that `wait` makes of the reads under way. Returns the lateness of each new task, one every 50 ms.
async fn late_after(
    world: &World,
    missed: Duration,
    caught_up_in: Duration,
    read: Duration,
    wait: impl Fn(u32) -> Duration + Send + Sync + 'static,
) -> Vec<i64> {
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    node.crash();
    world.pass(missed).await;
    let (reads, time) = (Reads::of(read), world.time.clone());
    let (of_queue, clock) = (reads.clone(), time.clone());
    let publisher = world.queue.handle();
    let fates = Arc::new(move |call| reads.fate(call, time.moment()));
    let context = world.context(2, &publisher, fates);
    let slow = SlowQueue {
        queue: publisher,
        time: world.time.clone(),
        wait: move || wait(of_queue.under_way(clock.moment())),
    };
    let node = Node::start(
        Context {
            publisher: Arc::new(slow),
            ..context
        },
        SECOND,
    );
    let (began, mut ids) = (world.time.now(), Vec::new());
    while world.time.now() < began.after(caught_up_in) {
        let task = callback(world.time.now().after(SECOND / 2));
        ids.push(register(&node.service(), vec![task]).await[0].id);
        world.pass(SECOND / 20).await;
    }
    world.pass(2 * SECOND).await;
    let came = came(world);
    let lateness = |id: &TaskId| came[id].0 - id.first_start().0;
    let lateness = ids.iter().map(lateness).collect();
    let now = world.time.now();
    for wheel in world.rules.shape.all_wheels() {
        let fired: Millis = world.store.clock_row(wheel).unwrap().fired.due;
        assert!(
            fired > now.before(5 * SECOND),
            "{wheel:?} is at {fired}, it is {now}"
        );
    }
    world.check();
    lateness
}

#[tokio::test(start_paused = true)]
async fn it_leaves_in_time_what_can_be_in_time() {
    let world = World::new(16, 64);
    // All wheels at once would make all tasks 320 ms late and more.
    let wait = |under_way| 20 * MILLISECOND * under_way;
    let (missed, in_time) = (120 * SECOND, 60 * SECOND);
    let late = late_after(&world, missed, in_time, 20 * MILLISECOND, wait).await;
    // These tasks begin with the second second, and end before the first wheel has caught up. Now and then
    // several reads lose patience at once.
    let mut late = late[20..200].to_vec();
    late.sort_unstable();
    let (p95, most) = (late[late.len() * 95 / 100], late[late.len() - 1]);
    assert!(p95 <= 120 && most <= 320, "p95 {p95} ms late, max {most}");
}

#[tokio::test(start_paused = true)]
async fn it_ends_though_everything_is_late_whatever_it_does() {
    let world = World::new(8, 64);
    let wait = |_| 400 * MILLISECOND;
    let (missed, in_time) = (40 * SECOND, 80 * SECOND);
    // Single reads, one after the other, would never catch up.
    let late = late_after(&world, missed, in_time, 300 * MILLISECOND, wait).await;
    assert!(late.iter().all(|late| *late >= 400));
}
