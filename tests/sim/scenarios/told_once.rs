//! An end is told while its node may still owe that, days behind it, and never once nobody may remember that it was told.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{CancelOutcome, NewTask, RescheduleOutcome, TaskView, View, VisibleState},
        stages::service::Service,
    },
    model::{
        action::{End, When},
        chain::{FollowStart, FollowUp},
        chain_task::follow_id,
        family::Kin,
        ids::TaskId,
        notify::EndStates,
        state::{Outcome, State},
    },
};

use crate::world::{Behaviour, Simulated, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A world whose days pass soon.
fn world() -> World {
    World::with_tick(1, 20_000, SECOND * 60)
}

/// A task of this start that is followed by another one when it ends so.
fn followed(world: &World, wait: Duration, state: State) -> NewTask {
    let mut task = callback(world.time.now().after(wait));
    task.draft.retention = Some(DAY * 20);
    let next = callback(world.time.now()).draft;
    task.draft.then = vec![FollowUp {
        when: When::Run(EndStates::of([state]).unwrap()),
        start: FollowStart::After(Duration::ZERO),
        with_result: false,
        in_tree: false,
        task: next,
    }];
    task
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Full).await.unwrap().unwrap()
}

/// The id of the task that follows one that has ended.
fn next(view: &TaskView) -> TaskId {
    let end = End::Run(view.run_state.unwrap(), view.end_time.unwrap());
    follow_id(view.id, view.generation, end, (0, &view.spec.then[0]))
}

/// Passes ten days from a node's end to another one's start: the rows of what followed are gone, and no wheel lags by six days.
async fn ten_days(world: &World, node: Simulated) -> Simulated {
    node.crash();
    drop(node);
    world.pass(DAY * 5).await;
    let between = world.node(2);
    world.pass(SECOND * 900).await;
    between.crash();
    drop(between);
    world.pass(DAY * 5).await;
    let node = world.node(3);
    world.pass(SECOND * 900).await;
    node
}

/// A task dies, and is followed once. Returns a node ten days later, at which it dies and is followed no more.
async fn dead_for_ten_days(world: &World) -> (Simulated, TaskId, TaskId) {
    let node = world.node(1);
    let service = node.service();
    let dying = Arc::new(Mutex::new(None));
    let fails: Behaviour = {
        let dying = Arc::clone(&dying);
        Arc::new(move |id, attempt| {
            let outcome = if Some(id) == *dying.lock().unwrap() && attempt <= 3 {
                let error = "no".to_owned();
                Outcome::Retry { error, after: None }
            } else {
                Outcome::Succeeded { result: None }
            };
            (SECOND / 10, Some(outcome))
        })
    };
    world.pass(SECOND * 130).await;
    let task = followed(world, SECOND, State::Dead);
    let id = register(&service, vec![task]).await[0].id;
    *dying.lock().unwrap() = Some(id);
    let worker = world.worker(service.clone(), fails);
    let end = world.end_of(&service, id, SECOND * 60).await;
    assert_eq!(end, VisibleState::Dead);
    world.pass(SECOND * 200).await;
    let undo = next(&read(&service, id).await);
    assert_eq!(world.executions_of(undo).len(), 1);
    worker.abort();
    drop(service);
    let node = ten_days(world, node).await;
    world.worker(node.service(), succeeds(SECOND / 10));
    let gone = node.service().get(undo, View::Basic).await.unwrap();
    assert!(gone.is_none(), "{gone:?}");
    (node, id, undo)
}

