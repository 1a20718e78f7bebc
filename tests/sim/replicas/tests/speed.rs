//! This test prints the cost of a call for people, beside the plain store in memory, and asserts nothing.

use std::sync::Arc;

use tickwheel::{
    doubles::store::memory::MemoryStore,
    model::state::Expect,
    store::{Freshness, Store},
    time_source::TimeSource,
};

use super::{EPOCH, Pair, TICK, claim, entry, id, next, scan_of, shape, wheel};
use crate::replicas::{Faults, Wait};

const ROUNDS: u64 = 400;

/// Writes, reads, claims and counts; seven calls a round.
async fn work(store: &dyn Store) {
    let mut clock = store.clock(wheel(), Freshness::Serial).await.unwrap();
    for number in 0..ROUNDS {
        let entries = [entry(number, 10)];
        store.put_entries(&entries).await;
        let scan = scan_of(TICK, 10);
        store.scan(&scan).await.unwrap();
        store
            .find_entries(id(number), &[entries[0].key.due])
            .await
            .unwrap();
        store
            .swap_tasks(&[claim(number, Expect::Absent, 1, 5)])
            .await;
        store.tasks(&[id(number)], Freshness::Quorum).await.unwrap();
        let to = next(&clock, 1);
        store.swap_clock(wheel(), &clock, &to).await.unwrap();
        clock = store.clock(wheel(), Freshness::Quorum).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
#[allow(
    clippy::disallowed_methods,
    reason = "virtual time cannot tell what a call costs"
)]
async fn calls_a_second() {
    let real = std::time::Instant::now;
    let time = TimeSource::simulated(EPOCH, 1);
    let memory: Arc<dyn Store> = MemoryStore::new(shape(), time.clone()).handle();
    let calm = Pair::new(1);
    let slow = Pair::with(
        1,
        Faults {
            latency: Wait::millis(1, 5),
            writes_miss_one: 50,
            decisions_missed: 50,
            ..Faults::NONE
        },
    );
    let stores: [(&str, Arc<dyn Store>); 3] = [
        ("in memory", memory),
        ("calm replicas", calm.one),
        ("slow replicas that differ", slow.one),
    ];
    for (name, store) in stores {
        let began = real();
        work(&*store).await;
        let each = began.elapsed().as_nanos() / u128::from(7 * ROUNDS);
        println!("{name}: {each} ns a call");
    }
}
