//! A node bounds the bytes of contents that it holds at once, however much is due, and lets the others wait.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tickwheel::{
    doubles::{
        queue::memory::MemoryPublisher,
        store::faulty::{Call, Fate, Hook},
    },
    flow::{
        base::{
            api::{
                CancelOutcome, ClaimAnswer, ClaimRequest, Fault, NewTask, SettleAnswer,
                SettleRequest,
            },
            budget::Budget,
        },
        stages::{node::Node, service::Service},
    },
    model::{
        ids::TaskId,
        state::Outcome,
        task::{Body, Content},
        time::Millis,
    },
    queue::{Error, Probe, PublishError, Publisher, Record},
    store::WheelStore as _,
    time_source::TimeSource,
};

use crate::world::{World, callback, first_claim, published, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1024 * 1024;

/// A slow publisher that counts the bytes of the large records that it was given and has not answered.
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
    task.draft.body = Body::Inline(Content {
        payload: Bytes::from(vec![7; bytes]),
        ..Content::default()
    });
    task
}

/// Starts a node in a world whose budget for contents is 8 MiB, with a publisher that answers large records late.
fn start(world: &World, answers_after: Duration) -> (Node, Arc<Metered>) {
    start_with(world, answers_after, Arc::new(|_| Fate::Go))
}

