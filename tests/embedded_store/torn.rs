//! The store opens a journal whose end a crash has torn, has all rows before the tear, and keeps
//! the cut bytes for people.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::damage::{Written, expect, journal, unsynced, used, written};

/// The part that was cut off and kept.
fn kept(directory: &Path) -> Vec<Vec<u8>> {
    let files = fs::read_dir(directory.join("store")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let torn = paths.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "torn")
    });
    torn.map(|path| fs::read(path).unwrap()).collect()
}

#[tokio::test]
async fn a_last_batch_that_is_cut_short_or_garbled_is_dropped_and_nothing_else() {
    for torn in 0..7 {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 5).await;
        let (path, mut bytes) = journal(&directory);
        let Written { from, to, .. } = all[4];
        let middle = from + (to - from) / 2;
        match torn {
            0 => bytes.truncate(to - 1),
            1 => bytes.truncate(from + 3),
            // Pages that never reached the disk read as zeros.
            2 => bytes[middle..to].fill(0),
            3 => bytes[middle] ^= 0x55,
            4 => bytes[middle..middle + 9].fill(0),
            5 => bytes[from..middle].fill(0),
            _ => bytes[to - 6] ^= 1,
        }
        let cut = bytes[from..used(&bytes)].to_vec();
        fs::write(&path, bytes).unwrap();
        unsynced(&directory);
        let there: Vec<bool> = (0..5).map(|batch| batch < 4).collect();
        expect(&directory, &all, &there).await;
        expect(&directory, &all, &there).await;
        assert_eq!(kept(directory.path()), [cut], "{torn}");
    }
}

#[tokio::test]
async fn garbage_behind_the_last_batch_is_dropped() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 3).await;
    let (path, mut bytes) = journal(&directory);
    bytes.truncate(all[2].to);
    bytes.extend([0xa7; 500]);
    fs::write(&path, bytes).unwrap();
    expect(&directory, &all, &[true; 3]).await;
    assert_eq!(kept(directory.path()), [vec![0xa7; 500]]);
}

/// A client may send the bytes of a journal as its content; a torn end that holds them is no
/// damage for that reason.
#[tokio::test]
async fn a_torn_batch_whose_payload_looks_like_a_journal_is_dropped() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 3).await;
    let (_, bytes) = journal(&directory);
    let whole = bytes[all[0].from..all[2].to].to_vec();
    super::damage::put_content(&directory, &whole).await;
    let (path, mut bytes) = journal(&directory);
    let begins = (all[2].to..bytes.len())
        .find(|at| bytes[*at..].starts_with(&whole))
        .unwrap();
    bytes.truncate(begins + whole.len() + 2);
    fs::write(&path, &bytes).unwrap();
    unsynced(&directory);
    expect(&directory, &all, &[true; 3]).await;
    assert_eq!(kept(directory.path()).len(), 1);
}
