//! Records and rows of the index meet every fate that a write of three replicas may have.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::{
    model::{
        record::{Change, Kind, Mark, Name, Record},
        time::Millis,
    },
    store::{
        Error, Freshness, IndexStore, RecordStore, Swapped,
        index::{IndexKind, IndexPut, IndexRange, IndexRemoval, Partition, Place},
        records::RecordRange,
    },
};
use uuid::Uuid;

use super::{EPOCH, Pair};
use crate::replicas::{Faults, Set, SwapFate, WriteFate};

const LATER: Duration = Duration::from_secs(5);

fn name() -> Name {
    Name::new(Kind::Callback, "send").unwrap()
}

fn mark(number: u128) -> Mark {
    Mark {
        nonce: Uuid::from_u128(number),
        stamp: EPOCH.0 * 1000,
    }
}

fn put(replaced: Option<&Record>, number: u128) -> Change {
    Change::put(
        name(),
        replaced,
        Bytes::from_static(b"v"),
        None,
        mark(number),
    )
    .unwrap()
}

fn remove(replaced: &Record, number: u128) -> Change {
    Change::remove(replaced, EPOCH, mark(number))
}

impl Pair {
    async fn record(&self, freshness: Freshness) -> Option<Record> {
        self.other.record(&name(), freshness).await.unwrap()
    }

    async fn puts(&self, change: &Change) -> Swapped<Option<Record>> {
        self.one.put_if(change).await.unwrap()
    }

    async fn listed(&self, now: Millis) -> Vec<Record> {
        let range = RecordRange {
            kind: Kind::Callback,
            after: None,
            rows_max: 10,
            now,
        };
        self.other.list_records(&range).await.unwrap().records
    }

    /// The values that the other node sees.
    async fn values(&self) -> Vec<Bytes> {
        let range = IndexRange {
            partition: place().partition().clone(),
            after: None,
            rows_max: 10,
        };
        let page = self.other.index_range(&range).await.unwrap();
        page.rows.into_iter().map(|row| row.value).collect()
    }

    async fn put_row(&self, value: &'static str, written: i64) -> Result<(), Error> {
        let row = IndexPut::new(place(), value, written).unwrap();
        self.one.put_index(&[row]).await.remove(0)
    }

    async fn remove_row(&self, written: i64) -> Result<(), Error> {
        let place = place();
        let removal = IndexRemoval { place, written };
        self.one.remove_index(&[removal]).await.remove(0)
    }
}

