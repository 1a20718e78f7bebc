//! A client hangs up while its call waits for the store: what the call has begun is done to its end.

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
        base::api::{NewTask, RescheduleOutcome, View, VisibleState},
        life::asked::{Answer, AskedTask},
        stages::service::Service,
    },
    model::{
        action::{End, When},
        chain::{FollowStart, FollowUp},
        chain_task::follow_id,
        ids::TaskId,
        key::OnConflict,
        notify::EndStates,
        state::{Outcome, State},
        task::{Body, Content},
    },
    store::WheelStore as _,
};

use crate::world::{Behaviour, Simulated, World, callback, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// A node whose operations of this name are answered so late once that is asked for.
fn slow(world: &World, operation: &'static str, late: Duration) -> (Simulated, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let slows = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        if call.operation == operation && slows.load(SeqCst) {
            Fate::AnswerLate(late)
        } else {
            Fate::Go
        }
    };
    (world.node_with(1, Arc::new(fates)), armed)
}

/// Makes a call whose client hangs up when a row of it is written and the answer has not come.
async fn hangs_up<T: Send + 'static>(
    world: &World,
    armed: &AtomicBool,
    call: impl Future<Output = T> + Send + 'static,
) {
    armed.store(true, SeqCst);
    let asked = tokio::spawn(call);
    world.pass(SECOND / 2).await;
    assert!(!asked.is_finished(), "the call was over too soon");
    asked.abort();
    world.pass(SECOND).await;
    armed.store(false, SeqCst);
}

async fn state(service: &Service, id: TaskId) -> VisibleState {
    service.get(id, View::Basic).await.unwrap().unwrap().state
}

