//! Tasks that a node held in its memory when it died go out as soon as its death shows, and not with their looks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::base::panics::{self, Strike},
    model::{ids::TaskId, time::Millis},
};

use crate::world::{Simulated, World, callback, published, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// A node that has died shows in the list after 3.5 s, which is read each second.
const SHOWS_AFTER: Duration = Duration::from_secs(6);

/// Registers tasks that are due within the next two seconds, of every wheel. Their looks come a minute later.
async fn near(world: &World, node: &Simulated) -> Vec<TaskId> {
    let now = world.time.now();
    let tasks = (0..40).map(|n| {
        let mut task = callback(Millis(now.0 + 100 + n * 50));
        task.draft.claim_timeout = Some(60 * SECOND);
        task
    });
    let views = register(&node.service(), tasks.collect()).await;
    views.iter().map(|task| task.id).collect()
}

/// The times between the starts of tasks and their only runs, in milliseconds; none for one that has not run.
fn lateness(world: &World, ids: &[TaskId]) -> Vec<Option<i64>> {
    let late = |id: &TaskId| {
        let runs = world.executions_of(*id);
        assert!(runs.len() <= 1, "{runs:?}");
        runs.first().map(|run| run.began.0 - id.first_start().0)
    };
    ids.iter().map(late).collect()
}

/// Two nodes, one of which dies with what it holds; from then on something panics. Returns how late each of its tasks was a
/// quarter of a minute later.
async fn one_of_two_dies(strike: Option<Strike>) -> Vec<Option<i64>> {
    let world = World::new(4, 1000);
    let (one, two) = (world.node(1), world.node(2));
    let worker = world.worker(two.service(), succeeds(SECOND / 100));
    world.pass(10 * SECOND).await;
    let ids = near(&world, &one).await;
    panics::strike(strike);
    one.crash();
    world.pass(15 * SECOND).await;
    assert_eq!(panics::strikes_left(), 0, "{strike:?}");
    panics::strike(None);
    world.check();
    worker.abort();
    lateness(&world, &ids)
}

fn run(scenario: impl Future<Output = Vec<Option<i64>>>) -> Vec<Option<i64>> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(scenario)
}

#[test]
fn what_a_dead_node_held_goes_out_when_its_death_shows() {
    let late = run(one_of_two_dies(None));
    let bound = i64::try_from(SHOWS_AFTER.as_millis()).unwrap();
    assert!(
        late.iter()
            .all(|late| late.is_some_and(|late| late < bound)),
        "{late:?}"
    );
}

/// The stage that sees to it has no other work, so no other scenario makes it panic.
#[test]
fn what_a_dead_node_held_goes_out_though_its_heir_panics() {
    let strike = Strike {
        work: "inheritance",
        after: 0,
        times: 3,
    };
    let late = run(one_of_two_dies(Some(strike)));
    let bound = i64::try_from((2 * SHOWS_AFTER).as_millis()).unwrap();
    assert!(
        late.iter()
            .all(|late| late.is_some_and(|late| late < bound)),
        "{late:?}"
    );
}

#[test]
fn a_planted_flaw_that_leaves_it_to_the_looks_is_found() {
    flaw::switch(Some(Flaw::HeldLeftToLook));
    let late = run(one_of_two_dies(None));
    flaw::switch(None);
    let missing = late.iter().filter(|late| late.is_none()).count();
    assert!(missing > 20, "only {missing} wait for their looks");
}

/// The second node dies when it has read what the first one held, and before that goes out.
#[tokio::test(start_paused = true)]
async fn an_heir_that_dies_has_an_heir() {
    let world = World::new(4, 1000);
    let one = world.node(1);
    let armed = Arc::new(AtomicBool::new(false));
    let arms = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        let dies = call.operation == "tasks" && arms.load(SeqCst);
        if dies { Fate::StopAfter } else { Fate::Go }
    };
    let two = world.node_with(2, Arc::new(fates));
    world.pass(10 * SECOND).await;
    let ids = near(&world, &one).await;
    one.crash();
    armed.store(true, SeqCst);
    world.pass(SECOND).await;
    let three = world.node(3);
    let worker = world.worker(three.service(), succeeds(SECOND / 100));
    world.pass(15 * SECOND).await;
    let before = two.operations.load(SeqCst);
    world.pass(SECOND).await;
    assert_eq!(two.operations.load(SeqCst), before, "the second node lives");
    let late = lateness(&world, &ids);
    let bound = i64::try_from((2 * SHOWS_AFTER).as_millis()).unwrap();
    assert!(
        late.iter()
            .all(|late| late.is_some_and(|late| late < bound)),
        "{late:?}"
    );
    world.check();
    worker.abort();
}

/// A node that goes on after a pause sends what it held. Its heir has sent it as well, and one of the two runs.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_only_paused_makes_nothing_run_twice() {
    let world = World::new(4, 1000);
    let (one, two) = (world.node(1), world.node(2));
    let worker = world.worker(two.service(), succeeds(SECOND / 100));
    world.pass(10 * SECOND).await;
    let ids = near(&world, &one).await;
    let goes_on = world.time.moment().after(8 * SECOND);
    one.pause(goes_on);
    world.pass(30 * SECOND).await;
    let late = lateness(&world, &ids);
    assert!(late.iter().all(Option::is_some), "{late:?}");
    world.check();
    worker.abort();
}

/// A node that cannot read the list sees all others stand still, and takes nothing over when it reads it again.
#[tokio::test(start_paused = true)]
async fn a_list_that_could_not_be_read_shows_no_deaths() {
    let world = World::new(4, 1000);
    let one = world.node(1);
    let away = Arc::new(AtomicBool::new(false));
    let is_away = Arc::clone(&away);
    let fates = move |_, call: Call| {
        let fails = call.operation == "nodes" && is_away.load(SeqCst);
        if fails { Fate::Fail } else { Fate::Go }
    };
    let two = world.node_with(2, Arc::new(fates));
    world.pass(10 * SECOND).await;
    away.store(true, SeqCst);
    world.pass(20 * SECOND).await;
    away.store(false, SeqCst);
    let ids = near(&world, &one).await;
    world.pass(10 * SECOND).await;
    for id in ids {
        assert_eq!(published(&world, id).len(), 1, "{id}");
    }
    drop(two);
}
