//! Whole histories under all faults at once keep the promises of the store, and one seed gives one trace.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tickwheel::{
    model::{entry::Entry, ids::NodeId, wheel::WheelNumber},
    store::{ClockStore, Freshness, NodeStore, Swapped, WheelStore},
};
use uuid::Uuid;

use super::{Pair, TICK, entry, next, scan_of, wheel};
use crate::replicas::{Faults, Handle, Set, Wait};

/// The answers that a node got.
#[derive(Default)]
struct Told {
    applied: i64,
    unknown: i64,
    acknowledged: Vec<Entry>,
}

/// A node that writes entries and advances the clock from the row that it last knew.
async fn work(pair: &Pair, handle: Arc<Handle>, number: u64) -> Told {
    let mut told = Told::default();
    let mut known = pair.replicas.clock_row(wheel()).unwrap();
    for round in 0..30 {
        let entry = entry(number * 1000 + round, 10);
        let answers = handle.put_entries(std::slice::from_ref(&entry)).await;
        if answers.iter().all(Result::is_ok) {
            told.acknowledged.push(entry);
        }
        let to = next(&known, u128::from(number));
        match handle.swap_clock(wheel(), &known, &to).await {
            Ok(Swapped::Applied) => {
                told.applied += 1;
                known = to;
            }
            Ok(Swapped::Conflict(there)) => known = there,
            Ok(Swapped::Unknown) => {
                told.unknown += 1;
                known = handle
                    .clock(wheel(), Freshness::Serial)
                    .await
                    .unwrap_or(known);
            }
            Err(_) => pair.time.sleep(Duration::from_millis(20)).await,
        }
    }
    told
}

/// Makes outages while nodes work.
async fn break_things(pair: &Pair) {
    for replicas in [Set::only(0), Set::ALL, Set::only(1).with(Set::only(2))] {
        pair.time.sleep(Duration::from_secs(2)).await;
        pair.control.down(replicas);
        pair.time.sleep(Duration::from_millis(700)).await;
        pair.control.down(Set::NONE);
        pair.control.cut(0, replicas);
    }
    pair.control.cut(0, Set::NONE);
}

async fn history(seed: u64) -> Vec<String> {
    let pair = Pair::new(seed);
    let trace = pair.traced();
    pair.control.set(Faults {
        latency: Wait::millis(0, 30),
        ..Faults::all(100)
    });
    let third = pair.replicas.handle(pair.time.simulated_peer(3));
    let nodes = [Arc::clone(&pair.one), Arc::clone(&pair.other), third];
    let working = nodes
        .into_iter()
        .zip(1..)
        .map(|(handle, number)| work(&pair, handle, number));
    let (told, ()) = tokio::join!(join_all(working), break_things(&pair));
    pair.control.heal();
    pair.time.sleep(Faults::NONE.lateness.longest).await;
    judge(&pair, &told).await;
    trace.lock().unwrap().clone()
}

async fn judge(pair: &Pair, told: &[Told]) {
    assert_eq!(pair.replicas.clock_violations(), Vec::<String>::new());
    let version = pair.clock(Freshness::Serial).await.version;
    let applied: i64 = told.iter().map(|told| told.applied).sum();
    let unknown: i64 = told.iter().map(|told| told.unknown).sum();
    assert!(
        (applied..=applied + unknown).contains(&version),
        "{applied} applied, {unknown} unknown, version {version}"
    );
    assert_eq!(pair.clock(Freshness::Quorum).await.version, version);
    assert!(applied > 0 && unknown > 0);
    let page = pair.other.scan(&scan_of(TICK, 1000)).await.unwrap();
    let there: Vec<_> = page.rows.iter().map(|row| row.key).collect();
    for entry in told.iter().flat_map(|told| &told.acknowledged) {
        assert!(there.contains(&entry.key), "{:?} is lost", entry.key);
    }
    let kept: Vec<_> = pair.replicas.entries().iter().map(|row| row.0).collect();
    assert!(there.iter().all(|key| kept.contains(key)));
}

#[tokio::test(start_paused = true)]
async fn what_was_promised_holds_in_every_history() {
    for seed in 0..100 {
        assert!(!history(seed).await.is_empty());
    }
}

#[test]
fn one_seed_gives_one_trace() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(history(seed))
    };
    for seed in 0..5 {
        let (one, again) = (run(seed), run(seed));
        assert!(one.len() > 300, "{} lines", one.len());
        assert_eq!(one, again);
        assert_ne!(one, run(seed + 1000));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_traced_unless_it_is_asked_for() {
    let pair = Pair::new(7);
    let trace = pair.traced();
    pair.put(&entry(1, 10)).await.unwrap();
    assert_eq!(trace.lock().unwrap().len(), 1);
    pair.control.trace(None);
    pair.put(&entry(2, 10)).await.unwrap();
    assert_eq!(trace.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_leaves_behind_what_can_be_looked_at() {
    let pair = Pair::new(7);
    let key = entry(1, 10).key;
    pair.replicas.put_garbage(key, 10);
    assert_eq!(pair.replicas.entries(), [(key, None)]);
    let page = pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
    assert!(page.rows[0].entry.is_err());
    let clocks = pair.replicas.clock_rows();
    assert_eq!(clocks.len(), 4);
    assert_eq!(clocks[1].0, WheelNumber::new(1).unwrap());
    assert_eq!(pair.replicas.all_parked(), []);
    pair.one
        .remove_node(NodeId(Uuid::from_u128(1)))
        .await
        .unwrap();
    assert_eq!(pair.replicas.node_rows(), []);
}
