//! A tree ends once, and behind all of its tasks, when nodes die, fail or are slow in the middle of its steps.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{NewTask, TaskView, View, VisibleState},
        life::asked::{Answer, AskedTask},
        stages::service::Service,
    },
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        key::OnConflict,
        look_step::LookStep,
        state::Outcome,
        time::Millis,
        wheel::WheelNumber,
    },
};

use crate::world::{Behaviour, Simulated, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn kin(mut task: NewTask, parent: Option<TaskId>, is_parent: bool) -> NewTask {
    task.draft.kin = Some(Box::new(Kin {
        parent,
        is_parent,
        ..Kin::default()
    }));
    task
}

fn at(world: &World, after: Duration) -> NewTask {
    callback(world.time.now().after(after))
}

async fn parent(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![kin(task, None, true)]).await[0].id
}

async fn child(service: &Service, parent: TaskId, task: NewTask) -> TaskId {
    register(service, vec![kin(task, Some(parent), false)]).await[0].id
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Basic).await.unwrap().unwrap()
}

/// A child with an id of its client.
fn named(parent: TaskId, start: Millis, number: u64) -> AskedTask {
    let step = LookStep::covering(60 * SECOND);
    let id = TaskId::new(start, WheelNumber::new(0).unwrap(), number).with_look_step(step);
    AskedTask {
        id: Some(id),
        task: kin(callback(start), Some(parent), false),
        request: None,
        on_conflict: OnConflict::Reject,
    }
}

fn with_fates(
    world: &World,
    armed: &Arc<AtomicBool>,
    fate: impl Fn(Call) -> Option<Fate> + Send + Sync + 'static,
) -> Simulated {
    let armed = Arc::clone(armed);
    let fates = move |_, call: Call| {
        let fate = armed.load(SeqCst).then(|| fate(call)).flatten();
        fate.unwrap_or(Fate::Go)
    };
    world.node_with(1, Arc::new(fates))
}

/// Adds children to a tree, runs them and checks the tree at a node that dies or fails at operation `nth` of those that trees
/// use. Returns how many there were.
async fn run(nth: usize, fate: Fate) -> usize {
    let world = World::new(1, 1000);
    let (armed, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let seen = Arc::clone(&calls);
    let dying = with_fates(&world, &armed, move |call| {
        let counts = matches!(
            call.operation,
            "put_index" | "index_range" | "record" | "swap_record" | "swap_tasks" | "put_entries"
        );
        (counts && seen.fetch_add(1, SeqCst) == nth).then_some(fate)
    });
    let other = world.node(2);
    let workers = [&dying, &other]
        .map(|node| world.polling_worker(node.service(), |_| None, succeeds(SECOND)));
    world.pass(3 * SECOND).await;
    let root = parent(&other.service(), at(&world, SECOND)).await;
    let first = child(&other.service(), root, at(&world, SECOND)).await;
    armed.store(true, SeqCst);
    let answers: Arc<Mutex<Vec<(TaskId, bool)>>> = Arc::default();
    let (service, known, time) = (dying.service(), Arc::clone(&answers), world.time.clone());
    // A call at a node that dies never returns.
    tokio::spawn(async move {
        for number in 1..=3 {
            let task = named(root, time.now().after(SECOND), number);
            let id = task.id.unwrap();
            let added = service.register_asked(vec![task]).await.remove(0);
            known.lock().unwrap().push((id, added.is_ok()));
            time.sleep(SECOND).await;
        }
    });
    world.pass(300 * SECOND).await;
    let what = format!("{fate:?} at {nth}");
    let after = read(&other.service(), root).await;
    let tree = after
        .tree
        .unwrap_or_else(|| panic!("{what}: the tree goes on: {after:?}"));
    assert!(
        tree.outcome == TreeOutcome::Completed && after.state == VisibleState::Succeeded,
        "{what}: {after:?}"
    );
    let answers = answers.lock().unwrap().clone();
    let added = answers.iter().filter(|(_, added)| *added);
    for id in added.map(|(id, _)| *id).chain([first]) {
        let view = read(&other.service(), id).await;
        assert_eq!(view.state, VisibleState::Succeeded, "{what}: {id}");
        let end = view.end_time.unwrap();
        assert!(
            end <= tree.at,
            "{what}: {id} ended at {end} behind its tree at {}",
            tree.at
        );
    }
    let executions = world.executions.lock().unwrap().clone();
    let late = executions.iter().find(|one| one.began > tree.at);
    assert!(
        late.is_none(),
        "{what}: {late:?} began behind the tree at {}",
        tree.at
    );
    for worker in workers {
        worker.abort();
    }
    calls.load(SeqCst)
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
fn a_tree_ends_once_though_a_node_dies_in_the_middle() {
    let all = alone(run(usize::MAX, Fate::Go));
    assert!(all > 12, "{all} operations");
    for nth in (0..all).step_by(9) {
        alone(run(nth, Fate::StopAfter));
    }
}

#[test]
#[ignore = "some minutes: make test-all"]
fn a_tree_ends_once_whatever_happens_at_any_operation() {
    let all = alone(run(usize::MAX, Fate::Go));
    // One world takes a second or more: a part of the operations meets each fate.
    for nth in (0..all).step_by(3) {
        alone(run(nth, Fate::StopAfter));
    }
    for (first, fate) in [
        Fate::StopBefore,
        Fate::Fail,
        Fate::LoseReply,
        Fate::ApplyLater(3 * SECOND),
        Fate::Delay(2 * SECOND),
    ]
    .into_iter()
    .enumerate()
    {
        for nth in (4 * first..all).step_by(20) {
            alone(run(nth, fate));
        }
    }
}

/// A child is added while a check is about to write. Tells whether the tree waits for it.
async fn waits_for_a_late_child() -> bool {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let slow = with_fates(&world, &armed, |call| {
        (call.operation == "swap_record").then_some(Fate::Delay(2 * SECOND))
    });
    world.pass(3 * SECOND).await;
    let root = parent(&slow.service(), at(&world, SECOND)).await;
    let worker = world.polling_worker(slow.service(), |_| None, succeeds(SECOND));
    armed.store(true, SeqCst);
    world.pass(3 * SECOND).await;
    // Its run has ended, and the check is under way.
    let other = world.node(2);
    let late = named(root, world.time.now().after(10 * SECOND), 7);
    let id = late.id.unwrap();
    let added = other.service().register_asked(vec![late]).await.remove(0);
    assert!(matches!(added, Ok(Answer::Created(_))), "{added:?}");
    world.pass(60 * SECOND).await;
    worker.abort();
    let (tree, child) = (
        read(&other.service(), root).await.tree.unwrap(),
        read(&other.service(), id).await,
    );
    child.end_time.is_some_and(|end| end <= tree.at)
}

#[test]
fn a_tree_waits_for_a_child_that_is_added_while_it_is_checked() {
    assert!(alone(waits_for_a_late_child()));
}

/// The scenarios above see a tree that is not closed before its rows are read, and an end that no row tells.
#[test]
fn planted_flaws_of_trees_are_found() {
    flaw::switch(Some(Flaw::TreeNotClosed));
    let waited = alone(waits_for_a_late_child());
    flaw::switch(None);
    assert!(!waited, "the tree ended before a child");
    flaw::switch(Some(Flaw::ChildNotNoted));
    let tree = alone(async {
        let world = World::new(1, 1000);
        let node = world.node(1);
        world.pass(3 * SECOND).await;
        let root = parent(&node.service(), at(&world, SECOND)).await;
        child(&node.service(), root, at(&world, SECOND)).await;
        let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND));
        world.pass(120 * SECOND).await;
        worker.abort();
        read(&node.service(), root).await.tree
    });
    flaw::switch(None);
    assert_eq!(tree, None, "nobody can know that the child has ended");
}

