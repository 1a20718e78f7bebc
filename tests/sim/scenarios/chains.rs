//! A task is followed by each of its follow-ups exactly once, whatever its node dies at, and a tree waits for those in it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{NewTask, TaskView, View, VisibleState},
        stages::service::Service,
    },
    limits::RESULT_INLINE_BYTES_MAX,
    model::{
        action::{End, When},
        chain::{FollowStart, FollowUp},
        chain_task::follow_id,
        draft::TaskDraft,
        family::Kin,
        ids::TaskId,
        notify::EndStates,
        result::TaskResult,
        state::{Outcome, State},
    },
};

use crate::world::{Behaviour, Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

fn follow(
    states: impl IntoIterator<Item = State>,
    wait: Duration,
    task: TaskDraft,
) -> FollowUp<TaskDraft> {
    FollowUp {
        when: When::Run(EndStates::of(states).unwrap()),
        start: FollowStart::After(wait),
        with_result: true,
        in_tree: false,
        task,
    }
}

fn draft(world: &World) -> TaskDraft {
    callback(world.time.now()).draft
}

/// A task that is followed by one, which is followed by another, and by one at any end; one more only follows a failure.
fn chained(world: &World) -> NewTask {
    let mut task = callback(world.time.now().after(SECOND));
    let mut middle = draft(world);
    middle.then = vec![follow([State::Succeeded], SECOND, draft(world))];
    task.draft.then = vec![
        follow([State::Succeeded], SECOND * 2, middle),
        follow(
            [State::Succeeded, State::Dead],
            Duration::ZERO,
            draft(world),
        ),
        follow([State::Failed], Duration::ZERO, draft(world)),
    ];
    task
}

fn returns(bytes: usize) -> Behaviour {
    let text = format!("\"{}\"", "r".repeat(bytes));
    let result = TaskResult::from(Bytes::from(text));
    Arc::new(move |_, _| {
        let result = Some(result.clone());
        (SECOND / 10, Some(Outcome::Succeeded { result }))
    })
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    let view = service.get(id, View::Full).await.unwrap();
    view.unwrap_or_else(|| panic!("{id} is not there"))
}

/// The id of the follow-up of a place, by how its task has ended.
fn next(view: &TaskView, place: usize) -> TaskId {
    let end = End::Run(view.run_state.unwrap(), view.end_time.unwrap());
    let follow = &view.spec.then[place];
    follow_id(view.id, view.generation, end, (place, follow))
}

/// A node that meets a fate at its n-th call from when it is armed.
fn dying(
    world: &World,
    armed: &Arc<AtomicBool>,
    (nth, fate): (usize, Fate),
) -> (Simulated, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let (arms, counts) = (Arc::clone(armed), Arc::clone(&seen));
    let fates = move |_, _: Call| {
        let dies = arms.load(SeqCst) && counts.fetch_add(1, SeqCst) == nth;
        if dies { fate } else { Fate::Go }
    };
    (world.node_with(1, Arc::new(fates)), seen)
}

/// Tells what was wrong after a task with follow-ups ended at a node that dies at its n-th call from then on; else how many calls
/// there were.
async fn crash(nth: usize, fate: Fate, bytes: usize) -> Result<usize, String> {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let (dying, seen) = dying(&world, &armed, (nth, fate));
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let service = other.service();
    let first = register(&service, vec![chained(&world)]).await[0].id;
    armed.store(true, SeqCst);
    let worker = world.worker(dying.service(), returns(bytes));
    world.pass(SECOND * 2).await;
    worker.abort();
    world.worker(other.service(), returns(bytes));
    world.pass(SECOND * 180).await;
    let what = format!("{fate:?} at {nth}");
    let root = read(&service, first).await;
    if root.state != VisibleState::Succeeded {
        return Err(format!("{what}: {root:?}"));
    }
    let middle = next(&root, 0);
    let last = next(&read(&service, middle).await, 0);
    let expected = BTreeSet::from([first, middle, last, next(&root, 1)]);
    let executions = world.executions.lock().unwrap().clone();
    let ran: BTreeSet<TaskId> = executions.iter().map(|one| one.id).collect();
    if ran != expected {
        return Err(format!("{what}: ran {ran:?}, not {expected:?}"));
    }
    for id in expected {
        let view = read(&service, id).await;
        if view.state != VisibleState::Succeeded {
            return Err(format!("{what}: {view:?}"));
        }
        let early = executions
            .iter()
            .find(|one| one.id == id && one.began < view.start);
        if let Some(early) = early {
            return Err(format!("{what}: {early:?} began before {}", view.start));
        }
        let content = view.content.unwrap();
        let previous = content.previous.as_deref();
        let result = previous.and_then(|previous| previous.result.as_ref()?.bytes());
        let expected = (id != first).then_some(bytes + 2);
        if result.map(Bytes::len) != expected {
            return Err(format!("{what}: {id} follows {previous:?}"));
        }
    }
    Ok(seen.load(SeqCst))
}

/// Runs a world in a runtime of its own, so that its nodes end with it.
fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(world)
}

