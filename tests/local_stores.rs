//! The store contract holds in memory and on the simulated replicas, calm and with everything that may happen to a call that
//! succeeds.

use tickwheel::{
    doubles::store::memory::MemoryStore, model::time::Millis, time_source::TimeSource,
};

use crate::{
    replicas::{Faults, Replicas, Wait},
    store_contract::{Stores, shape, suite},
};

async fn contract_holds(seed: u64, faults: Faults) {
    let time = TimeSource::simulated(Millis(1_800_000_000_437), seed);
    let replicas = Replicas::new(shape(), time.clone(), seed);
    let (one, other) = (time.simulated_peer(1), time.simulated_peer(2));
    replicas.control().set(faults);
    let (one, other) = (replicas.handle(one), replicas.handle(other));
    suite(&Stores::with_time(one, other, time)).await;
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds_on_calm_replicas() {
    contract_holds(1, Faults::NONE).await;
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds_on_slow_replicas_that_differ() {
    for seed in 0..20 {
        let faults = Faults {
            latency: Wait::millis(1, 50),
            reads_unrepaired: 300,
            // Only short pages are set: a range that is read slot by slot does not move behind an empty page.
            pages_cut: 300,
            writes_miss_one: 500,
            decisions_missed: 500,
            ..Faults::NONE
        };
        contract_holds(seed, faults).await;
    }
}

#[tokio::test]
async fn the_contract_holds_in_memory() {
    let store = MemoryStore::new(shape(), TimeSource::real());
    suite(&Stores::new(store.handle(), store.handle())).await;
}
