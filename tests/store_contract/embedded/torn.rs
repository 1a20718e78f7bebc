//! A journal whose end a crash of the machine has torn: it opens, and what lies before is there.

use std::{fs, path::PathBuf};

use tempfile::TempDir;
use tickwheel::{
    model::{entry::Entry, time::Tick},
    store::{
        Error, WheelStore,
        embedded::{self, Mode},
    },
    time_source::TimeSource,
};

use super::{
    super::{read_tick, spec},
    open, settings, stores,
};

/// The newest journal and where its last batch begins and ends.
fn journal(directory: &TempDir) -> (PathBuf, Vec<u8>) {
    let path = directory.path().join("store").join("0.jnl");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

/// Writes entries one by one; returns them, their ticks and how long the journal was after each.
async fn written(directory: &TempDir, count: i64) -> Vec<(Tick, Entry, usize)> {
    let store = open(directory.path());
    let stores = stores(&store);
    let mut all = Vec::new();
    for _ in 0..count {
        let tick = stores.tick();
        let id = stores.task(1, tick);
        let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 5);
        store
            .put_entries(std::slice::from_ref(&entry))
            .await
            .remove(0)
            .unwrap();
        all.push((tick, entry, used(&journal(directory).1)));
    }
    all
}

async fn expect(directory: &TempDir, all: &[(Tick, Entry, usize)], there: usize) {
    let store = open(directory.path());
    for (index, (tick, entry, _)) in all.iter().enumerate() {
        let read = read_tick(&*store, 1, *tick, 10).await;
        let expected = if index < there {
            std::slice::from_ref(entry)
        } else {
            &[]
        };
        assert_eq!(read, expected, "{index}");
    }
}

#[tokio::test]
async fn a_last_batch_that_is_cut_short_or_garbled_is_dropped_and_nothing_else() {
    for torn in 0..6 {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 5).await;
        let (path, mut bytes) = journal(&directory);
        let (from, to) = (all[3].2, all[4].2);
        let middle = from + (to - from) / 2;
        match torn {
            0 => bytes.truncate(to - 1),
            1 => bytes.truncate(from + 3),
            // Pages that never reached the disk read as zeros.
            2 => bytes[middle..to].fill(0),
            3 => bytes[middle] ^= 0x55,
            4 => bytes[middle..middle + 9].fill(0),
            _ => bytes[to - 6] ^= 1,
        }
        fs::write(&path, bytes).unwrap();
        expect(&directory, &all, 4).await;
        expect(&directory, &all, 4).await;
    }
}

#[tokio::test]
async fn garbage_behind_the_last_batch_is_dropped() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 3).await;
    let (path, mut bytes) = journal(&directory);
    let end = all[2].2;
    bytes.truncate(end);
    bytes.extend([0xa7; 500]);
    fs::write(&path, bytes).unwrap();
    expect(&directory, &all, 3).await;
}

#[tokio::test]
async fn a_broken_batch_with_whole_ones_behind_it_is_for_a_person_to_decide() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 5).await;
    let (path, mut bytes) = journal(&directory);
    let (from, to) = (all[1].2, all[2].2);
    bytes[from + (to - from) / 2] ^= 0x55;
    fs::write(&path, &bytes).unwrap();
    let settings = settings(directory.path(), Mode::Threaded);
    let error = embedded::Store::open(settings, &TimeSource::real()).unwrap_err();
    assert!(
        matches!(&error, Error::Corrupt { reason, .. } if reason.contains("restore a copy")),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
