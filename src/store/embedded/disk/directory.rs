//! The data directory gives the store the right to use it: it checks that no other process does, and that its
//! contents are ours.
//!
//! `LOCK` is held for as long as the store is open and names the process that holds it. `FORMAT` says what
//! `store/` is made of, with a check sum. It is written last when a directory is set up, so a directory without it holds no
//! promises to anybody. Every refusal is a sentence that says what to do.

use std::{
    fs::{self, File, TryLockError},
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ballast::Ballast,
    tables::{self, CheckedTables},
};
use crate::{
    model::{time::Millis, wheel::Shape},
    store::{
        Error,
        embedded::{
            faults::refused,
            journal::{self, Damage, Repaired, witness},
            private,
            sealed::{Seal, seal_of, sealed},
            sync::{sync, sync_directory},
        },
    },
};

/// The version of the format that this program reads and writes: that of the first release, 0.2.0. Raise it when keys or values
/// change, and when there is a new kind of data that an earlier program must not pass over; read the one before as well then.
pub(in crate::store::embedded) const FORMAT: &str = "4";

/// How often the lock is tried, and how long each wait in between is: a second together.
const LOCK_TRIES: u32 = 50;
const LOCK_NAP: Duration = Duration::from_millis(20);

/// A clock that shows less is wrong, because this program did not exist then.
const CLOCK_MIN: Millis = Millis(1_735_689_600_000);

/// The directory, locked.
#[derive(Debug)]
pub(in crate::store::embedded) struct Directory {
    path: PathBuf,
    /// The lock, released when the file is closed.
    _lock: File,
}

fn unsuitable(reason: String) -> Error {
    Error::Unsuitable { reason }
}

impl Directory {
    /// Creates the directory if need be, and locks it.
    pub(in crate::store::embedded) fn lock(path: &Path) -> Result<Self, Error> {
        private::create_directory(path).map_err(|error| refused(path, &error))?;
        if let Some(open) = private::open_to_others(path) {
            let open = open.display();
            tracing::warn!(
                "others than the owner can read {open}, which holds payloads and secrets: chmod -R go= {}",
                path.display()
            );
        }
        let file = path.join("LOCK");
        if file.is_symlink() {
            let shown = file.display();
            return Err(unsuitable(format!(
                "{shown} is a link, which is not followed: remove it"
            )));
        }
        let mut options = private::options();
        let options = options.create(true).truncate(false).read(true);
        let opened = options.open(&file);
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

    /// Returns its name, for people.
    pub(in crate::store::embedded) fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Returns its path.
    pub(in crate::store::embedded) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the database.
    pub(in crate::store::embedded) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Returns its ballast, of so many bytes when it is whole.
    pub(in crate::store::embedded) fn ballast(&self, bytes: u64) -> Ballast {
        Ballast::of(&self.path, bytes)
    }

    /// Checks that the contents have our format, and this shape. Returns whether the directory is set up; it is empty so far
    /// otherwise.
    pub(in crate::store::embedded) fn check(&self, shape: &Shape) -> Result<bool, Error> {
        check(&self.path, shape)
    }

    /// Makes the declaration of a directory that is set up durable: the process that wrote it may have died before.
    pub(in crate::store::embedded) fn sync(&self) -> Result<(), Error> {
        sync_directory(&self.path).map_err(|error| refused(&self.path, &error))
    }

    /// Refuses to set a directory up by a clock that is years behind. Its wheels would begin there, and walk
    /// through every tick of those years once the clock is right.
    pub(in crate::store::embedded) fn check_clock(&self, now: Millis) -> Result<(), Error> {
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
    pub(in crate::store::embedded) fn set_up(&self, shape: &Shape) -> Result<(), Error> {
        let text = format!(
            "tickwheel data directory\nformat={FORMAT}\n{}",
            lines_of(shape)
        );
        let text = sealed(text);
        let (file, new) = (self.path.join("FORMAT"), self.path.join("FORMAT.new"));
        let write = || {
            let mut written = private::create_anew(&new)?;
            written.write_all(text.as_bytes())?;
            sync(&written)?;
            fs::rename(&new, &file)?;
            sync_directory(&self.path)
        };
        write().map_err(|error| refused(&file, &error))
    }
}

/// Takes the lock if it is free within a second, since an inspection of the directory holds it for an
/// instant.
fn locked(lock: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_NAP),
            result => return result,
        }
    }
    lock.try_lock()
}

