//! A journal that is damaged where no crash damages one is refused with words for people, and mended without
//! loss of whole batches.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use tempfile::TempDir;
use tickwheel::{
    model::{entry::Entry, task::Content, time::Tick},
    store::{
        Error, WheelStore,
        embedded::{self, Mode, journal::Kind},
    },
    time_source::TimeSource,
};

use super::{open, settings, stores};
use crate::store_contract::{read_tick, spec};

/// Bytes of a batch before its first item, and of that item's head.
pub(super) const HEAD: usize = 13;
const ITEM_HEAD: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;

/// A page of the disk.
const PAGE: usize = 4096;

/// An entry, and where in the journal its batch lies.
pub(super) struct Written {
    tick: Tick,
    entry: Entry,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The newest journal of a directory that was opened once, and its bytes.
pub(super) fn journal(directory: &TempDir) -> (PathBuf, Vec<u8>) {
    let path = directory.path().join("store").join("0.jnl");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// Makes a directory what it is when its last batch was not synced: nothing says so.
pub(super) fn unsynced(directory: &TempDir) {
    fs::remove_file(directory.path().join("SYNCED")).unwrap();
}

pub(super) fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

/// Writes entries one by one.
pub(super) async fn written(directory: &TempDir, count: i64) -> Vec<Written> {
    let store = open(directory.path());
    let stores = stores(&store);
    let mut all: Vec<Written> = Vec::new();
    let mut from = used(&journal(directory).1);
    for _ in 0..count {
        let tick = stores.tick();
        let id = stores.task(1, tick);
        let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 5);
        store
            .put_entries(std::slice::from_ref(&entry))
            .await
            .remove(0)
            .unwrap();
        let to = used(&journal(directory).1);
        all.push(Written {
            tick,
            entry,
            from,
            to,
        });
        from = to;
    }
    all
}

/// Writes a content that is these bytes.
pub(super) async fn put_content(directory: &TempDir, payload: &[u8]) {
    let store = open(directory.path());
    let id = stores(&store).task(1, Tick(2_100_000_000));
    let content = Content {
        payload: payload.to_vec().into(),
        ..super::content(0)
    };
    let put = store.put_bodies(&[(id, Arc::new(content))], 5, None).await;
    assert!(put.iter().all(Result::is_ok), "{put:?}");
}

/// Opens the store and looks which of the entries are there.
pub(super) async fn expect(directory: &TempDir, all: &[Written], there: &[bool]) {
    let store = open(directory.path());
    for (index, (Written { tick, entry, .. }, there)) in all.iter().zip(there).enumerate() {
        let read = read_tick(&*store, 1, *tick, 10).await;
        let expected = if *there {
            std::slice::from_ref(entry)
        } else {
            &[]
        };
        assert_eq!(read, expected, "{index}");
    }
}

/// Checks that a directory is refused in a sentence and stays unchanged; returns the sentence.
pub(super) fn refused(directory: &Path) -> String {
    let store = directory.join("store");
    let bytes = |store: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let files = fs::read_dir(store).unwrap().map(|file| file.unwrap());
        let journals = files.filter(|file| file.path().extension().is_some_and(|e| e == "jnl"));
        let mut read: Vec<_> = journals
            .map(|file| (file.path(), fs::read(file.path()).unwrap()))
            .collect();
        read.sort();
        read
    };
    let before = bytes(&store);
    let opened = embedded::Store::open(settings(directory, Mode::Threaded), &TimeSource::real());
    let Err(Error::Corrupt { reason, .. }) = opened else {
        panic!("it was opened: {opened:?}");
    };
    assert!(
        reason.contains("the journal ") && reason.contains("tickwheel doctor --repair --data-dir"),
        "{reason}"
    );
    assert!(before == bytes(&store), "the journals were changed");
    reason
}

