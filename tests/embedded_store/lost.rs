//! A directory that lost what was synced, or a file, is refused with words for people, and nothing is begun anew in its place.

use std::{fs, path::PathBuf};

use tempfile::TempDir;
use tickwheel::{
    store::{
        Error,
        embedded::{self, Mode, journal::Kind},
    },
    time_source::TimeSource,
};

use super::{
    damage::{HEAD, expect, journal, put_content, refused, seal, used, written},
    settings,
};

#[tokio::test]
async fn batches_that_were_synced_and_are_missing_at_the_end_are_refused_and_given_up_by_a_repair()
{
    for case in 0..5 {
        let directory = TempDir::new().unwrap();
        let all = written(&directory, 5).await;
        let (path, mut bytes) = journal(&directory);
        let (says, there) = match case {
            0 => ("was cut off: its last batch has", 4),
            1 => ("was cut off: its last batch has", 2),
            2 => ("was cut off: it has no batch", 0),
            3 => ("was cut off: its last batch has", 4),
            _ => ("is missing, which was written last", 0),
        };
        match case {
            0 => bytes.truncate(all[4].from),
            1 => bytes.truncate(all[2].from + HEAD),
            2 => bytes.clear(),
            // A crash does not garble what was synced.
            3 => bytes[all[4].from + HEAD] ^= 1,
            _ => {}
        }
        if case == 4 {
            fs::remove_file(&path).unwrap();
        } else {
            fs::write(&path, &bytes).unwrap();
        }
        let reason = refused(directory.path());
        assert!(reason.contains(says), "{case}: {reason}");
        let found = embedded::damages(directory.path()).unwrap();
        let repaired = embedded::repair(directory.path()).unwrap();
        assert_eq!((found.len(), repaired.len()), (1, 1), "{case}");
        assert_eq!(
            (&repaired[0].damage, &repaired[0].aside),
            (&found[0], &None)
        );
        assert_eq!(embedded::repair(directory.path()).unwrap(), [], "{case}");
        let there: Vec<bool> = (0..5).map(|one| one < there).collect();
        expect(&directory, &all, &there).await;
        // Later writes are watched again.
        put_content(&directory, b"later").await;
        let (path, bytes) = newest(&directory);
        fs::write(&path, &bytes[..used(&bytes) / 2]).unwrap();
        refused(directory.path());
    }
}

/// The newest journal, of whatever number, and its bytes.
fn newest(directory: &TempDir) -> (PathBuf, Vec<u8>) {
    let files = fs::read_dir(directory.path().join("store")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let journals = paths.filter(|path| path.extension().is_some_and(|e| e == "jnl"));
    let path = journals.max().unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[tokio::test]
async fn a_newest_journal_that_is_missing_behind_others_is_refused() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 4).await;
    let (path, bytes) = journal(&directory);
    let newer = seal(&path, &bytes, all[2].to);
    // The next start notes that it writes the newer one.
    put_content(&directory, b"in the newer one").await;
    fs::remove_file(&newer).unwrap();
    let reason = refused(directory.path());
    assert!(
        reason.contains("1.jnl is missing, which was written last"),
        "{reason}"
    );
    assert_eq!(embedded::repair(directory.path()).unwrap().len(), 1);
    expect(&directory, &all, &[true, true, true, false]).await;
}

#[tokio::test]
async fn a_part_of_the_database_without_its_name_is_refused_and_not_begun_anew() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 3).await;
    let parts = directory.path().join("store/keyspaces");
    for part in 0..=7 {
        let current = parts.join(part.to_string()).join("current");
        let bytes = fs::read(&current).unwrap();
        fs::remove_file(&current).unwrap();
        for _ in 0..2 {
            let open = || {
                let settings = settings(directory.path(), Mode::Threaded);
                embedded::Store::open(settings, &TimeSource::real())
            };
            let Err(Error::Corrupt { reason, .. }) = open() else {
                panic!("part {part} was begun anew");
            };
            let named = format!("the file {} is missing", current.display());
            assert!(reason.contains(&named), "{reason}");
            assert!(reason.contains("tickwheel backup restore"), "{reason}");
            let found = embedded::damages(directory.path()).unwrap();
            assert_eq!(
                found.iter().map(|one| one.kind).collect::<Vec<_>>(),
                [Kind::Nameless]
            );
            let repaired = embedded::repair(directory.path()).unwrap();
            assert!(repaired.is_empty(), "{repaired:?}");
        }
        // A repair of the journal does not forget that the part was there. It gives up what was synced, once.
        let (path, whole) = journal(&directory);
        fs::write(&path, &whole[..all[2].from]).unwrap();
        let repaired = embedded::repair(directory.path()).unwrap();
        assert_eq!(repaired.len(), usize::from(part == 0), "part {part}");
        fs::write(&path, &whole).unwrap();
        let found = embedded::damages(directory.path()).unwrap();
        let kinds = found.iter().map(|one| one.kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [Kind::Nameless], "part {part}");
        fs::write(&current, bytes).unwrap();
        expect(&directory, &all, &[true; 3]).await;
    }
    for name in ["version", "lock"] {
        let file = directory.path().join("store").join(name);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let found = embedded::damages(directory.path()).unwrap();
        assert_eq!(
            found.iter().map(|one| &one.file).collect::<Vec<_>>(),
            [&file]
        );
        fs::write(&file, bytes).unwrap();
        expect(&directory, &all, &[true; 3]).await;
    }
}

#[tokio::test]
async fn a_description_of_the_directory_that_is_damaged_or_missing_is_refused() {
    let directory = TempDir::new().unwrap();
    let all = written(&directory, 2).await;
    let file = directory.path().join("FORMAT");
    let whole = fs::read_to_string(&file).unwrap();
    let open = || {
        embedded::Store::open(
            settings(directory.path(), Mode::Threaded),
            &TimeSource::real(),
        )
    };
    for (text, says) in [
        (
            whole.replace("wheels", "whe\0ls"),
            "is not as it was written: restore it",
        ),
        (
            whole.replace("format=", "fo="),
            "does not say which format it is of: restore it",
        ),
        (String::new(), "does not say which format it is of"),
    ] {
        fs::write(&file, text).unwrap();
        let reason = open().unwrap_err().to_string();
        assert!(reason.contains(says), "{reason}");
    }
    fs::remove_file(&file).unwrap();
    let shape = settings(directory.path(), Mode::Threaded).shape;
    for reason in [
        open().unwrap_err().to_string(),
        embedded::inspect(directory.path(), &shape)
            .unwrap_err()
            .to_string(),
    ] {
        assert!(reason.contains("FORMAT is missing"), "{reason}");
    }
    fs::write(&file, whole).unwrap();
    expect(&directory, &all, &[true; 2]).await;
}
