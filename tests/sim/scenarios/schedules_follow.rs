//! Missed runs of a schedule follow each other, each once, whatever the node that makes up for them dies at.

use std::time::Duration;

use tickwheel::{
    doubles::store::faulty::Fate,
    model::schedule::life::{Missed, Overlap, ScheduleSpec},
};

use super::{
    notify::alone,
    schedules::spec,
    schedules_missed::{begun, created, dying, read},
};
use crate::world::{World, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const EVERY: u64 = 20;

/// The times in seconds for which the only node is surely away.
const AWAY: [u64; 4] = [80, 100, 120, 140];

/// Lets the only node of a schedule die, and the one that comes 75 s later die at its n-th write. A third one goes on.
async fn run(nth: usize, fate: fn() -> Fate) {
    let world = World::new(2, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    world.pass(SECOND * 3).await;
    let spec = ScheduleSpec {
        missed: Missed::All,
        overlap: Overlap::OneByOne,
        ..spec(&world)
    };
    let created = created(&node.service(), spec).await;
    world.pass(SECOND * 70).await;
    node.crash();
    worker.abort();
    world.pass(SECOND * 75).await;
    let second = dying(&world, nth, fate);
    let worker = world.worker(second.service(), succeeds(SECOND));
    world.pass(SECOND * 20).await;
    second.crash();
    worker.abort();
    let third = world.node(3);
    let worker = world.worker(third.service(), succeeds(SECOND));
    world.pass(SECOND * 400).await;
    let schedule = read(&third.service()).await;
    worker.abort();
    world.check();
    let at = format!("{:?} at {nth}", fate());
    let begun = begun(&world, created);
    assert!(begun.values().all(|times| *times == 1), "{at}: {begun:?}");
    for time in AWAY {
        assert!(begun.contains_key(&time), "{at}: {time} of {begun:?}");
    }
    let last = begun.keys().last().unwrap() / EVERY;
    let counted = begun.len() as u64 + schedule.missed + schedule.skipped;
    assert!(
        (last..=last + 1).contains(&counted),
        "{at}: {begun:?} {schedule:?}"
    );
    assert_eq!((schedule.missed, schedule.line), (0, None), "{at}");
    // One that lost its worker with the node runs once more, and others do not run beside it.
    let mut ran = world.executions.lock().unwrap().clone();
    ran.sort_by_key(|one| one.began);
    for two in ran.windows(2) {
        let same = two[0].id == two[1].id;
        assert!(same || two[0].ended <= two[1].began, "{at}: {two:?}");
    }
}

#[test]
fn missed_runs_follow_each_other_whatever_write_their_node_dies_at() {
    for nth in (0..40).step_by(3) {
        alone(run(nth, || Fate::StopAfter));
    }
}

#[test]
#[ignore = "a minute: make test-all"]
fn missed_runs_follow_each_other_whatever_happens_to_a_write() {
    for fate in [
        || Fate::StopBefore,
        || Fate::StopAfter,
        || Fate::Fail,
        || Fate::LoseReply,
    ] {
        for nth in 0..60 {
            alone(run(nth, fate));
        }
    }
}
