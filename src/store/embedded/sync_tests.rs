//! These tests check for the store that acknowledged writes were synced before and serial reads were decided;
//! they count the calls at the database.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fjall::AbstractTree as _;
use uuid::Uuid;

use super::{
    Settings, Store,
    disk::database::{Space, open},
    erased, key,
    tests::{created, shape},
    value,
    writing::group::Group,
};
use crate::{
    model::{
        clock::ClockRow,
        entry::Entry,
        ids::TaskId,
        record::{Change, Kind, Mark, Name},
        state::{Expect, State, Transition},
        task::Content,
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    store::{
        ClockStore as _, Error, Freshness, Heartbeat, IndexStore as _, Parked, RecordStore as _,
        Swapped, TaskRow, TaskStore as _, WheelStore as _,
        index::{IndexPut, IndexRemoval, Partition, Place},
    },
    time_source::TimeSource,
};

const NOW: Millis = Millis(1_790_000_000_000);

const GOLDEN: &str = include_str!("../../../tests/golden/embedded.txt");

/// Returns the bytes that the golden file has under a name.
fn bytes(name: &str) -> Vec<u8> {
    let lines = GOLDEN.lines().skip_while(|line| *line != name).skip(1);
    let text: String = lines
        .take_while(|line| line.starts_with(' '))
        .map(str::trim)
        .collect();
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap(), 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn entry(name: &str) -> Entry {
    let (key, written) = key::parse_version(&bytes(&format!("key: {name}"))).unwrap();
    value::parse_entry(key, written, &bytes(&format!("value: {name}"))).unwrap()
}

fn threaded(directory: &std::path::Path) -> Arc<Store> {
    let settings = Settings::new(directory, shape(1024));
    Store::open(settings, &TimeSource::real()).unwrap()
}

fn row(id: TaskId) -> TaskRow {
    value::parse_task(id, &bytes("value: task")).unwrap()
}

fn all_done(answers: &[Result<(), Error>]) -> bool {
    answers.iter().all(Result::is_ok)
}

/// Counts the syncs that a call has caused.
async fn syncs<T>(store: &Store, call: impl Future<Output = T>) -> (T, u64) {
    let open = store.shared.open().unwrap();
    let before = open.syncs();
    let answer = call.await;
    (answer, open.syncs() - before)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_acknowledgement_that_anybody_acts_on_has_its_own_sync() {
    let directory = tempfile::tempdir().unwrap();
    let store = threaded(directory.path());
    let (due, look) = (entry("due, first"), entry("look"));
    let id = due.key.id;
    let entries = [due.clone(), look];
    let (put, count) = syncs(&store, store.put_entries(&entries)).await;
    assert_eq!((all_done(&put), count), (true, 1));

    let content = (id, Arc::new(Content::default()));
    let (put, count) = syncs(&store, store.put_bodies(&[content], 7, None)).await;
    assert_eq!((all_done(&put), count), (true, 1));

    let claimed = TaskRow {
        state: State::Claimed,
        nonce: Uuid::from_u128(1),
        ..row(id)
    };
    let settled = TaskRow {
        nonce: Uuid::from_u128(2),
        ..claimed.clone()
    };
    for (expect, row) in [(Expect::Absent, &claimed), (claimed.seen(), &settled)] {
        let swap = Transition {
            expect,
            row: row.clone(),
            ttl: None,
        };
        let (mut swapped, count) = syncs(&store, store.swap_tasks(&[swap])).await;
        assert_eq!(swapped.remove(0).unwrap(), Swapped::Applied);
        assert_eq!(count, 1, "a claim or a settle");
    }

    let parked = Parked {
        key: due.key,
        at: NOW,
        reason: "why".to_owned(),
        raw: Bytes::new(),
    };
    let (put, count) = syncs(&store, store.park(&parked)).await;
    assert_eq!((put.is_ok(), count), (true, 1));

    let mark = Mark {
        nonce: Uuid::from_u128(3),
        stamp: 9,
    };
    let name = Name::new(Kind::IdempotencyKey, "k").unwrap();
    let change = Change::put(name, None, Bytes::new(), None, mark).unwrap();
    let (swapped, count) = syncs(&store, store.put_if(&change)).await;
    assert_eq!((swapped.unwrap(), count), (Swapped::Applied, 1));

    let place = Place::new(Partition::of_records(Kind::ApiKey), "k").unwrap();
    let put = [IndexPut::new(place.clone(), "v", 7).unwrap()];
    let (put, count) = syncs(&store, store.put_index(&put)).await;
    assert_eq!((all_done(&put), count), (true, 1));
    let removal = [IndexRemoval { place, written: 8 }];
    let (removed, count) = syncs(&store, store.remove_index(&removal)).await;
    assert_eq!((all_done(&removed), count), (true, 1));

    // These writes may be lost, as the module says.
    let beat = Heartbeat {
        id,
        attempt: 1,
        at: NOW,
        progress: None,
    };
    let (put, count) = syncs(
        &store,
        store.put_heartbeats(&[beat], Duration::from_secs(60)),
    )
    .await;
    assert_eq!((all_done(&put), count), (true, 0));
    let wheel = WheelNumber::from_low_bits(0);
    let from = store.clock(wheel, Freshness::Quorum).await.unwrap();
    let to = ClockRow {
        version: from.version + 1,
        ..from
    };
    let (swapped, count) = syncs(&store, store.swap_clock(wheel, &from, &to)).await;
    assert_eq!((swapped.unwrap(), count), (Swapped::Applied, 0));
}

#[test]
fn clocks_are_synced_before_anything_that_they_have_passed_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let open = created(&directory.path().join("store"));
    let put_clocks = |version, erased| {
        let mut group = Group::new(&open, NOW);
        for wheel in open.shape().all_wheels() {
            let row = ClockRow {
                version,
                erased: Tick(erased),
                ..ClockRow::first(open.shape(), NOW)
            };
            open.note_clock(key::clock(wheel), row);
            group.insert(Space::Clock, key::clock(wheel), value::clock(&row));
        }
        // The writer swaps them in this way.
        group.commit(false).unwrap();
    };
    let first = NOW.0 / 1000;
    put_clocks(1, first);
    let due = entry("due, first").key;
    let due = crate::model::entry::Key {
        due: open.shape().tick().end_of(Tick(first + 1)),
        ..due
    };
    let keyspace = open.space(Space::Due);
    keyspace.insert(key::version(&due, 5), [1]).unwrap();
    keyspace.rotate_memtable_and_wait().unwrap();
    erased::drop_tables(&open).unwrap();
    assert_eq!(open.syncs(), 0, "nothing was dropped");
    put_clocks(2, first + 99);
    // Tables are not dropped while the database merges.
    for _ in 0..1000 {
        erased::drop_tables(&open).unwrap();
        if keyspace.tree.table_count() == 0 {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    assert_eq!(keyspace.tree.table_count(), 0);
    assert_eq!(open.syncs(), 1);
}

#[test]
fn what_was_recovered_after_a_failed_sync_is_in_tables_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let life = created(&path);
    for space in Space::ALL {
        life.space(space).insert([7], [1]).unwrap();
    }
    drop(life);
    let life = open(&path, &shape(2)).unwrap();
    let in_memory = |space| !life.space(space).tree.active_memtable().is_empty();
    assert!(Space::ALL.into_iter().all(in_memory));
    life.settle_on_disk().unwrap();
    for space in Space::ALL {
        assert!(!in_memory(space), "{space:?}");
        assert_eq!(life.space(space).sealed_memtable_count(), 0, "{space:?}");
        assert_eq!(life.space(space).tree.table_count(), 1, "{space:?}");
    }
}

/// While the writer cannot decide, the outcome of earlier requests is unknown, and only a serial read reports
/// that.
#[tokio::test(start_paused = true)]
async fn a_serial_read_waits_for_what_is_undecided_and_a_plain_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        mode: super::Mode::Inline,
        ..Settings::new(directory.path(), shape(1024))
    };
    let time = TimeSource::simulated(NOW, 1);
    let store = Store::open(settings, &time).unwrap();
    let (id, wheel) = (entry("look").key.id, WheelNumber::from_low_bits(0));
    store.pen.break_writer();
    for freshness in [Freshness::Quorum, Freshness::Serial] {
        let refused = [
            store.tasks(&[id], freshness).await.err(),
            store.clock(wheel, freshness).await.err(),
        ];
        for refused in refused {
            let says_so = matches!(refused, Some(Error::Unavailable { .. }));
            assert_eq!(says_so, freshness == Freshness::Serial, "{refused:?}");
        }
    }
    time.sleep(Duration::from_secs(1)).await;
    store.tasks(&[id], Freshness::Serial).await.unwrap();
}
