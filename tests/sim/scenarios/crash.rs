//! A node dies at its k-th operation, for every k, before the operation has an effect and after;
//! no task is lost.

use std::{sync::Arc, time::Duration};

use tickwheel::{doubles::store::faulty::Fate, flow::base::api::VisibleState, model::ids::TaskId};

use crate::world::{World, callback, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Registers through a node that dies at operation `at`, lets another take over, and checks that no
/// acknowledged task is lost. Returns how many operations the node did.
async fn run(world: World, at: usize, fate: Fate) -> usize {
    world.queue.create_topic("users", None);
    let dying = world.node_with(
        1,
        Arc::new(move |n, _| if n == at { fate } else { Fate::Go }),
    );
    let service = dying.service();
    world.pass(2 * SECOND).await;
    let acknowledged = Arc::new(std::sync::Mutex::new(Vec::<TaskId>::new()));
    let records = Arc::new(std::sync::Mutex::new(Vec::<TaskId>::new()));
    {
        let (acknowledged, records, time) = (
            Arc::clone(&acknowledged),
            Arc::clone(&records),
            world.time.clone(),
        );
        // A call on a node that dies never returns, so the test does not wait for it.
        tokio::spawn(async move {
            for delay in [0, 400, 2500, 3500, 6000] {
                let start = time.now().after(Duration::from_millis(delay));
                let task = register(&service, vec![callback(start)]).await.remove(0);
                acknowledged.lock().unwrap().push(task.id);
                let task = register(&service, vec![record(start)]).await.remove(0);
                records.lock().unwrap().push(task.id);
            }
        });
    }
    world.pass(SECOND).await;
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    world.pass(60 * SECOND).await;
    let operations = dying.operations.load(std::sync::atomic::Ordering::SeqCst);
    let acknowledged = acknowledged.lock().unwrap().clone();
    for id in &acknowledged {
        let end = world.end_of(&other.service(), *id, SECOND).await;
        assert_eq!(
            end,
            VisibleState::Succeeded,
            "callback task {id} with {fate:?} at {at}"
        );
        assert_eq!(world.executions_of(*id).len(), 1, "{fate:?} at {at}");
    }
    for id in records.lock().unwrap().iter() {
        let out = world.queue.records("users");
        let text = id.to_string();
        let copies = out
            .iter()
            .filter(|r| r.record.headers.iter().any(|(_, v)| *v == text))
            .count();
        assert!(
            (1..=2).contains(&copies),
            "record {id}: {copies} copies with {fate:?} at {at}"
        );
    }
    world.check();
    worker.abort();
    operations
}

/// Dies at every operation of the first fifteen seconds or so of a node that lives.
async fn run_all(world: fn(u16, i64) -> World, every: usize, fate: Fate) {
    let total = run(world(1, 64), usize::MAX, Fate::Go).await.min(160);
    assert!(total > 60, "only {total} operations");
    for at in (0..total).step_by(every) {
        run(world(1, 64), at, fate).await;
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every step: make test-all"]
async fn a_node_that_dies_before_any_of_its_steps_loses_nothing_that_was_acknowledged() {
    run_all(World::new, 1, Fate::StopBefore).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_before_some_of_its_steps_loses_nothing_that_was_acknowledged() {
    run_all(World::new, 4, Fate::StopBefore).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "repeats the twin in memory on a disk: make test-all"]
async fn a_node_that_dies_before_one_of_its_steps_loses_nothing_on_disk() {
    run_all(World::on_disk, 10, Fate::StopBefore).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every third step: make test-all"]
async fn a_node_that_dies_before_any_third_of_its_steps_loses_nothing_on_disk() {
    run_all(World::on_disk, 3, Fate::StopBefore).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every step: make test-all"]
async fn a_node_that_dies_after_any_of_its_steps_loses_nothing_that_was_acknowledged() {
    run_all(World::new, 1, Fate::StopAfter).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_after_some_of_its_steps_loses_nothing_that_was_acknowledged() {
    run_all(World::new, 4, Fate::StopAfter).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "repeats the twin in memory on a disk: make test-all"]
async fn a_node_that_dies_after_one_of_its_steps_loses_nothing_on_disk() {
    run_all(World::on_disk, 10, Fate::StopAfter).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every third step: make test-all"]
async fn a_node_that_dies_after_any_third_of_its_steps_loses_nothing_on_disk() {
    run_all(World::on_disk, 3, Fate::StopAfter).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_owners_tasks_wait_for_lease_and_takeover_at_most() {
    a_dead_owners_tasks_wait_for_lease_and_takeover_at_most_in(World::new(4, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_owners_tasks_wait_for_lease_and_takeover_at_most_on_disk() {
    a_dead_owners_tasks_wait_for_lease_and_takeover_at_most_in(World::on_disk(4, 1000)).await;
}

async fn a_dead_owners_tasks_wait_for_lease_and_takeover_at_most_in(world: World) {
    let (one, two) = (world.node(1), world.node(2));
    let worker = world.worker(two.service(), succeeds(SECOND / 100));
    world.pass(10 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..400)
        .map(|n| callback(now.after(Duration::from_millis(5000 + n * 50))))
        .collect();
    let ids: Vec<TaskId> = register(&two.service(), tasks)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    world.pass(10 * SECOND).await;
    one.crash();
    world.pass(40 * SECOND).await;
    let mut worst = 0;
    for id in ids {
        let runs = world.executions_of(id);
        assert_eq!(runs.len(), 1);
        worst = worst.max(runs[0].began.0 - id.first_start().0);
    }
    assert!(
        (1000..9000).contains(&worst),
        "{worst} ms: lease 5 s, skew 1 s, one step"
    );
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_or_leaves_in_order_makes_nothing_late() {
    a_node_that_joins_or_leaves_in_order_makes_nothing_late_in(World::new(8, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_or_leaves_in_order_makes_nothing_late_on_disk() {
    a_node_that_joins_or_leaves_in_order_makes_nothing_late_in(World::on_disk(8, 1000)).await;
}

async fn a_node_that_joins_or_leaves_in_order_makes_nothing_late_in(world: World) {
    let one = world.node(1);
    let worker = world.worker(one.service(), succeeds(SECOND / 100));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..600)
        .map(|n| callback(now.after(Duration::from_millis(5000 + n * 50))))
        .collect();
    let ids: Vec<TaskId> = register(&one.service(), tasks)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    world.pass(10 * SECOND).await;
    let two = world.node(2);
    world.pass(10 * SECOND).await;
    let mut owners = std::collections::BTreeSet::new();
    for wheel in world.rules.shape.all_wheels() {
        owners.insert(world.owner(wheel).await);
    }
    assert_eq!(owners.len(), 2, "both nodes own wheels");
    two.node.stop(10 * SECOND).await;
    world.pass(30 * SECOND).await;
    let mut late: Vec<i64> = ids
        .iter()
        .map(|id| {
            let runs = world.executions_of(*id);
            assert_eq!(runs.len(), 1);
            runs[0].began.0 - id.first_start().0
        })
        .collect();
    late.sort_unstable();
    assert!(
        late[late.len() / 2] <= 5 && late[late.len() - 1] <= 1500,
        "{:?}",
        &late[late.len() - 20..]
    );
    world.check();
    worker.abort();
}
