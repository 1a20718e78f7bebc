//! The failed part of a tree runs again once, and the tree ends behind it, when nodes die, fail or are slow in the middle of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::Value;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{NewTask, TaskView, View, VisibleState},
        stages::{
            service::Service,
            tree::retry::{NotRetried, TreeRetried},
        },
    },
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        notify::{Destination, EndStates, Notify, TreeStates},
        state::Outcome,
    },
};

use super::notify::{TOPIC, alone, execute, messages};
use crate::world::{Behaviour, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn kin(world: &World, kin: Kin) -> NewTask {
    let mut task = callback(world.time.now().after(SECOND));
    task.draft.kin = Some(Box::new(kin));
    task
}

pub(super) fn below(parent: TaskId, is_parent: bool) -> Kin {
    Kin {
        parent: Some(parent),
        is_parent,
        after_parent: false,
        undoes: false,
        children_within: None,
    }
}

pub(super) async fn add(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![task]).await[0].id
}

pub(super) async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Basic).await.unwrap().unwrap()
}

/// A root, whose ends are told. It has a leaf and two parents, one of which has leaves, while the other fails itself.
struct Tree {
    root: TaskId,
    branch: TaskId,
    /// Fails itself, and has a child that waits for it.
    broken: TaskId,
    waits: TaskId,
    good: TaskId,
    bad: [TaskId; 2],
}

impl Tree {
    async fn plant(world: &World, service: &Service) -> Self {
        let root = Kin {
            is_parent: true,
            ..Kin::default()
        };
        let mut told = kin(world, root);
        told.draft.notify = Some(Notify {
            to: Destination::Kafka {
                topic: TOPIC.to_owned(),
            },
            states: Some(EndStates::ALL),
            tree: TreeStates {
                completed: true,
                faulted: true,
                cancelled: false,
            },
        });
        let root = add(service, told).await;
        let branch = add(service, kin(world, below(root, true))).await;
        let broken = add(service, kin(world, below(root, true))).await;
        let left = Kin {
            after_parent: true,
            ..below(broken, false)
        };
        Self {
            root,
            branch,
            broken,
            waits: add(service, kin(world, left)).await,
            good: add(service, kin(world, below(branch, false))).await,
            bad: [
                add(service, kin(world, below(branch, false))).await,
                add(service, kin(world, below(root, false))).await,
            ],
        }
    }

    fn fails(&self) -> [TaskId; 3] {
        [self.broken, self.bad[0], self.bad[1]]
    }

    /// Each of the tasks that fail does so at its first attempt.
    fn behaviour(&self) -> Behaviour {
        let fails = self.fails();
        Arc::new(move |id, attempt| {
            let error = "no route".to_owned();
            let outcome = if attempt == 1 && fails.contains(&id) {
                Outcome::Failed { error }
            } else {
                Outcome::Succeeded { result: None }
            };
            (SECOND, Some(outcome))
        })
    }

    /// Tells what is wrong with the tree after its last round.
    async fn wrong(&self, world: &World, service: &Service) -> Option<String> {
        let root = read(service, self.root).await;
        let Some(tree) = root.tree else {
            return Some(format!("the tree goes on: {root:?}"));
        };
        if tree.outcome == TreeOutcome::Faulted {
            return Some("it is faulted".to_owned());
        }
        let all = [self.root, self.branch, self.broken, self.waits, self.good];
        for id in all.into_iter().chain(self.bad) {
            let view = read(service, id).await;
            let (executions, fails) = (world.executions_of(id), self.fails().contains(&id));
            let times = executions.len();
            let late = executions.iter().any(|one| one.began > tree.at);
            if view.state != VisibleState::Succeeded || late || view.end_time > Some(tree.at) {
                return Some(format!("{id} is late or failed: {view:?}, tree {tree:?}"));
            }
            // An attempt that was lost with its node runs once more.
            if times < 1 + usize::from(fails) || times > 2 + usize::from(fails) {
                return Some(format!("{id} ran {times} times"));
            }
        }
        let kinds = kinds(world, self.root);
        let count = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
        let right = count("task.succeeded") == 1 && count("tree.completed") == 1;
        // A call that died may have a round in which not all runs again.
        let right = right && (1..=3).contains(&count("tree.faulted"));
        (!right).then(|| format!("it was told {kinds:?}"))
    }
}

