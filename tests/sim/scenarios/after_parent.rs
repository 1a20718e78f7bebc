//! A child that waits for the own run of its parent starts behind it, or ends with it, whatever its node dies at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{CancelOutcome, NewTask, RescheduleOutcome, TaskView, View, VisibleState},
        life::asked::AskedTask,
        stages::service::Service,
    },
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        key::OnConflict,
        look_step::LookStep,
        state::{Outcome, PARENT_FAILED},
        time::Millis,
        wheel::WheelNumber,
    },
};

use crate::world::{Behaviour, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

fn kin(mut task: NewTask, kin: Kin) -> NewTask {
    task.draft.kin = Some(Box::new(kin));
    task
}

async fn root(service: &Service, start: Millis) -> TaskId {
    let parent = Kin {
        is_parent: true,
        ..Kin::default()
    };
    register(service, vec![kin(callback(start), parent)]).await[0].id
}

fn waiting(parent: TaskId) -> Kin {
    Kin {
        parent: Some(parent),
        after_parent: true,
        ..Kin::default()
    }
}

async fn child(service: &Service, parent: TaskId, start: Millis) -> TaskId {
    register(service, vec![kin(callback(start), waiting(parent))]).await[0].id
}

/// A child with an id of its client, which waits for its parent.
fn named(parent: TaskId, start: Millis, number: u64) -> AskedTask {
    let step = LookStep::covering(60 * SECOND);
    let id = TaskId::new(start, WheelNumber::new(0).unwrap(), number).with_look_step(step);
    AskedTask {
        id: Some(id),
        task: kin(callback(start), waiting(parent)),
        request: None,
        on_conflict: OnConflict::Reject,
    }
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    let view = service.get(id, View::Basic).await.unwrap();
    view.unwrap_or_else(|| panic!("{id} is not there"))
}

/// The run of one task fails, if it is to; it takes two seconds, others a tenth of one.
fn runs(parent: TaskId, fails: bool) -> Behaviour {
    Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if id == parent && fails {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        let takes = if id == parent {
            SECOND * 2
        } else {
            SECOND / 10
        };
        (takes, Some(outcome))
    })
}

/// Tells what was wrong with children that wait for a parent whose run ends at a node that dies at its n-th call.
async fn crash(nth: usize, fate: Fate, fails: bool) -> Result<usize, String> {
    let world = World::new(1, 1000);
    let (armed, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (arms, counts) = (Arc::clone(&armed), Arc::clone(&seen));
    let fates = move |_, _: Call| {
        let dies = arms.load(SeqCst) && counts.fetch_add(1, SeqCst) == nth;
        if dies { fate } else { Fate::Go }
    };
    let dying = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let (service, now) = (other.service(), world.time.now());
    let parent = root(&service, now.after(SECOND)).await;
    let early = child(&service, parent, now).await;
    let later = child(&service, parent, now.after(SECOND * 30)).await;
    armed.store(true, SeqCst);
    let behaviour = runs(parent, fails);
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    // Children come until the run has ended and longer; a call at a node that dies never returns.
    let (adds, time) = (dying.service(), world.time.clone());
    let added: Arc<std::sync::Mutex<Vec<TaskId>>> = Arc::default();
    let known = Arc::clone(&added);
    tokio::spawn(async move {
        for number in 1..=4 {
            let task = named(parent, time.now(), number);
            let id = task.id.unwrap();
            if adds.register_asked(vec![task]).await.remove(0).is_ok() {
                known.lock().unwrap().push(id);
            }
            time.sleep(SECOND).await;
        }
    });
    world.pass(SECOND * 5).await;
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 400).await;
    let what = format!("{fate:?} at {nth}");
    let top = read(&service, parent).await;
    let Some(tree) = top.tree else {
        return Err(format!("{what}: the tree goes on: {top:?}"));
    };
    let run_end = top.end_time.unwrap();
    let late = added.lock().unwrap().clone();
    for id in [early, later].into_iter().chain(late) {
        let view = read(&service, id).await;
        let expected = if fails {
            VisibleState::Cancelled
        } else {
            VisibleState::Succeeded
        };
        if view.state != expected || view.end_time.unwrap() > tree.at {
            return Err(format!(
                "{what}: {view:?} of a tree that ended at {}",
                tree.at
            ));
        }
        let ran = world.executions_of(id);
        if ran.is_empty() != fails || ran.iter().any(|one| one.began < run_end) {
            return Err(format!(
                "{what}: {ran:?} with a run that ended at {run_end}"
            ));
        }
        if fails && view.error.as_deref() != Some(PARENT_FAILED) {
            return Err(format!("{what}: {view:?}"));
        }
    }
    let own = world.executions_of(later);
    if own.iter().any(|one| one.began < now.after(SECOND * 30)) {
        return Err(format!("{what}: {own:?} before its own start"));
    }
    let executions = world.executions.lock().unwrap().clone();
    let behind = executions.iter().find(|one| one.began > tree.at);
    match behind {
        Some(one) => Err(format!("{what}: {one:?} behind the tree at {}", tree.at)),
        None => Ok(seen.load(SeqCst)),
    }
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(world)
}

#[test]
fn children_wait_for_the_run_of_their_parent_though_a_node_dies_at_a_step() {
    for fails in [false, true] {
        let all = alone(crash(usize::MAX, Fate::Go, fails)).unwrap();
        assert!(all > 40, "{all} calls");
        for nth in (usize::from(fails) * 7..100).step_by(19) {
            alone(crash(nth, Fate::StopBefore, fails)).unwrap();
            alone(crash(nth + 5, Fate::StopAfter, fails)).unwrap();
        }
    }
}

