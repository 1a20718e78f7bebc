//! Acknowledged tasks still come to their end when store and queue fail at random, from a seed.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    doubles::{queue::memory, store::faulty::Fate},
    flow::base::api::VisibleState,
    model::{ids::TaskId, preference::mix, time::Millis},
};

use crate::world::{Fates, World, callback, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn unruly(seed: u64, percent: u64) -> Fates {
    Arc::new(move |n, _| {
        let chance = mix(seed ^ mix(n as u64));
        if chance % 100 >= percent {
            return Fate::Go;
        }
        let wait = Duration::from_millis((chance >> 20) % 3000);
        match (chance >> 10) % 4 {
            0 => Fate::Fail,
            1 => Fate::LoseReply,
            2 => Fate::ApplyLater(wait),
            _ => Fate::Delay(wait / 4),
        }
    })
}

async fn run(world: World, seed: u64) {
    let nodes = [
        world.node_with(1, unruly(seed, 8)),
        world.node_with(2, unruly(seed + 1, 8)),
    ];
    let calm = world.node(3);
    let worker = world.worker(calm.service(), succeeds(SECOND / 5));
    world.pass(5 * SECOND).await;
    let mut acknowledged: Vec<TaskId> = Vec::new();
    for n in 0..60 {
        let start = Millis(world.time.now().0 + (n * 137) % 9000);
        let service = nodes[usize::try_from(n).unwrap() % 2].service();
        acknowledged.extend(
            service
                .register(vec![callback(start)])
                .await
                .into_iter()
                .flatten()
                .map(|t| t.id),
        );
    }
    world.queue.faults().plan(5, memory::Fault::Duplicate);
    world.pass(150 * SECOND).await;
    assert!(acknowledged.len() > 30);
    for id in &acknowledged {
        let end = world.end_of(&calm.service(), *id, SECOND).await;
        assert_eq!(end, VisibleState::Succeeded, "task {id}, seed {seed}");
    }
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn lost_replies_late_writes_and_failures_lose_nothing() {
    for seed in 0..12 {
        run(World::new(2, 64), seed * 1000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_replies_late_writes_and_failures_lose_nothing_on_disk() {
    for seed in 12..16 {
        run(World::on_disk(2, 64), seed * 1000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_queue_delays_and_loses_nothing() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 100));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let ids: Vec<TaskId> = register(
        &node.service(),
        (0..100)
            .map(|n| callback(now.after(Duration::from_millis(n * 300))))
            .collect(),
    )
    .await
    .iter()
    .map(|task| task.id)
    .collect();
    world.pass(5 * SECOND).await;
    world.queue.faults().outage(true);
    world.pass(20 * SECOND).await;
    let during = register(
        &node.service(),
        vec![callback(world.time.now().after(SECOND * 4))],
    )
    .await[0]
        .id;
    world.pass(10 * SECOND).await;
    world.queue.faults().outage(false);
    world.pass(60 * SECOND).await;
    for id in ids.iter().chain([&during]) {
        assert_eq!(
            world.executions_of(*id).len(),
            1,
            "due {}",
            id.first_start().0 - now.0
        );
    }
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn one_missing_topic_does_not_hold_up_its_wheel() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 100));
    world.queue.faults().missing("users", true);
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let lost = register(&node.service(), vec![record(now.after(SECOND * 10))]).await[0].id;
    let ids: Vec<TaskId> = register(
        &node.service(),
        (0..20)
            .map(|n| callback(now.after(Duration::from_millis(9500 + n * 100))))
            .collect(),
    )
    .await
    .iter()
    .map(|task| task.id)
    .collect();
    world.pass(15 * SECOND).await;
    for id in ids {
        let runs = world.executions_of(id);
        assert!(runs.len() == 1 && runs[0].began.0 - id.first_start().0 <= 5);
    }
    world.queue.faults().missing("users", false);
    world.queue.create_topic("users", None);
    world.pass(30 * SECOND).await;
    let out = world.queue.records("users");
    let header = &out[0].record.headers;
    assert!(out.len() == 1 && header.iter().any(|(_, value)| *value == lost.to_string()));
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_clock_far_ahead_fires_nothing_early_for_others() {
    let world = World::new(1, 1000);
    let nodes = [world.node(1), world.node(2), world.node(3)];
    nodes[2].time.set_wall_error_ms(60_000);
    let worker = world.worker(nodes[0].service(), succeeds(SECOND / 100));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let ids: Vec<TaskId> = register(
        &nodes[1].service(),
        (0..50)
            .map(|n| callback(now.after(Duration::from_millis(5000 + n * 200))))
            .collect(),
    )
    .await
    .iter()
    .map(|task| task.id)
    .collect();
    world.pass(40 * SECOND).await;
    for id in ids {
        assert_eq!(world.executions_of(id).len(), 1);
    }
    world.check();
    worker.abort();
}

/// How often each of some records goes out that are due within two ticks, when a write takes 600 ms.
async fn copies_with_slow_writes(tick: Duration) -> usize {
    let world = World::with_tick(2, 10_000, tick);
    world.queue.create_topic("users", None);
    let slow: Fates = Arc::new(|_, call| match call.operation {
        "put_entries" => Fate::Delay(Duration::from_millis(600)),
        _ => Fate::Go,
    });
    let node = world.node_with(1, slow);
    world.pass(10 * SECOND).await;
    for number in 0..20 {
        let start = world.time.now().after(tick).after(SECOND / 100 * number);
        register(&node.service(), vec![record(start)]).await;
    }
    world.pass(30 * SECOND + 10 * tick).await;
    world.queue.records("users").len()
}

/// The backup of a record lies a time behind its start, not a number of ticks: with short ticks it was read
/// before the record had gone out and its mark was written.
#[tokio::test(start_paused = true)]
async fn a_record_from_memory_goes_out_once_however_long_a_tick_is() {
    for tick in [SECOND / 10, SECOND, 5 * SECOND] {
        assert_eq!(copies_with_slow_writes(tick).await, 20, "{tick:?}");
    }
}
