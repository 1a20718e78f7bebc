//! A closed gate keeps every task of its callback from beginning, and an opened one lets all of them go, whatever dies meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    doubles::{queue::memory::Fault, store::faulty::Fate},
    flow::{
        base::{
            api::{NewTask, View, VisibleState},
            records::callbacks::GateChange,
        },
        stages::service::Service,
    },
    limits::RELEASE_ROWS_MAX,
    model::{
        gate::{GateState, LATE_ROWS},
        ids::TaskId,
        state::DROPPED,
        time::Millis,
        wheel::WheelNumber,
    },
};

use crate::world::{Simulated, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// How long after an acknowledgement a gate is in force everywhere.
const IN_FORCE: Duration = Duration::from_secs(2);

async fn set(service: &Service, collection: &str, state: GateState) {
    set_until(service, collection, state, None).await;
}

async fn set_until(service: &Service, collection: &str, state: GateState, until: Option<Millis>) {
    let change = GateChange {
        collection: collection.to_owned(),
        state,
        reason: "a test".to_owned(),
        until,
        who: String::new(),
    };
    service.callbacks().set_gate("work", &change).await.unwrap();
}

async fn registered(service: &Service, tasks: Vec<NewTask>) -> Vec<TaskId> {
    let registered = register(service, tasks).await;
    registered.iter().map(|task| task.id).collect()
}

/// Tasks that are due from now on, one every 300 ms.
fn soon(world: &World, count: i64) -> Vec<NewTask> {
    let now = world.time.now();
    let starts = (0..count).map(|n| Millis(now.0 + n * 300));
    starts.map(callback).collect()
}

fn of_collection(world: &World, collection: &str) -> NewTask {
    let mut task = callback(world.time.now());
    task.draft.collection = Some(collection.to_owned());
    task
}

/// When executions of tasks began.
fn began(world: &World, ids: &[TaskId]) -> Vec<Millis> {
    let executions = ids.iter().flat_map(|id| world.executions_of(*id));
    executions.map(|execution| execution.began).collect()
}

async fn all_succeed(world: &World, service: &Service, ids: &[TaskId]) {
    for id in ids {
        let end = world.end_of(service, *id, SECOND).await;
        assert_eq!(end, VisibleState::Succeeded, "{id}");
    }
    world.check();
}

fn two_nodes() -> (World, Simulated, Simulated) {
    let world = World::new(2, 1000);
    let (one, other) = (world.node(1), world.node(2));
    (world, one, other)
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_what_is_due_and_an_opening_releases_it_in_time_and_in_order() {
    let (world, one, other) = two_nodes();
    let worker = world.worker(one.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    let before = registered(&one.service(), soon(&world, 1)).await;
    world.pass(SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    // Near ones, and ones that the wheels read from their slots.
    let mut ids = registered(&other.service(), soon(&world, 30)).await;
    let later = world.time.now().after(20 * SECOND);
    ids.extend(registered(&one.service(), vec![callback(later); 20]).await);
    world.pass(200 * SECOND).await;
    assert_eq!(began(&world, &before).len(), 1, "it began before the pause");
    assert_eq!(began(&world, &ids), [], "no attempt began");
    set(&other.service(), "", GateState::Open).await;
    let opened = world.time.now();
    world.pass(10 * SECOND).await;
    let began = began(&world, &ids);
    assert_eq!(began.len(), ids.len(), "each ran once");
    let late = began.iter().max().unwrap();
    assert!(late.since(opened) <= 2 * SECOND, "{:?}", late.since(opened));
    for wheel in [0, 1].map(|number| WheelNumber::new(number).unwrap()) {
        let published = |id: &TaskId| crate::world::published(&world, *id)[0];
        let mut order: Vec<_> = ids.iter().filter(|id| id.wheel() == wheel).collect();
        order.sort_by_key(|id| id.first_start());
        let times: Vec<Millis> = order.into_iter().map(published).collect();
        assert!(times.is_sorted(), "the oldest start goes first: {times:?}");
    }
    all_succeed(&world, &one.service(), &ids).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn messages_that_lie_in_the_queue_are_held_at_their_claim() {
    let (world, one, other) = two_nodes();
    world.pass(5 * SECOND).await;
    let ids = registered(&one.service(), soon(&world, 20)).await;
    world.pass(10 * SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let workers = [
        world.worker(other.service(), succeeds(SECOND / 10)),
        world.polling_worker(one.service(), |_| None, succeeds(SECOND / 10)),
    ];
    world.pass(100 * SECOND).await;
    assert_eq!(began(&world, &ids), []);
    set(&one.service(), "", GateState::Open).await;
    world.pass(2 * SECOND).await;
    assert_eq!(began(&world, &ids).len(), ids.len());
    world.pass(10 * SECOND).await;
    all_succeed(&world, &one.service(), &ids).await;
    for worker in workers {
        worker.abort();
    }
}

/// Pauses, kills the first node half a minute before the gate opens or right then, and returns how long after the opening the
/// last task began.
async fn killed(world: World, kill_first: bool) -> Duration {
    let (one, other) = (world.node(1), world.node(2));
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let ids = registered(&one.service(), soon(&world, 40)).await;
    world.pass(60 * SECOND).await;
    if kill_first {
        one.crash();
        world.pass(30 * SECOND).await;
        assert_eq!(began(&world, &ids), []);
    }
    set(&other.service(), "", GateState::Open).await;
    let opened = world.time.now();
    one.crash();
    world.pass(60 * SECOND).await;
    let began = began(&world, &ids);
    assert_eq!(began.len(), ids.len(), "none is lost, and none runs twice");
    all_succeed(&world, &other.service(), &ids).await;
    worker.abort();
    began.iter().max().unwrap().since(opened)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_during_a_pause_loses_no_held_task() {
    let late = killed(World::new(2, 1000), true).await;
    assert!(late <= 2 * SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_at_the_opening_leaves_its_held_tasks_to_the_next_owner() {
    let late = killed(World::new(2, 1000), false).await;
    // The lease, the skew and a step, and the release.
    assert!(late <= 10 * SECOND, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_loses_no_held_task_on_disk() {
    for (kill_first, at_most) in [(true, 2 * SECOND), (false, 10 * SECOND)] {
        let late = killed(World::on_disk(2, 1000), kill_first).await;
        assert!(late <= at_most, "{kill_first}: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_read_the_configuration_neither_claims_nor_publishes() {
    let world = World::new(1, 1000);
    let blind = Arc::new(AtomicBool::new(false));
    let fates = {
        let blind = Arc::clone(&blind);
        Arc::new(
            move |_: usize, call: tickwheel::doubles::store::faulty::Call| {
                let fails = call.operation == "record" && blind.load(Ordering::SeqCst);
                if fails { Fate::Fail } else { Fate::Go }
            },
        )
    };
    let node = world.node_with(1, fates);
    world.pass(5 * SECOND).await;
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    let start = world.time.now().after(6 * SECOND);
    let ids = registered(&node.service(), vec![callback(start); 10]).await;
    blind.store(true, Ordering::SeqCst);
    world.pass(30 * SECOND).await;
    assert_eq!(began(&world, &ids), [], "a gate may have been closed");
    blind.store(false, Ordering::SeqCst);
    world.pass(3 * SECOND).await;
    assert_eq!(began(&world, &ids).len(), ids.len());
    all_succeed(&world, &node.service(), &ids).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_a_collection_concerns_no_others_and_opens_at_its_time() {
    let (world, one, _other) = two_nodes();
    let worker = world.worker(one.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    let until = world.time.now().after(60 * SECOND);
    set_until(&one.service(), "bulk", GateState::Paused, Some(until)).await;
    world.pass(IN_FORCE).await;
    let bulk = registered(&one.service(), vec![of_collection(&world, "bulk"); 5]).await;
    let mut others = registered(&one.service(), vec![of_collection(&world, "single"); 5]).await;
    others.extend(registered(&one.service(), soon(&world, 5)).await);
    world.pass(10 * SECOND).await;
    assert_eq!(began(&world, &others).len(), others.len());
    assert_eq!(began(&world, &bulk), []);
    world.pass(until.since(world.time.now())).await;
    assert_eq!(began(&world, &bulk), []);
    // By the clocks of the nodes, and a step.
    world.pass(2 * SECOND).await;
    assert_eq!(began(&world, &bulk).len(), bulk.len());
    world.pass(5 * SECOND).await;
    all_succeed(&world, &one.service(), &bulk).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_behind_two_gates_goes_out_when_both_are_open() {
    let (world, one, _other) = two_nodes();
    let worker = world.worker(one.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    set(&one.service(), "bulk", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let ids = registered(&one.service(), vec![of_collection(&world, "bulk"); 5]).await;
    world.pass(20 * SECOND).await;
    set(&one.service(), "", GateState::Open).await;
    world.pass(30 * SECOND).await;
    assert_eq!(began(&world, &ids), []);
    set(&one.service(), "bulk", GateState::Open).await;
    world.pass(2 * SECOND).await;
    assert_eq!(began(&world, &ids).len(), ids.len());
    world.pass(5 * SECOND).await;
    all_succeed(&world, &one.service(), &ids).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_drops_ends_due_tasks_and_those_that_were_held() {
    let (world, one, other) = two_nodes();
    let worker = world.worker(one.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let mut ids = registered(&one.service(), soon(&world, 5)).await;
    let far = registered(
        &one.service(),
        vec![callback(world.time.now().after(300 * SECOND))],
    )
    .await;
    world.pass(20 * SECOND).await;
    set(&other.service(), "", GateState::Dropping).await;
    ids.extend(registered(&one.service(), soon(&world, 5)).await);
    world.pass(20 * SECOND).await;
    assert_eq!(began(&world, &ids), []);
    for id in &ids {
        let task = one.service().get(*id, View::Basic).await.unwrap().unwrap();
        assert_eq!(task.state, VisibleState::Cancelled, "{id}");
        assert!(task.error.unwrap().starts_with(DROPPED));
    }
    // A task that is not due is not dropped.
    set(&one.service(), "", GateState::Open).await;
    world.pass(300 * SECOND).await;
    all_succeed(&world, &one.service(), &far).await;
    assert_eq!(began(&world, &ids), []);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_held_task_is_cancelled_and_moved_as_any_other() {
    let (world, one, _other) = two_nodes();
    let worker = world.worker(one.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    set(&one.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let ids = registered(&one.service(), soon(&world, 2)).await;
    world.pass(20 * SECOND).await;
    let (cancelled, moved) = (&ids[..1], &ids[1..]);
    one.service().cancel(ids[0]).await.unwrap().unwrap();
    let start = world.time.now().after(60 * SECOND);
    one.service()
        .reschedule(ids[1], start, None)
        .await
        .unwrap()
        .unwrap();
    set(&one.service(), "", GateState::Open).await;
    world.pass(30 * SECOND).await;
    assert_eq!(began(&world, &ids), [], "one was cancelled, one is not due");
    world.pass(40 * SECOND).await;
    assert_eq!(began(&world, cancelled), []);
    all_succeed(&world, &one.service(), moved).await;
    assert!(began(&world, moved)[0] >= start);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_write_takes_long_begins_nothing_behind_a_gate_that_was_closed_meanwhile() {
    let world = World::new(1, 1000);
    let slow = Arc::new(AtomicBool::new(false));
    let fates = {
        let slow = Arc::clone(&slow);
        Arc::new(
            move |_: usize, call: tickwheel::doubles::store::faulty::Call| {
                if call.operation == "swap_tasks" && slow.load(Ordering::SeqCst) {
                    Fate::Delay(5 * SECOND)
                } else {
                    Fate::Go
                }
            },
        )
    };
    let node = world.node_with(1, fates);
    world.pass(5 * SECOND).await;
    slow.store(true, Ordering::SeqCst);
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    let ids = registered(&node.service(), soon(&world, 3)).await;
    world.pass(2 * SECOND).await;
    set(&node.service(), "", GateState::Paused).await;
    world.pass(60 * SECOND).await;
    assert_eq!(began(&world, &ids), [], "a claim was on the way");
    slow.store(false, Ordering::SeqCst);
    set(&node.service(), "", GateState::Open).await;
    world.pass(3 * SECOND).await;
    assert_eq!(began(&world, &ids).len(), ids.len());
    // The worker claims the others behind it, when the gate is closed.
    let task = node.service().get(ids[0], View::Basic).await.unwrap();
    assert_eq!(task.unwrap().attempt, 2, "the first was given back");
    all_succeed(&world, &node.service(), &ids).await;
    worker.abort();
}

/// Publications of the first page that fail once, behind the time for late rows, do not wait for the looks of their tasks.
#[tokio::test(start_paused = true)]
async fn rows_that_stay_in_an_earlier_page_are_released_soon() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    set(&node.service(), "", GateState::Paused).await;
    world.pass(IN_FORCE).await;
    let count = RELEASE_ROWS_MAX * 2 + 10;
    let ids = registered(&node.service(), vec![callback(world.time.now()); count]).await;
    world.pass(5 * SECOND).await;
    world.queue.faults().plan(1_000_000, Fault::UnconfirmedLost);
    set(&node.service(), "", GateState::Open).await;
    world.pass(LATE_ROWS + 2 * SECOND).await;
    let published = || {
        ids.iter()
            .filter(|id| !crate::world::published(&world, **id).is_empty())
    };
    assert_eq!(published().count(), 0);
    world.queue.faults().clear();
    world.queue.faults().plan(5, Fault::UnconfirmedLost);
    world.pass(3 * SECOND).await;
    assert_eq!(published().count(), count);
    world.check();
}
