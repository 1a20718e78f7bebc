//! A tree that is cancelled ends as that, and is undone once, when the node of the cancel dies or fails in the middle and nobody
//! asks again.

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
        stages::service::Service,
    },
    model::{
        action::{End, When},
        chain::{FollowStart, FollowUp},
        chain_task::follow_id,
        draft::TaskDraft,
        family::{Kin, TreeOutcome},
        ids::TaskId,
        notify::EndStates,
        state::State,
    },
};

use crate::world::{World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// When the tasks start that are cancelled before they run.
const FAR: Duration = Duration::from_secs(900);

fn kin(mut task: NewTask, parent: Option<TaskId>, is_parent: bool) -> NewTask {
    task.draft.kin = Some(Box::new(Kin {
        parent,
        is_parent,
        ..Kin::default()
    }));
    task
}

async fn add(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![task]).await[0].id
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Basic).await.unwrap().unwrap()
}

fn follow(state: State, in_tree: bool, task: TaskDraft) -> FollowUp<TaskDraft> {
    FollowUp {
        when: When::Run(EndStates::of([state]).unwrap()),
        start: FollowStart::After(Duration::ZERO),
        with_result: false,
        in_tree,
        task,
    }
}

/// A root, whose run has ended or not when it is cancelled. Its cancel is followed by a task. A branch has a leaf whose cancel is
/// followed by a task in the tree.
struct Tree {
    root: TaskId,
    branch: TaskId,
    leaf: TaskId,
}

impl Tree {
    async fn plant(world: &World, service: &Service, root_in: Duration) -> Self {
        let draft = || callback(world.time.now()).draft;
        let at = |wait| callback(world.time.now().after(wait));
        let mut root = kin(at(root_in), None, true);
        root.draft.then = vec![follow(State::Cancelled, false, draft())];
        let root = add(service, root).await;
        let branch = add(service, kin(at(FAR), Some(root), true)).await;
        let mut leaf = kin(at(FAR), Some(branch), false);
        leaf.draft.then = vec![follow(State::Cancelled, true, draft())];
        let leaf = add(service, leaf).await;
        Self { root, branch, leaf }
    }

    /// Tells what is wrong after a cancel. One that has written nothing leaves a tree that comes to its usual end.
    async fn wrong(&self, world: &World, service: &Service, answered: bool) -> Option<String> {
        let root = read(service, self.root).await;
        let Some(tree) = root.tree else {
            return Some(format!("the tree goes on: {root:?}"));
        };
        let is_cancelled = tree.outcome == TreeOutcome::Cancelled;
        if tree.outcome == TreeOutcome::Faulted || answered && !is_cancelled {
            return Some(format!(
                "it ended as {:?}, answered: {answered}",
                tree.outcome
            ));
        }
        let run = root.run_state.unwrap();
        let end = match run {
            State::Cancelled => End::Run(run, root.end_time.unwrap()),
            _ => End::Tree(tree),
        };
        let undo = follow_id(root.id, root.generation, end, (0, &root.spec.then[0]));
        let leaf = read(service, self.leaf).await;
        let end = End::Run(leaf.run_state.unwrap(), leaf.end_time.unwrap());
        let refund = follow_id(leaf.id, leaf.generation, end, (0, &leaf.spec.then[0]));
        let ran = |id: TaskId| world.executions_of(id).len();
        let times = [ran(self.branch), ran(self.leaf), ran(undo), ran(refund)];
        let expected = if is_cancelled {
            [0, 0, 1, 1]
        } else {
            [1, 1, 0, 0]
        };
        if times != expected {
            return Some(format!("{:?}: they ran {times:?} times", tree.outcome));
        }
        let branch = read(service, self.branch).await;
        let of_branch = branch.tree.map(|tree| tree.outcome);
        if of_branch != Some(tree.outcome) {
            return Some(format!(
                "the part ended as {of_branch:?}, and the tree {tree:?}"
            ));
        }
        let late = world
            .executions_of(refund)
            .iter()
            .any(|one| one.ended > tree.at);
        late.then(|| format!("the tree ended before {refund}"))
    }
}

