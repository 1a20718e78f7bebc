//! A flood of one callback, due at one moment, hardly delays another callback at a low rate.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use async_trait::async_trait;
use tickwheel::{
    doubles::{queue::memory::MemoryPublisher, store::faulty::Fate},
    flaw::{self, Flaw},
    flow::{
        base::{api::NewTask, context::Settings},
        stages::node::Node,
    },
    limits::PUBLISHED_WITHOUT_TURN,
    model::{
        ids::TaskId,
        target::Target,
        task::Priority,
        time::{Millis, whole_millis},
    },
    queue::{
        Error, Probe, PublishError, Publisher, Record,
        message::{TaskMessage, topic},
    },
    time_source::TimeSource,
};

use crate::world::{World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
/// The tasks of the flood, many times as many as the memory of the wheel holds.
const FLOOD: usize = 20_000;
/// Entries that the wheel may hold, and rows of a page.
const HELD: usize = 1000;
const PAGE: usize = 50;

/// The time from the hand-over of a batch to its answer.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(50);

/// A publisher that hands over at once and answers late, so that the bound on open batches limits
/// the speed of a node.
struct Late {
    inner: MemoryPublisher,
    time: TimeSource,
    at_once: Option<usize>,
    open: Open,
}

/// The larger batches that are open, and the most of them that were open at once.
#[derive(Clone, Default)]
struct Open(Arc<Mutex<(usize, usize)>>);

impl Open {
    fn count(&self, records: usize, begins: bool) {
        if records <= PUBLISHED_WITHOUT_TURN {
            return;
        }
        let (open, most) = &mut *self.0.lock().unwrap();
        if begins {
            *open += 1;
            *most = (*most).max(*open);
        } else {
            *open -= 1;
        }
    }

    fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

#[async_trait]
impl Publisher for Late {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        let count = records.len();
        self.open.count(count, true);
        let answers = self.inner.publish(records).await;
        self.time.sleep(ACKNOWLEDGED_AFTER).await;
        self.open.count(count, false);
        answers
    }

    fn records_at_once(&self) -> Option<usize> {
        self.at_once
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.inner.ensure_topics(topics).await
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        self.inner.still_queued(probes).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.inner.ping().await
    }

    async fn close(&self, limit: Duration) {
        self.inner.close(limit).await;
    }
}

fn start(world: &mut World, at_once: Option<usize>, open: Open) -> Node {
    world.settings = Settings {
        ahead_entries_max: HELD,
        page_rows_max: PAGE,
        ..world.settings
    };
    let publisher = world.queue.handle();
    let late = Late {
        inner: publisher.clone(),
        time: world.time.clone(),
        at_once,
        open,
    };
    let mut context = world.context(1, &publisher, Arc::new(|_| Fate::Go));
    context.publisher = Arc::new(late);
    Node::start(context, SECOND)
}

fn task(name: &str, start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.target = Target::Callback {
        name: name.to_owned(),
    };
    task
}

/// How late each task of a callback was first published, in milliseconds, in the order of their starts.
fn lateness(world: &World, name: &str) -> Vec<i64> {
    let mut first = std::collections::BTreeMap::<TaskId, i64>::new();
    for published in world.queue.records(&topic(name, Priority::Normal)) {
        let id = TaskMessage::decode(published.record.value.clone())
            .expect("a task")
            .dispatch
            .id;
        let late = published.at.0 - id.first_start().0;
        first.entry(id).or_insert(late);
    }
    first.into_values().collect()
}

async fn beside_a_flood(start_in: Duration) -> (Vec<i64>, Vec<i64>) {
    let mut world = World::new(1, 1000);
    let node = start(&mut world, None, Open::default());
    world.pass(3 * SECOND).await;
    let at = world.time.now().after(start_in);
    let steady = (-50..150).map(|number: i64| task("quiet", Millis(at.0 + 20 * number)));
    register(&node.service(), steady.collect()).await;
    for _ in 0..FLOOD / 1000 {
        let flood = (0..1000).map(|_| task("flood", at)).collect();
        register(&node.service(), flood).await;
    }
    world.pass(start_in + 20 * SECOND).await;
    let (quiet, flood) = (lateness(&world, "quiet"), lateness(&world, "flood"));
    assert_eq!((quiet.len(), flood.len()), (200, FLOOD), "all went out");
    assert!(
        quiet.iter().chain(&flood).all(|late| *late >= 0),
        "never early"
    );
    node.stop(SECOND).await;
    (quiet, flood)
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_callback_delays_no_other() {
    let (quiet, flood) = beside_a_flood(20 * SECOND).await;
    // The flood does take long.
    let slowest = flood.iter().max();
    assert!(slowest >= Some(&500), "{slowest:?}");
    // The flood may have all places for batches. Others wait until one of these is acknowledged, and for no
    // more of the flood.
    let most = whole_millis(ACKNOWLEDGED_AFTER);
    assert!(quiet.iter().all(|late| *late <= most), "{quiet:?}");
    let in_time = quiet.iter().filter(|late| **late <= 1).count();
    assert!(in_time >= 170, "{in_time} of 200 were in time: {quiet:?}");
}

/// The scenario above finds the delay when all callbacks share one lane.
#[tokio::test(start_paused = true)]
async fn with_one_lane_for_all_a_flood_delays_others() {
    flaw::switch(Some(Flaw::OneLane));
    let (quiet, _) = beside_a_flood(20 * SECOND).await;
    flaw::switch(None);
    assert!(quiet.iter().any(|late| *late >= 300), "{quiet:?}");
}

/// A queue that works on the cores of the process says how many records it can use at once.
#[tokio::test(start_paused = true)]
async fn a_flood_of_all_wheels_hands_over_on_half_of_the_cores() {
    const WHEELS: u16 = 8;
    const TASKS: usize = 4000;
    let most = |at_once| async move {
        let (mut world, open) = (World::new(WHEELS, 1000), Open::default());
        let node = start(&mut world, at_once, open.clone());
        world.pass(3 * SECOND).await;
        let at = world.time.now().after(10 * SECOND);
        for _ in 0..TASKS / 1000 {
            let flood = (0..1000).map(|_| task("flood", at)).collect();
            register(&node.service(), flood).await;
        }
        world.pass(30 * SECOND).await;
        assert_eq!(lateness(&world, "flood").len(), TASKS, "all went out");
        node.stop(SECOND).await;
        open.most()
    };
    let cores = thread::available_parallelism().map_or(1, Into::into);
    assert_eq!(most(Some(64)).await, (cores / 2).clamp(1, 16));
    // A queue elsewhere takes what it is given.
    assert!(most(None).await > usize::from(WHEELS));
}