fn place() -> Place {
    let partition = Partition::new(IndexKind::Held, "p").unwrap();
    Place::new(partition, "s").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_arrives_late_finds_the_removed_record() {
    for removed in [false, true] {
        let pair = Pair::new(7);
        let late = put(None, 1);
        pair.control.next_swap(SwapFate::Late { after: LATER });
        assert_eq!(pair.puts(&late).await, Swapped::Unknown);
        let mut there = None;
        if removed {
            let first = put(None, 2);
            assert_eq!(pair.puts(&first).await, Swapped::Applied);
            let removal = remove(first.record(), 3);
            assert_eq!(pair.puts(&removal).await, Swapped::Applied);
            there = Some(removal.record().clone());
        }
        assert_eq!(pair.record(Freshness::Serial).await, there);
        pair.time.sleep(LATER).await;
        let late = (!removed).then(|| late.record().clone());
        assert_eq!(pair.record(Freshness::Serial).await, late.or(there));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_our_own_record_is_success_and_a_serial_read_shows_it() {
    let pair = Pair::new(7);
    let change = put(None, 1);
    let learned = Set::NONE;
    pair.control.next_swap(SwapFate::Decided { learned });
    assert_eq!(pair.puts(&change).await, Swapped::Unknown);
    assert_eq!(pair.record(Freshness::Quorum).await, None);
    assert_eq!(pair.puts(&change).await, Swapped::Applied);
    let there = pair.record(Freshness::Serial).await;
    assert_eq!(there.as_ref(), Some(change.record()));
    assert_eq!(pair.record(Freshness::Quorum).await, there);
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_of_a_record_is_finished_or_overtaken() {
    let mut finished = Vec::new();
    for seed in 0..20 {
        let pair = Pair::new(seed);
        let change = put(None, 1);
        pair.control.next_swap(SwapFate::Accepted);
        assert_eq!(pair.puts(&change).await, Swapped::Unknown);
        assert_eq!(pair.record(Freshness::Quorum).await, None);
        let settled = pair.record(Freshness::Serial).await;
        assert_eq!(pair.control.under_way(), 0);
        assert_eq!(pair.record(Freshness::Quorum).await, settled);
        finished.push(settled.is_some());
    }
    assert!(finished.contains(&true) && finished.contains(&false));
}

#[tokio::test(start_paused = true)]
async fn a_put_that_arrives_behind_a_removal_stays_removed() {
    let pair = Pair::new(7);
    pair.put_row("a", 10).await.unwrap();
    let late = WriteFate::TimesOut {
        now: Set::only(1),
        later: Set::ALL.without(Set::only(1)),
        after: LATER,
    };
    pair.control.next_write(late);
    assert!(pair.put_row("late", 20).await.is_err());
    pair.remove_row(20).await.unwrap();
    assert_eq!(pair.values().await, Vec::<Bytes>::new());
    pair.time.sleep(LATER).await;
    for _ in 0..20 {
        assert_eq!(pair.values().await, Vec::<Bytes>::new());
    }
    // A removal that arrives late removes nothing newer.
    pair.control.next_write(late);
    assert!(pair.remove_row(30).await.is_err());
    pair.put_row("new", 31).await.unwrap();
    pair.time.sleep(LATER).await;
    for _ in 0..20 {
        assert_eq!(pair.values().await, ["new"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_replica_missed_is_seen_and_what_was_lost_is_not() {
    for seed in 0..20 {
        let faults = Faults {
            writes_miss_one: 1000,
            reads_unrepaired: 1000,
            ..Faults::NONE
        };
        let pair = Pair::with(seed, faults);
        pair.put_row("a", 10).await.unwrap();
        assert_eq!(pair.values().await, ["a"]);
        pair.remove_row(11).await.unwrap();
        assert_eq!(pair.values().await, Vec::<Bytes>::new());
        pair.control.next_write(WriteFate::Fails);
        assert!(pair.put_row("lost", 12).await.is_err());
        pair.time.sleep(LATER).await;
        assert_eq!(pair.values().await, Vec::<Bytes>::new());
    }
}

/// Two nodes create and remove one record again and again, over every fault.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_there_is_listed_whatever_became_of_earlier_writes() {
    let (mut there, mut gone) = (0, 0);
    for seed in 0..40 {
        let pair = Pair::with(seed, Faults::all(120));
        pair.one.time.set_wall_error_ms(3_000);
        for number in 0..30 {
            let node = if number % 2 == 0 {
                &pair.one
            } else {
                &pair.other
            };
            let Ok(read) = node.record(&name(), Freshness::Serial).await else {
                continue;
            };
            let mark = Mark {
                nonce: node.time.random_uuid(),
                stamp: node.time.stamp(),
            };
            let change = match &read {
                Some(record) if !record.is_removed() => {
                    Change::remove(record, node.time.now(), mark)
                }
                _ => Change::put(name(), read.as_ref(), Bytes::new(), None, mark).unwrap(),
            };
            // It may take effect later, with any outcome.
            drop(node.put_if(&change).await);
            pair.time.sleep(Duration::from_millis(700)).await;
        }
        pair.control.heal();
        pair.time.sleep(Duration::from_secs(60)).await;
        let record = pair.record(Freshness::Serial).await;
        let record = record.filter(|record| !record.is_removed());
        let days = 3 * 24 * 3600 * 1000;
        // A list that removes what stands for nothing does not touch it either.
        for now in [pair.time.now(), Millis(pair.time.now().0 + days)] {
            let listed = pair.listed(now).await;
            assert_eq!(listed, Vec::from_iter(record.clone()), "seed {seed}");
        }
        *(if record.is_some() {
            &mut there
        } else {
            &mut gone
        }) += 1;
    }
    assert!(there > 5 && gone > 5, "{there} {gone}");
}
