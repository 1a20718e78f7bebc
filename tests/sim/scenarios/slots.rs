//! What becomes of slots at their edges: what is due at the very end of a tick, and what is written as a slot closes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    flaw::{self, Flaw},
    model::{
        entry::{Entry, Kind},
        state::Outcome,
        time::Millis,
    },
    store::faulty::Fate,
};

use crate::world::{World, callback, record, register};

const SECOND: Duration = Duration::from_secs(1);

/// How many of eight records that are due at the end of a tick go out.
async fn published_at_the_end_of_a_tick() -> usize {
    let mut world = World::new(1, 64);
    world.settings.page_rows_max = 1;
    world.settings.erase_delay = Duration::ZERO;
    world.queue.create_topic("users", None);
    let node = world.node_with(
        1,
        Arc::new(|_, call| match call.operation {
            "scan" => Fate::Delay(Duration::from_millis(700)),
            _ => Fate::Go,
        }),
    );
    world.pass(5 * SECOND).await;
    let due = Millis((world.time.now().0 / 1000 + 20) * 1000);
    let tasks = (0..8).map(|_| record(due)).collect();
    register(&node.service(), tasks).await;
    world.pass(90 * SECOND).await;
    world.queue.records("users").len()
}

/// Found by the seeded runs: `fired` in the middle of what is due at the end of a tick counted as the whole tick, so that the
/// tick was erased before the reader had seen its next page.
#[tokio::test(start_paused = true)]
async fn a_tick_is_erased_only_when_all_that_is_due_at_its_end_has_fired() {
    assert_eq!(published_at_the_end_of_a_tick().await, 8);
    flaw::switch(Some(Flaw::EraseWithinATick));
    assert!(published_at_the_end_of_a_tick().await < 8);
    flaw::switch(None);
}

/// The entries that are left of a task whose retry was written as its slot closed.
async fn left_of_a_late_retry() -> Vec<Entry> {
    let world = World::new(1, 64);
    let slow = Arc::new(AtomicBool::new(false));
    let delays = Arc::clone(&slow);
    let node = world.node_with(
        1,
        Arc::new(move |_, call| match call.operation {
            "put_entries" if delays.swap(false, Ordering::SeqCst) => Fate::Delay(3 * SECOND),
            _ => Fate::Go,
        }),
    );
    let worker = world.worker(
        node.service(),
        Arc::new(move |_, attempt| {
            if attempt > 1 {
                return (SECOND / 10, Some(Outcome::Succeeded { result: None }));
            }
            slow.store(true, Ordering::SeqCst);
            let again = Outcome::Retry {
                error: "again".to_owned(),
                after: Some(4 * SECOND),
            };
            (Duration::ZERO, Some(again))
        }),
    );
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let id = register(&node.service(), vec![callback(start)]).await[0].id;
    world.pass(120 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 2);
    worker.abort();
    let entries = world.store.entries().into_iter();
    let entries = entries.filter_map(|(_, entry)| entry);
    entries
        .filter(|entry| !matches!(entry.kind, Kind::Done { .. }))
        .collect()
}

/// Found by the seeded runs: the entry of a retry that was written as its slot closed stayed there for ever.
#[tokio::test(start_paused = true)]
async fn a_retry_whose_slot_closes_leaves_no_entry_behind() {
    let left = left_of_a_late_retry().await;
    assert!(left.is_empty(), "{left:?}");
    flaw::switch(Some(Flaw::LateRetryLeft));
    assert_eq!(left_of_a_late_retry().await.len(), 1);
    flaw::switch(None);
}
