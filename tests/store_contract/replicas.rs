//! The contract on the simulated replicas, calm and with everything that may happen to a call that succeeds.

use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::{Stores, shape, suite};
use crate::replicas::{Faults, Replicas, Wait};

async fn contract_holds(seed: u64, faults: Faults) {
    let time = TimeSource::simulated(Millis(1_800_000_000_437), seed);
    let replicas = Replicas::new(shape(), time.clone(), seed);
    let (one, other) = (time.simulated_peer(1), time.simulated_peer(2));
    replicas.control().set(faults);
    suite(&Stores::new(replicas.handle(one), replicas.handle(other))).await;
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
            // Only short pages: a range that is read slot by slot does not move behind an empty one.
            pages_cut: 300,
            writes_miss_one: 500,
            decisions_missed: 500,
            ..Faults::NONE
        };
        contract_holds(seed, faults).await;
    }
}
