//! Figures tell why tasks wait: for a worker, for a limit, behind a gate, for an attempt or for other tasks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tickwheel::{
    doubles::store::faulty::{Fate, Faulty},
    flow::{
        base::{api::SettleRequest, figures::unclaimed::Cause, records::callbacks::GateChange},
        stages::{
            node::Node,
            poll::PollRequest,
            query::{standing::total, stats::Stats},
            service::Service,
        },
    },
    model::{
        callback::Policy,
        gate::GateState,
        ids::TaskId,
        join::{After, Asked, Condition},
        limit::{Limits, Rate},
        state::Outcome,
    },
};
use tokio::task::JoinHandle;

use crate::world::{World, callback, first_claim, register};

const SECOND: Duration = Duration::from_secs(1);

async fn stats(world: &World, service: &Service) -> Arc<Stats> {
    // Statistics are kept for a second.
    world.pass(2 * SECOND).await;
    service.stats().await.unwrap()
}

/// Returns how many tasks of `work` nobody has taken, and why.
fn waiting(stats: &Stats) -> (u64, Option<Cause>) {
    let work = stats.unclaimed.callbacks.iter();
    let work = work.filter(|one| one.callback == "work");
    let found: Vec<(u64, Cause)> = work.map(|one| (one.tasks, one.cause)).collect();
    let tasks = found.iter().map(|(tasks, _)| tasks).sum();
    (tasks, found.first().map(|(_, cause)| *cause))
}

async fn limit(service: &Service, limits: Limits) {
    let policy = Policy {
        limits,
        ..Policy::default()
    };
    let callbacks = service.callbacks().clone();
    callbacks
        .configure("work", policy, &|_| true)
        .await
        .unwrap();
}

/// Polls all the time, and runs what comes for as long as the test goes on.
fn polls(service: Arc<Service>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let request = PollRequest {
                worker: "w".to_owned(),
                callbacks: vec!["work".to_owned()],
                max: 1,
                wait: 10 * SECOND,
                version: None,
            };
            service.poll(request).await.unwrap().accept();
        }
    })
}

async fn ids(world: &World, service: &Service, count: usize) -> Vec<TaskId> {
    let mut task = callback(world.time.now());
    task.draft.claim_timeout = Some(600 * SECOND);
    task.draft.heartbeat_timeout = Some(600 * SECOND);
    let views = register(service, vec![task; count]).await;
    views.iter().map(|view| view.id).collect()
}

/// The report of the first attempt of a task.
fn report(id: TaskId, outcome: Outcome) -> SettleRequest {
    SettleRequest {
        id,
        attempt: 1,
        outcome,
        answered: None,
    }
}

/// A node that has its store and its queue for itself, as it believes.
fn alone(world: &World, number: u64) -> Node {
    let disk = world.disk();
    let hook = Arc::new(|_| Fate::Go);
    let store = Arc::new(Faulty::of_own(disk as _, world.time.clone(), hook));
    let publisher = world.queue.handle();
    let mut context = world.context(number, &publisher, Arc::new(|_| Fate::Go));
    context.store = Arc::clone(&store) as _;
    context.underway = Some(store);
    Node::start(context, SECOND)
}

