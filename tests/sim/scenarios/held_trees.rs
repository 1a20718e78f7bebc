//! A tree is held open for children to come until its client says that all were added, or their time has passed, when nodes die.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{base::api::TaskView, stages::tree::read::NotCompleted},
    model::family::{Kin, TreeEnd, TreeOutcome},
};

use super::{
    keyed::dying,
    notify::alone,
    retries::{add, below, kin, read},
};
use crate::world::{World, succeeds};

const SECOND: Duration = Duration::from_secs(1);

const WITHIN: Duration = Duration::from_secs(900);

/// Returns the end of a tree, which comes behind the end of its own run by this at least.
fn end(root: &TaskView, least: Duration) -> TreeEnd {
    let tree = root.tree.unwrap_or_else(|| panic!("it goes on: {root:?}"));
    let run = root.end_time.unwrap();
    assert!(tree.at >= run.after(least), "{root:?}");
    assert_eq!(tree.outcome, TreeOutcome::Completed);
    tree
}

/// Lets a tree without children wait for them. A child comes, then the word that it was the last, at a node that dies or fails at
/// operation `nth` from then on. Returns how many operations there were.
async fn run(nth: usize, fate: Fate) -> usize {
    let world = World::new(1, 64);
    let ((dying, armed, calls), other) = (dying(&world, (nth, fate)), world.node(2));
    world.pass(3 * SECOND).await;
    let service = other.service();
    let held = Kin {
        is_parent: true,
        children_within: Some(WITHIN),
        ..Kin::default()
    };
    let root = add(&service, kin(&world, held)).await;
    let worker = world.polling_worker(other.service(), |_| None, succeeds(SECOND / 4));
    world.pass(60 * SECOND).await;
    let open = read(&service, root).await;
    assert!(open.end_time.is_some() && open.tree.is_none(), "{open:?}");
    armed.store(true, SeqCst);
    let calling = dying.service();
    let child = kin(&world, below(root, false));
    let at = format!("{fate:?} at {nth}");
    // A call at a node that dies never returns.
    let called = tokio::spawn(async move {
        let added = calling.register(vec![child]).await.pop();
        added.unwrap().unwrap();
        calling.trees().complete(root, None).await
    });
    world.pass(30 * SECOND).await;
    let is_noted = called.is_finished() && matches!(called.await, Ok(Ok(Some(Ok(())))));
    let open = read(&service, root).await;
    let is_noted = is_noted || open.tree.is_some() || {
        let again = service.trees().complete(root, None).await;
        matches!(again, Ok(Some(Ok(()))))
    };
    assert!(is_noted, "{at}");
    // A child that no answer has admitted may be entered by the check of its parent, a minute later.
    world.pass(700 * SECOND).await;
    let ended = read(&service, root).await;
    let tree = end(&ended, 60 * SECOND);
    assert!(!ended.children_time_passed, "{at}: {ended:?}");
    let ran = world.executions.lock().unwrap().clone();
    assert!(ran.iter().all(|one| one.ended <= tree.at), "{at}: {ran:?}");
    let again = service.trees().complete(root, None).await.unwrap();
    assert_eq!(again, Some(Ok(())), "{at}: a repetition");
    worker.abort();
    calls.load(SeqCst)
}

#[test]
fn the_word_that_all_children_were_added_counts_whatever_its_node_dies_at() {
    let all = alone(run(usize::MAX, Fate::Go));
    assert!(all > 8, "{all} operations");
    for nth in (0..16).step_by(3) {
        alone(run(nth, Fate::StopAfter));
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn the_word_that_all_children_were_added_counts_whatever_happens() {
    let all = alone(run(usize::MAX, Fate::Go));
    for fate in [
        Fate::StopBefore,
        Fate::StopAfter,
        Fate::Fail,
        Fate::LoseReply,
    ] {
        for nth in 0..all.min(60) {
            alone(run(nth, fate));
        }
    }
}

/// The node that has seen the end of the own run is gone when the time has passed.
#[test]
fn a_tree_whose_time_has_passed_ends_though_its_node_has_died() {
    for dies in [false, true] {
        alone(async {
            let world = World::new(1, 64);
            let nodes = [world.node(1), world.node(2)];
            world.pass(3 * SECOND).await;
            let service = nodes[0].service();
            let held = Kin {
                is_parent: true,
                children_within: Some(WITHIN),
                ..Kin::default()
            };
            let root = add(&service, kin(&world, held)).await;
            let worker = world.polling_worker(nodes[0].service(), |_| None, succeeds(SECOND / 4));
            world.pass(60 * SECOND).await;
            worker.abort();
            let [first, second] = nodes;
            if dies {
                first.crash();
            }
            let service = second.service();
            world.pass(WITHIN - 100 * SECOND).await;
            assert_eq!(read(&service, root).await.tree, None);
            // A look comes after ten minutes at the latest.
            let late = if dies { 700 } else { 110 };
            world.pass(late * SECOND).await;
            let ended = read(&service, root).await;
            end(&ended, WITHIN);
            assert!(ended.children_time_passed, "{ended:?}");
            let late = service.trees().complete(root, None).await.unwrap();
            assert_eq!(late, Some(Err(NotCompleted::Ended)));
        });
    }
}