/// Returns the holder of a lock, for people.
fn named_in(lock: &mut File) -> String {
    let mut holder = String::new();
    match lock.read_to_string(&mut holder) {
        Ok(1..) => format!("process {}", holder.trim()),
        Ok(0) | Err(_) => "another process".to_owned(),
    }
}

/// The state of a data directory, as far as it can be seen without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It does not exist, or nothing was set up in it yet.
    Nothing,
    /// Whole, and no process uses it.
    Free,
    /// In use, with the name of its user.
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
    let is_set_up = check(path, shape)?;
    match lock.try_lock_shared() {
        Ok(()) if is_set_up => Ok(Found::Free),
        Ok(()) => Ok(Found::Nothing),
        Err(TryLockError::WouldBlock) => Ok(Found::InUse(named_in(&mut lock))),
        Err(TryLockError::Error(error)) => Err(refused(&file, &error)),
    }
}

/// Lists the damage in the journals of a data directory that no process uses, and changes nothing.
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

/// Reads all files of the database of a data directory beside its journals, and compares them with their check sums. Changes
/// nothing, and may be called while a process uses the directory. Tells `read` how many bytes were read, again and again.
/// Blocks for as long as the disk needs for all of them.
///
/// # Errors
/// When the directory cannot be read; the reason says what to do.
pub fn check_tables(path: &Path, read: impl FnMut(u64)) -> Result<CheckedTables, Error> {
    let store = path.join("store");
    if !store.is_dir() {
        return Ok(CheckedTables::default());
    }
    tables::check(&store, read).map_err(|error| refused(&store, &error))
}

/// Sets aside the damaged parts of the journals of a data directory, as files in it, and keeps everything
/// that is whole.
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

/// Reads the description of a directory; none where it was not set up.
fn described(file: &Path, store: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let was_used = witness::was_used(store).map_err(|error| refused(store, &error))?;
            if !was_used {
                return Ok(None);
            }
            Err(unsuitable(format!(
                "FORMAT is missing beside {}: restore it, or choose another data directory",
                store.display()
            )))
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) => Err(refused(file, &error)),
    }
}

/// Checks that the contents of a directory have our format, and this shape. Returns whether it is set up.
fn check(path: &Path, shape: &Shape) -> Result<bool, Error> {
    let file = path.join("FORMAT");
    let store = path.join("store");
    let Some(text) = described(&file, &store)? else {
        return Ok(false);
    };
    let shown = path.display();
    let found = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix('=')).map(str::trim)
    };
    let corrupt = |what: &str| Error::Corrupt {
        operation: "open the data directory",
        reason: format!("{} {what}: restore it from a copy", file.display()),
    };
    let damaged = |what: &str| corrupt(&format!("does not say {what}"));
    let format = found("format").ok_or_else(|| damaged("which format it is of"))?;
    if format != FORMAT {
        return Err(unsuitable(format!(
            "{shown} has format {format}, and this program reads format {FORMAT}: use the program that made it, or another \
             data directory"
        )));
    }
    // The first directories of 0.2.0 have no sum.
    if seal_of(&text) == Seal::Broken {
        return Err(corrupt("is not as it was written"));
    }
    for (name, wanted) in shape_of(shape) {
        let there = found(name).ok_or_else(|| damaged(&format!("its {name}")))?;
        if there != wanted {
            return Err(unsuitable(format!(
                "{shown} was set up with {name} = {there}, but {wanted} is configured: configure {there}, or choose \
                 another data directory"
            )));
        }
    }
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
    Ok(true)
}

/// Returns the parts of the shape, as they are written.
fn shape_of(shape: &Shape) -> [(&'static str, String); 3] {
    [
        ("wheels", shape.wheels().to_string()),
        ("tick_ms", shape.tick().duration().as_millis().to_string()),
        ("slots", shape.slots().to_string()),
    ]
}

/// Returns the lines that say the shape.
pub(in crate::store::embedded) fn lines_of(shape: &Shape) -> String {
    let line = |(name, value)| format!("{name}={value}\n");
    shape_of(shape).map(line).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::{sync::SYNCS, tests::shape};

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
    fn a_lock_that_is_a_link_is_refused_and_its_target_stays() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        fs::write(&victim, "theirs").unwrap();
        std::os::unix::fs::symlink(&victim, directory.path().join("LOCK")).unwrap();
        let refusal = Directory::lock(directory.path()).unwrap_err().to_string();
        assert!(refusal.contains("is a link"), "{refusal}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs");
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
