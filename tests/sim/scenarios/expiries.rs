//! A task that no worker has taken is ended as expired within two seconds of its time, and after a crash by its look.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    app::executor::Executor,
    flow::{
        base::api::{ClaimAnswer, NewTask, View, VisibleState},
        stages::service::Service,
    },
    model::{
        action::{Action, Actions, Deed, When},
        email::Email,
        ids::TaskId,
        notify::EndStates,
        row::State,
        state::Outcome,
        time::Millis,
    },
    store::Freshness,
};
use tokio_util::sync::CancellationToken;

use crate::{
    letters::Letters,
    world::{Simulated, World, callback, first_claim, register},
};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const EXPIRES: Duration = Duration::from_secs(3);

/// A task that expires, with an action for that. Its looks are a minute and more apart.
fn expiring(start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.expire_after = Some(EXPIRES);
    task.draft.claim_timeout = Some(60 * SECOND);
    task.draft.heartbeat_timeout = Some(60 * SECOND);
    task.draft.actions = Some(Box::new(Actions {
        at_ends: vec![Action {
            when: When::Run(EndStates::of([State::Expired]).unwrap()),
            deed: Deed::Email(Box::new(Email {
                to: vec!["ada@example.org".to_owned()],
                cc: Vec::new(),
                subject: "{{task.id}}".to_owned(),
                body: "{{task.state}}".to_owned(),
            })),
        }],
        checks: Vec::new(),
    }));
    task
}

fn execute(node: &Simulated, letters: &Letters) {
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: Some(Arc::new(letters.clone())),
    };
    tokio::spawn(executor.run(CancellationToken::new()));
}

async fn one(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![task]).await.remove(0).id
}

/// Waits until then.
async fn until(world: &World, at: Millis) {
    world.pass(at.since(world.time.now())).await;
}

/// Returns of which tasks it was told that they have expired.
fn told(letters: &Letters) -> Vec<String> {
    let told = letters.taken().into_iter();
    let mut told: Vec<String> = told.map(|(_, email)| email.subject).collect();
    told.sort_unstable();
    told.dedup();
    told
}

/// Returns the state that is written of a task, if any is: a reader is shown an end that nobody has written yet.
async fn written(world: &World, id: TaskId) -> Option<State> {
    let rows = world.plain_store().tasks(&[id], Freshness::Quorum).await;
    rows.unwrap().remove(0).map(|row| row.state)
}

#[tokio::test(start_paused = true)]
async fn it_is_told_within_two_seconds_and_not_before() {
    let (world, letters) = (World::new(2, 1000), Letters::default());
    let (node, other) = (world.node(1), world.node(2));
    execute(&node, &letters);
    execute(&other, &letters);
    world.pass(5 * SECOND).await;
    // One from the memory of the node that takes it, the others from the wheel.
    let near = world.time.now().after(SECOND / 2);
    let far = near.after(40 * SECOND);
    let mut ids = vec![one(&node.service(), expiring(near)).await];
    for number in 0..8 {
        let start = far.after(MILLISECOND * number);
        ids.push(one(&other.service(), expiring(start)).await);
    }
    for id in &ids {
        let start = id.first_start();
        until(&world, start.after(EXPIRES)).await;
        assert_eq!(written(&world, *id).await, None, "it is not over yet");
        assert!(!told(&letters).contains(&id.to_string()));
    }
    until(&world, far.after(EXPIRES + 2 * SECOND)).await;
    for id in &ids {
        assert_eq!(written(&world, *id).await, Some(State::Expired));
        let task = node.service().get(*id, View::Basic).await;
        let ended = task.unwrap().unwrap().end_time.unwrap();
        let late = ended.since(id.first_start().after(EXPIRES));
        assert!(late <= SECOND, "{id} has ended {late:?} late");
    }
    let mut all: Vec<String> = ids.iter().map(TaskId::to_string).collect();
    all.sort_unstable();
    assert_eq!(told(&letters), all);
    world.check();
}

#[tokio::test(start_paused = true)]
async fn the_last_millisecond_is_the_workers() {
    let world = World::new(1, 1000);
    let (node, other) = (world.node(1), world.node(2));
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let taken = one(&node.service(), expiring(start)).await;
    let late = one(&node.service(), expiring(start)).await;
    until(&world, start.after(EXPIRES)).await;
    // A claim at a node that has not handed the task over.
    let answers = other.service().claim("w", vec![first_claim(taken)]).await;
    assert!(matches!(answers[0], ClaimAnswer::Claimed(_)), "{answers:?}");
    world.pass(MILLISECOND).await;
    let answers = other.service().claim("w", vec![first_claim(late)]).await;
    assert!(matches!(answers[0], ClaimAnswer::Stale), "{answers:?}");
    world.pass(5 * SECOND).await;
    assert_eq!(written(&world, taken).await, Some(State::Claimed));
    assert_eq!(written(&world, late).await, Some(State::Expired));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_moved_expires_behind_its_new_start() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let id = one(&node.service(), expiring(start)).await;
    let cancelled = one(&node.service(), expiring(start)).await;
    until(&world, start.after(2 * SECOND)).await;
    let moved = start.after(20 * SECOND);
    node.service().reschedule(id, moved, None).await.unwrap();
    node.service().cancel(cancelled).await.unwrap();
    until(&world, moved.after(EXPIRES)).await;
    assert_eq!(written(&world, id).await, Some(State::New));
    assert_eq!(written(&world, cancelled).await, Some(State::Cancelled));
    world.pass(SECOND).await;
    assert_eq!(written(&world, id).await, Some(State::Expired));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_its_next_attempt_expires_when_that_is_due() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let fails = Outcome::Retry {
        error: "no".to_owned(),
        after: Some(20 * SECOND),
    };
    let behaviour = Arc::new(move |_, _| (SECOND, Some(fails.clone())));
    let worker = world.worker(node.service(), behaviour);
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(SECOND);
    let id = one(&node.service(), expiring(start)).await;
    until(&world, start.after(10 * SECOND)).await;
    worker.abort();
    assert_eq!(written(&world, id).await, Some(State::Retrying));
    world.pass(10 * SECOND).await;
    assert_eq!(written(&world, id).await, Some(State::Retrying));
    world.pass(3 * SECOND).await;
    assert_eq!(written(&world, id).await, Some(State::Expired));
    world.check();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_its_look_ends_it() {
    let (world, letters) = (World::new(1, 1000), Letters::default());
    let dying = world.node(1);
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(SECOND);
    let id = one(&dying.service(), expiring(start)).await;
    until(&world, start.after(EXPIRES)).await;
    dying.crash();
    let node = world.node(2);
    execute(&node, &letters);
    // The memory is gone with the process, and a look of this task comes within 90 seconds.
    world.pass(5 * SECOND).await;
    assert_eq!(written(&world, id).await, None);
    let read = node.service().get(id, View::Basic).await.unwrap();
    assert_eq!(read.unwrap().state, VisibleState::Expired, "readers know");
    world.pass(90 * SECOND).await;
    assert_eq!(written(&world, id).await, Some(State::Expired));
    assert_eq!(told(&letters), [id.to_string()]);
    world.check();
}
