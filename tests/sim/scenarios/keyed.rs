//! A key names one task that waits for others, or one whole tree, whatever a node dies at.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::{Fault, NewTask, View, VisibleState},
        life::{
            asked::{Answer, AskedTask},
            register_tree::{ChildStart, NewChild, NewTree},
        },
        stages::service::Service,
    },
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        join::{After, Asked, Condition},
        key::OnConflict,
        time::Millis,
    },
};

use crate::world::{Simulated, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

const EVERY: [Fate; 4] = [
    Fate::StopBefore,
    Fate::StopAfter,
    Fate::Fail,
    Fate::LoseReply,
];

pub(super) fn keyed(mut task: NewTask, on_conflict: OnConflict) -> AskedTask {
    task.draft.key = Some("reset-7".to_owned());
    AskedTask {
        task,
        id: None,
        request: None,
        on_conflict,
    }
}

/// A task with the key that waits for another one.
fn waiter(start: Millis, id: TaskId, on_conflict: OnConflict) -> AskedTask {
    let mut task = callback(start);
    task.draft.after = Some(Box::new(Asked {
        after: After {
            condition: Condition::AllEnded,
            later: false,
            deadline: None,
            tasks: 1,
        },
        ids: vec![id],
    }));
    keyed(task, on_conflict)
}

/// A tree with the key: a root, a child, and a child of that one.
fn tree(start: Millis, on_conflict: OnConflict) -> NewTree {
    let parent = || {
        let mut task = callback(start);
        task.draft.kin = Some(Box::new(Kin {
            is_parent: true,
            ..Kin::default()
        }));
        task
    };
    let child = |task: NewTask, children| NewChild {
        start: ChildStart::After(Duration::ZERO),
        draft: task.draft,
        children,
    };
    let mut leaf = callback(start);
    leaf.draft.kin = Some(Box::default());
    NewTree {
        root: keyed(parent(), on_conflict),
        children: vec![child(parent(), vec![child(leaf, Vec::new())])],
    }
}

/// A node that meets a fate at its n-th call while it is armed.
pub(super) fn dying(
    world: &World,
    (at, fate): (usize, Fate),
) -> (Simulated, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (armed, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (arms, counts) = (Arc::clone(&armed), Arc::clone(&calls));
    let fates = move |_, _| {
        let meets = arms.load(SeqCst) && counts.fetch_add(1, SeqCst) == at;
        if meets { fate } else { Fate::Go }
    };
    (world.node_with(1, Arc::new(fates)), armed, calls)
}

pub(super) async fn ask(service: &Service, asked: AskedTask) -> Option<Result<Answer, Fault>> {
    service.register_asked(vec![asked]).await.pop()
}

/// Asks as a client that repeats until it has an answer.
async fn until_answered(service: &Service, world: &World, asked: AskedTask) -> Answer {
    loop {
        match ask(service, asked.clone()).await {
            Some(Ok(answer)) => return answer,
            Some(Err(_)) | None => world.pass(SECOND / 4).await,
        }
    }
}

pub(super) const fn id_of(answer: &Answer) -> Option<TaskId> {
    match answer {
        Answer::Created(task)
        | Answer::Existing(task)
        | Answer::Replaced(task)
        | Answer::KeyTaken(task) => Some(task.id),
        Answer::OtherRequest => None,
    }
}

/// Registers a second task of a key while the first one waits for another task, at a node that dies or fails at operation `at`.
/// Returns how many operations that took.
async fn waits(on_conflict: OnConflict, repeats: bool, at: usize, fate: Fate) -> usize {
    let world = World::new(1, 64);
    let (dying, armed, calls) = dying(&world, (at, fate));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let service = other.service();
    let awaited = register(&service, vec![callback(now.after(20 * SECOND))]).await[0].id;
    let first = waiter(now, awaited, OnConflict::Reject);
    let first = id_of(&until_answered(&service, &world, first).await).unwrap();
    let second = waiter(now.after(SECOND), awaited, on_conflict);
    armed.store(true, SeqCst);
    let asking = {
        let (service, second) = (dying.service(), second.clone());
        // A call on a node that dies never returns.
        tokio::spawn(async move { ask(&service, second).await })
    };
    world.pass(SECOND).await;
    armed.store(false, SeqCst);
    let operations = calls.load(SeqCst);
    let answered = if repeats {
        Some(until_answered(&service, &world, second).await)
    } else if asking.is_finished() {
        asking.await.unwrap().and_then(Result::ok)
    } else {
        None
    };
    world.pass(400 * SECOND).await;
    let executions = world.executions.lock().unwrap().clone();
    let ran: Vec<TaskId> = executions.iter().map(|one| one.id).collect();
    let what = format!("{on_conflict:?}, {fate:?} at {at}: {executions:?}");
    assert_eq!(ran.len(), 2, "{what}");
    assert_eq!(ran[0], awaited, "{what}");
    assert!(executions[1].began >= executions[0].ended, "{what}");
    if on_conflict != OnConflict::Replace {
        assert_eq!(ran[1], first, "{what}");
    }
    if let Some(named) = answered.as_ref().and_then(id_of) {
        assert_eq!(ran[1], named, "{what}");
    }
    if ran[1] != first {
        let view = service.get(first, View::Basic).await.unwrap().unwrap();
        assert_eq!(view.state, VisibleState::Cancelled, "{what}");
    }
    worker.abort();
    operations
}

async fn all_waits(step: usize, fates: &[Fate]) {
    for on_conflict in [OnConflict::Ignore, OnConflict::Replace] {
        for repeats in [true, false] {
            let total = waits(on_conflict, repeats, usize::MAX, Fate::Go).await;
            assert!(total >= 7, "{total} operations");
            for (first, fate) in fates.iter().enumerate() {
                for at in (first..total.min(30)).step_by(step) {
                    waits(on_conflict, repeats, at, *fate).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_tasks_of_a_key_waits_where_a_node_dies() {
    all_waits(16, &[Fate::StopBefore, Fate::StopAfter]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a minute: make test-all"]
async fn one_of_two_tasks_of_a_key_waits_whatever_happens_at_any_step() {
    all_waits(1, &EVERY).await;
}

/// The holder of the key when a tree is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    Task,
    Tree,
}

/// Plants a tree with a key at a node that dies or fails at operation `at`. Returns how many operations that took.
async fn plants(holder: Holder, repeats: bool, at: usize, fate: Fate) -> usize {
    let world = World::new(1, 64);
    let (dying, armed, calls) = dying(&world, (at, fate));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    world.pass(3 * SECOND).await;
    let (service, start) = (other.service(), world.time.now().after(20 * SECOND));
    let old = match holder {
        Holder::Nobody => None,
        Holder::Task => {
            let task = keyed(callback(start), OnConflict::Reject);
            id_of(&until_answered(&service, &world, task).await)
        }
        Holder::Tree => {
            let planted = service.register_tree(tree(start, OnConflict::Reject)).await;
            id_of(&planted.unwrap())
        }
    };
    let wanted = tree(start.after(SECOND), OnConflict::Replace);
    armed.store(true, SeqCst);
    let asking = {
        let (service, wanted) = (dying.service(), wanted.clone());
        tokio::spawn(async move { service.register_tree(wanted).await })
    };
    world.pass(SECOND).await;
    armed.store(false, SeqCst);
    let operations = calls.load(SeqCst);
    let mut answered = None;
    while repeats && answered.is_none() {
        answered = service.register_tree(wanted.clone()).await.ok();
        world.pass(SECOND / 4).await;
    }
    if !repeats && asking.is_finished() {
        answered = asking.await.unwrap().ok();
    }
    world.pass(300 * SECOND).await;
    let what = format!("{holder:?}, {fate:?} at {at}");
    let named = service.id_by_key("work", "reset-7").await.unwrap();
    let executions = world.executions.lock().unwrap().clone();
    let ran: BTreeSet<TaskId> = executions.iter().map(|one| one.id).collect();
    assert_eq!(ran.len(), executions.len(), "{what}: {executions:?}");
    worker.abort();
    let top = match named {
        Some(named) => service.get(named, View::Basic).await.unwrap(),
        None => None,
    };
    let (Some(named), Some(top)) = (named, top) else {
        // Of a record without its task nobody was told, and the next request for the key writes the task.
        assert_eq!((ran.len(), repeats), (0, false), "{what}: {answered:?}");
        return operations;
    };
    assert_eq!(top.state, VisibleState::Succeeded, "{what}: {top:?}");
    let is_tree = holder != Holder::Task || Some(named) != old;
    assert_eq!(ran.len(), if is_tree { 3 } else { 1 }, "{what}: {ran:?}");
    assert!(ran.contains(&named), "{what}: {named} of {ran:?}");
    assert_eq!(top.tree.is_some(), is_tree, "{what}: {top:?}");
    if let Some(tree) = top.tree {
        let late = executions.iter().find(|one| one.ended > tree.at);
        assert_eq!(
            (late, tree.outcome == TreeOutcome::Faulted),
            (None, false),
            "{what}"
        );
    }
    match (holder, &answered) {
        // A tree that goes on is not replaced.
        (Holder::Tree, answer) => {
            assert_eq!(Some(named), old, "{what}");
            let taken = matches!(answer, None | Some(Answer::KeyTaken(_)));
            assert!(taken, "{what}: {answer:?}");
        }
        // The tree of the request before may have the key.
        (_, Some(answer)) => assert_eq!(id_of(answer), Some(named), "{what}: {answer:?}"),
        (_, None) => {}
    }
    operations
}

async fn all_plants(step: usize, fates: &[Fate]) {
    for holder in [Holder::Nobody, Holder::Task, Holder::Tree] {
        for repeats in [true, false] {
            let total = plants(holder, repeats, usize::MAX, Fate::Go).await;
            assert!(total >= 7, "{total} operations");
            for (first, fate) in fates.iter().enumerate() {
                for at in (first..total.min(30)).step_by(step) {
                    plants(holder, repeats, at, *fate).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_names_a_whole_tree_where_a_node_dies() {
    all_plants(16, &[Fate::StopBefore, Fate::StopAfter]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "a minute: make test-all"]
async fn a_key_names_a_whole_tree_whatever_happens_at_any_step() {
    all_plants(1, &EVERY).await;
}