#[test]
#[ignore = "some minutes: make test-all"]
fn children_wait_for_the_run_of_their_parent_whatever_happens_at_any_step() {
    for nth in 0..120 {
        for fails in [false, true] {
            alone(crash(nth, Fate::StopBefore, fails)).unwrap();
            alone(crash(nth, Fate::StopAfter, fails)).unwrap();
            alone(crash(nth, Fate::Fail, fails)).unwrap();
            alone(crash(nth, Fate::LoseReply, fails)).unwrap();
        }
    }
}

/// The scenario above sees children that nobody releases.
#[test]
fn children_that_are_left_waiting_are_found() {
    flaw::switch(Some(Flaw::WaitingLeft));
    let left = alone(async {
        let world = World::new(1, 1000);
        let node = world.node(1);
        world.pass(SECOND * 3).await;
        let parent = root(&node.service(), world.time.now().after(SECOND)).await;
        let waits = child(&node.service(), parent, world.time.now()).await;
        let worker = world.worker(node.service(), runs(parent, false));
        world.pass(SECOND * 30).await;
        worker.abort();
        read(&node.service(), waits).await.state
    });
    flaw::switch(None);
    assert_eq!(left, VisibleState::Waiting);
}

/// A child that waits is read, and cancelled, and is neither moved nor started.
#[tokio::test(start_paused = true)]
async fn a_child_that_waits_is_cancelled_and_not_moved() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let service = node.service();
    let parent = root(&service, world.time.now().after(SECOND * 20)).await;
    let (stays, goes) = (
        child(&service, parent, world.time.now()).await,
        child(&service, parent, world.time.now()).await,
    );
    assert_eq!(read(&service, stays).await.state, VisibleState::Waiting);
    let (outcome, _) = service.run(stays, None).await.unwrap().unwrap();
    assert_eq!(outcome, RescheduleOutcome::TooLate);
    let later = world.time.now().after(SECOND);
    let (outcome, view) = service
        .reschedule(stays, later, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (outcome, view.state),
        (RescheduleOutcome::TooLate, VisibleState::Waiting)
    );
    let (outcome, _) = service.cancel(goes).await.unwrap().unwrap();
    assert_eq!(outcome, CancelOutcome::Cancelled);
    let worker = world.worker(node.service(), runs(parent, false));
    world.pass(SECOND * 60).await;
    assert_eq!(world.executions_of(goes).len(), 0);
    let ran = world.executions_of(stays);
    let top = read(&service, parent).await;
    assert!(
        ran.len() == 1 && ran[0].began >= top.end_time.unwrap(),
        "{ran:?}"
    );
    assert!(
        top.tree
            .is_some_and(|tree| tree.outcome == TreeOutcome::Completed),
        "{top:?}"
    );
    worker.abort();
}

/// Cancels with the first run of a parent its child, by a write that takes long. Meanwhile another node ends the tree, and its
/// failed part runs again: the late write finds a child that waits for the next run.
#[test]
fn a_child_is_not_cancelled_with_a_run_that_came_before_the_one_it_waits_for() {
    alone(async {
        let world = World::new(1, 1000);
        let (armed, swaps) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (arms, counts) = (Arc::clone(&armed), Arc::clone(&swaps));
        // The first write is the end of the run.
        let fates = move |_, call: Call| {
            let counted = arms.load(SeqCst) && call.operation == "swap_tasks";
            if counted && counts.fetch_add(1, SeqCst) == 1 {
                Fate::Delay(SECOND * 5)
            } else {
                Fate::Go
            }
        };
        let (slow, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
        world.pass(SECOND * 3).await;
        let service = other.service();
        let parent = root(&service, world.time.now().after(SECOND)).await;
        let waits = child(&service, parent, world.time.now()).await;
        let behaviour: Behaviour = Arc::new(move |id, attempt| {
            let outcome = if id == parent && attempt == 1 {
                let error = "no".to_owned();
                Outcome::Failed { error }
            } else {
                Outcome::Succeeded { result: None }
            };
            let takes = if attempt == 1 { SECOND } else { SECOND * 8 };
            (takes, Some(outcome))
        });
        let worker = world.polling_worker(slow.service(), |_| None, behaviour);
        world.pass(SECOND * 3 / 2).await;
        armed.store(true, SeqCst);
        world.pass(SECOND).await;
        assert_eq!(
            swaps.load(SeqCst),
            2,
            "the end of the run, and that of the child"
        );
        assert_eq!(read(&service, waits).await.state, VisibleState::Waiting);
        // Another child has the parent checked here.
        child(&service, parent, world.time.now()).await;
        world.pass(SECOND).await;
        assert_eq!(read(&service, waits).await.state, VisibleState::Cancelled);
        let done = service.retries().retry(parent, None).await.unwrap();
        assert_eq!(done.unwrap().unwrap().retried, 3);
        assert_eq!(read(&service, waits).await.state, VisibleState::Waiting);
        world.pass(SECOND * 60).await;
        worker.abort();
        world.check();
        let view = read(&service, waits).await;
        assert_eq!(view.state, VisibleState::Succeeded, "{view:?}");
        let top = read(&service, parent).await;
        assert!(
            top.tree
                .is_some_and(|tree| tree.outcome == TreeOutcome::Completed),
            "{top:?}"
        );
    });
}
