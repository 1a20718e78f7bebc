//! A task of a tree that has succeeded begins one new round, and its tree ends behind it, when nodes die, fail or are slow.

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
    flow::{base::api::VisibleState, stages::service::Service},
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        notify::{Destination, EndStates, Notify, TreeStates},
        reopen::NotReopened,
    },
};

use super::{
    notify::{TOPIC, alone, execute},
    retries::{add, below, kin, kinds, read},
};
use crate::world::{World, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// A root, a parent below it, and its leaf. All ends of root and leaf are told.
struct Tree {
    root: TaskId,
    branch: TaskId,
    leaf: TaskId,
}

impl Tree {
    async fn plant(world: &World, service: &Service) -> Self {
        let told = |completed| {
            Some(Notify {
                to: Destination::Kafka {
                    topic: TOPIC.to_owned(),
                },
                states: Some(EndStates::ALL),
                tree: TreeStates {
                    completed,
                    faulted: false,
                    cancelled: false,
                },
            })
        };
        let parent = Kin {
            is_parent: true,
            ..Kin::default()
        };
        let mut root = kin(world, parent);
        root.draft.notify = told(true);
        let root = add(service, root).await;
        let branch = add(service, kin(world, below(root, true))).await;
        let mut leaf = kin(world, below(branch, false));
        leaf.draft.notify = told(false);
        let leaf = add(service, leaf).await;
        Self { root, branch, leaf }
    }

    async fn has_ended(&self, service: &Service) -> bool {
        let tree = read(service, self.root).await.tree;
        tree.is_some_and(|tree| tree.outcome == TreeOutcome::Completed)
    }

    /// Tells what is wrong behind the second round.
    async fn wrong(&self, world: &World, service: &Service) -> Option<String> {
        let Some(tree) = read(service, self.root).await.tree else {
            return Some("the tree goes on".to_owned());
        };
        let leaf = read(service, self.leaf).await;
        let ran = world.executions_of(self.leaf);
        let late = leaf.end_time > Some(tree.at) || ran.iter().any(|one| one.began > tree.at);
        // An attempt that was lost with its node runs once more.
        if leaf.state != VisibleState::Succeeded || late || !(2..=3).contains(&ran.len()) {
            return Some(format!("it ran {} times: {leaf:?}, {tree:?}", ran.len()));
        }
        for id in [self.root, self.branch] {
            let ran = world.executions_of(id).len();
            if ran != 1 {
                return Some(format!("{id} ran {ran} times"));
            }
        }
        let told = |id, kind: &str| kinds(world, id).get(kind).copied().unwrap_or_default();
        let (runs, trees) = (
            told(self.leaf, "task.succeeded"),
            told(self.root, "tree.completed"),
        );
        let own = told(self.root, "task.succeeded");
        ((runs, trees, own) != (2, 2, 1)).then(|| format!("told {runs}, {trees} and {own} times"))
    }
}

type Answer = Option<Result<(), NotReopened>>;

async fn reopen(service: &Service, leaf: TaskId) -> Option<Answer> {
    service.retries().reopen(leaf, Some(1), None).await.ok()
}

/// Lets a tree end, and reopens its leaf at a node that dies or fails at operation `nth` from then on. A call without an answer
/// is made at another node. Returns how many operations there were, or the thing that was wrong.
async fn run(nth: usize, fate: Fate) -> Result<usize, String> {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
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
    execute(&dying);
    execute(&other);
    world.pass(3 * SECOND).await;
    let service = other.service();
    let tree = Tree::plant(&world, &service).await;
    let worker = world.polling_worker(other.service(), |_| None, succeeds(SECOND));
    world.pass(15 * SECOND).await;
    assert!(tree.has_ended(&service).await);
    armed.store(true, SeqCst);
    let answer: Arc<Mutex<Option<Answer>>> = Arc::default();
    let (calling, leaf, known) = (dying.service(), tree.leaf, Arc::clone(&answer));
    // A call at a node that dies never returns.
    tokio::spawn(async move { *known.lock().unwrap() = reopen(&calling, leaf).await });
    world.pass(20 * SECOND).await;
    let first = *answer.lock().unwrap();
    match first {
        Some(Some(Ok(()))) => {}
        Some(wrong) => return Err(format!("{fate:?} at {nth}: {wrong:?}")),
        None => match reopen(&service, leaf).await {
            // The first call has come so far that the leaf has its next attempt.
            Some(Some(Ok(()) | Err(NotReopened::OtherAttempt(2)))) => {}
            wrong => return Err(format!("{fate:?} at {nth}, repeated: {wrong:?}")),
        },
    }
    // A look at a parent comes after ten minutes at the latest, for each level.
    world.pass(1500 * SECOND).await;
    worker.abort();
    world.check();
    match tree.wrong(&world, &service).await {
        Some(wrong) => Err(format!("{fate:?} at {nth}: {wrong}")),
        None => Ok(calls.load(SeqCst)),
    }
}

#[test]
fn a_reopening_is_completed_whatever_happens_at_some_operations() {
    let all = alone(run(usize::MAX, Fate::Go)).unwrap();
    assert!(all > 25, "{all} operations");
    for nth in (0..25).step_by(3) {
        alone(run(nth, Fate::StopAfter)).unwrap();
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn a_reopening_is_completed_whatever_happens_at_any_operation() {
    let all = alone(run(usize::MAX, Fate::Go)).unwrap();
    for fate in [
        Fate::StopBefore,
        Fate::StopAfter,
        Fate::Fail,
        Fate::LoseReply,
        Fate::ApplyLater(3 * SECOND),
        Fate::Delay(2 * SECOND),
    ] {
        for nth in 0..all {
            alone(run(nth, fate)).unwrap();
        }
    }
}

/// The scenario sees a reopening that does not open the rows of its task before it opens the tree.
#[test]
fn a_planted_flaw_of_reopenings_is_found() {
    flaw::switch(Some(Flaw::RetryUnmarked));
    let wrong = alone(run(usize::MAX, Fate::Go));
    flaw::switch(None);
    assert!(wrong.is_err(), "the tree has ended before its leaf");
}