/// A row without an entry is what an add leaves that dies: the check of its parent enters the child.
#[tokio::test(start_paused = true)]
async fn a_child_whose_add_died_runs_all_the_same() {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let reads = AtomicUsize::new(0);
    // The second read of the record is behind the row of the child.
    let dying = with_fates(&world, &armed, move |call| {
        let is_it = call.operation == "record" && reads.fetch_add(1, SeqCst) == 1;
        is_it.then_some(Fate::StopBefore)
    });
    let other = world.node(2);
    world.pass(3 * SECOND).await;
    let root = parent(&other.service(), at(&world, SECOND)).await;
    armed.store(true, SeqCst);
    let (service, late) = (
        dying.service(),
        named(root, world.time.now().after(SECOND), 7),
    );
    let id = late.id.unwrap();
    let adding = tokio::spawn(async move { service.register_asked(vec![late]).await });
    world.pass(SECOND / 2).await;
    assert!(!adding.is_finished());
    let worker = world.polling_worker(other.service(), |_| None, succeeds(SECOND));
    world.pass(30 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 0);
    assert_eq!(
        read(&other.service(), root).await.state,
        VisibleState::WaitingForChildren
    );
    world.pass(90 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 1);
    assert!(read(&other.service(), root).await.tree.is_some());
    worker.abort();
}

/// A cancelled task has no look. If its row cannot be written under its parent, the check of the parent does it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_child_whose_end_could_not_be_told_does_not_hold_up_its_tree() {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let node = with_fates(&world, &armed, |call| {
        (call.operation == "put_index").then_some(Fate::Fail)
    });
    world.pass(3 * SECOND).await;
    let service = node.service();
    let root = parent(&service, at(&world, SECOND)).await;
    let far = child(&service, root, at(&world, 600 * SECOND)).await;
    armed.store(true, SeqCst);
    service.cancel(far).await.unwrap();
    armed.store(false, SeqCst);
    let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND));
    world.pass(10 * SECOND).await;
    assert_eq!(
        read(&service, root).await.state,
        VisibleState::WaitingForChildren
    );
    world.pass(150 * SECOND).await;
    assert!(
        read(&service, root)
            .await
            .tree
            .is_some_and(|tree| tree.outcome == TreeOutcome::Completed)
    );
    worker.abort();
}

/// A failure below faults every tree above, and each level ends soon after the one below.
#[tokio::test(start_paused = true)]
async fn a_failure_faults_the_trees_above_and_each_level_ends_at_once() {
    let world = World::new(4, 64);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let service = node.service();
    let mut above = parent(&service, at(&world, SECOND)).await;
    let root = above;
    for _ in 0..3 {
        let task = kin(at(&world, SECOND), Some(above), true);
        above = register(&service, vec![task]).await[0].id;
    }
    let leaf = child(&service, above, at(&world, 5 * SECOND)).await;
    let fails: Behaviour = Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if id == leaf {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    });
    let worker = world.polling_worker(node.service(), |_| None, fails);
    world.pass(4 * SECOND).await;
    let waiting = read(&service, root).await;
    assert_eq!(waiting.state, VisibleState::WaitingForChildren);
    world.pass(4 * SECOND).await;
    let (top, bottom) = (read(&service, root).await, read(&service, leaf).await);
    let tree = top.tree.unwrap();
    assert!(tree.outcome == TreeOutcome::Faulted && top.state == VisibleState::Succeeded);
    let waited = tree.at.since(bottom.end_time.unwrap());
    assert!(
        waited < 4 * SECOND / 4 + SECOND / 2,
        "{waited:?} for four levels"
    );
    worker.abort();
}
