//! Where the queue is in the process of the node, tasks of a sequence go out at their turn only, and none is forgotten.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    doubles::queue::memory::Fault,
    flow::{
        base::api::{CancelOutcome, RescheduleOutcome, VisibleState},
        stages::service::Service,
    },
    model::{ids::TaskId, time::Millis},
};

use super::ordering::{all_succeed, executions, one, one_at_a_time, ordered};
use crate::world::{World, published, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn one_process(wheels: u16) -> World {
    World::new(wheels, 1000).in_one_process()
}

/// Registers tasks of one key that are due by a millisecond one behind the other.
async fn tasks(world: &World, service: &Service, key: &str, count: i64) -> Vec<TaskId> {
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=count {
        ids.push(one(service, ordered(Millis(now.0 + number), key)).await);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn tasks_behind_others_go_out_once_at_their_turn() {
    let world = one_process(4);
    let node = world.node(1);
    let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let mut sequences = Vec::new();
    for key in ["a", "b", "c"] {
        let mut ids = Vec::new();
        for _ in 0..30 {
            ids.push(one(&node.service(), ordered(start, key)).await);
        }
        sequences.push(ids);
    }
    world.pass(30 * SECOND).await;
    for mut ids in sequences {
        all_succeed(&world, &node.service(), &ids).await;
        ids.sort_unstable();
        assert_eq!(one_at_a_time(&world, &ids), ids);
        let last = executions(&world, &ids).pop().unwrap();
        let took = last.ended.since(start);
        assert!(took < 5 * SECOND, "thirty tenths of a second: {took:?}");
        for id in ids {
            assert_eq!(published(&world, id).len(), 1, "{id}");
        }
    }
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_task_goes_when_the_first_is_cancelled_or_moved_before_it_was_claimed() {
    let world = one_process(2);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let service = node.service();
    let ids = tasks(&world, &service, "a", 5).await;
    world.pass(2 * SECOND).await;
    assert_eq!(published(&world, ids[0]).len(), 1);
    assert_eq!(published(&world, ids[1]), [], "it waits for its turn");
    let (outcome, _) = service.cancel(ids[0]).await.unwrap().unwrap();
    assert_eq!(outcome, CancelOutcome::Cancelled);
    world.pass(SECOND).await;
    assert_eq!(published(&world, ids[1]).len(), 1);
    let later = world.time.now().after(30 * SECOND);
    let moved = service.reschedule(ids[1], later, None).await;
    assert_eq!(moved.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND / 10));
    world.pass(3 * SECOND).await;
    assert_eq!(one_at_a_time(&world, &ids), ids[2..]);
    world.pass(40 * SECOND).await;
    all_succeed(&world, &service, &ids[1..]).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_task_goes_when_the_first_has_expired() {
    let world = one_process(2);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let service = node.service();
    let mut first = ordered(world.time.now(), "a");
    first.draft.expire_after = Some(2 * SECOND);
    let first = one(&service, first).await;
    let others = tasks(&world, &service, "a", 3).await;
    world.pass(4 * SECOND).await;
    let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND / 10));
    world.pass(3 * SECOND).await;
    all_succeed(&world, &service, &others).await;
    assert_eq!(one_at_a_time(&world, &others), others);
    let end = world.end_of(&service, first, SECOND).await;
    assert_eq!(end, VisibleState::Expired);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_first_task_that_the_queue_does_not_take_holds_up_none_for_good() {
    for fault in [
        Fault::UnconfirmedLost,
        Fault::UnconfirmedApplied,
        Fault::Duplicate,
    ] {
        let world = one_process(2);
        let node = world.node(1);
        let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND / 10));
        world.pass(5 * SECOND).await;
        world.queue.faults().plan(1, fault);
        let ids = tasks(&world, &node.service(), "a", 10).await;
        world.pass(15 * SECOND).await;
        all_succeed(&world, &node.service(), &ids).await;
        assert_eq!(one_at_a_time(&world, &ids), ids);
        worker.abort();
    }
}

/// The list goes with its node. The next one publishes what is due, and looks publish the rest.
#[tokio::test(start_paused = true)]
async fn a_sequence_goes_on_at_the_next_node() {
    for after in [0, 1, 5, 20] {
        let world = one_process(2);
        let dying = world.node(1);
        let worker = world.polling_worker(dying.service(), |_| None, succeeds(SECOND / 4));
        world.pass(5 * SECOND).await;
        let ids = tasks(&world, &dying.service(), "a", 10).await;
        world.pass(SECOND / 10 * after).await;
        dying.crash();
        worker.abort();
        let node = world.node(2);
        let worker = world.polling_worker(node.service(), |_| None, succeeds(SECOND / 4));
        world.pass(200 * SECOND).await;
        all_succeed(&world, &node.service(), &ids).await;
        one_at_a_time(&world, &ids);
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_come_while_others_run_wait_for_their_turn() {
    let world = one_process(2);
    let node = world.node(1);
    let service = node.service();
    // A quick callback: ends and arrivals meet at every moment of each other.
    let worker = world.polling_worker(Arc::clone(&service), |_| None, succeeds(SECOND / 50));
    world.pass(5 * SECOND).await;
    let mut ids = Vec::new();
    for number in 0..200 {
        ids.push(one(&service, ordered(world.time.now(), "a")).await);
        world.pass(Duration::from_millis(5 + number % 37)).await;
    }
    world.pass(10 * SECOND).await;
    all_succeed(&world, &service, &ids).await;
    assert_eq!(one_at_a_time(&world, &ids), ids);
    let late = executions(&world, &ids);
    let late = late.iter().map(|one| one.began.since(one.id.first_start()));
    assert!(late.max().unwrap() < 4 * SECOND, "none waits for its look");
    worker.abort();
}
