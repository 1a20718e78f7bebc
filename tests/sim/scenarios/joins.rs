//! A task that waits for others starts behind them, or ends with them, whatever its node dies at.

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
        ids::TaskId,
        join::{self, After, Asked, Condition},
        key::OnConflict,
        look_step::LookStep,
        state::Outcome,
        time::Millis,
        wheel::WheelNumber,
    },
};

use crate::world::{Behaviour, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

fn waiting(start: Millis, condition: Condition, ids: &[TaskId]) -> NewTask {
    let mut task = callback(start);
    task.draft.after = Some(Box::new(Asked {
        after: After {
            condition,
            later: false,
            deadline: None,
            tasks: u32::try_from(ids.len()).unwrap(),
        },
        ids: ids.to_vec(),
    }));
    task
}

/// A task with an id of its client, which starts now.
fn named(task: NewTask, now: Millis, number: u64) -> AskedTask {
    let step = LookStep::covering(60 * SECOND);
    let id = TaskId::new(now, WheelNumber::new(0).unwrap(), number).with_look_step(step);
    let mut task = task;
    task.start = now;
    AskedTask {
        id: Some(id),
        task,
        request: None,
        on_conflict: OnConflict::Reject,
    }
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    let view = service.get(id, View::Basic).await.unwrap();
    view.unwrap_or_else(|| panic!("{id} is not there"))
}

/// The run of one task fails, if there is such a one. Each takes a second.
fn runs(bad: Option<TaskId>) -> Behaviour {
    Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if Some(id) == bad {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND, Some(outcome))
    })
}

/// Tells what was wrong with tasks that wait for two others, which end at a node that dies at its n-th call.
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
    let first = vec![callback(now.after(SECOND)), callback(now.after(SECOND * 3))];
    let ids: Vec<TaskId> = register(&service, first)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    let [one, two] = [ids[0], ids[1]];
    let wants = Condition::AllSucceeded;
    let tasks = vec![
        waiting(now, wants, &[one, two]),
        waiting(now, Condition::AllEnded, &[two, one]),
        waiting(now.after(SECOND * 30), wants, &[one]),
    ];
    let early = register(&service, tasks).await;
    let mut waiters: Vec<(TaskId, &[TaskId], Condition)> = vec![
        (early[0].id, &ids, wants),
        (early[1].id, &ids, Condition::AllEnded),
        (early[2].id, &ids[..1], wants),
    ];
    armed.store(true, SeqCst);
    let behaviour = runs(fails.then_some(one));
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    // Waiters come until both have ended and longer; a call at a node that dies never returns.
    let (adds, time, wanted) = (dying.service(), world.time.clone(), ids.clone());
    let added: Arc<std::sync::Mutex<Vec<TaskId>>> = Arc::default();
    let known = Arc::clone(&added);
    tokio::spawn(async move {
        for number in 1..=5 {
            let now = time.now();
            let task = named(waiting(now, wants, &wanted), now, number);
            let id = task.id.unwrap();
            if adds.register_asked(vec![task]).await.remove(0).is_ok() {
                known.lock().unwrap().push(id);
            }
            time.sleep(SECOND).await;
        }
    });
    world.pass(SECOND * 7).await;
    worker.abort();
    world.worker(other.service(), behaviour);
    world.pass(SECOND * 500).await;
    let late = added.lock().unwrap().clone();
    waiters.extend(late.iter().map(|id| (*id, ids.as_slice(), wants)));
    let what = format!("{fate:?} at {nth}");
    for (id, ids, condition) in waiters {
        judge(&world, &service, (id, ids), fails && condition == wants)
            .await
            .map_err(|wrong| format!("{what}: {wrong}"))?;
    }
    let own = world.executions_of(early[2].id);
    if own.iter().any(|one| one.began < now.after(SECOND * 30)) {
        return Err(format!("{what}: {own:?} before its own start"));
    }
    Ok(seen.load(SeqCst))
}