/// Cancels a tree at a node that dies or fails at operation `nth` from then on; nobody repeats it. Returns how many operations
/// there were, or the thing that was wrong.
async fn run(nth: usize, fate: Fate, root_in: Duration) -> Result<usize, String> {
    let world = World::new(1, 1000);
    let (armed, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (seen, on) = (Arc::clone(&calls), Arc::clone(&armed));
    let fates = move |_, call: Call| {
        let counts = matches!(
            call.operation,
            "put_index" | "index_range" | "record" | "swap_record" | "swap_tasks" | "put_entries"
        );
        if on.load(SeqCst) && counts && seen.fetch_add(1, SeqCst) == nth {
            fate
        } else {
            Fate::Go
        }
    };
    let (dying, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
    let worker = world.polling_worker(other.service(), |_| None, succeeds(SECOND));
    world.pass(3 * SECOND).await;
    let service = other.service();
    let tree = Tree::plant(&world, &service, root_in).await;
    world.pass(5 * SECOND).await;
    armed.store(true, SeqCst);
    let answered: Arc<Mutex<bool>> = Arc::default();
    let (calling, root, known) = (dying.service(), tree.root, Arc::clone(&answered));
    // A call at a node that dies never returns.
    tokio::spawn(async move {
        let answer = calling.trees().cancel(root).await;
        *known.lock().unwrap() = matches!(answer, Ok(Some(_)));
    });
    // A look at a parent comes after ten minutes at the latest, for each level.
    world.pass(FAR + 2100 * SECOND).await;
    worker.abort();
    world.check();
    let answered = *answered.lock().unwrap();
    match tree.wrong(&world, &service, answered).await {
        Some(wrong) => Err(format!("{fate:?} at {nth}, root in {root_in:?}: {wrong}")),
        None => Ok(calls.load(SeqCst)),
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
fn a_tree_is_cancelled_though_the_node_of_the_cancel_dies_in_the_middle() {
    for root_in in [SECOND, FAR] {
        let all = alone(run(usize::MAX, Fate::Go, root_in)).unwrap();
        assert!(all > 12, "{all} operations");
        for nth in (0..24).step_by(3) {
            alone(run(nth, Fate::StopAfter, root_in)).unwrap();
        }
    }
}

#[test]
#[ignore = "some minutes: make test-all"]
fn a_tree_is_cancelled_whatever_happens_at_any_operation_of_the_cancel() {
    for root_in in [SECOND, FAR] {
        for fate in [
            Fate::StopAfter,
            Fate::StopBefore,
            Fate::Fail,
            Fate::LoseReply,
            Fate::ApplyLater(3 * SECOND),
            Fate::Delay(2 * SECOND),
        ] {
            for nth in 0..40 {
                alone(run(nth, fate, root_in)).unwrap();
            }
        }
    }
}

/// The scenario above sees a tree that forgets its cancel when it is closed.
#[test]
fn a_cancel_that_is_forgotten_is_found() {
    flaw::switch(Some(Flaw::CancelForgotten));
    let run = std::panic::catch_unwind(|| alone(run(usize::MAX, Fate::Go, SECOND)));
    flaw::switch(None);
    assert!(!matches!(run, Ok(Ok(_))));
}

/// Children that are added at another node while a tree is cancelled: none runs, and all that were taken are cancelled.
#[tokio::test(start_paused = true)]
async fn what_is_added_while_a_tree_is_cancelled_never_runs() {
    for early in 0..6 {
        let world = World::new(1, 1000);
        let slow = world.node_with(
            1,
            Arc::new(|_, call: Call| {
                let is_slow = matches!(call.operation, "put_index" | "put_entries" | "record");
                if is_slow {
                    Fate::Delay(SECOND / 2)
                } else {
                    Fate::Go
                }
            }),
        );
        let other = world.node(2);
        let worker = world.polling_worker(other.service(), |_| None, succeeds(SECOND));
        world.pass(3 * SECOND).await;
        let service = other.service();
        let at = |wait| callback(world.time.now().after(wait));
        let root = add(&service, kin(at(SECOND), None, true)).await;
        add(&service, kin(at(FAR), Some(root), false)).await;
        world.pass(5 * SECOND).await;
        let task = kin(at(30 * SECOND), Some(root), false);
        let adding = slow.service();
        let added = tokio::spawn(async move { adding.register(vec![task]).await.remove(0) });
        world.pass(early * SECOND / 3).await;
        service.trees().cancel(root).await.unwrap().unwrap();
        world.pass(400 * SECOND).await;
        worker.abort();
        let added = added.await.unwrap();
        let top = read(&service, root).await;
        let outcome = top.tree.map(|tree| tree.outcome);
        assert_eq!(outcome, Some(TreeOutcome::Cancelled), "{early}: {top:?}");
        if let Ok(view) = added {
            assert_eq!(world.executions_of(view.id).len(), 0, "{early}");
            let view = read(&service, view.id).await;
            assert_eq!(view.state, VisibleState::Cancelled, "{early}");
        }
    }
}
