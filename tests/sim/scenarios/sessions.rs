//! The members of a dead node are taken out of the groups of the queue, which would wait for the end of their sessions.

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
    model::time::Millis,
};

use crate::world::{World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Much longer than it takes to see that a node has died.
const SESSION: Duration = Duration::from_secs(40);

/// Tasks of ten a second that are late beside a node that only seems dead: some rebalances, of more than half a second each.
const LATE_MAX: usize = 18;

/// Three nodes answer polls, and one dies; from then on something panics. Returns how late the latest task of the next half
/// minute was, in milliseconds.
async fn latest_behind_a_death(world: World, strike: Option<Strike>) -> i64 {
    let [one, two, three] = [1, 2, 3].map(|number| world.node(number));
    let workers = [&one, &two, &three]
        .map(|node| world.polling_worker(node.service(), |_| None, succeeds(SECOND / 100)));
    world.pass(20 * SECOND).await;
    let now = world.time.now();
    let starts = (0..300).map(|n| callback(Millis(now.0 + 6000 + n * 100)));
    let views = register(&two.service(), starts.collect()).await;
    world.pass(10 * SECOND).await;
    panics::strike(strike);
    one.crash();
    workers[0].abort();
    world.pass(60 * SECOND).await;
    assert_eq!(panics::strikes_left(), 0, "{strike:?}");
    panics::strike(None);
    let late = views.iter().map(|task| {
        let runs = world.executions_of(task.id);
        assert_eq!(runs.len(), 1, "{}", task.id);
        runs[0].began.0 - task.id.first_start().0
    });
    let latest = late.max().unwrap();
    world.check();
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    latest
}

fn run<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(scenario)
}

fn world() -> World {
    World::new(4, 1000).with_sessions(SESSION)
}

#[test]
fn messages_of_a_dead_nodes_partitions_do_not_wait_for_its_session() {
    let latest = run(latest_behind_a_death(world(), None));
    assert!((1000..10_000).contains(&latest), "{latest} ms");
}

/// The stages that see to it have no other work, so no other scenario makes them panic.
#[test]
fn members_are_taken_out_though_the_survivors_panic() {
    let strike = Strike {
        work: "groups",
        after: 0,
        times: 3,
    };
    let latest = run(latest_behind_a_death(world(), Some(strike)));
    assert!((1000..20_000).contains(&latest), "{latest} ms");
}

#[test]
fn a_planted_flaw_that_leaves_members_to_their_sessions_is_found() {
    flaw::switch(Some(Flaw::MembersLeftToSession));
    let latest = run(latest_behind_a_death(world(), None));
    flaw::switch(None);
    assert!(latest > 20_000, "{latest} ms");
}

/// A node that is only paused for longer than its session joins again, and nothing runs twice.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_taken_for_dead_joins_again() {
    let world = world();
    let (one, two) = (world.node(1), world.node(2));
    let workers = [&one, &two]
        .map(|node| world.polling_worker(node.service(), |_| None, succeeds(SECOND / 100)));
    world.pass(20 * SECOND).await;
    one.pause(world.time.moment().after(50 * SECOND));
    let now = world.time.now();
    let starts = (0..100).map(|n| callback(Millis(now.0 + 3000 + n * 1000)));
    let views = register(&two.service(), starts.collect()).await;
    world.pass(120 * SECOND).await;
    for task in views {
        let runs = world.executions_of(task.id);
        assert_eq!(runs.len(), 1, "{}", task.id);
        let late = runs[0].began.0 - task.id.first_start().0;
        assert!(late < 10_000, "{late} ms");
    }
    world.check();
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A node cannot write its row for a while, so that the others take it for dead, and consumes all the time. Returns how many of
/// 400 tasks were late by more than a fifth of a second.
async fn late_beside_one_that_only_seems_dead(world: World) -> usize {
    let mute = Arc::new(AtomicBool::new(false));
    let is_mute = Arc::clone(&mute);
    let fates = move |_, call: Call| {
        let fails = call.operation == "put_node" && is_mute.load(SeqCst);
        if fails { Fate::Fail } else { Fate::Go }
    };
    let one = world.node_with(1, Arc::new(fates));
    let (two, three) = (world.node(2), world.node(3));
    let workers = [&one, &two, &three]
        .map(|node| world.polling_worker(node.service(), |_| None, succeeds(SECOND / 100)));
    world.pass(20 * SECOND).await;
    let now = world.time.now();
    let starts = (0..400).map(|n| callback(Millis(now.0 + 5000 + n * 100)));
    let views = register(&two.service(), starts.collect()).await;
    world.pass(5 * SECOND).await;
    mute.store(true, SeqCst);
    world.pass(90 * SECOND).await;
    let late = views.iter().filter(|task| {
        let runs = world.executions_of(task.id);
        assert_eq!(runs.len(), 1, "{}", task.id);
        runs[0].began.0 - task.id.first_start().0 > 200
    });
    let late = late.count();
    world.check();
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    late
}

#[test]
fn a_node_that_only_seems_dead_costs_its_groups_few_rebalances() {
    let late = run(late_beside_one_that_only_seems_dead(world()));
    assert!(late <= LATE_MAX, "{late} tasks");
}

#[test]
fn a_planted_flaw_that_takes_out_who_has_joined_anew_is_found() {
    flaw::switch(Some(Flaw::TakesOutWhoJoinedAnew));
    let late = run(late_beside_one_that_only_seems_dead(world()));
    flaw::switch(None);
    assert!(late > LATE_MAX, "{late} tasks");
}
