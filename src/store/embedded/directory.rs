//! The data directory: who may use it, and whether what lies there is ours.
//!
//! `LOCK` is held for as long as the store is open and names the process that holds it. `FORMAT` says what `store/` is made
//! of; it is written last when a directory is set up, so a directory without it holds nothing that anybody was promised.
//! Every refusal is a sentence that says what to do.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::journal::{self, Damage, Repaired};
use crate::{
    model::{time::Millis, wheel::Shape},
    store::Error,
};

/// Version of what this program writes; raise it when keys or values change.
const FORMAT: &str = "3";

/// Versions that it reads as well: a directory of one becomes one of [`FORMAT`] when it is opened.
const FORMATS_BEFORE: [&str; 1] = ["2"];

/// How often the lock is tried, and how long is waited in between: a second together.
const LOCK_TRIES: u32 = 50;
const LOCK_NAP: Duration = Duration::from_millis(20);

/// A clock that shows less is wrong: this program did not exist then.
const CLOCK_MIN: Millis = Millis(1_735_689_600_000);

/// The directory, locked.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Unlocked when it is closed.
    _lock: File,
}

fn unsuitable(reason: String) -> Error {
    Error::Unsuitable { reason }
}

/// Says what to do about a file that cannot be used.
pub(super) fn refused(path: &Path, error: &io::Error) -> Error {
    let shown = path.display();
    let reason = match error.kind() {
        // There may be room later: whoever starts waits for it.
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            return Error::Full {
                reason: format!("there is no space left for {shown}: free some ({error})"),
            };
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => format!(
            "{shown} is not a directory, or lies below something that is none: choose another data directory"
        ),
        ErrorKind::PermissionDenied => format!(
            "{shown} must be readable and writable for this user: change its owner or its mode ({error})"
        ),
        ErrorKind::ReadOnlyFilesystem => {
            format!("{shown} is on a file system that is mounted read-only: mount it writable")
        }
        _ => format!("{shown} cannot be used: {error}"),
    };
    unsuitable(reason)
}

impl Directory {
    /// Creates the directory if need be, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|error| refused(path, &error))?;
        let file = path.join("LOCK");
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&file);
        let mut lock = opened.map_err(|error| refused(&file, &error))?;
        match locked(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(unsuitable(format!(
                    "{} is in use by {}: stop it, or choose another data directory",
                    path.display(),
                    named_in(&mut lock)
                )));
            }
            Err(TryLockError::Error(error)) => return Err(refused(&file, &error)),
        }
        let name = std::process::id().to_string();
        let named = lock
            .set_len(0)
            .and_then(|()| lock.write_all(name.as_bytes()));
        match named {
            // A full disk has no room for the name; the lock holds without it.
            Err(error) if error.kind() != ErrorKind::StorageFull => {
                return Err(refused(&file, &error));
            }
            Ok(()) | Err(_) => {}
        }
        Ok(Self {
            path: path.to_path_buf(),
            _lock: lock,
        })
    }

    /// Its name, for people.
    pub(super) fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Where the database lies.
    pub(super) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Checks that what lies here has a format that we read, and this shape. None: nothing lies here yet.
    pub(super) fn check(&self, shape: &Shape) -> Result<Option<Format>, Error> {
        check(&self.path, shape)
    }

    /// Declares a directory that is set up one of the format that this program writes: to be done before anything is written,
    /// so that no earlier program takes what it cannot read. Needs room for a file on the disk.
    pub(super) fn raise(&self, from: Format, shape: &Shape) -> Result<(), Error> {
        match from {
            // Whoever declared it may have died before that was durable.
            Format::Ours => sync_directory(&self.path).map_err(|error| refused(&self.path, &error)),
            Format::Before => {
                self.set_up(shape)?;
                tracing::info!(
                    path = %self.shown(),
                    "the directory is of format {FORMAT} now: no earlier version opens it any more"
                );
                Ok(())
            }
        }
    }

    /// Refuses to set a directory up by a clock that is years behind: its wheels would begin there, and walk through every tick
    /// of those years once the clock is right.
    pub(super) fn check_clock(&self, now: Millis) -> Result<(), Error> {
        if now >= CLOCK_MIN {
            return Ok(());
        }
        let seconds = now.0.div_euclid(1000);
        Err(unsuitable(format!(
            "the clock of this machine shows {seconds} s since 1970, which is before 2025: set it right (NTP) before {} is set up",
            self.shown()
        )))
    }

    /// Declares the directory set up.
    pub(super) fn set_up(&self, shape: &Shape) -> Result<(), Error> {
        let mut text = format!("tickwheel data directory\nformat={FORMAT}\n");
        for (name, value) in shape_of(shape) {
            text.push_str(&format!("{name}={value}\n"));
        }
        let (file, new) = (self.path.join("FORMAT"), self.path.join("FORMAT.new"));
        let write = || {
            let mut written = File::create(&new)?;
            written.write_all(text.as_bytes())?;
            sync(&written)?;
            fs::rename(&new, &file)?;
            sync_directory(&self.path)
        };
        write().map_err(|error| refused(&file, &error))
    }
}

/// What a directory that is set up was written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// This version, or one that writes the same.
    Ours,
    /// An earlier version: what it wrote is read, and it will not open the directory once this one has.
    Before,
}

/// Takes the lock, if it is free within a second: whoever inspects the directory holds it for an instant.
fn locked(lock: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_NAP),
            result => return result,
        }
    }
    lock.try_lock()
}

/// Who holds a lock, for people.
fn named_in(lock: &mut File) -> String {
    let mut holder = String::new();
    match lock.read_to_string(&mut holder) {
        Ok(1..) => format!("process {}", holder.trim()),
        Ok(0) | Err(_) => "another process".to_owned(),
    }
}