fn survives(fate: Fate, first: usize, step: usize, bytes: usize) {
    for nth in (first..60).step_by(step) {
        alone(crash(nth, fate, bytes)).unwrap();
    }
}

#[test]
fn each_follow_up_runs_though_its_node_dies_at_a_step() {
    let all = alone(crash(usize::MAX, Fate::Go, 3)).unwrap();
    assert!(all > 20, "{all} calls");
    survives(Fate::StopBefore, 0, 11, 3);
    survives(Fate::StopAfter, 3, 9, RESULT_INLINE_BYTES_MAX);
}

#[test]
#[ignore = "a minute: make test-all"]
fn each_follow_up_runs_though_its_node_dies_before_any_of_its_steps() {
    survives(Fate::StopBefore, 0, 1, RESULT_INLINE_BYTES_MAX);
}

#[test]
#[ignore = "a minute: make test-all"]
fn each_follow_up_runs_though_its_node_dies_after_any_of_its_steps() {
    survives(Fate::StopAfter, 0, 1, RESULT_INLINE_BYTES_MAX);
}

/// The scenario above sees a follow-up that a repeated end step registers under another id.
#[test]
fn a_follow_up_that_comes_twice_is_found() {
    flaw::switch(Some(Flaw::FollowUpDrawn));
    let found = (0..40).step_by(3).any(|nth| {
        let run = std::panic::catch_unwind(|| alone(crash(nth, Fate::StopAfter, 3)));
        !matches!(run, Ok(Ok(_)))
    });
    flaw::switch(None);
    assert!(found);
}

/// Tells whether a task is followed though the store takes no entries for half a minute from its end on.
async fn followed_behind_an_outage() -> bool {
    let world = World::new(1, 1000);
    let away = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&away);
    let fates = move |_, call: Call| {
        if call.operation == "put_entries" && refuses.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    world.pass(SECOND * 3).await;
    let service = node.service();
    let first = register(&service, vec![chained(&world)]).await[0].id;
    world.worker(node.service(), returns(3));
    world.pass(SECOND * 21 / 20).await;
    away.store(true, SeqCst);
    world.pass(SECOND * 30).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 90).await;
    let root = read(&service, first).await;
    root.run_state.is_some() && !world.executions_of(next(&root, 1)).is_empty()
}

#[test]
fn a_task_is_followed_behind_an_outage_of_the_store() {
    assert!(alone(followed_behind_an_outage()));
}

/// The scenario above sees an end that is finished before its follow-ups are durable.
#[test]
fn a_follow_up_that_is_not_awaited_is_found() {
    flaw::switch(Some(Flaw::EndToldTooSoon));
    let followed = alone(followed_behind_an_outage());
    flaw::switch(None);
    assert!(!followed);
}

