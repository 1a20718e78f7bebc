//! The node that served a dead worker notices it at the heartbeat timeout, whatever the claim
//! timeout; else a look does.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    flaw::{self, Flaw},
    flow::{
        base::api::{
            CancelOutcome, ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest, NewTask,
            TaskView, View, VisibleState,
        },
        stages::service::Service,
    },
    model::{
        history::Ending,
        ids::TaskId,
        row::TIMED_OUT,
        state::{Outcome, WORKER_LOST},
        time::Millis,
    },
};

use crate::world::{Behaviour, World, callback, published, register};

const SECOND: Duration = Duration::from_secs(1);

/// The death of a worker is noticed within this time.
const NOTICED: Duration = Duration::from_secs(8);

/// A task whose worker must send a heartbeat every five seconds, and that has a look every ten minutes.
fn seldom_looked_at(start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.claim_timeout = Some(Duration::from_secs(600));
    task.draft.heartbeat_timeout = Some(Duration::from_secs(5));
    task
}

/// Dies in its first `dies` attempts, then succeeds.
fn dies(dies: u32) -> Behaviour {
    Arc::new(move |_, attempt| {
        let outcome = (attempt > dies).then_some(Outcome::Succeeded { result: None });
        (SECOND / 10, outcome)
    })
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Basic).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_killed_workers_task_runs_again_at_its_heartbeat_timeout() {
    a_killed_workers_task_runs_again_at_its_heartbeat_timeout_in(World::new(2, 10_000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_workers_task_runs_again_at_its_heartbeat_timeout_on_disk() {
    a_killed_workers_task_runs_again_at_its_heartbeat_timeout_in(World::on_disk(2, 10_000)).await;
}

async fn a_killed_workers_task_runs_again_at_its_heartbeat_timeout_in(world: World) {
    let node = world.node(1);
    let service = node.service();
    let worker = world.worker(node.service(), dies(1));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let task = register(&service, vec![seldom_looked_at(start)])
        .await
        .remove(0);
    world.pass(10 * SECOND + SECOND / 2).await;
    let waits = read(&service, task.id).await;
    assert_eq!(
        (waits.state, waits.error.as_deref()),
        (VisibleState::Retrying, Some(WORKER_LOST))
    );
    world.pass(10 * SECOND).await;
    let runs = world.executions_of(task.id);
    assert_eq!(runs.len(), 2, "{runs:?}");
    let waited = runs[1].began.since(runs[0].began);
    assert!(waited >= 5 * SECOND && waited <= NOTICED, "{waited:?}");
    let ended = read(&service, task.id).await;
    assert_eq!(
        (ended.state, ended.attempt),
        (VisibleState::Succeeded, 2),
        "{ended:?}"
    );
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_last_attempts_death_ends_the_task_at_once_and_says_why() {
    let world = World::new(1, 10_000);
    let node = world.node(1);
    let worker = world.worker(node.service(), dies(9));
    world.pass(3 * SECOND).await;
    let task = register(&node.service(), vec![seldom_looked_at(world.time.now())])
        .await
        .remove(0);
    world.pass(3 * NOTICED).await;
    let ended = read(&node.service(), task.id).await;
    assert_eq!(
        (ended.state, ended.error.as_deref()),
        (VisibleState::Dead, Some(WORKER_LOST))
    );
    assert_eq!(world.executions_of(task.id).len(), 3);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_a_dead_worker_would_be_told_of_ends_the_task() {
    let world = World::new(1, 10_000);
    let node = world.node(1);
    let service = node.service();
    let worker = world.worker(node.service(), dies(1));
    world.pass(3 * SECOND).await;
    let task = register(&service, vec![seldom_looked_at(world.time.now())])
        .await
        .remove(0);
    world.pass(2 * SECOND).await;
    let (outcome, _) = service.cancel(task.id).await.unwrap().unwrap();
    assert_eq!(outcome, CancelOutcome::CancelRequested);
    world.pass(NOTICED).await;
    assert_eq!(read(&service, task.id).await.state, VisibleState::Cancelled);
    assert_eq!(world.executions_of(task.id).len(), 1);
    worker.abort();
}

/// Registers a task that is due, and claims it by hand through a node.
async fn claimed(world: &World, service: &Service, task: NewTask) -> TaskId {
    let task = register(service, vec![task]).await.remove(0);
    world.pass(SECOND).await;
    let claim = ClaimRequest {
        id: task.id,
        generation: 0,
        expected_attempt: 0,
        published: None,
        spec: None,
        with_content: false,
        admitted: false,
    };
    let answer = service.claim("a", vec![claim]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(claimed) if claimed.attempt == 1));
    task.id
}

fn beat(id: TaskId) -> Vec<HeartbeatRequest> {
    vec![HeartbeatRequest {
        id,
        attempt: 1,
        progress: None,
    }]
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_go_to_another_node_keep_an_attempt_alive() {
    let world = World::new(2, 10_000);
    let (one, other) = (world.node(1), world.node(2));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let id = claimed(&world, &one.service(), seldom_looked_at(now)).await;
    for _ in 0..40 {
        world.pass(2 * SECOND).await;
        let answer = other.service().heartbeat("a", beat(id)).await.remove(0);
        assert!(matches!(answer, HeartbeatAnswer::Ok), "{answer:?}");
    }
    assert_eq!(published(&world, id).len(), 1, "alive: not published again");
    let state = read(&one.service(), id).await.state;
    assert_eq!(state, VisibleState::Processing);
    // Both nodes have watched the attempt, and both notice.
    let worker = world.worker(one.service(), dies(0));
    world.pass(NOTICED).await;
    assert_eq!(
        world.executions_of(id).len(),
        1,
        "run again, and by one worker"
    );
    assert_eq!(read(&one.service(), id).await.attempt, 2);
    world.check();
    worker.abort();
}

/// Loses a worker with the node that watched it. Returns how the task reads when a watch would have noticed.
async fn worker_lost_with_its_node() -> VisibleState {
    let world = World::new(2, 10_000);
    let (watching, other) = (world.node(1), world.node(2));
    world.pass(3 * SECOND).await;
    let mut task = seldom_looked_at(world.time.now());
    task.draft.claim_timeout = Some(Duration::from_secs(20));
    let id = claimed(&world, &watching.service(), task).await;
    watching.crash();
    let worker = world.worker(other.service(), dies(0));
    world.pass(NOTICED).await;
    let noticed = read(&other.service(), id).await.state;
    world.pass(60 * SECOND).await;
    assert_eq!(
        read(&other.service(), id).await.state,
        VisibleState::Succeeded
    );
    world.check();
    worker.abort();
    noticed
}

#[tokio::test(start_paused = true)]
async fn the_heir_or_the_look_finds_the_worker_that_died_with_the_node_that_watched_it() {
    assert_eq!(worker_lost_with_its_node().await, VisibleState::Succeeded);
    flaw::switch(Some(Flaw::HeldLeftToLook));
    let noticed = worker_lost_with_its_node().await;
    assert_eq!(
        noticed,
        VisibleState::Retrying,
        "it reads so without a watch"
    );
}

/// Sends heartbeats every two seconds until one is answered otherwise. Returns that answer, and how long it took.
async fn beats_until_lost(world: &World, service: &Service, id: TaskId) -> (String, Duration) {
    let began = world.time.moment();
    for _ in 0..60 {
        match service.heartbeat("a", beat(id)).await.remove(0) {
            HeartbeatAnswer::Ok => world.pass(2 * SECOND).await,
            HeartbeatAnswer::Lost(reason) => {
                return (reason.to_string(), world.time.moment().since(began));
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it may run for ever");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_beyond_its_time_limit_ends_though_its_worker_lives() {
    let world = World::new(2, 10_000);
    let (one, other) = (world.node(1), world.node(2));
    world.pass(3 * SECOND).await;
    let mut task = seldom_looked_at(world.time.now());
    task.draft.attempt_timeout = Some(9 * SECOND);
    let id = claimed(&world, &one.service(), task).await;
    // The sign of life goes to a node that did not see the claim.
    let (reason, took) = beats_until_lost(&world, &other.service(), id).await;
    assert_eq!(reason, "the attempt took longer than its attempt_timeout");
    assert!(took >= 8 * SECOND && took <= 11 * SECOND, "{took:?}");
    let waits = read(&one.service(), id).await;
    assert_eq!(
        (waits.state, waits.error.as_deref()),
        (VisibleState::Retrying, Some(TIMED_OUT))
    );
    let worker = world.worker(one.service(), dies(0));
    world.pass(NOTICED).await;
    let ended = read(&one.service(), id).await;
    assert_eq!((ended.state, ended.attempt), (VisibleState::Succeeded, 2));
    let first = &ended.history.attempts[0];
    assert_eq!(first.ending, Some(Ending::TimedOut), "{first:?}");
    let ran = first.ended.unwrap().since(first.claimed.unwrap());
    assert_eq!(ran, 9 * SECOND);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_that_takes_too_long_ends_its_task() {
    let world = World::new(1, 10_000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let mut task = seldom_looked_at(world.time.now());
    task.draft.attempt_timeout = Some(9 * SECOND);
    task.draft.max_attempts = Some(1);
    let id = claimed(&world, &node.service(), task).await;
    beats_until_lost(&world, &node.service(), id).await;
    world.pass(NOTICED).await;
    let ended = read(&node.service(), id).await;
    assert_eq!(
        (ended.state, ended.error.as_deref()),
        (VisibleState::Dead, Some(TIMED_OUT))
    );
    let last = &ended.history.attempts[0];
    assert_eq!(last.ending, Some(Ending::TimedOut), "{last:?}");
    world.check();
}