#[tokio::test(start_paused = true)]
async fn due_tasks_are_told_by_what_keeps_them_back() {
    let world = World::on_disk(1, 10_000);
    let node = alone(&world, 1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let slow = Limits {
        rate: Some(Rate::new(0.02, Some(1)).unwrap()),
        in_flight: None,
    };
    limit(&service, slow).await;
    world.pass(3 * SECOND).await;
    let tasks = ids(&world, &service, 5).await;
    let seen = stats(&world, &service).await;
    // No worker asks: a limit keeps nothing back as yet.
    assert_eq!(waiting(&seen), (5, Some(Cause::Worker)));
    assert_eq!(seen.unclaimed.limited, 0);
    let polling = polls(Arc::clone(&service));
    for _ in 0..10 {
        let seen = stats(&world, &service).await;
        assert_eq!(waiting(&seen), (4, Some(Cause::Rate)));
        assert_eq!((seen.unclaimed.tasks, seen.unclaimed.limited), (4, 4));
    }
    let one = Limits {
        rate: None,
        in_flight: Some(1),
    };
    limit(&service, one).await;
    world.pass(5 * SECOND).await;
    for _ in 0..10 {
        let seen = stats(&world, &service).await;
        let (left, cause) = waiting(&seen);
        assert!(left >= 3, "one more had the token of the rate: {left}");
        assert_eq!(cause, Some(Cause::InFlight));
    }
    limit(&service, Limits::default()).await;
    world.pass(5 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(waiting(&seen), (0, None));
    assert_eq!(tasks.len(), 5);
    polling.abort();
}

#[tokio::test(start_paused = true)]
async fn held_tasks_are_told_with_their_gate_and_are_late_from_its_opening_on() {
    let world = World::new(1, 10_000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let gate = async |state| {
        let change = GateChange {
            collection: String::new(),
            state,
            reason: "the bank is away".to_owned(),
            until: None,
            who: String::new(),
        };
        let callbacks = service.callbacks().clone();
        callbacks.set_gate("work", &change).await.unwrap();
    };
    gate(GateState::Paused).await;
    world.pass(3 * SECOND).await;
    ids(&world, &service, 3).await;
    world.pass(40 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(waiting(&seen), (0, None), "they wait for no worker");
    let (callback, gate_of) = &seen.gates[0];
    assert_eq!((&**callback, gate_of.state), ("work", GateState::Paused));
    assert_eq!(gate_of.reason, "the bank is away");
    let held = BTreeMap::from([("work".to_owned(), 3)]);
    assert_eq!(seen.standing.held, Some(held));
    gate(GateState::Open).await;
    world.pass(5 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(seen.gates, []);
    let late = seen.lateness.expect("tasks went out");
    assert!(late.max_ms < 3000, "{late:?} behind a gate of 40 s");
    assert_eq!(seen.recent.len(), 3, "{:?}", seen.recent);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn tasks_that_retry_that_wait_for_others_and_that_are_dead_have_figures() {
    let world = World::new(1, 10_000);
    let (node, other) = (world.node(1), world.node(2));
    let service = node.service();
    world.pass(3 * SECOND).await;
    let tasks = ids(&world, &service, 5).await;
    let claims = tasks.iter().map(|id| first_claim(*id)).collect();
    service.claim("w", claims).await;
    let mut waiter = callback(world.time.now());
    waiter.draft.after = Some(Box::new(Asked {
        after: After {
            condition: Condition::AllEnded,
            later: false,
            deadline: None,
            tasks: 1,
        },
        ids: vec![tasks[4]],
    }));
    register(&service, vec![waiter]).await;
    let settle = async |service: &Service, id, outcome| {
        service.settle("w", vec![report(id, outcome)]).await;
    };
    for id in &tasks[..3] {
        let again = Outcome::Retry {
            error: "no".to_owned(),
            after: Some(200 * SECOND),
        };
        settle(&service, *id, again).await;
    }
    let fails = Outcome::Failed {
        error: "no".to_owned(),
    };
    settle(&service, tasks[3], fails).await;
    world.pass(10 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(counts(&seen), (3, 1), "a failure for good is no death");
    let none = Some(BTreeMap::new());
    assert_eq!((&seen.standing.held, &seen.standing.dead), (&none, &none));
    // Its end is told at the other node, which lets the waiter go.
    settle(
        &other.service(),
        tasks[4],
        Outcome::Succeeded { result: None },
    )
    .await;
    world.pass(20 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(counts(&seen), (3, 0));
    world.pass(200 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(counts(&seen).0, 0, "their time has come");
    world.check();
}

/// The tasks that wait for a retry, and for others.
fn counts(seen: &Stats) -> (u64, u64) {
    let standing = &seen.standing;
    (total(&standing.retrying), total(&standing.waiting))
}

#[tokio::test(start_paused = true)]
async fn a_lone_process_stops_counting_tasks_that_were_taken_unseen() {
    let world = World::on_disk(1, 10_000);
    let (node, unseen) = (alone(&world, 1), alone(&world, 2));
    let service = node.service();
    world.pass(3 * SECOND).await;
    let tasks = ids(&world, &service, 6).await;
    world.pass(3 * SECOND).await;
    assert_eq!(waiting(&*stats(&world, &service).await).0, 6);
    let claims = tasks[..4].iter().map(|id| first_claim(*id)).collect();
    unseen.service().claim("w", claims).await;
    world.pass(15 * SECOND).await;
    let seen = stats(&world, &service).await;
    assert_eq!(waiting(&seen).0, 2, "their rows say that they run");
    let done = |id: &TaskId| report(*id, Outcome::Succeeded { result: None });
    let reports = tasks[..4].iter().map(done).collect();
    unseen.service().settle("w", reports).await;
    // A task that waits stays counted, however long: each look says so again.
    world.pass(3000 * SECOND).await;
    assert_eq!(waiting(&*stats(&world, &service).await).0, 2);
}