/// Checks that a directory is refused, that a repair sets `aside` apart, and that only the batches in `lost`
/// are missing then.
async fn mended(directory: &TempDir, all: &[Written], lost: Range<usize>, aside: &[u8]) {
    let reason = refused(directory.path());
    let found = embedded::damages(directory.path()).unwrap();
    let repaired = embedded::repair(directory.path()).unwrap();
    assert_eq!(repaired.len(), found.len());
    let first = &repaired[0];
    assert_eq!(first.damage, found[0]);
    assert!(reason.starts_with(&first.damage.to_string()), "{reason}");
    let copy = first.aside.as_ref().unwrap();
    assert_eq!(copy.parent(), Some(directory.path()));
    assert_eq!(fs::read(copy).unwrap(), aside, "{reason}");
    assert_eq!(embedded::repair(directory.path()).unwrap(), []);
    let there: Vec<bool> = (0..all.len()).map(|one| !lost.contains(&one)).collect();
    expect(directory, all, &there).await;
    // Later writes are kept as always.
    put_content(directory, b"later").await;
    expect(directory, all, &there).await;
}

#[tokio::test]
async fn any_byte_that_is_flipped_in_a_batch_with_whole_ones_behind_it_is_found_and_costs_that_batch()
 {
    // One bit of each byte of the head, the item's head, its key and the end is flipped, and of every seventh
    // byte of the value.
    for bit in [0, 2, 7] {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 5).await;
        let (path, whole) = journal(&directory);
        let Written { from, to, .. } = all[1];
        let heads = from + HEAD + ITEM_HEAD + 40;
        let places = (from..to).filter(|at| *at < heads || *at >= to - 13 || at % 7 == 0);
        for at in places {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            let found = embedded::damages(directory.path()).unwrap();
            let is_sequence = (from + 5..from + HEAD).contains(&at);
            if is_sequence {
                // Any number between those of its neighbours is accepted.
                for damage in found {
                    assert!(matches!(damage.kind, Kind::Misnumbered { .. }), "{damage}");
                }
                continue;
            }
            assert_eq!(found.len(), 1, "byte {} of the batch", at - from);
            let broken = Kind::Broken {
                at: from as u64,
                bytes: (to - from) as u64,
            };
            assert_eq!((found[0].kind, found[0].whole_behind), (broken, 3));
        }
    }
}

#[tokio::test]
async fn a_broken_tag_type_length_or_end_is_refused_and_mended() {
    let item = HEAD;
    for (place, flip) in [
        // The tag of the batch and of its item, the item's type, key length and lengths, the tag of the end,
        // and the last byte.
        (0, 1),
        (item, 4),
        (item + 1, 8),
        (item + 11, 64),
        (item + 13, 0x20),
        (item + 17, 0x20),
        (usize::MAX - 12, 1),
        (usize::MAX, 1),
    ] {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 6).await;
        let (path, mut bytes) = journal(&directory);
        let Written { from, to, .. } = all[2];
        let at = if place > PAGE {
            to - 1 - (usize::MAX - place)
        } else {
            from + place
        };
        bytes[at] ^= flip;
        fs::write(&path, &bytes).unwrap();
        mended(&directory, &all, 2..3, &bytes[from..to]).await;
    }
}

#[tokio::test]
async fn a_sequence_number_out_of_order_is_refused_and_put_right_without_loss() {
    // The number goes down, up, or far up, in a batch in the middle and in the last one.
    for (batch, flip) in [
        (3, (5, 1)),
        (3, (5, 0x40)),
        (3, (11, 0x7f)),
        (5, (11, 0x7f)),
        (0, (12, 0x40)),
    ] {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 6).await;
        let (path, mut bytes) = journal(&directory);
        let (from, (at, flip)) = (all[batch].from, flip);
        let before = bytes[from + 5];
        bytes[from + at] ^= flip;
        if at == 5 && flip == 1 {
            // The number becomes that of the batch before it.
            bytes[from + 5] = before - 1;
        }
        fs::write(&path, &bytes).unwrap();
        let head = bytes[from..from + HEAD].to_vec();
        mended(&directory, &all, 0..0, &head).await;
    }
}

#[tokio::test]
async fn a_page_of_zeros_in_the_newest_journal_is_refused_and_costs_the_batches_in_it() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 120).await;
    let (path, mut bytes) = journal(&directory);
    let end = used(&bytes);
    let page = (end / 2) / PAGE * PAGE..(end / 2) / PAGE * PAGE + PAGE;
    bytes[page.clone()].fill(0);
    fs::write(&path, &bytes).unwrap();
    let first = all.iter().position(|one| one.to > page.start).unwrap();
    let behind = all.iter().position(|one| one.from >= page.end).unwrap();
    assert!(first > 10 && behind < 110);
    let lost = all[first].from..all[behind].from;
    mended(&directory, &all, first..behind, &bytes[lost]).await;
}

