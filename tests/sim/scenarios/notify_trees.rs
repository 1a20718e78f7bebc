//! The end of a tree is told once by its own message, at least once, whatever its node dies at, and apart from that of the run.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::base::api::NewTask,
    model::{
        family::Kin,
        ids::TaskId,
        notify::{Destination, EndStates, Notify, TreeStates},
        state::Outcome,
    },
};

use super::notify::{TOPIC, alone, dying, execute, ids, messages};
use crate::world::{Behaviour, World, callback};

const SECOND: Duration = Duration::from_secs(1);

const BOTH: TreeStates = TreeStates {
    completed: true,
    faulted: true,
    cancelled: false,
};

fn kin(mut task: NewTask, parent: Option<TaskId>, is_parent: bool) -> NewTask {
    task.draft.kin = Some(Box::new(Kin {
        parent,
        is_parent,
        ..Kin::default()
    }));
    task
}

/// A parent whose tree is told of, and its own run, too, where these states say so.
fn told(world: &World, states: Option<EndStates>) -> NewTask {
    let mut task = kin(callback(world.time.now().after(SECOND)), None, true);
    task.draft.notify = Some(Notify {
        to: Destination::Kafka {
            topic: TOPIC.to_owned(),
        },
        states,
        tree: BOTH,
    });
    task
}

/// These tasks fail for good, the others succeed.
fn behaviour(bad: Vec<TaskId>) -> Behaviour {
    Arc::new(move |id, _| {
        let outcome = if bad.contains(&id) {
            let error = "no route".to_owned();
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

/// The kinds of messages about a task, with how many names each has.
fn kinds(world: &World, task: TaskId) -> BTreeMap<String, usize> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let told = messages(world).remove(&task.to_string());
    for message in told.into_iter().flatten() {
        let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
        let known = names.entry(text("type")).or_default();
        if !known.contains(&text("id")) {
            known.push(text("id"));
        }
    }
    names
        .into_iter()
        .map(|(kind, names)| (kind, names.len()))
        .collect()
}

fn once<const N: usize>(kinds: [&str; N]) -> BTreeMap<String, usize> {
    kinds.into_iter().map(|kind| (kind.to_owned(), 1)).collect()
}

/// Tells what was wrong after two trees have ended at a node that dies at its n-th call from their starts on. Returns how many
/// calls there were.
async fn crash(nth: usize, fate: Fate) -> Result<usize, String> {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
    let armed = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicUsize::new(0));
    let dying = dying(&world, &armed, &seen, nth, fate);
    let other = world.node(2);
    execute(&dying);
    execute(&other);
    world.pass(SECOND * 3).await;
    let service = other.service();
    let well = ids(&service, vec![told(&world, Some(EndStates::ALL))]).await[0];
    let ill = ids(&service, vec![told(&world, None)]).await[0];
    let mut children = Vec::new();
    for parent in [well, ill] {
        let child = callback(world.time.now().after(SECOND));
        children.extend(ids(&service, vec![kin(child, Some(parent), false)]).await);
    }
    armed.store(true, SeqCst);
    let behaviour = behaviour(vec![children[1]]);
    let worker = world.worker(dying.service(), Arc::clone(&behaviour));
    world.pass(SECOND * 3).await;
    // It may wait for an answer for ever, and would keep its part of the queue.
    worker.abort();
    world.worker(service, behaviour);
    world.pass(SECOND * 300).await;
    for (task, expected) in [
        (well, once(["task.succeeded", "tree.completed"])),
        (ill, once(["tree.faulted"])),
        (children[0], once([])),
        (children[1], once([])),
    ] {
        let found = kinds(&world, task);
        if found != expected {
            return Err(format!(
                "{fate:?} at {nth}: {task}: {found:?}, not {expected:?}"
            ));
        }
    }
    Ok(seen.load(SeqCst))
}

/// The trees have ended and are told within so many calls.
const CALLS: usize = 120;

fn survives(fate: Fate) {
    let all = alone(crash(usize::MAX, Fate::Go)).unwrap();
    assert!(all > CALLS, "{all} calls");
    for nth in 0..CALLS {
        alone(crash(nth, fate)).unwrap();
    }
}

#[test]
#[ignore = "searches every step: make test-all"]
fn the_end_of_a_tree_is_told_though_its_node_dies_before_any_of_its_steps() {
    survives(Fate::StopBefore);
}

#[test]
#[ignore = "searches every step: make test-all"]
fn the_end_of_a_tree_is_told_though_its_node_dies_after_any_of_its_steps() {
    survives(Fate::StopAfter);
}

/// Tells whether the end of a tree is told while the store takes no entries for half a minute, from before its end on.
async fn told_behind_an_outage() -> bool {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
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
    execute(&node);
    world.pass(SECOND * 3).await;
    let root = ids(&node.service(), vec![told(&world, None)]).await[0];
    let child = kin(callback(world.time.now().after(SECOND)), Some(root), false);
    ids(&node.service(), vec![child]).await;
    world.worker(node.service(), behaviour(Vec::new()));
    world.pass(SECOND * 21 / 20).await;
    away.store(true, SeqCst);
    world.pass(SECOND * 30).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 120).await;
    kinds(&world, root) == once(["tree.completed"])
}

#[test]
fn the_end_of_a_tree_is_told_behind_an_outage_of_the_store() {
    assert!(alone(told_behind_an_outage()));
}

/// The scenario above sees a tree whose end counts as told before the task that tells it is durable.
#[test]
fn an_end_of_a_tree_that_counts_as_told_too_soon_is_found() {
    flaw::switch(Some(Flaw::EndToldTooSoon));
    let told = alone(told_behind_an_outage());
    flaw::switch(None);
    assert!(!told);
}
