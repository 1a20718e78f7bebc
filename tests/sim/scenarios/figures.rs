//! The figures of a cluster are lower bounds for people, and say so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::world::{World, callback, register, succeeds};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::stages::{query::stats::Stats, service::Service},
    model::state::Outcome,
    store::index::IndexKind,
};

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

/// Its caller has the figures of before by then, and does not see how it ends.
#[tokio::test(start_paused = true)]
async fn a_count_of_dead_tasks_that_panics_late_is_made_again() {
    let world = World::new(1, 1000);
    let reads = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&reads);
    let fates = move |_, call: Call| {
        if call.index != Some(IndexKind::Dead) || call.writes {
            return Fate::Go;
        }
        match seen.fetch_add(1, SeqCst) {
            0 => Fate::Delay(5 * SECOND),
            1 => panic!("a panic that the test asked for"),
            _ => Fate::Go,
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    let fails = |_, _| {
        let error = "no".to_owned();
        (SECOND, Some(Outcome::Retry { error, after: None }))
    };
    let worker = world.worker(node.service(), Arc::new(fails));
    world.pass(3 * SECOND).await;
    let mut task = callback(world.time.now());
    task.draft.max_attempts = Some(1);
    register(&node.service(), vec![task]).await;
    world.pass(10 * SECOND).await;
    node.service().show_figures().await;
    world.pass(10 * SECOND).await;
    assert_eq!(reads.load(SeqCst), 2, "the second read panics");
    // A count takes a hundredth of the time at most.
    world.pass(1000 * SECOND).await;
    node.service().show_figures().await;
    assert!(reads.load(SeqCst) > 3, "nothing is counted any more");
    worker.abort();
}