/// The kinds of messages about a task, with how many names each has.
pub(super) fn kinds(world: &World, task: TaskId) -> BTreeMap<String, usize> {
    let told = messages(world).remove(&task.to_string());
    let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
    let told = told.into_iter().flatten();
    let mut names: Vec<(String, String)> = told
        .map(|message| (text(&message, "type"), text(&message, "id")))
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut kinds = BTreeMap::new();
    for (kind, _) in names {
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

type Answer = Result<TreeRetried, NotRetried>;

async fn retry(service: &Service, root: TaskId) -> Option<Answer> {
    service.retries().retry(root, None).await.ok().flatten()
}

/// Plants a tree, lets it end, and runs its failed part again at a node that dies or fails at operation `nth` from then on. A
/// call without an answer is made at another node. Returns how many operations there were, or the thing that was wrong.
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
    // Polls of a node that is gone would keep a part of the queue in this world.
    let worker = world.polling_worker(other.service(), |_| None, tree.behaviour());
    world.pass(15 * SECOND).await;
    let ended = read(&service, tree.root).await;
    assert!(
        ended
            .tree
            .is_some_and(|tree| tree.outcome == TreeOutcome::Faulted),
        "{ended:?}"
    );
    armed.store(true, SeqCst);
    let answer: Arc<Mutex<Option<Answer>>> = Arc::default();
    let (calling, root, known) = (dying.service(), tree.root, Arc::clone(&answer));
    // A call at a node that dies never returns.
    tokio::spawn(async move { *known.lock().unwrap() = retry(&calling, root).await });
    world.pass(20 * SECOND).await;
    let first = *answer.lock().unwrap();
    match first {
        Some(Ok(done)) => assert!(done.next.is_none() && done.left == 0, "{done:?}"),
        Some(Err(why)) => return Err(format!("{fate:?} at {nth}: refused: {why:?}")),
        None => {
            retry(&service, root).await;
        }
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
fn the_failed_part_of_a_tree_runs_again_once() {
    alone(async {
        let world = World::new(1, 1000);
        world.queue.create_topic(TOPIC, None);
        let node = world.node(1);
        execute(&node);
        world.pass(3 * SECOND).await;
        let service = node.service();
        let tree = Tree::plant(&world, &service).await;
        assert_eq!(
            retry(&service, tree.root).await,
            Some(Err(NotRetried::GoesOn))
        );
        let worker = world.polling_worker(node.service(), |_| None, tree.behaviour());
        world.pass(15 * SECOND).await;
        let done = retry(&service, tree.root).await.unwrap().unwrap();
        assert_eq!((done.retried, done.left, done.next), (4, 0, None));
        let waits = read(&service, tree.waits).await;
        assert_eq!(waits.state, VisibleState::Waiting, "{waits:?}");
        world.pass(15 * SECOND).await;
        worker.abort();
        world.check();
        assert_eq!(tree.wrong(&world, &service).await, None);
        let told = kinds(&world, tree.root);
        let once = ["task.succeeded", "tree.completed", "tree.faulted"];
        assert_eq!(told, once.map(|kind| (kind.to_owned(), 1)).into());
        for id in tree.fails() {
            assert_eq!(world.executions_of(id).len(), 2);
        }
        let again = retry(&service, tree.root).await;
        assert_eq!(again, Some(Err(NotRetried::NothingFailed)));
    });
}

#[test]
fn a_retry_is_completed_though_its_node_dies_in_the_middle() {
    let all = alone(run(usize::MAX, Fate::Go)).unwrap();
    assert!(all > 60, "{all} operations");
    for nth in (0..60).step_by(5) {
        alone(run(nth, Fate::StopAfter)).unwrap();
    }
}

#[test]
#[ignore = "some minutes: make test-all"]
fn a_retry_is_completed_whatever_happens_at_any_operation() {
    let all = alone(run(usize::MAX, Fate::Go)).unwrap();
    for nth in 0..all {
        alone(run(nth, Fate::StopAfter)).unwrap();
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
        for nth in (first..all).step_by(4) {
            alone(run(nth, fate)).unwrap();
        }
    }
}

/// Two calls at two nodes, at the same time, run each task again once.
#[test]
fn calls_that_overlap_run_each_task_again_once() {
    alone(async {
        let world = World::new(1, 1000);
        world.queue.create_topic(TOPIC, None);
        let nodes = [world.node(1), world.node(2)];
        execute(&nodes[0]);
        world.pass(3 * SECOND).await;
        let services = [nodes[0].service(), nodes[1].service()];
        let tree = Tree::plant(&world, &services[0]).await;
        let worker = world.polling_worker(nodes[0].service(), |_| None, tree.behaviour());
        world.pass(15 * SECOND).await;
        let (one, other) = tokio::join!(
            retry(&services[0], tree.root),
            retry(&services[1], tree.root)
        );
        let retried = |answer: Option<Answer>| answer.unwrap().unwrap().retried;
        assert_eq!(retried(one) + retried(other), 4);
        world.pass(60 * SECOND).await;
        worker.abort();
        world.check();
        assert_eq!(tree.wrong(&world, &services[0]).await, None);
        for id in tree.fails() {
            assert_eq!(world.executions_of(id).len(), 2);
        }
    });
}

/// The scenarios above see a retry that does not open the rows of its tasks before it opens their tree.
#[test]
fn a_planted_flaw_of_retries_is_found() {
    flaw::switch(Some(Flaw::RetryUnmarked));
    let wrong = alone(run(usize::MAX, Fate::Go));
    flaw::switch(None);
    assert!(wrong.is_err(), "the tree has ended before its tasks");
}