/// A task that starts much later, and is followed when it is cancelled.
fn followed(world: &World) -> NewTask {
    let mut task = callback(world.time.now().after(SECOND * 600));
    task.draft.then = vec![FollowUp {
        when: When::Run(EndStates::of([State::Cancelled]).unwrap()),
        start: FollowStart::After(Duration::ZERO),
        with_result: false,
        in_tree: false,
        task: callback(world.time.now()).draft,
    }];
    task
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_followed_though_its_client_hangs_up() {
    let world = World::new(1, 1000);
    let (node, armed) = slow(&world, "swap_tasks", SECOND);
    let service = node.service();
    let worker = world.worker(service.clone(), succeeds(SECOND / 10));
    world.pass(SECOND * 3).await;
    let tasks = register(&service, vec![followed(&world), followed(&world)]).await;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let (asked, all) = (service.clone(), ids.clone());
    hangs_up(&world, &armed, async move { asked.cancel_all(&all).await }).await;
    world.pass(SECOND * 10).await;
    for id in ids {
        let view = service.get(id, View::Full).await.unwrap().unwrap();
        assert_eq!(view.state, VisibleState::Cancelled);
        let end = End::Run(State::Cancelled, view.end_time.unwrap());
        let next = follow_id(id, view.generation, end, (0, &view.spec.then[0]));
        assert_eq!(world.executions_of(next).len(), 1);
    }
    world.check();
    worker.abort();
}

/// A change that waits for the store when its client hangs up must not undo what the client asks for after that.
#[tokio::test(start_paused = true)]
async fn a_change_that_has_not_begun_when_its_client_hangs_up_never_begins() {
    let world = World::new(1, 1000);
    let (node, away) = slow(&world, "tasks", SECOND * 5);
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    world.pass(SECOND * 3).await;
    for cancels in [false, true] {
        let start = world.time.now().after(SECOND * 60);
        let task = register(&other.service(), vec![callback(start)])
            .await
            .remove(0);
        // Its row says so that it was moved once.
        let moved = other.service().reschedule(task.id, start, None).await;
        moved.unwrap().unwrap();
        let (service, soon) = (node.service(), world.time.now().after(SECOND * 10));
        away.store(true, SeqCst);
        let asked = tokio::spawn(async move {
            if cancels {
                drop(service.cancel_all(&[task.id]).await);
            } else {
                drop(service.reschedule(task.id, soon, None).await);
            }
        });
        world.pass(SECOND / 2).await;
        assert!(!asked.is_finished(), "the call was over too soon");
        asked.abort();
        let later = start.after(SECOND * 30);
        let moved = other.service().reschedule(task.id, later, None).await;
        assert_eq!(moved.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
        world.pass(SECOND * 10).await;
        away.store(false, SeqCst);
        world.pass(SECOND * 70).await;
        let view = other.service().get(task.id, View::Basic).await;
        let view = view.unwrap().unwrap();
        let expected = (VisibleState::Scheduled, later);
        assert_eq!((view.state, view.start), expected, "cancels: {cancels}");
    }
    worker.abort();
}

/// The client repeats a change elsewhere that it has given up on. The rest of the first one does not take the entry back.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_repeated_after_its_client_hung_up_stands() {
    let world = World::new(1, 1000);
    let (node, away) = slow(&world, "put_entries", SECOND * 5);
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    world.pass(SECOND * 3).await;
    let start = world.time.now().after(SECOND * 60);
    let task = register(&other.service(), vec![callback(start)]).await;
    let id = task[0].id;
    let moved = other.service().reschedule(id, start, None).await;
    moved.unwrap().unwrap();
    let (service, later) = (node.service(), start.after(SECOND * 30));
    away.store(true, SeqCst);
    let asked = tokio::spawn(async move { service.reschedule(id, later, None).await });
    world.pass(SECOND / 2).await;
    assert!(!asked.is_finished(), "the call was over too soon");
    asked.abort();
    let moved = other.service().reschedule(id, later, None).await;
    assert_eq!(moved.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    world.pass(SECOND * 10).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 120).await;
    assert_eq!(state(&other.service(), id).await, VisibleState::Succeeded);
    world.check();
    worker.abort();
}

/// A task of a large content that has died.
async fn dead(world: &World, service: &Service) -> TaskId {
    let mut task = callback(world.time.now());
    task.draft.body = Body::Inline(Content {
        payload: Bytes::from(vec![7; 5000]),
        ..Content::default()
    });
    let id = register(service, vec![task]).await.remove(0).id;
    let end = world.end_of(service, id, SECOND * 60).await;
    assert_eq!(end, VisibleState::Dead);
    id
}

/// Fails three times, then succeeds.
fn fails() -> Behaviour {
    Arc::new(|_, attempt| {
        let outcome = if attempt <= 3 {
            let error = "no".to_owned();
            Outcome::Retry { error, after: None }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_runs_at_once_though_its_client_hangs_up() {
    let world = World::new(1, 1000);
    let (node, armed) = slow(&world, "swap_tasks", SECOND);
    let service = node.service();
    let worker = world.worker(service.clone(), fails());
    world.pass(SECOND * 3).await;
    let id = dead(&world, &service).await;
    world.pass(SECOND * 30).await;
    let (asked, at) = (service.clone(), world.time.now());
    hangs_up(&world, &armed, async move { asked.run(id, None).await }).await;
    world.pass(SECOND * 60).await;
    assert_eq!(state(&service, id).await, VisibleState::Succeeded);
    let began = world.executions_of(id)[3].began;
    let waited = began.since(at);
    assert!(waited < SECOND * 3, "{waited:?}");
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_takes_the_content_though_its_client_hangs_up() {
    let world = World::new(1, 1000);
    let (node, armed) = slow(&world, "swap_tasks", SECOND);
    let service = node.service();
    let worker = world.worker(service.clone(), fails());
    world.pass(SECOND * 3).await;
    let id = dead(&world, &service).await;
    world.pass(SECOND * 30).await;
    let asked = service.clone();
    let deletion = async move { asked.dead_letters().delete(id).await };
    hangs_up(&world, &armed, deletion).await;
    world.pass(SECOND * 10).await;
    assert!(service.get(id, View::Basic).await.unwrap().is_none());
    let left = world.store.bodies(&[id]).await.unwrap();
    assert!(left == [None], "its content is left");
    worker.abort();
}

fn replacing(world: &World) -> AskedTask {
    let mut task = callback(world.time.now().after(SECOND * 600));
    task.draft.key = Some("reset-7".to_owned());
    AskedTask {
        task,
        id: None,
        request: None,
        on_conflict: OnConflict::Replace,
    }
}

/// A replacement that waits for the store when its client hangs up must not take away what the client has changed since.
#[tokio::test(start_paused = true)]
async fn a_replacement_that_has_not_begun_when_its_client_hangs_up_never_begins() {
    let world = World::new(1, 1000);
    let away = Arc::new(AtomicBool::new(false));
    let is_away = Arc::clone(&away);
    let fates = move |_, call: Call| {
        if call.operation == "swap_tasks" && is_away.load(SeqCst) {
            Fate::Delay(SECOND * 5)
        } else {
            Fate::Go
        }
    };
    let (node, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
    world.pass(SECOND * 3).await;
    let there = other.service();
    let first = there.register_asked(vec![replacing(&world)]).await.pop();
    let Some(Ok(Answer::Created(old))) = first else {
        panic!("{first:?}");
    };
    let (service, again) = (node.service(), vec![replacing(&world)]);
    away.store(true, SeqCst);
    let asked = tokio::spawn(async move { service.register_asked(again).await });
    world.pass(SECOND / 2).await;
    assert!(!asked.is_finished(), "the call was over too soon");
    asked.abort();
    let later = old.start.after(SECOND * 30);
    let moved = there.reschedule(old.id, later, None).await;
    assert_eq!(moved.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    world.pass(SECOND * 10).await;
    away.store(false, SeqCst);
    let view = there.get(old.id, View::Basic).await.unwrap().unwrap();
    assert_eq!((view.state, view.start), (VisibleState::Scheduled, later));
    let named = there.id_by_key("work", "reset-7").await;
    assert_eq!(named.unwrap(), Some(old.id));
}

/// The same for a task that is published and has no row: two moves at once would publish it at both starts.
#[tokio::test(start_paused = true)]
async fn a_move_of_a_published_task_whose_client_has_hung_up_never_begins() {
    let world = World::new(1, 1000);
    world.queue.create_topic("users", None);
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let (node, away) = slow(&world, "clock", SECOND * 5);
    world.pass(SECOND * 3).await;
    let start = world.time.now().after(SECOND * 60);
    let task = register(&other.service(), vec![record(start)]).await;
    let id = task[0].id;
    let (service, soon) = (node.service(), start.before(SECOND * 30));
    away.store(true, SeqCst);
    let asked = tokio::spawn(async move { service.reschedule(id, soon, None).await });
    world.pass(SECOND / 2).await;
    assert!(!asked.is_finished(), "the call was over too soon");
    asked.abort();
    let later = start.after(SECOND * 30);
    let moved = other.service().reschedule(id, later, None).await;
    assert_eq!(moved.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    world.pass(SECOND * 10).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 100).await;
    let id = id.to_string();
    let mut sent = world.queue.records("users");
    sent.retain(|one| {
        let mut headers = one.record.headers.iter();
        headers.any(|(name, value)| name == "tickwheel-task-id" && *value == id)
    });
    assert!(matches!(&sent[..], [one] if one.at >= later), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_replaced_though_its_client_hangs_up() {
    let world = World::new(1, 1000);
    let (node, armed) = slow(&world, "swap_tasks", SECOND);
    let service = node.service();
    world.pass(SECOND * 3).await;
    let first = service.register_asked(vec![replacing(&world)]).await.pop();
    let Some(Ok(Answer::Created(old))) = first else {
        panic!("{first:?}");
    };
    let (asked, again) = (service.clone(), vec![replacing(&world)]);
    let call = async move { asked.register_asked(again).await };
    hangs_up(&world, &armed, call).await;
    world.pass(SECOND * 10).await;
    assert_eq!(state(&service, old.id).await, VisibleState::Cancelled);
    let new = service.id_by_key("work", "reset-7").await.unwrap().unwrap();
    assert_ne!(new, old.id);
    assert_eq!(state(&service, new).await, VisibleState::Scheduled);
}
