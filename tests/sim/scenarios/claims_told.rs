//! The first claim of a task is told once for each life of it, whatever its node dies at behind the claim.

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
    flow::base::api::RescheduleOutcome,
    model::{
        ids::TaskId,
        notify::{Destination, EndStates, Notify},
        state::{Outcome, State},
    },
};

use super::notify::{TOPIC, alone, dying, execute, ids, messages};
use crate::world::{Behaviour, World, callback};

const SECOND: Duration = Duration::from_secs(1);

/// The names of the messages of one kind about a task.
fn names(world: &World, task: TaskId, kind: &str) -> BTreeSet<String> {
    let told = messages(world)
        .remove(&task.to_string())
        .into_iter()
        .flatten();
    let of_kind = told.filter(|message| message["type"] == kind);
    of_kind
        .map(|message| message["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Lets a node claim a task and die or fail at operation `nth` from its first poll on. The first two attempts fail, so the task
/// is dead, and is redriven. Returns how many operations there were.
async fn run(nth: usize, fate: Fate) -> usize {
    let world = World::new(1, 1000);
    world.queue.create_topic(TOPIC, None);
    let (armed, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let dying = dying(&world, &armed, &seen, nth, fate);
    let other = world.node(2);
    execute(&other);
    world.pass(SECOND * 3).await;
    let mut task = callback(world.time.now().after(SECOND));
    task.draft.max_attempts = Some(2);
    task.draft.heartbeat_timeout = Some(SECOND * 30);
    task.draft.notify = Some(Notify::of_run(
        Destination::Kafka {
            topic: TOPIC.to_owned(),
        },
        EndStates::of([State::Claimed, State::Dead]).unwrap(),
    ));
    let task = ids(&other.service(), vec![task]).await[0];
    armed.store(true, SeqCst);
    let fails: Behaviour = Arc::new(move |_, _| {
        let error = "no route".to_owned();
        (
            SECOND,
            Some(Outcome::Retry {
                error,
                after: Some(SECOND * 5),
            }),
        )
    });
    let worker = world.worker(dying.service(), Arc::clone(&fails));
    world.pass(SECOND * 3).await;
    worker.abort();
    armed.store(false, SeqCst);
    let at = format!("{fate:?} at {nth}");
    let executed = !world.executions_of(task).is_empty();
    // The look comes at the lease, or a claim timeout behind a retry.
    world.pass(SECOND * 150).await;
    let told = names(&world, task, "task.claimed");
    if executed {
        assert_eq!(told.len(), 1, "{at}: {told:?}");
    }
    let worker = world.worker(other.service(), fails);
    world.pass(SECOND * 200).await;
    let told = names(&world, task, "task.claimed");
    assert_eq!(told.len(), 1, "{at}: {told:?}");
    assert_eq!(names(&world, task, "task.dead").len(), 1, "{at}");
    let again = other.service().run(task, None).await.unwrap().unwrap();
    assert_eq!(again.0, RescheduleOutcome::Rescheduled, "{at}");
    world.pass(SECOND * 200).await;
    let told = names(&world, task, "task.claimed");
    assert_eq!(
        told.len(),
        2,
        "{at}: a redriven task is claimed for the first time, too"
    );
    assert_eq!(names(&world, task, "task.dead").len(), 2, "{at}");
    worker.abort();
    world.check();
    seen.load(SeqCst)
}

#[test]
fn a_first_claim_is_told_once_whatever_its_node_dies_at() {
    let all = alone(run(usize::MAX, Fate::Go));
    assert!(all > 5, "{all} operations");
    for nth in 0..16 {
        alone(run(nth, Fate::StopAfter));
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn a_first_claim_is_told_once_whatever_happens() {
    for fate in [
        Fate::StopBefore,
        Fate::StopAfter,
        Fate::Fail,
        Fate::LoseReply,
        Fate::ApplyLater(SECOND * 3),
    ] {
        for nth in 0..40 {
            alone(run(nth, fate));
        }
    }
}