/// Tells what was wrong when a child of a tree, and its root, are followed in the tree at a node that dies at its n-th call.
async fn crash_in_a_tree(nth: usize, fate: Fate) -> Result<usize, String> {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let (dying, seen) = dying(&world, &armed, (nth, fate));
    let other = world.node(2);
    world.pass(SECOND * 3).await;
    let service = other.service();
    let in_tree = |wait| FollowUp {
        in_tree: true,
        ..follow([State::Succeeded], wait, draft(&world))
    };
    let mut root = callback(world.time.now().after(SECOND));
    root.draft.kin = Some(Box::new(Kin {
        is_parent: true,
        ..Kin::default()
    }));
    root.draft.then = vec![in_tree(SECOND * 4)];
    let root = register(&service, vec![root]).await[0].id;
    let mut child = callback(world.time.now().after(SECOND * 2));
    child.draft.kin = Some(Box::new(Kin {
        parent: Some(root),
        ..Kin::default()
    }));
    child.draft.then = vec![in_tree(SECOND * 9)];
    let child = register(&service, vec![child]).await[0].id;
    armed.store(true, SeqCst);
    let worker = world.worker(dying.service(), returns(3));
    world.pass(SECOND * 4).await;
    worker.abort();
    world.worker(other.service(), returns(3));
    world.pass(SECOND * 300).await;
    let what = format!("{fate:?} at {nth}");
    let top = read(&service, root).await;
    let Some(tree) = top.tree else {
        return Err(format!("{what}: the tree goes on: {top:?}"));
    };
    let follow_ups = [next(&top, 0), next(&read(&service, child).await, 0)];
    for id in follow_ups {
        let view = service.get(id, View::Basic).await.unwrap();
        let ended = view.as_ref().and_then(|view| view.end_time);
        if ended.is_none_or(|end| end > tree.at) {
            return Err(format!("{what}: {id} behind {}: {view:?}", tree.at));
        }
        if view.and_then(|view| view.spec.parent()) != Some(root) {
            return Err(format!("{what}: {id} is in no tree"));
        }
    }
    let executions = world.executions.lock().unwrap().clone();
    let ran: BTreeSet<TaskId> = executions.iter().map(|one| one.id).collect();
    let expected = BTreeSet::from([root, child, follow_ups[0], follow_ups[1]]);
    if ran != expected {
        return Err(format!("{what}: ran {ran:?}, not {expected:?}"));
    }
    Ok(seen.load(SeqCst))
}

#[test]
fn a_tree_waits_for_what_follows_in_it_though_its_node_dies_at_a_step() {
    let all = alone(crash_in_a_tree(usize::MAX, Fate::Go)).unwrap();
    assert!(all > 30, "{all} calls");
    for (first, fate) in [Fate::StopBefore, Fate::StopAfter].into_iter().enumerate() {
        for nth in (first..80).step_by(9) {
            alone(crash_in_a_tree(nth, fate)).unwrap();
        }
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn a_tree_waits_for_what_follows_in_it_though_its_node_dies_at_any_step() {
    for nth in 0..120 {
        alone(crash_in_a_tree(nth, Fate::StopBefore)).unwrap();
        alone(crash_in_a_tree(nth, Fate::StopAfter)).unwrap();
    }
}

/// The scenario above sees a tree that ends without what follows in it.
#[test]
fn a_follow_up_that_does_not_join_its_tree_is_found() {
    flaw::switch(Some(Flaw::FollowUpNotJoined));
    let run = std::panic::catch_unwind(|| alone(crash_in_a_tree(usize::MAX, Fate::Go)));
    flaw::switch(None);
    assert!(!matches!(run, Ok(Ok(_))));
}

/// A repeated end step finds a follow-up that somebody has moved or cancelled meanwhile, and leaves it as it is.
#[tokio::test(start_paused = true)]
async fn a_follow_up_that_was_moved_or_cancelled_stays_so() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let service = node.service();
    let mut task = callback(world.time.now().after(SECOND));
    let far = |wait| follow([State::Succeeded], wait, draft(&world));
    task.draft.then = vec![far(SECOND * 30), far(SECOND * 60)];
    let first = register(&service, vec![task]).await[0].id;
    let worker = world.worker(node.service(), returns(3));
    world.pass(SECOND * 2).await;
    let root = read(&service, first).await;
    let (moved, cancelled) = (next(&root, 0), next(&root, 1));
    let later = world.time.now().after(SECOND * 100);
    service.reschedule(moved, later, None).await.unwrap();
    service.cancel(cancelled).await.unwrap();
    world.pass(SECOND * 150).await;
    let ran = world.executions_of(moved);
    assert_eq!(ran.len(), 1);
    assert!(ran[0].began >= later, "{ran:?}");
    assert_eq!(world.executions_of(cancelled).len(), 0);
    worker.abort();
}
