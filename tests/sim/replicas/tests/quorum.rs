//! Plain writes and reads of two replicas of three act for every node as on a real quorum.

use std::time::Duration;

use tickwheel::model::{
    entry::{DoneReason, Entry},
    time::Millis,
};

use super::{EPOCH, Pair, entry, id, spec};
use crate::replicas::{Faults, Set, Wait, WriteFate};

const UNREPAIRED: Faults = Faults {
    reads_unrepaired: 1000,
    ..Faults::NONE
};

fn on_one_replica(replica: usize) -> WriteFate {
    WriteFate::TimesOut {
        now: Set::only(replica),
        later: Set::NONE,
        after: Duration::ZERO,
    }
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_write_is_seen_by_every_read() {
    for replica in 0..3 {
        let pair = Pair::with(7, UNREPAIRED);
        let after = None;
        pair.control
            .next_write(WriteFate::Misses { replica, after });
        let entry = entry(1, 10);
        pair.put(&entry).await.unwrap();
        for _ in 0..100 {
            assert!(pair.sees(&entry).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_timed_out_is_seen_and_then_not_and_then_seen() {
    for replica in 0..3 {
        let pair = Pair::with(7, UNREPAIRED);
        pair.control.next_write(on_one_replica(replica));
        let entry = entry(1, 10);
        let began = pair.time.moment();
        pair.put(&entry).await.unwrap_err();
        let patience = Faults::NONE.patience;
        assert!(pair.time.moment().since(began) >= patience);
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.push(pair.sees(&entry).await);
        }
        seen.dedup();
        assert!(seen.len() > 3, "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_read_repairs_is_seen_from_then_on() {
    let pair = Pair::new(7);
    pair.control.next_write(on_one_replica(2));
    let entry = entry(1, 10);
    pair.put(&entry).await.unwrap_err();
    let mut read = 0;
    while !pair.sees(&entry).await {
        read += 1;
        assert!(read < 100, "no read ever asked the third replica");
    }
    for _ in 0..100 {
        assert!(pair.sees(&entry).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_timed_out_surfaces_later() {
    let pair = Pair::new(7);
    let (now, later, after) = (Set::NONE, Set::ALL, Duration::from_secs(5));
    pair.control
        .next_write(WriteFate::TimesOut { now, later, after });
    let entry = entry(1, 10);
    pair.put(&entry).await.unwrap_err();
    for _ in 0..20 {
        assert!(!pair.sees(&entry).await);
    }
    assert_eq!(pair.control.under_way(), 1);
    pair.time.sleep(after).await;
    assert!(pair.sees(&entry).await);
    assert_eq!(pair.control.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_newest_write_wins_in_whatever_order_they_arrive() {
    let (older, newer) = (entry(1, 10), entry(1, 20));
    for first in [&older, &newer] {
        let pair = Pair::new(7);
        let after = Duration::from_secs(9);
        let (now, later) = (Set::only(0), Set::ALL.without(Set::only(0)));
        pair.control
            .next_write(WriteFate::TimesOut { now, later, after });
        pair.put(first).await.unwrap_err();
        let second = if first == &older { &newer } else { &older };
        pair.put(second).await.unwrap();
        for _ in 0..20 {
            let seen = pair.sees(&newer).await;
            assert!(seen || first == &newer, "an acknowledged write is hidden");
        }
        pair.time.sleep(after).await;
        for _ in 0..20 {
            assert!(pair.sees(&newer).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_time_come_to_the_same_in_either_order() {
    let look = |published| {
        let id = id(1);
        Entry::look(id, 0, id.first_start(), published, EPOCH, spec(), 10)
    };
    let marked = |reason| look(None).marked_done(reason, EPOCH, 20);
    let moved = DoneReason::Moved { to: Millis(77) };
    for (greater, lesser) in [
        (look(Some(Millis(5))), look(None)),
        (marked(moved), marked(DoneReason::Cancelled)),
    ] {
        for order in [[&greater, &lesser], [&lesser, &greater]] {
            let pair = Pair::new(7);
            for entry in order {
                pair.put(entry).await.unwrap();
            }
            assert!(pair.sees(&greater).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_sees_its_store_at_any_moment_while_it_is_under_way() {
    let mut seen = Vec::new();
    for seed in 0..40 {
        let faults = Faults {
            latency: Wait::millis(10, 20),
            ..Faults::NONE
        };
        let pair = Pair::with(seed, faults);
        let entry = entry(1, 10);
        let (_, saw) = tokio::join!(pair.put(&entry), pair.sees(&entry));
        seen.push(saw);
        assert!(pair.sees(&entry).await);
    }
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn items_of_one_call_in_several_partitions_have_their_own_fates() {
    let pair = Pair::new(7);
    pair.control.next_write(WriteFate::Fails);
    pair.control.next_write(WriteFate::Reaches);
    let near = entry(1, 10);
    let mut far = entry(2, 10);
    far.key.due = Millis(far.key.due.0 + 1000);
    let entries = [near.clone(), near.clone(), far.clone()];
    let answers = tickwheel::store::WheelStore::put_entries(&*pair.one, &entries).await;
    let failed: Vec<bool> = answers.iter().map(Result::is_err).collect();
    assert_eq!(failed, [true, true, false]);
    assert!(!pair.sees(&near).await);
    assert!(pair.sees(&far).await);
}