fn start_with(world: &World, answers_after: Duration, hook: Hook) -> (Node, Arc<Metered>) {
    let publisher = world.queue.handle();
    let metered = Arc::new(Metered {
        inner: publisher.clone(),
        time: world.time.clone(),
        answers_after,
        held: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let mut context = world.context(1, &publisher, hook);
    context.publisher = Arc::clone(&metered) as Arc<dyn Publisher>;
    context.contents = Budget::new(8 * MIB as u64);
    (Node::start(context, SECOND), metered)
}

#[tokio::test(start_paused = true)]
async fn contents_due_at_one_moment_are_held_within_the_budget_and_delay_no_small_task() {
    let world = World::new(4, 1000);
    let (node, metered) = start(&world, Duration::from_millis(100));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let far = now.after(20 * SECOND);
    let mut large_ids = Vec::new();
    // Some records come from the slots, some from the memory of the node that took them.
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
    let world = World::new(4, 1000);
    let (node, metered) = start(&world, Duration::from_millis(10));
    world.pass(3 * SECOND).await;
    let lost = tickwheel::doubles::queue::memory::Fault::UnconfirmedLost;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..60).map(|_| large(start, MIB - 64 * 1024)).collect();
    let views = register(&node.service(), tasks).await;
    world.pass(9 * SECOND).await;
    // All first publications fail for longer than the patience of the node, so the looks publish.
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

/// The content of an ended task is read and written once more, for its end of life, by the report
/// and the look behind it.
#[tokio::test(start_paused = true)]
async fn contents_of_tasks_that_have_ended_are_moved_within_the_budget() {
    const TAKES: Duration = Duration::from_millis(100);
    let world = World::new(1, 1000);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let (noted, time) = (Arc::clone(&begun), world.time.clone());
    let hook = move |call: Call| {
        if call.operation == "put_bodies" {
            noted.lock().unwrap().push(time.now());
            return Fate::Delay(TAKES);
        }
        Fate::Go
    };
    let (node, _) = start_with(&world, Duration::from_millis(1), Arc::new(hook));
    let worker = world.worker(node.service(), succeeds(Duration::ZERO));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..60).map(|_| large(start, MIB - 64 * 1024)).collect();
    register(&node.service(), tasks).await;
    begun.lock().unwrap().clear();
    world.pass(100 * SECOND).await;
    let begun = begun.lock().unwrap().clone();
    assert!(begun.len() >= 120, "{} contents were moved", begun.len());
    // Each content counts twice, so four are in memory at once.
    for at in &begun {
        let within = |other: &&Millis| **other >= *at && other.since(*at) < TAKES;
        let together = begun.iter().filter(within).count();
        assert!(together <= 4, "{together} within {TAKES:?}");
    }
    worker.abort();
    node.stop(SECOND).await;
}

/// The contents that were read for claims and that the claimers have not got yet.
#[derive(Default)]
struct Claims {
    counted: AtomicBool,
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Claims {
    /// Counts what is read, and has each claim take a while behind that.
    fn meets(&self, call: Call) -> Fate {
        if !self.counted.load(Ordering::SeqCst) {
            return Fate::Go;
        }
        match call.operation {
            "bodies" => {
                let held = self.held.fetch_add(call.rows, Ordering::SeqCst) + call.rows;
                self.most.fetch_max(held, Ordering::SeqCst);
                Fate::Go
            }
            "swap_tasks" => Fate::Delay(SECOND / 2),
            _ => Fate::Go,
        }
    }

    /// Claims tasks with their contents until it has all; returns how often it was told to come back.
    async fn claim_all(&self, service: &Service, mut left: Vec<TaskId>) -> usize {
        let mut told_to_come_back = 0;
        while !left.is_empty() {
            let requests = left.iter().copied().map(full_claim).collect();
            let mut answers = service.claim("a", requests).await.into_iter();
            left.retain(|_| match answers.next() {
                Some(ClaimAnswer::Claimed(task)) => {
                    assert!(task.content.unwrap().payload.len() > MIB / 2);
                    self.held.fetch_sub(1, Ordering::SeqCst);
                    false
                }
                Some(ClaimAnswer::Early { .. }) => {
                    told_to_come_back += 1;
                    true
                }
                other => panic!("{other:?}"),
            });
        }
        told_to_come_back
    }
}

fn full_claim(id: TaskId) -> ClaimRequest {
    ClaimRequest {
        with_content: true,
        ..first_claim(id)
    }
}

/// Workers that have their messages from Kafka ask for the contents when they claim.
#[tokio::test(start_paused = true)]
async fn claims_of_many_workers_at_once_hold_contents_within_the_budget() {
    let world = World::new(1, 10_000);
    let claims = Arc::new(Claims::default());
    let seen = Arc::clone(&claims);
    let hook = Arc::new(move |call: Call| seen.meets(call));
    let (node, _) = start_with(&world, Duration::from_millis(1), hook);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..60).map(|_| large(start, MIB - 64 * 1024)).collect();
    let tasks = register(&node.service(), tasks).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    world.pass(12 * SECOND).await;
    claims.counted.store(true, Ordering::SeqCst);
    let workers = ids.chunks(3).map(|ids| {
        let (service, claims, ids) = (node.service(), Arc::clone(&claims), ids.to_vec());
        tokio::spawn(async move { claims.claim_all(&service, ids).await })
    });
    let workers: Vec<_> = workers.collect();
    world.pass(SECOND).await;
    // A content that is not kept apart needs no room, and waits for none.
    let small = register(&node.service(), vec![callback(world.time.now())]).await;
    let small = ClaimRequest {
        spec: Some(Arc::clone(&small[0].spec)),
        published: Some(world.time.now()),
        ..full_claim(small[0].id)
    };
    let asked = world.time.now();
    let answer = node.service().claim("a", vec![small]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    let waited = world.time.now().since(asked);
    assert!(waited <= SECOND, "it waited for {waited:?}");
    let mut told_to_come_back = 0;
    for worker in workers {
        told_to_come_back += worker.await.unwrap();
    }
    // Three quarters of the budget are for these.
    let most = claims.most.load(Ordering::SeqCst);
    assert!((3..=6).contains(&most), "{most} contents at once");
    assert!(told_to_come_back > 0, "the wait is bounded");
    node.stop(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn contents_of_records_of_deaths_are_held_within_the_budget() {
    let world = World::new(1, 10_000);
    let (node, _) = start(&world, Duration::from_millis(1));
    let service = node.service();
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..4).map(|_| large(now, MIB - 64 * 1024)).collect();
    let tasks = register(&service, tasks).await;
    world.pass(SECOND).await;
    let claims = tasks.iter().map(|task| first_claim(task.id)).collect();
    for answer in service.claim("a", claims).await {
        assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    }
    // Each counts twice.
    let mut held = Vec::new();
    for task in &tasks[..3] {
        let read = service.deaths().read(task.id).await.unwrap().unwrap();
        assert!(read.1.payload.len() > MIB / 2);
        held.push(read);
    }
    let last = tasks[3].id;
    let read = service.deaths().read(last).await;
    let read = read.map(|_| "it was read");
    assert!(matches!(read, Err(Fault::Unavailable { .. })), "{read:?}");
    held.pop();
    assert!(service.deaths().read(last).await.unwrap().is_some());
    node.stop(SECOND).await;
}

/// Behind a queue that is silent for minutes, records to send take all the memory that they may take.
#[tokio::test(start_paused = true)]
async fn a_report_does_not_wait_for_a_queue_that_is_silent() {
    let world = World::new(1, 10_000);
    let (node, metered) = start(&world, 200 * SECOND);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let begun = register(&service, vec![large(now, MIB / 2)])
        .await
        .remove(0)
        .id;
    let far = now.after(20 * SECOND);
    let more = (0..60).map(|_| large(far, MIB - 64 * 1024)).collect();
    register(&service, more).await;
    world.pass(30 * SECOND).await;
    assert!(
        metered.held.load(Ordering::SeqCst) > MIB,
        "the queue is silent"
    );
    // The claim comes from a worker whose message came before the silence.
    let claim = first_claim(begun);
    let answer = service.claim("a", vec![claim]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(_)), "{answer:?}");
    let settle = SettleRequest {
        id: begun,
        attempt: 1,
        outcome: Outcome::Succeeded { result: None },
        answered: None,
    };
    let asked = world.time.now();
    let answer = service.settle("a", vec![settle]).await.remove(0);
    assert!(matches!(answer, SettleAnswer::Ok), "{answer:?}");
    let waited = world.time.now().since(asked);
    assert!(waited < SECOND, "it waited for {waited:?}");
}

/// Publishes and cancels large records of one tick, of which at most `noted_tasks_max` are listed. Once their
/// places are erased, returns how many contents are left, and how often ticks were read.
async fn left_of_large_records(noted_tasks_max: usize) -> (usize, usize) {
    let mut world = World::new(1, 10_000);
    world.settings.noted_tasks_max = noted_tasks_max;
    world.queue.create_topic("users", None);
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let node = world.node_with(
        1,
        Arc::new(move |_, call| {
            counted.fetch_add(usize::from(call.operation == "scan"), Ordering::SeqCst);
            Fate::Go
        }),
    );
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = Millis((world.time.now().0 / 1000 + 20) * 1000 - 500);
    let tasks = (0..40).map(|_| {
        let mut task = record(start);
        task.draft.body = large(start, 2000).draft.body;
        task
    });
    let tasks = register(&service, tasks.collect()).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    for answer in service.cancel_all(&ids[..25]).await {
        assert!(
            matches!(answer, Ok(Some((CancelOutcome::Cancelled, _)))),
            "{answer:?}"
        );
    }
    world.pass(100 * SECOND).await;
    assert_eq!(world.queue.records("users").len(), 15);
    let left = world.store.bodies(&ids).await.unwrap();
    let left = left.iter().filter(|content| content.is_some()).count();
    (left, scans.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn what_the_eraser_is_told_is_bounded_and_read_once_more_beyond() {
    let (left, all_told) = left_of_large_records(40).await;
    assert_eq!(left, 0);
    let (left, beyond) = left_of_large_records(39).await;
    assert_eq!(left, 0);
    assert_eq!(beyond, all_told + 1, "the one tick is read once more");
}

#[tokio::test(start_paused = true)]
async fn tasks_due_soon_that_find_no_room_are_counted_and_go_out_by_their_looks() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let told = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let mut world = World::new(1, 10_000);
    world.settings.near_tasks_max = 3;
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND / 2);
    let tasks = register(&node.service(), vec![callback(start); 10]).await;
    let told = told.render();
    assert!(told.contains("tickwheel_near_refused_total 7"), "{told}");
    world.pass(40 * SECOND).await;
    for task in tasks {
        assert_eq!(world.executions_of(task.id).len(), 1);
    }
    worker.abort();
}
