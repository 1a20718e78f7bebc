//! The store bears a disk that fails during its writes, and does not grow without bound for an operator who
//! writes for long.

use std::{env, fs, path::Path, process::Command, time::Duration};

use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;
use tickwheel::{
    model::{
        clock::{ClockRow, Position},
        entry::Entry,
        time::Tick,
        wheel::WheelNumber,
    },
    store::{
        ClockStore, Erasure, Error, Freshness, Swapped, WheelStore,
        embedded::{self, Mode, Settings},
    },
    time_source::TimeSource,
};

use super::{
    kill::{CHILD, say},
    settings, stores,
};
use crate::store_contract::{Stores, content, read_tick, shape, spec_with};

/// Bytes of the disk that a directory takes.
fn used_bytes(directory: &Path) -> u64 {
    let mut sum = 0;
    for found in fs::read_dir(directory).unwrap() {
        let found = found.unwrap();
        // A journal is longer than its content, so its blocks are counted.
        sum += if found.path().is_dir() {
            used_bytes(&found.path())
        } else {
            // A file may be merged away between the list and this.
            let file = found.metadata();
            file.map_or(0, |file| {
                std::os::unix::fs::MetadataExt::blocks(&file) * 512
            })
        };
    }
    sum
}

fn limit_files_to(bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

async fn put(store: &embedded::Store, stores: &Stores) -> (Entry, Result<(), Error>) {
    let id = stores.task(1, stores.tick());
    let entry = Entry::due(id, 0, 0, id.first_start(), spec_with(content(1000)), 5);
    let answer = store
        .put_entries(std::slice::from_ref(&entry))
        .await
        .remove(0);
    (entry, answer)
}

/// Runs in a process of its own, since the limit belongs to the process: files cannot grow for a while.
async fn be_the_child(directory: &Path) {
    let store =
        embedded::Store::open(settings(directory, Mode::Threaded), &TimeSource::real()).unwrap();
    let stores = stores(&store);
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let (entry, answer) = put(&store, &stores).await;
        answer.unwrap();
        acknowledged.push(entry);
        limit_files_to(Some(0));
        for _ in 0..5 {
            let (_, answer) = put(&store, &stores).await;
            let error = answer.unwrap_err();
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        }
        limit_files_to(None);
        let mut tries = 0;
        // The store comes back by itself, and reports until then that it is away.
        loop {
            let (entry, answer) = put(&store, &stores).await;
            if answer.is_ok() {
                acknowledged.push(entry);
                break;
            }
            tries += 1;
            assert!(tries < 600, "round {round}: {answer:?}");
            TimeSource::real().sleep(Duration::from_millis(50)).await;
        }
        for entry in &acknowledged {
            let tick = shape().tick().tick_of(entry.key.due);
            assert_eq!(
                read_tick(&*store, 1, tick, 10).await,
                std::slice::from_ref(entry)
            );
        }
    }
    say("recovered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_takes_no_byte_is_reported_and_used_again_without_a_restart() {
    if let Some(directory) = env::var_os(CHILD) {
        return be_the_child(Path::new(&directory)).await;
    }
    let directory = TempDir::new().unwrap();
    // The signal that goes with the limit would end the process: a shell can ignore it for us.
    let name = "embedded_store::disk::a_disk_that_takes_no_byte_is_reported_and_used_again_without_a_restart";
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("recovered"), "{said}\n{complained}");
}

/// Moves all hands of all clocks behind a tick, as firing and erasing do, and lets the store look after itself.
async fn pass(store: &embedded::Store, tick: Tick) {
    for wheel in shape().all_wheels() {
        let from = store.clock(wheel, Freshness::Quorum).await.unwrap();
        let to = ClockRow {
            version: from.version + 1,
            opened: tick,
            fired: Position::behind(shape().tick().end_of(tick)),
            erased: tick,
            ..from
        };
        let swapped = store.swap_clock(wheel, &from, &to).await.unwrap();
        assert_eq!(swapped, Swapped::Applied);
    }
    store.upkeep();
}

/// Registers and erases for a long time; only live data takes space.
#[tokio::test(flavor = "multi_thread")]
async fn a_constant_load_takes_no_more_and_more_space() {
    const ROUNDS: u64 = 12;
    let directory = TempDir::new().unwrap();
    let store = embedded::Store::open(
        Settings::new(directory.path(), shape()),
        &TimeSource::real(),
    )
    .unwrap();
    let stores = stores(&store);
    let wheel = WheelNumber::new(1).unwrap();
    let mut written = 0;
    let mut used = Vec::new();
    for _ in 0..ROUNDS {
        let tick = stores.tick();
        for _ in 0..40 {
            let entries: Vec<Entry> = (0..500)
                .map(|_| {
                    let id = stores.task(1, tick);
                    let bytes: Vec<u8> = (0..125)
                        .flat_map(|_| stores.time.random().to_le_bytes())
                        .collect();
                    let content = tickwheel::model::task::Content {
                        payload: bytes.into(),
                        ..content(0)
                    };
                    Entry::due(id, 0, 0, id.first_start(), spec_with(content), 5)
                })
                .collect();
            written += 500 * 1000;
            assert!(store.put_entries(&entries).await.iter().all(Result::is_ok));
        }
        let erasure = Erasure {
            tick,
            newest_written: 5,
        };
        store.erase(wheel, &[erasure]).await.unwrap();
        pass(&store, tick).await;
        used.push(used_bytes(directory.path()));
    }
    println!("wrote {written} bytes; on disk {used:?}");
    // The space rises and falls as tables are written and dropped, so only the highest values count.
    let (early, late) = used.split_at(used.len() / 2);
    let (early, late) = (early.iter().max().unwrap(), late.iter().max().unwrap());
    assert!(late * 2 < early * 3, "{used:?}");
}
