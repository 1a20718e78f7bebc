//! Pages may end anywhere, and may be empty without being the last, and a reader still gets every row.

use tickwheel::store::{Page, WheelStore};

use super::{Pair, TICK, entry, scan_of};
use crate::replicas::Faults;

#[tokio::test(start_paused = true)]
async fn pages_end_anywhere_and_lose_nothing() {
    let (mut empty, mut short) = (0, 0);
    for seed in 0..30 {
        let faults = Faults {
            pages_cut: 500,
            pages_empty: 500,
            ..Faults::NONE
        };
        let pair = Pair::with(seed, faults);
        let mut written = Vec::new();
        for number in 0..30 {
            let entry = entry(number, 10);
            pair.put(&entry).await.unwrap();
            written.push(entry.key);
        }
        let (mut scan, mut read, mut last_was_empty) = (scan_of(TICK, 10), Vec::new(), false);
        loop {
            let Page { rows, more } = pair.other.scan(&scan).await.unwrap();
            assert!(rows.len() <= 10);
            if more {
                empty += usize::from(rows.is_empty());
                short += usize::from(!rows.is_empty() && rows.len() < 10);
                assert!(!(rows.is_empty() && last_was_empty), "it would never end");
            }
            last_was_empty = rows.is_empty();
            scan.behind = rows.last().map(|row| row.key).or(scan.behind);
            read.extend(rows.into_iter().map(|row| row.key));
            if !more {
                break;
            }
        }
        assert_eq!(read, written);
    }
    assert!(empty > 10 && short > 10, "{empty} empty, {short} short");
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_has_more_behind_it() {
    let pair = Pair::with(
        7,
        Faults {
            pages_empty: 1000,
            ..Faults::NONE
        },
    );
    pair.put(&entry(1, 10)).await.unwrap();
    let first = pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
    assert!(first.rows.is_empty() && first.more);
    let second = pair.other.scan(&scan_of(TICK, 10)).await.unwrap();
    assert_eq!(second.rows.len(), 1);
}
