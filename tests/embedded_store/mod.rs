//! The contract runs on the embedded store, with checks of its own: one process, one format, a full disk,
//! looks after a start.

mod damage;
mod disk;
mod flips;
mod kill;
mod lost;
mod torn;

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use tickwheel::{
    model::{
        entry::{Entry, Key},
        time::{Millis, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::{
        ClockStore, Erasure, Error, Freshness, Underway as _, WheelStore,
        embedded::{self, Mode, Settings},
    },
    time_source::TimeSource,
};

use crate::store_contract::{Stores, content, read_tick, shape, spec, suite};

fn settings(directory: &Path, mode: Mode) -> Settings {
    Settings {
        mode,
        ..Settings::new(directory, shape())
    }
}

fn open(directory: &Path) -> Arc<embedded::Store> {
    embedded::Store::open(settings(directory, Mode::Threaded), &TimeSource::real()).unwrap()
}

/// The reason why a store does not open.
fn refusal(settings: Settings) -> String {
    let error = embedded::Store::open(settings, &TimeSource::real()).unwrap_err();
    assert!(matches!(error, Error::Unsuitable { .. }), "{error}");
    error.to_string()
}

fn stores(store: &Arc<embedded::Store>) -> Stores {
    Stores::new(Arc::clone(store) as _, Arc::clone(store) as _)
}

#[tokio::test]
async fn the_contract_holds_in_a_data_directory() {
    for mode in [Mode::Threaded, Mode::Inline] {
        let directory = TempDir::new().unwrap();
        let settings = settings(directory.path(), mode);
        let store = embedded::Store::open(settings, &TimeSource::real()).unwrap();
        suite(&stores(&store)).await;
    }
}

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_has_gone() {
    let directory = TempDir::new().unwrap();
    let first = open(directory.path());
    let says = refusal(settings(directory.path(), Mode::Threaded));
    let holder = format!("in use by process {}", std::process::id());
    assert!(says.contains(&holder), "{says}");
    drop(first);
    open(directory.path());
}

#[test]
fn another_format_or_shape_is_refused_in_words() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let tick = TickLength::new(Duration::from_secs(2)).unwrap();
    for (other, says) in [
        (Shape::new(8, shape().tick(), 8).unwrap(), "wheels = 4"),
        (Shape::new(4, tick, 8).unwrap(), "tick_ms = 1000"),
        (Shape::new(4, shape().tick(), 9).unwrap(), "slots = 8"),
    ] {
        let said = refusal(Settings::new(directory.path(), other));
        assert!(said.contains(says), "{said}");
    }
    let format = directory.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    // Formats before the first release, with the check sum and without, and a later one.
    for other in ["1", "2", "3", "7"] {
        let whole = text.replace("format=4", &format!("format={other}"));
        let (without_sum, _) = whole.split_once("check=").unwrap();
        for written in [whole.as_str(), without_sum] {
            fs::write(&format, written).unwrap();
            let said = refusal(settings(directory.path(), Mode::Threaded));
            let named = format!("has format {other}, and this program reads format 4");
            assert!(said.contains(&named), "{said}");
            assert!(said.contains("use the program that made it"), "{said}");
            assert_eq!(fs::read_to_string(&format).unwrap(), written);
        }
    }
    fs::remove_file(&format).unwrap();
    let said = refusal(settings(directory.path(), Mode::Threaded));
    assert!(said.contains("FORMAT is missing"), "{said}");
    // The first directories of 0.2.0 have no check sum.
    let (without_sum, _) = text.split_once("check=").unwrap();
    fs::write(&format, without_sum).unwrap();
    open(directory.path());
    assert_eq!(fs::read_to_string(&format).unwrap(), without_sum);
    fs::remove_dir_all(directory.path().join("store")).unwrap();
    let settings = settings(directory.path(), Mode::Threaded);
    let error = embedded::Store::open(settings, &TimeSource::real()).unwrap_err();
    assert!(
        matches!(&error, Error::Corrupt { reason, .. } if reason.contains("is missing")),
        "{error}"
    );
}

#[test]
fn a_shape_that_was_changed_on_the_disk_is_refused() {
    let directory = TempDir::new().unwrap();
    drop(open(directory.path()));
    let format = directory.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    let fewer = Settings::new(directory.path(), Shape::new(2, shape().tick(), 8).unwrap());
    let changed = text.replace("wheels=4", "wheels=2");
    assert_ne!(changed, text);
    fs::write(&format, &changed).unwrap();
    let said = corrupt(fewer.clone());
    assert!(said.contains("is not as it was written"), "{said}");
    // Without a check sum the rows tell.
    fs::write(&format, changed.split_once("check=").unwrap().0).unwrap();
    let said = corrupt(fewer);
    assert!(said.contains("rows of more than 2 wheels"), "{said}");
    fs::write(&format, text).unwrap();
    open(directory.path());
}

fn corrupt(settings: Settings) -> String {
    let error = embedded::Store::open(settings, &TimeSource::real()).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_place_that_cannot_be_a_directory_is_refused_in_words() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("below")] {
        let said = refusal(settings(&place, Mode::Threaded));
        assert!(said.contains("is not a directory"), "{said}");
    }
}

