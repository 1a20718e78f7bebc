//! A content, or a place in a sequence, that cannot be understood costs its own task, and stops no wheel.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{CancelOutcome, NewTask, View, VisibleState},
        stages::{query::filter::Filter, service::Service},
    },
    model::{
        ids::TaskId,
        ordering::Sequence,
        state::Outcome,
        task::{Body, Content},
        time::Millis,
        undelivered::LOOK_PATIENCE,
        wheel::WheelNumber,
    },
    schema::members_partition,
    store::index::{IndexKind, IndexPut, IndexStore as _, Partition, Place},
};

use crate::world::{World, callback, published, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Gives a task a content that is kept apart.
fn large(mut task: NewTask) -> NewTask {
    task.draft.body = Body::Inline(Content {
        payload: vec![7; 2000].into(),
        ..Content::default()
    });
    task
}

/// The time up to which the wheel has fired.
fn fired(world: &World) -> Millis {
    let clock = world.store.clock_row(WheelNumber::new(0).unwrap());
    clock.unwrap().fired.due
}

async fn state(service: &Service, id: TaskId) -> VisibleState {
    service.get(id, View::Basic).await.unwrap().unwrap().state
}

/// Contents of tasks that are due together are read together.
#[tokio::test(start_paused = true)]
async fn a_damaged_content_costs_its_own_record_alone() {
    let world = World::new(1, 1000);
    world.queue.create_topic("users", None);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..12).map(|_| large(record(start))).collect();
    let tasks = register(&node.service(), tasks).await;
    let bad = tasks[7].id;
    world.store.spoil_body(bad);
    world.pass(60 * SECOND).await;
    let sent = world.queue.records("users").len();
    assert_eq!(sent, tasks.len() - 1);
    let parked = world.store.all_parked();
    let set_aside: Vec<TaskId> = parked.iter().map(|parked| parked.key.id).collect();
    assert_eq!(set_aside, [bad]);
    let reason = &parked[0].reason;
    assert!(reason.contains("its content is damaged"), "{reason}");
    assert!(fired(&world) > start);
}

/// The content gets an end of life with its task, for which it is read.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_whose_content_is_damaged_stops_no_wheel() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let id = register(&service, vec![large(callback(start))]).await[0].id;
    world.store.spoil_body(id);
    let next = callback(start.after(20 * SECOND));
    let next = register(&service, vec![next]).await[0].id;
    // From here on it has a look.
    world.pass(11 * SECOND).await;
    let cancelled = service.cancel_all(&[id]).await.remove(0);
    let outcome = cancelled.unwrap().unwrap().0;
    assert_eq!(outcome, CancelOutcome::Cancelled);
    world.pass(120 * SECOND).await;
    assert!(!published(&world, next).is_empty());
    let now = world.time.now();
    assert!(fired(&world) > now.before(10 * SECOND), "it stands");
    assert_eq!(state(&service, id).await, VisibleState::Cancelled);
}

fn ordered(start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.ordering_key = Some("a".to_owned());
    task
}

/// The end of a task asks for the next one of its sequence.
#[tokio::test(start_paused = true)]
async fn damaged_places_of_a_sequence_stop_neither_it_nor_its_wheel() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..3).map(|place| ordered(start.after(place * SECOND)));
    let tasks = register(&service, tasks.collect()).await;
    let sequence = Sequence {
        callback: "work".to_owned(),
        key: "a".to_owned(),
    };
    let partition = Partition::new(IndexKind::Member, members_partition(&sequence)).unwrap();
    for sort in [&b"\0"[..], b"\xff"] {
        let place = Place::new(partition.clone(), Bytes::from_static(sort)).unwrap();
        let put = IndexPut::new(place, Bytes::from_static(b"\xff"), world.time.stamp()).unwrap();
        world.store.put_index(&[put]).await.remove(0).unwrap();
    }
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    world.pass(120 * SECOND).await;
    let mut began = Vec::new();
    for task in &tasks {
        assert_eq!(state(&service, task.id).await, VisibleState::Succeeded);
        began.push(world.executions_of(task.id)[0].began);
    }
    assert!(began.is_sorted(), "{began:?}");
    assert!(fired(&world) > world.time.now().before(10 * SECOND));
    worker.abort();
}

/// The end of a task asks for the rows of those that come behind it in its sequence.
#[tokio::test(start_paused = true)]
async fn the_row_of_another_task_keeps_no_step_of_an_end_from_being_done() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let mut first = ordered(start);
    first.draft.max_attempts = Some(1);
    let tasks = register(&service, vec![first, ordered(start)]).await;
    let fails = |_: TaskId, _: u32| {
        let error = "no".to_owned();
        (10 * SECOND, Some(Outcome::Failed { error }))
    };
    let worker = world.worker(node.service(), Arc::new(fails));
    world.pass(10 * SECOND).await;
    world.store.spoil_row(tasks[1].id);
    world.pass(10 * SECOND).await;
    let wanted = Filter {
        state: Some(VisibleState::Failed),
        callback: Some("work".to_owned()),
        ..Filter::default()
    };
    let failed = service.list(&wanted, None, 10).await.unwrap().tasks;
    let ids: Vec<TaskId> = failed.iter().map(|task| task.id).collect();
    assert_eq!(ids, [tasks[0].id]);
    worker.abort();
}

/// The end of a task may ask for days for a store that is away, or for room.
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_for_long_stops_no_wheel_and_comes_again() {
    let world = World::new(1, 1000);
    let away = Arc::new(AtomicBool::new(true));
    let is_away = Arc::clone(&away);
    let fates = move |_, call: Call| {
        if call.operation == "put_index" && is_away.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    let service = node.service();
    world.pass(3 * SECOND).await;
    let mut task = callback(world.time.now().after(5 * SECOND));
    task.draft.max_attempts = Some(1);
    register(&service, vec![task]).await;
    let fails = |_: TaskId, _: u32| {
        let error = "no".to_owned();
        (SECOND, Some(Outcome::Failed { error }))
    };
    let worker = world.worker(node.service(), Arc::new(fails));
    let wanted = Filter {
        state: Some(VisibleState::Failed),
        callback: Some("work".to_owned()),
        ..Filter::default()
    };
    let (mut most, began) = (Duration::ZERO, world.time.now());
    for _ in 0..300 {
        world.pass(SECOND).await;
        most = most.max(world.time.now().since(fired(&world)));
    }
    let tried = LOOK_PATIENCE..LOOK_PATIENCE + 20 * SECOND;
    assert!(tried.contains(&most), "{most:?} since {began:?}");
    let filed = || async { service.list(&wanted, None, 10).await.unwrap().tasks.len() };
    assert_eq!(filed().await, 0, "its end is not filed");
    away.store(false, SeqCst);
    world.pass(60 * SECOND).await;
    assert_eq!(filed().await, 1);
    worker.abort();
}