/// Tells what is wrong with a waiter and those that it waited for.
async fn judge(
    world: &World,
    service: &Service,
    (id, ids): (TaskId, &[TaskId]),
    fails: bool,
) -> Result<(), String> {
    let view = read(service, id).await;
    let expected = if fails {
        VisibleState::Cancelled
    } else {
        VisibleState::Succeeded
    };
    if view.state != expected {
        return Err(format!("{view:?} is not {expected:?}"));
    }
    let mut last = Millis(0);
    for dependency in ids {
        last = last.max(read(service, *dependency).await.end_time.unwrap());
    }
    let ran = world.executions_of(id);
    if ran.is_empty() != fails || ran.iter().any(|one| one.began < last) {
        return Err(format!("{ran:?} with dependencies that ended at {last}"));
    }
    let error = view.error.unwrap_or_default();
    if fails && join::reason(&error) != Some("dependency_failed") {
        return Err(format!("{id} says {error:?}"));
    }
    Ok(())
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
fn tasks_wait_for_others_though_a_node_dies_at_a_step() {
    for fails in [false, true] {
        let all = alone(crash(usize::MAX, Fate::Go, fails)).unwrap();
        assert!(all > 60, "{all} calls");
        for nth in (usize::from(fails) * 7..140).step_by(23) {
            alone(crash(nth, Fate::StopBefore, fails)).unwrap();
            alone(crash(nth + 5, Fate::StopAfter, fails)).unwrap();
        }
    }
}

#[test]
#[ignore = "some minutes: make test-all"]
fn tasks_wait_for_others_whatever_happens_at_any_step() {
    for nth in 0..200 {
        for fails in [false, true] {
            alone(crash(nth, Fate::StopBefore, fails)).unwrap();
            alone(crash(nth, Fate::StopAfter, fails)).unwrap();
            alone(crash(nth, Fate::Fail, fails)).unwrap();
            alone(crash(nth, Fate::LoseReply, fails)).unwrap();
        }
    }
}

/// The scenario above sees tasks that nobody lets go, and tasks that are let go too soon.
#[test]
fn waiters_that_are_left_or_let_go_too_soon_are_found() {
    for flaw in [Flaw::WaiterLeft, Flaw::WaiterTooSoon] {
        flaw::switch(Some(flaw));
        let judged = alone(crash(usize::MAX, Fate::Go, false));
        flaw::switch(None);
        assert!(judged.is_err(), "{flaw:?} is not found");
    }
}

/// Ends that nobody tells are found by the look of the waiter.
#[test]
fn a_waiter_finds_ends_that_nobody_tells() {
    flaw::switch(Some(Flaw::WaitersUntold));
    let judged = alone(crash(usize::MAX, Fate::Go, false));
    flaw::switch(None);
    judged.unwrap();
}

/// A task that waits is read, and cancelled, and is neither moved nor started.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_cancelled_and_not_moved() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let first = register(&service, vec![callback(now.after(SECOND * 20))]).await[0].id;
    let both = (0..2)
        .map(|_| waiting(now, Condition::AllEnded, &[first]))
        .collect();
    let both = register(&service, both).await;
    let (stays, goes) = (both[0].id, both[1].id);
    let view = read(&service, stays).await;
    assert_eq!(view.state, VisibleState::Waiting);
    let waits = view.waits.unwrap();
    assert_eq!((waits.ids, waits.open), (vec![first], Some(vec![first])));
    let (outcome, _) = service.run(stays, None).await.unwrap().unwrap();
    assert_eq!(outcome, RescheduleOutcome::TooLate);
    let later = world.time.now().after(SECOND);
    let moved = service.reschedule(stays, later, None).await.unwrap();
    let (outcome, view) = moved.unwrap();
    assert_eq!(
        (outcome, view.state),
        (RescheduleOutcome::TooLate, VisibleState::Waiting)
    );
    let (outcome, _) = service.cancel(goes).await.unwrap().unwrap();
    assert_eq!(outcome, CancelOutcome::Cancelled);
    world.worker(node.service(), runs(None));
    world.pass(SECOND * 25).await;
    assert_eq!(world.executions_of(goes).len(), 0);
    let ran = world.executions_of(stays);
    let end = read(&service, first).await.end_time.unwrap();
    assert!(ran.len() == 1 && ran[0].began >= end, "{ran:?}");
    // Within a second, though its look comes about once a minute.
    assert!(ran[0].began < end.after(SECOND), "{ran:?} behind {end}");
    let waits = read(&service, stays).await.waits.unwrap();
    assert_eq!((waits.ids, waits.open), (vec![first], Some(Vec::new())));
}
