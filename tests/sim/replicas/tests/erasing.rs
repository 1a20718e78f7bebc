//! A range delete hides older rows on the replicas that have it, whether it comes before or after these rows.

use std::time::Duration;

use tickwheel::{
    model::{entry::Entry, time::Millis},
    store::{Erasure, Error, WheelStore},
};

use super::{Pair, TICK, entry, scan_of, shape, wheel};
use crate::replicas::{Faults, Set, WriteFate};

async fn erase(pair: &Pair, newest_written: i64) -> Result<(), Error> {
    let tick = TICK;
    let erasure = Erasure {
        tick,
        newest_written,
    };
    pair.one.erase(wheel(), &[erasure]).await
}

fn late(later: Set) -> WriteFate {
    WriteFate::TimesOut {
        now: Set::NONE,
        later,
        after: Duration::from_secs(5),
    }
}

/// The next revolution of the entry's slot.
fn a_revolution_later(entry: &Entry) -> Entry {
    let mut later = entry.clone();
    let revolution = shape().slots() * shape().tick().millis();
    later.key.due = Millis(entry.key.due.0 + revolution);
    later
}

#[tokio::test(start_paused = true)]
async fn what_arrives_later_under_a_deleted_range_stays_invisible() {
    let pair = Pair::new(7);
    let (shadowed, newer) = (entry(1, 10), entry(2, 11));
    let alias = a_revolution_later(&shadowed);
    for entry in [&shadowed, &newer, &alias] {
        pair.control.next_write(late(Set::ALL));
        pair.put(entry).await.unwrap_err();
    }
    erase(&pair, 10).await.unwrap();
    pair.time.sleep(Duration::from_secs(20)).await;
    for _ in 0..20 {
        assert!(!pair.sees(&shadowed).await);
        assert!(pair.sees(&newer).await);
        assert!(pair.sees(&alias).await);
    }
    let kept: Vec<_> = pair
        .replicas
        .entries()
        .into_iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(kept, [newer.key, alias.key]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_a_replica_missed_hides_what_it_still_holds() {
    for replica in 0..3 {
        let pair = Pair::with(
            7,
            Faults {
                reads_unrepaired: 500,
                ..Faults::NONE
            },
        );
        let entry = entry(1, 10);
        pair.put(&entry).await.unwrap();
        let after = None;
        pair.control
            .next_write(WriteFate::Misses { replica, after });
        erase(&pair, 10).await.unwrap();
        for _ in 0..50 {
            assert!(!pair.sees(&entry).await);
            let page = pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
            assert!(page.rows.is_empty());
        }
        assert_eq!(pair.replicas.entries(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_timed_out_is_seen_and_then_not_until_it_is_repaired() {
    let pair = Pair::with(
        7,
        Faults {
            reads_unrepaired: 1000,
            ..Faults::NONE
        },
    );
    let entry = entry(1, 10);
    pair.put(&entry).await.unwrap();
    pair.control.next_write(WriteFate::TimesOut {
        now: Set::only(1),
        later: Set::NONE,
        after: Duration::ZERO,
    });
    erase(&pair, 10).await.unwrap_err();
    let mut seen = Vec::new();
    for _ in 0..60 {
        seen.push(pair.sees(&entry).await);
    }
    seen.dedup();
    assert!(seen.len() > 3, "{seen:?}");
    pair.control.set(Faults::NONE);
    let mut read = 0;
    while pair.sees(&entry).await {
        read += 1;
        assert!(read < 100, "no read ever asked the replica that deleted it");
    }
    for _ in 0..50 {
        assert!(!pair.sees(&entry).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_repeated_with_its_first_time_is_not_revived() {
    let pair = Pair::new(7);
    let entry = entry(1, 10);
    pair.put(&entry).await.unwrap();
    erase(&pair, 10).await.unwrap();
    pair.put(&entry).await.unwrap();
    assert!(!pair.sees(&entry).await);
}
