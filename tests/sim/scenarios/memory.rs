//! Memory: how many bytes of contents a node holds at once, whatever is due, and who waits for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tickwheel::{
    flow::{api::NewTask, context::Settings, node::Node},
    model::{
        task::{Body, Content},
        time::Millis,
    },
    queue::{Error, Probe, PublishError, Publisher, Record, memory::MemoryPublisher},
    store::faulty::Fate,
    time_source::TimeSource,
};

use crate::world::{World, callback, published, register};

const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1024 * 1024;

/// A publisher that takes its time, and counts the bytes of the large records that it was given and has not answered.
struct Metered {
    inner: MemoryPublisher,
    time: TimeSource,
    answers_after: Duration,
    held: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Publisher for Metered {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        let bytes: usize = records
            .iter()
            .map(Record::bytes)
            .filter(|b| *b > 4096)
            .sum();
        let held = self.held.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(held, Ordering::SeqCst);
        if bytes > 0 {
            self.time.sleep(self.answers_after).await;
        }
        let answers = self.inner.publish(records).await;
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        answers
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

fn large(start: Millis, bytes: usize) -> NewTask {
    let mut task = callback(start);
    task.spec.body = Body::Inline(Content {
        payload: Bytes::from(vec![7; bytes]),
        ..Content::default()
    });
    task
}

/// Starts a node in a world whose budget for contents is 8 MiB, with a publisher that answers large records late.
fn start(world: &World, answers_after: Duration) -> (Node, Arc<Metered>) {
    let publisher = world.queue.handle();
    let metered = Arc::new(Metered {
        inner: publisher.clone(),
        time: world.time.clone(),
        answers_after,
        held: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let mut context = world.context(1, &publisher, Arc::new(|_| Fate::Go));
    context.publisher = Arc::clone(&metered) as Arc<dyn Publisher>;
    (Node::start(context, SECOND), metered)
}

fn world() -> World {
    let mut world = World::new(4, 1000);
    world.settings = Settings {
        contents_bytes_max: 8 * MIB as u64,
        ..world.settings
    };
    world
}

#[tokio::test(start_paused = true)]
async fn contents_due_at_one_moment_are_held_within_the_budget_and_delay_no_small_task() {
    let world = world();
    let (node, metered) = start(&world, Duration::from_millis(100));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let far = now.after(20 * SECOND);
    let mut large_ids = Vec::new();
    // Some come from the slots, some from the memory of the node that took them.
    for start in [far, now] {
        let tasks = (0..60).map(|_| large(start, MIB - 64 * 1024)).collect();
        let views = register(&node.service(), tasks).await;
        large_ids.extend(views.iter().map(|task| task.id));
    }
    let small = (0..40).flat_map(|n| [far, now].map(|at| callback(Millis(at.0 + 25 * n))));
    let small = register(&node.service(), small.collect()).await;
    world.pass(60 * SECOND).await;
    for id in large_ids {
        assert!(!published(&world, id).is_empty());
    }
    for task in small {
        let late = published(&world, task.id)[0].0 - task.id.first_start().0;
        assert!((0..=5).contains(&late), "{late} ms late");
    }
    let most = metered.most.load(Ordering::SeqCst);
    assert!(most > MIB && most <= 4 * MIB + 64 * 1024, "{most} bytes");
    node.stop(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn contents_that_looks_publish_again_are_held_within_the_budget() {
    let world = world();
    let (node, metered) = start(&world, Duration::from_millis(10));
    world.pass(3 * SECOND).await;
    let lost = tickwheel::queue::memory::Fault::UnconfirmedLost;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..60).map(|_| large(start, MIB - 64 * 1024)).collect();
    let views = register(&node.service(), tasks).await;
    world.pass(9 * SECOND).await;
    // All first publications fail for longer than the node is patient: the looks publish.
    world.queue.faults().plan(20_000, lost);
    world.pass(10 * SECOND).await;
    world.queue.faults().clear();
    metered.most.store(0, Ordering::SeqCst);
    world.pass(300 * SECOND).await;
    for task in views {
        assert!(!published(&world, task.id).is_empty());
    }
    let most = metered.most.load(Ordering::SeqCst);
    assert!(most > MIB && most <= 4 * MIB + 64 * 1024, "{most} bytes");
    node.stop(SECOND).await;
}
