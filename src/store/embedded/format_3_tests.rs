//! These tests open for the store a directory that a program of format 3 wrote: five keyspaces, and rows byte for byte as its
//! golden file has them.

use std::{fs, path::Path, sync::Arc};

use fjall::{Database, KeyspaceCreateOptions, PersistMode};
use uuid::Uuid;

use super::{Mode, Settings, Store, format_2_tests::golden_bytes, key, tests::shape, value};
use crate::{
    model::{
        entry::Entry,
        ids::TaskId,
        record::{Change, Kind, Mark, Name},
        state::TaskRow,
        time::Millis,
        wheel::{Shape, WheelNumber},
    },
    store::{
        ClockStore as _, Freshness, IndexStore as _, RecordStore as _, Swapped, TaskStore as _,
        WheelStore as _,
        index::{IndexKind, IndexPut, IndexRange, Partition, Place},
    },
    time_source::TimeSource,
};

const GOLDEN: &str = include_str!("../../../tests/golden/embedded_3.txt");

/// The keyspaces of format 3.
const KEYSPACES: [&str; 5] = ["due", "look", "row", "clock", "body"];

const NOW: Millis = Millis(1_790_000_000_000);

fn bytes(name: &str) -> Vec<u8> {
    golden_bytes(GOLDEN, name)
}

fn entry(name: &str) -> Entry {
    let (key, written) = key::parse_version(&bytes(&format!("key: {name}"))).unwrap();
    value::parse_entry(key, written, &bytes(&format!("value: {name}"))).unwrap()
}

fn opened(directory: &Path, shape: &Shape) -> Arc<Store> {
    let settings = Settings {
        mode: Mode::Inline,
        ..Settings::new(directory, *shape)
    };
    Store::open(settings, &TimeSource::simulated(NOW, 1)).unwrap()
}

/// Makes a directory as a program of format 3 leaves it; returns its task's id and row.
fn written_before(directory: &Path) -> (TaskId, TaskRow) {
    let id = entry("due, first").key.id;
    let (task, clock) = (bytes("value: task, for ever"), bytes("value: clock"));
    let database = Database::builder(directory.join("store")).open().unwrap();
    let of = |name| database.keyspace(name, KeyspaceCreateOptions::default);
    let [due, look, row, clocks, _] = KEYSPACES.map(|name| of(name).unwrap());
    let named = |kind: &str, name: &str| bytes(&format!("{kind}: {name}"));
    for (keyspace, name) in [(due, "due, first"), (look, "look")] {
        keyspace
            .insert(named("key", name), named("value", name))
            .unwrap();
    }
    row.insert(key::task(id), &task).unwrap();
    clocks.insert(bytes("key: clock"), &clock).unwrap();
    database.persist(PersistMode::SyncAll).unwrap();
    drop((row, clocks, database));
    fs::write(directory.join("LOCK"), "1").unwrap();
    let text = "tickwheel data directory\nformat=3\nwheels=1024\ntick_ms=1000\nslots=8\n";
    fs::write(directory.join("FORMAT"), text).unwrap();
    (id, value::parse_task(id, &task).unwrap())
}

fn change(name: &Name) -> Change {
    let mark = Mark {
        nonce: Uuid::from_u128(7),
        stamp: 9,
    };
    Change::put(name.clone(), None, "v".into(), None, mark).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_format_3_keeps_its_rows_and_gains_records_and_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let shape = shape(1024);
    let (id, row) = written_before(directory.path());
    let (due, look) = (entry("due, first"), entry("look"));
    let wheel = WheelNumber::new(513).unwrap();
    let clock = value::parse_clock(&bytes("value: clock")).unwrap();
    let name = Name::new(Kind::Callback, "send").unwrap();
    let partition = Partition::new(IndexKind::Held, "p").unwrap();
    let place = Place::new(partition.clone(), "s").unwrap();
    let range = IndexRange {
        partition,
        after: None,
        rows_max: 9,
    };
    for round in 0..3 {
        let store = opened(directory.path(), &shape);
        let rows = store.tasks(&[id], Freshness::Quorum).await.unwrap();
        assert_eq!(rows, [Some(row.clone())]);
        assert_eq!(store.clock(wheel, Freshness::Serial).await.unwrap(), clock);
        let found = store.find_entries(id, &[due.key.due]).await.unwrap();
        assert_eq!(found, [look.clone(), due.clone()]);
        let record = store.record(&name, Freshness::Serial).await.unwrap();
        let page = store.index_range(&range).await.unwrap();
        if round == 0 {
            assert_eq!((record, page.rows.len()), (None, 0));
            let swapped = store.put_if(&change(&name)).await.unwrap();
            assert_eq!(swapped, Swapped::Applied);
            let put = IndexPut::new(place.clone(), "v", 7).unwrap();
            assert!(store.put_index(&[put]).await.iter().all(Result::is_ok));
        } else {
            assert_eq!(record.as_ref(), Some(change(&name).record()));
            assert_eq!(page.rows.len(), 1);
        }
        let text = fs::read_to_string(directory.path().join("FORMAT")).unwrap();
        assert!(text.contains("format=4"), "{text}");
    }
}
