//! Outages have their real effects for callers: replicas down, nodes cut off, nodes dead, operations slow.

use std::time::Duration;

use tickwheel::store::{ClockStore, Freshness, NodeStore, Swapped, WheelStore};

use super::{Pair, TICK, entry, next, scan_of, wheel};
use crate::replicas::{Faults, Set, SwapFate, Wait, WriteFate};

const BC: Set = Set::ALL.without(Set::only(0));

#[tokio::test(start_paused = true)]
async fn one_replica_down_costs_nothing_and_is_told_later_most_of_what_it_missed() {
    let mut told = 0;
    for seed in 0..40 {
        let pair = Pair::new(seed);
        let trace = pair.traced();
        pair.control.down(Set::only(0));
        let entry = entry(1, 10);
        pair.put(&entry).await.unwrap();
        let from = pair.clock(Freshness::Serial).await;
        let to = next(&from, 1);
        let swapped = pair.one.swap_clock(wheel(), &from, &to).await.unwrap();
        assert_eq!(swapped, Swapped::Applied);
        assert!(pair.sees(&entry).await);
        assert_eq!(pair.control.under_way(), 2);
        pair.control.down(Set::NONE);
        assert_eq!(pair.clock(Freshness::Quorum).await, to);
        pair.time.sleep(Faults::NONE.lateness.longest).await;
        assert_eq!(pair.control.under_way(), 0);
        assert!(pair.sees(&entry).await);
        let lines = trace.lock().unwrap();
        let hints = lines.iter().filter(|line| line.contains("arrives at A--"));
        told += hints.count();
    }
    assert!((41..80).contains(&told), "{told} of 80 hints arrived");
}

#[tokio::test(start_paused = true)]
async fn two_replicas_down_are_an_outage_in_which_writes_may_still_reach_the_third() {
    let (mut surfaced, mut failed) = (Vec::new(), Vec::new());
    for seed in 0..40 {
        let pair = Pair::new(seed);
        let from = pair.clock(Freshness::Serial).await;
        pair.control.down(BC);
        let entry = entry(1, 10);
        pair.put(&entry).await.unwrap_err();
        pair.other.scan(&scan_of(TICK, 10)).await.unwrap_err();
        pair.other.nodes().await.unwrap_err();
        pair.other
            .clock(wheel(), Freshness::Quorum)
            .await
            .unwrap_err();
        let swapped = pair.one.swap_clock(wheel(), &from, &next(&from, 1)).await;
        failed.push(swapped.is_err());
        if let Ok(swapped) = swapped {
            assert_eq!(swapped, Swapped::Unknown);
        }
        pair.time.sleep(Duration::from_secs(4 * 3600)).await;
        pair.control.heal();
        assert_eq!(pair.clock(Freshness::Serial).await, from);
        let mut seen = false;
        for _ in 0..20 {
            seen |= pair.sees(&entry).await;
        }
        surfaced.push(seen);
    }
    assert!(surfaced.contains(&true) && surfaced.contains(&false));
    assert!(failed.contains(&true) && failed.contains(&false));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_waits_in_vain_while_the_other_goes_on() {
    let pair = Pair::new(7);
    let entry = entry(1, 10);
    pair.control.cut(pair.other.node(), BC);
    let began = pair.time.moment();
    pair.other.scan(&scan_of(TICK, 10)).await.unwrap_err();
    assert!(pair.time.moment().since(began) >= pair.control.faults().patience);
    pair.put(&entry).await.unwrap();
    pair.control.cut(pair.other.node(), Set::only(2));
    assert!(pair.sees(&entry).await);
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_dead_node_never_return_and_may_have_taken_effect() {
    let (mut written, mut swapped) = (Vec::new(), Vec::new());
    for seed in 0..40 {
        let pair = Pair::with(
            seed,
            Faults {
                latency: Wait::millis(10, 20),
                ..Faults::NONE
            },
        );
        let entry = entry(1, 10);
        let from = pair.clock(Freshness::Serial).await;
        let to = next(&from, 1);
        let dies = async {
            pair.time.sleep(Duration::from_millis(3)).await;
            pair.control.kill(pair.one.node());
        };
        let calls = async {
            tokio::join!(
                pair.put(&entry),
                pair.one.swap_clock(wheel(), &from, &to),
                dies
            )
        };
        let hour = Duration::from_secs(3600);
        assert!(pair.time.within(hour, calls).await.is_none());
        assert!(pair.time.within(hour, pair.one.nodes()).await.is_none());
        assert!(pair.time.within(hour, pair.put(&entry)).await.is_none());
        pair.control.heal();
        let mut seen = false;
        for _ in 0..20 {
            seen |= pair.sees(&entry).await;
        }
        written.push(seen);
        swapped.push(pair.clock(Freshness::Serial).await == to);
    }
    assert!(written.contains(&true) && written.contains(&false));
    assert!(swapped.contains(&true) && swapped.contains(&false));
}

#[tokio::test(start_paused = true)]
async fn a_slow_operation_is_slow_alone() {
    let pair = Pair::new(7);
    pair.control.slow("scan", Wait::millis(700, 800));
    let began = pair.time.moment();
    pair.put(&entry(1, 10)).await.unwrap();
    assert_eq!(pair.time.moment(), began);
    let page = pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
    assert_eq!(page.rows.len(), 1);
    let took = pair.time.moment().since(began);
    assert!(took >= Duration::from_millis(700), "{took:?}");
    pair.control.slow("scan", Wait::NONE);
    let began = pair.time.moment();
    pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
    assert_eq!(pair.time.moment(), began);
}

#[tokio::test(start_paused = true)]
async fn an_error_takes_time_so_that_a_caller_that_asks_again_does_not_stop_it() {
    let pair = Pair::new(7);
    pair.control.next_write(WriteFate::Fails);
    pair.control.next_swap(SwapFate::Fails);
    let from = pair.clock(Freshness::Serial).await;
    let began = pair.time.moment();
    pair.put(&entry(1, 10)).await.unwrap_err();
    let between = pair.time.moment();
    assert!(between > began);
    let failed = pair.one.swap_clock(wheel(), &from, &next(&from, 1)).await;
    failed.unwrap_err();
    assert!(pair.time.moment() > between);
}