/// What a data directory is, as far as it can be seen without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It does not exist, or nothing was set up in it yet.
    Nothing,
    /// Whole, and nobody uses it.
    Free(Format),
    /// In use, by whom.
    InUse(String),
}

/// Looks at a data directory and changes nothing. A process that starts in the same instant may find it in use.
///
/// # Errors
/// When it cannot be used as asked; the reason says what to do.
pub fn inspect(path: &Path, shape: &Shape) -> Result<Found, Error> {
    let file = path.join("LOCK");
    let mut lock = match File::open(&file) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(refused(&file, &error)),
    };
    let format = check(path, shape)?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(format.map_or(Found::Nothing, Found::Free)),
        Err(TryLockError::WouldBlock) => Ok(Found::InUse(named_in(&mut lock))),
        Err(TryLockError::Error(error)) => Err(refused(&file, &error)),
    }
}

/// Lists what is damaged in the journals of a data directory that no process uses, and changes nothing.
///
/// # Errors
/// When it cannot be read; the reason says what to do.
pub fn damages(path: &Path) -> Result<Vec<Damage>, Error> {
    let store = path.join("store");
    if !store.is_dir() {
        return Ok(Vec::new());
    }
    journal::damages(&store).map_err(|error| refused(&store, &error))
}

/// Sets aside what is damaged in the journals of a data directory, as files in it, and keeps everything that is whole.
///
/// # Errors
/// [`Error::Unsuitable`] when a process uses it, or when it cannot be written; it can be called again then.
pub fn repair(path: &Path) -> Result<Vec<Repaired>, Error> {
    let store = path.join("store");
    if !store.is_dir() {
        return Ok(Vec::new());
    }
    let _locked = Directory::lock(path)?;
    journal::repair(&store, path).map_err(|error| refused(&store, &error))
}

/// Checks that what lies in a directory has a format that we read, and this shape. None: nothing lies there yet.
fn check(path: &Path, shape: &Shape) -> Result<Option<Format>, Error> {
    let file = path.join("FORMAT");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(refused(&file, &error)),
    };
    let shown = path.display();
    let found = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix('=')).map(str::trim)
    };
    let format = match found("format") {
        Some(FORMAT) => Format::Ours,
        Some(format) if FORMATS_BEFORE.contains(&format) => Format::Before,
        Some(other) => {
            return Err(unsuitable(format!(
                "{shown} has format {other}, this program writes format {FORMAT} and reads {} as well: use the program \
                 that made it, or another data directory",
                FORMATS_BEFORE.join(", ")
            )));
        }
        None => {
            return Err(Error::Corrupt {
                operation: "open the data directory",
                reason: format!("{} does not say which format it is of", file.display()),
            });
        }
    };
    for (name, wanted) in shape_of(shape) {
        let there = found(name).unwrap_or("unknown");
        if there != wanted {
            return Err(unsuitable(format!(
                "{shown} was set up with {name} = {there}, but {wanted} is configured: configure {there}, or choose \
                 another data directory"
            )));
        }
    }
    let store = path.join("store");
    if !store.is_dir() {
        return Err(Error::Corrupt {
            operation: "open the data directory",
            reason: format!(
                "{} is missing: restore it, or remove {} to begin anew",
                store.display(),
                file.display()
            ),
        });
    }
    Ok(Some(format))
}

/// The parts of the shape, as they are written.
fn shape_of(shape: &Shape) -> [(&'static str, String); 3] {
    [
        ("wheels", shape.wheels().to_string()),
        ("tick_ms", shape.tick().duration().as_millis().to_string()),
        ("slots", shape.slots().to_string()),
    ]
}

/// Makes names in a directory durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    sync(&File::open(path)?)
}

/// Waits until a file is on the disk.
pub(super) fn sync(file: &File) -> io::Result<()> {
    file.sync_all()?;
    #[cfg(test)]
    tests::SYNCS.set(tests::SYNCS.get() + 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::embedded::tests::shape;

    thread_local! {
        /// Files and directories that this thread has waited for.
        pub(super) static SYNCS: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn a_directory_that_is_being_looked_at_is_waited_for_and_one_in_use_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let in_use = Directory::lock(directory.path()).unwrap();
        let refusal = Directory::lock(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains("in use by process"), "{refusal}");
        drop(in_use);
        let looking = File::open(directory.path().join("LOCK")).unwrap();
        looking.try_lock_shared().unwrap();
        let looking = std::thread::spawn(move || {
            std::thread::park_timeout(LOCK_NAP * 3);
            drop(looking);
        });
        Directory::lock(directory.path()).unwrap();
        looking.join().unwrap();
    }

    #[test]
    fn a_directory_is_not_set_up_by_a_clock_that_lost_its_time() {
        let directory = tempfile::tempdir().unwrap();
        let locked = Directory::lock(directory.path()).unwrap();
        for wrong in [0, 951_782_400_000, CLOCK_MIN.0 - 1] {
            let refusal = locked.check_clock(Millis(wrong)).unwrap_err().to_string();
            assert!(refusal.contains("set it right (NTP)"), "{refusal}");
        }
        locked.check_clock(CLOCK_MIN).unwrap();
    }

    #[test]
    fn a_header_is_on_the_disk_before_it_has_its_name_and_its_name_before_anything_else() {
        let directory = tempfile::tempdir().unwrap();
        let locked = Directory::lock(directory.path()).unwrap();
        let before = SYNCS.get();
        locked.set_up(&shape(2)).unwrap();
        assert_eq!(SYNCS.get() - before, 2, "the file, and its directory");
    }
}