/// Makes two journals of one, so that the older one is sealed.
pub(super) fn seal(path: &Path, bytes: &[u8], at: usize) -> PathBuf {
    let newer = path.with_file_name("1.jnl");
    fs::write(path, &bytes[..at]).unwrap();
    fs::write(&newer, &bytes[at..used(bytes)]).unwrap();
    newer
}

#[tokio::test]
async fn a_sealed_journal_that_is_damaged_anywhere_is_refused_and_mended() {
    // The damage is in the middle, or at the end, where the newest journal may be torn.
    for (batch, count) in [(2, 1), (4, 1), (3, 2)] {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 8).await;
        let (path, mut bytes) = journal(&directory);
        let lost = all[batch].from..all[batch + count - 1].to;
        bytes[lost.start + HEAD..lost.end - 3].fill(0);
        seal(&path, &bytes, all[4].to);
        let aside = bytes[lost].to_vec();
        mended(&directory, &all, batch..batch + count, &aside).await;
    }
}

#[tokio::test]
async fn a_sealed_journal_that_is_torn_with_nothing_whole_behind_is_cut_off() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 3).await;
    let (path, bytes) = journal(&directory);
    let newer = seal(&path, &bytes, all[2].to - 5);
    fs::write(&newer, [0; 100]).unwrap();
    unsynced(&directory);
    expect(&directory, &all, &[true, true, false]).await;
}

#[tokio::test]
async fn a_journal_that_is_missing_between_others_is_refused_and_an_empty_one_put_there() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 6).await;
    let (path, bytes) = journal(&directory);
    let newer = seal(&path, &bytes, all[3].to);
    fs::rename(&newer, path.with_file_name("2.jnl")).unwrap();
    let reason = refused(directory.path());
    assert!(
        reason.contains("1.jnl is missing, and 2 whole batches lie in later ones"),
        "{reason}"
    );
    let repaired = embedded::repair(directory.path()).unwrap();
    assert_eq!((repaired.len(), &repaired[0].aside), (1, &None));
    expect(&directory, &all, &[true; 6]).await;
}

#[tokio::test]
async fn places_in_several_journals_are_mended_one_by_one_and_a_repair_that_was_ended_goes_on() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 9).await;
    let (path, mut bytes) = journal(&directory);
    for batch in [1, 3, 7] {
        bytes[all[batch].from + HEAD] = 0;
    }
    seal(&path, &bytes, all[4].to);
    // A repair that was killed before the rename leaves these files.
    fs::write(path.with_extension("mended"), &bytes[..all[0].to]).unwrap();
    fs::write(
        directory
            .path()
            .join(format!("damaged-0.jnl-{}", all[1].from)),
        "half",
    )
    .unwrap();
    let repaired = embedded::repair(directory.path()).unwrap();
    let behind: Vec<u64> = repaired.iter().map(|one| one.damage.whole_behind).collect();
    assert_eq!(behind, [5, 4, 1]);
    let there: Vec<bool> = (0..9).map(|one| ![1, 3, 7].contains(&one)).collect();
    expect(&directory, &all, &there).await;
    assert!(!path.with_extension("mended").exists());
}

#[tokio::test]
async fn a_directory_in_use_is_not_repaired_and_one_that_is_whole_is_left_alone() {
    let directory = TempDir::new().unwrap();
    assert_eq!(embedded::repair(directory.path()).unwrap(), []);
    let all = written(&directory, 3).await;
    let before = journal(&directory).1;
    let store = open(directory.path());
    let says = embedded::repair(directory.path()).unwrap_err().to_string();
    assert!(says.contains("in use by process"), "{says}");
    drop(store);
    assert_eq!(embedded::repair(directory.path()).unwrap(), []);
    assert_eq!(used(&before), used(&journal(&directory).1));
    expect(&directory, &all, &[true; 3]).await;
}