#[test]
fn a_directory_that_was_set_up_half_way_is_set_up_again() {
    let directory = TempDir::new().unwrap();
    let half = directory.path().join("store.new");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("0.jnl"), "half").unwrap();
    drop(open(directory.path()));
    assert!(!half.exists());
    open(directory.path());
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_start() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let stores = stores(&store);
    let tick = stores.tick();
    let id = stores.task(1, tick);
    let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 5);
    store
        .put_entries(std::slice::from_ref(&entry))
        .await
        .remove(0)
        .unwrap();
    let clock = store
        .clock(WheelNumber::new(1).unwrap(), Freshness::Quorum)
        .await
        .unwrap();
    drop((stores, store));
    let store = open(directory.path());
    assert_eq!(read_tick(&*store, 1, tick, 10).await, [entry]);
    let again = store
        .clock(WheelNumber::new(1).unwrap(), Freshness::Quorum)
        .await
        .unwrap();
    assert_eq!(again, clock);
}

#[tokio::test]
async fn looks_are_listed_behind_a_key_and_without_what_was_erased() {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path());
    let stores = stores(&store);
    let first = stores.tick();
    let wheel = WheelNumber::new(2).unwrap();
    let mut looks = Vec::new();
    for offset in 0..40 {
        let id = stores.task(2, first.plus(offset));
        let at = id.first_start();
        looks.push(Entry::look(id, 0, at, None, at, spec(), 5));
        let newer = Entry {
            written: 6,
            ..Entry::look(id, 0, at, Some(at), at, spec(), 5)
        };
        looks.push(newer);
        let elsewhere = stores.task(3, first.plus(offset));
        for other in [
            Entry::due(id, 0, 0, at, spec(), 5),
            Entry::look(elsewhere, 0, at, None, at, spec(), 5),
        ] {
            store.put_entries(&[other]).await.remove(0).unwrap();
        }
    }
    for answer in store.put_entries(&looks).await {
        answer.unwrap();
    }
    let erased = Erasure {
        tick: first,
        newest_written: 6,
    };
    store.erase(wheel, &[erased]).await.unwrap();
    looks.retain(|look| look.written == 6);
    looks.sort_by_key(|look| look.key);
    let mut listed: Vec<Entry> = Vec::new();
    let mut behind: Option<Key> = None;
    loop {
        let page = store.looks(wheel, behind, 7).await.unwrap();
        listed.extend(page.rows.into_iter().map(|row| row.entry.unwrap()));
        behind = listed.last().map(|look| look.key);
        if !page.more {
            break;
        }
    }
    assert_eq!(listed, looks[1..]);
}

#[tokio::test]
async fn a_disk_that_fills_refuses_new_tasks_and_serves_the_others_until_there_is_room() {
    let directory = TempDir::new().unwrap();
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let seen = Arc::clone(&free);
    let settings = Settings {
        reserve_bytes: 100 << 20,
        free_bytes: Arc::new(move |_: &Path| -> io::Result<u64> {
            Ok(seen.load(Ordering::Relaxed))
        }),
        ..settings(directory.path(), Mode::Inline)
    };
    let store = embedded::Store::open(settings, &TimeSource::real()).unwrap();
    let stores = stores(&store);
    let id = stores.task(1, stores.tick());
    let new = Entry::due(id, 0, 0, id.first_start(), spec(), 5).first_of_generation();
    let look = Entry::look(
        id,
        0,
        Millis(id.first_start().0 + 60_000),
        None,
        id.first_start(),
        spec(),
        5,
    );
    // An entry that is put further on is promised already.
    let spilled = Entry {
        spills: 1,
        ..new.clone()
    };
    let both = [new, look, spilled];
    let body = [(id, Arc::new(content(10)))];
    for (mib, is_full) in [
        (101, false),
        (99, true),
        (105, true),
        (111, false),
        (99, true),
        (200, false),
    ] {
        free.store(mib << 20, Ordering::Relaxed);
        store.upkeep();
        let answers = store.put_entries(&both).await;
        assert!(answers[1].is_ok() && answers[2].is_ok(), "{answers:?}");
        assert_eq!(store.let_in(1).await.is_err(), is_full);
        let refused = |answer: &Result<(), Error>| matches!(answer, Err(Error::Full { reason }) if reason.contains("99 MiB are free") || reason.contains("105 MiB"));
        assert_eq!(refused(&answers[0]), is_full, "{answers:?}");
        assert_eq!(answers[0].is_err(), is_full);
        assert_eq!(store.put_bodies(&body, 7, None).await[0].is_err(), is_full);
        store
            .put_bodies(&body, 7, Some(60))
            .await
            .remove(0)
            .unwrap();
    }
}

#[test]
fn a_probe_tells_what_a_directory_can_do() {
    let directory = TempDir::new().unwrap();
    let probed = embedded::probe(directory.path(), &TimeSource::real()).unwrap();
    assert!(
        probed.sync_p50 <= probed.sync_max && probed.free_bytes > 0,
        "{probed:?}"
    );
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
