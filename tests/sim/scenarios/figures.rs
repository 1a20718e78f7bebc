//! The figures of a cluster are lower bounds for people, and say so.

use std::time::Duration;

use crate::world::{World, callback, register, succeeds};

use tickwheel::flow::{query::stats::Stats, service::Service};

const SECOND: Duration = Duration::from_secs(1);

async fn pending(service: &Service) -> (u64, bool) {
    let stats = service.stats().await.unwrap();
    let tasks = stats.pending.iter().map(|pending| pending.tasks).sum();
    (tasks, stats.exact)
}

fn waiting(stats: &Stats) -> u64 {
    assert!(
        !stats.unclaimed.exact,
        "a claim may be answered by any node"
    );
    stats.unclaimed.tasks
}

#[tokio::test(start_paused = true)]
async fn waiting_tasks_are_found_by_their_looks_and_not_counted_once_another_node_hands_them_out() {
    let world = World::new(4, 10_000);
    let (one, other) = (world.node(1), world.node(2));
    world.pass(3 * SECOND).await;
    let start = world.time.now();
    register(&one.service(), vec![callback(start); 50]).await;
    world.pass(60 * SECOND).await;
    let seen = [
        one.service().stats().await.unwrap(),
        other.service().stats().await.unwrap(),
    ];
    let sum: u64 = seen.iter().map(|stats| waiting(stats)).sum();
    assert_eq!(sum, 50, "each is known to the node that looks at it");
    let oldest = seen
        .iter()
        .filter_map(|stats| stats.unclaimed.callbacks.first());
    for callback in oldest {
        assert_eq!(
            (callback.callback.as_str(), callback.oldest),
            ("work", start)
        );
    }
    // Each worker also claims tasks that the other node has looked at.
    let worker = world.worker(other.service(), succeeds(SECOND));
    world.pass(20 * SECOND).await;
    for node in [&one, &other] {
        assert_eq!(waiting(&node.service().stats().await.unwrap()), 0);
    }
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_is_a_lower_bound_without_left_places() {
    let world = World::new(2, 10_000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(30 * SECOND);
    let task = register(&service, vec![callback(start)]).await.remove(0);
    for step in 1..4 {
        let start = world.time.now().after(SECOND * (30 + step));
        service.reschedule(task.id, start, None).await.unwrap();
    }
    assert_eq!(pending(&service).await, (1, false));
    service.cancel(task.id).await.unwrap();
    world.pass(2 * SECOND).await;
    assert_eq!(pending(&service).await, (0, false));
    world.pass(60 * SECOND).await;
    assert!(
        service.stats().await.unwrap().recent.is_empty(),
        "it never fired"
    );
}
