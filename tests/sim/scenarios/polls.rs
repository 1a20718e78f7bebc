//! Polled tasks end, and never run twice at once or early, while store and connections fail at
//! random, from a seed.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::base::api::VisibleState,
    model::{ids::TaskId, preference::mix, time::Millis},
};

use super::faults::unruly;
use crate::world::{Fates, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Every third poll is given up, at a random moment of its life.
fn fickle(seed: u64) -> impl Fn(usize) -> Option<Duration> + Send + 'static {
    move |n| {
        let chance = mix(seed ^ mix(n as u64));
        chance
            .is_multiple_of(3)
            .then(|| Duration::from_millis((chance >> 20) % 700))
    }
}

async fn run(seed: u64) {
    let world = World::new(2, 64);
    let nodes = [
        world.node_with(1, unruly(seed, 8)),
        world.node_with(2, unruly(seed + 1, 8)),
    ];
    let calm = world.node(3);
    let mut workers = Vec::new();
    for (node, seed) in nodes.iter().chain([&calm]).zip(seed..) {
        let worker = world.polling_worker(node.service(), fickle(seed), succeeds(SECOND / 5));
        workers.push(worker);
    }
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..60).map(|n| callback(Millis(now.0 + (n * 137) % 9000)));
    let registered = register(&calm.service(), tasks.collect()).await;
    let ids: Vec<TaskId> = registered.iter().map(|task| task.id).collect();
    world.pass(200 * SECOND).await;
    for id in &ids {
        let end = world.end_of(&calm.service(), *id, SECOND).await;
        assert_eq!(end, VisibleState::Succeeded, "task {id}, seed {seed}");
    }
    world.check();
    for worker in workers {
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn polls_that_are_given_up_and_a_store_that_fails_lose_nothing() {
    for seed in 0..12 {
        run(seed * 1000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn polls_that_are_given_up_cost_no_claim_timeout() {
    let world = World::new(1, 1000);
    // The store is slow enough that polls are given up while their claims are under way.
    let slow: Fates = Arc::new(|_, call| match call.operation {
        "swap_tasks" => Fate::Delay(Duration::from_millis(40)),
        _ => Fate::Go,
    });
    let node = world.node_with(1, slow);
    let workers = [1, 2]
        .map(|seed| world.polling_worker(node.service(), fickle(seed), succeeds(SECOND / 100)));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..300).map(|n| callback(Millis(now.0 + n * 100)));
    let registered = register(&node.service(), tasks.collect()).await;
    world.pass(40 * SECOND).await;
    let mut released = 0;
    for task in registered {
        let runs = world.executions_of(task.id);
        assert_eq!(runs.len(), 1);
        released += usize::from(runs[0].attempt > 1);
        // The heartbeat timeout would take ten seconds.
        let late = runs[0].began.since(task.id.first_start());
        assert!(late < 2 * SECOND, "{late:?}");
    }
    assert!(released > 5, "{released}");
    world.check();
    for worker in workers {
        worker.abort();
    }
}