#[tokio::test(start_paused = true)]
async fn a_redrive_days_after_a_death_has_it_followed_no_second_time() {
    let world = world();
    let (node, id, undo) = dead_for_ten_days(&world).await;
    let service = node.service();
    let (outcome, _) = service.run(id, None).await.unwrap().unwrap();
    assert_eq!(outcome, RescheduleOutcome::Rescheduled);
    let end = world.end_of(&service, id, SECOND * 200).await;
    assert_eq!(end, VisibleState::Succeeded);
    world.pass(SECOND * 200).await;
    assert_eq!(world.executions_of(undo).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_days_after_a_death_has_it_followed_no_second_time() {
    let world = world();
    let (node, id, undo) = dead_for_ten_days(&world).await;
    node.service().dead_letters().delete(id).await.unwrap();
    world.pass(SECOND * 200).await;
    let gone = node.service().get(id, View::Basic).await.unwrap();
    assert!(gone.is_none(), "{gone:?}");
    assert_eq!(world.executions_of(undo).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_is_repeated_days_later_has_it_followed_no_second_time() {
    let world = world();
    let node = world.node(1);
    let service = node.service();
    let worker = world.worker(service.clone(), succeeds(SECOND / 10));
    world.pass(SECOND * 130).await;
    let task = followed(&world, DAY * 30, State::Cancelled);
    let id = register(&service, vec![task]).await[0].id;
    service.cancel(id).await.unwrap().unwrap();
    world.pass(SECOND * 200).await;
    let undo = next(&read(&service, id).await);
    assert_eq!(world.executions_of(undo).len(), 1);
    worker.abort();
    drop(service);
    let node = ten_days(&world, node).await;
    let service = node.service();
    world.worker(service.clone(), succeeds(SECOND / 10));
    let (outcome, _) = service.cancel(id).await.unwrap().unwrap();
    assert_eq!(outcome, CancelOutcome::AlreadyCancelled);
    world.pass(SECOND * 200).await;
    assert_eq!(world.executions_of(undo).len(), 1);
}

fn kin(mut task: NewTask, kin: Kin) -> NewTask {
    task.draft.kin = Some(Box::new(kin));
    task
}

/// A node that dies once it has written the row of an attempt that ends, before anything else.
fn dying(world: &World, armed: &Arc<AtomicBool>) -> Simulated {
    let armed = Arc::clone(armed);
    let fates = move |_, call: Call| {
        if call.operation == "swap_tasks" && armed.load(SeqCst) {
            Fate::StopAfter
        } else {
            Fate::Go
        }
    };
    world.node_with(1, Arc::new(fates))
}

/// Tells how often a task was followed whose node died right behind its end, when the next node comes after this time.
async fn followed_after(
    outage: Duration,
    tasks: impl AsyncFnOnce(&World, &Service) -> TaskId,
) -> usize {
    let world = world();
    let armed = Arc::new(AtomicBool::new(false));
    let node = dying(&world, &armed);
    let service = node.service();
    world.pass(SECOND * 130).await;
    let id = tasks(&world, &service).await;
    let arms: Behaviour = {
        let armed = Arc::clone(&armed);
        Arc::new(move |of, _| {
            armed.fetch_or(of == id, SeqCst);
            (SECOND / 10, Some(Outcome::Succeeded { result: None }))
        })
    };
    let worker = world.worker(service, arms);
    world.pass(SECOND * 120).await;
    worker.abort();
    assert!(armed.load(SeqCst), "it has not begun");
    drop(node);
    world.pass(outage).await;
    let node = world.node(2);
    let service = node.service();
    world.worker(service.clone(), succeeds(SECOND / 10));
    world.pass(SECOND * 1800).await;
    let view = read(&service, id).await;
    assert_eq!(view.run_state, Some(State::Succeeded), "{view:?}");
    world.executions_of(next(&view)).len()
}

fn child_of(parent: TaskId) -> Kin {
    Kin {
        parent: Some(parent),
        ..Kin::default()
    }
}

async fn root(service: &Service, task: NewTask) -> TaskId {
    let parent = Kin {
        is_parent: true,
        ..Kin::default()
    };
    register(service, vec![kin(task, parent)]).await[0].id
}

/// A child that is followed, of a parent that starts long after it.
async fn child(world: &World, service: &Service) -> TaskId {
    let far = callback(world.time.now().after(DAY * 30));
    let parent = root(service, far).await;
    let task = followed(world, SECOND, State::Succeeded);
    register(service, vec![kin(task, child_of(parent))]).await[0].id
}

/// A parent that is followed, of a child that starts long after it.
async fn parent(world: &World, service: &Service) -> TaskId {
    let id = root(service, followed(world, SECOND, State::Succeeded)).await;
    let far = callback(world.time.now().after(DAY * 30));
    register(service, vec![kin(far, child_of(id))]).await;
    id
}

#[tokio::test(start_paused = true)]
async fn a_child_is_followed_behind_an_outage_of_days() {
    assert_eq!(followed_after(DAY * 5, child).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_own_run_of_a_parent_is_followed_behind_an_outage_of_days() {
    assert_eq!(followed_after(DAY * 5, parent).await, 1);
}
