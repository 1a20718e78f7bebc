//! These targets damage the files of a data directory: its header, its lock and its journal.
//!
//! The store repairs damage that a crash of the machine leaves. It refuses all other damage in a sentence, or
//! reads up to it. No thread may panic.

use std::{
    fs, panic,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tickwheel::{
    model::{time::TickLength, wheel::Shape},
    schema::encode_spec,
    store::{
        Error, WheelStore,
        embedded::{Mode, Settings, Store, inspect, journal, repair},
    },
    time_source::TimeSource,
};

use super::{run::Target, samples::entries};

/// There are few wheels: the first batch holds their clocks, and long inputs are cut.
fn shape() -> Shape {
    Shape::new(4, TickLength::new(Duration::from_secs(1)).unwrap(), 1000).unwrap()
}

fn open(directory: &Path) -> Result<Arc<Store>, Error> {
    let settings = Settings {
        mode: Mode::Inline,
        ..Settings::new(directory, shape())
    };
    Store::open(settings, &TimeSource::real())
}

/// A directory in which some entries were written.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let store = open(directory.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for entry in [entries(), entries(), entries()].concat() {
        assert!(!encode_spec(&entry.spec).is_empty());
        let put = runtime.block_on(store.put_entries(&[entry]));
        assert!(put.iter().all(Result::is_ok), "{put:?}");
    }
    drop(store);
    directory
}

fn journal_of(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory.join("store")).unwrap();
    let mut journals: Vec<PathBuf> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    journals.sort();
    journals.pop().unwrap()
}

/// The written part of a journal, whose file is longer.
fn written(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

#[test]
fn the_damage_of_a_journal() {
    let directory = directory();
    let path = journal_of(directory.path());
    let bytes = written(&path);
    assert!(bytes.len() > 1000, "{} bytes", bytes.len());
    let target = Target {
        name: "journal_outline",
        samples: vec![bytes],
        words: &["FJL\u{3}", "\u{1}", "\u{2}", "\u{3}", "\u{4}"],
        bytes_max: (1024 * 1024, 16),
        seconds: 2,
    };
    target.run(|bytes| {
        fs::write(&path, bytes).unwrap();
        let is_whole = journal::damages(&directory.path().join("store"))
            .unwrap()
            .is_empty();
        if !is_whole {
            // A repaired journal has no damage any more.
            repair(directory.path()).unwrap();
            assert_eq!(
                journal::damages(&directory.path().join("store")).unwrap(),
                []
            );
        }
        is_whole
    });
}

#[test]
fn the_header_of_a_directory() {
    let directory = directory();
    let header = fs::read(directory.path().join("FORMAT")).unwrap();
    let target = Target {
        name: "format",
        samples: vec![header],
        words: &["format=", "wheels=", "tick_ms=", "slots=", "\n", "="],
        bytes_max: (64 * 1024, 64),
        seconds: 2,
    };
    target.run(|bytes| {
        fs::write(directory.path().join("FORMAT"), bytes).unwrap();
        match inspect(directory.path(), &shape()) {
            Ok(_) => true,
            Err(error @ (Error::Unsuitable { .. } | Error::Corrupt { .. })) => {
                assert!(!error.to_string().is_empty());
                false
            }
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn a_directory_whose_journal_is_damaged() {
    let panics = panics_of_the_database();
    let directory = directory();
    let path = journal_of(directory.path());
    let length = fs::metadata(&path).unwrap().len();
    let target = Target {
        name: "journal",
        samples: vec![written(&path)],
        words: &["FJL\u{3}"],
        // The database needs these buffers.
        bytes_max: (64 * 1024 * 1024, 64),
        seconds: 6,
    };
    let whole = TempDir::new().unwrap();
    copy(directory.path(), whole.path());
    target.run(|bytes| {
        let again = TempDir::new().unwrap();
        copy(whole.path(), again.path());
        let path = journal_of(again.path());
        fs::write(&path, bytes).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length.max(bytes.len() as u64))
            .unwrap();
        let opened = open(again.path());
        assert_eq!(panics.load(Ordering::SeqCst), 0, "a thread panicked");
        match opened {
            Ok(_) => true,
            Err(Error::Unsuitable { reason } | Error::Corrupt { reason, .. }) => {
                assert!(!reason.is_empty());
                false
            }
            Err(error) => panic!("{error}"),
        }
    });
}

/// Counts panics of threads that do not belong to a test and that no test waits for.
fn panics_of_the_database() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, before) = (Arc::clone(&panics), panic::take_hook());
    panic::set_hook(Box::new(move |panicked| {
        let is_test = thread::current()
            .name()
            .is_some_and(|name| name.contains("::"));
        counted.fetch_add(usize::from(!is_test), Ordering::SeqCst);
        // The store catches panics of the database about a damaged journal, and reports them in words.
        let caught = panicked
            .location()
            .is_some_and(|at| at.file().contains("fjall"));
        if !is_test || !caught {
            before(panicked);
        }
    }));
    panics
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let there = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy(&file.path(), &there);
        } else {
            fs::copy(file.path(), there).unwrap();
        }
    }
}
