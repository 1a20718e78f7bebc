//! The restorer makes a data directory of a backup, and checks backups, for the operator.
//!
//! The rows go into a database that has no name yet. It gets its name when the last piece was read and everything is on the
//! disk, and the directory is declared set up last of all. A crash before leaves a directory that holds nothing.

use std::{fs, io, path::Path};

use fjall::PersistMode;

use super::{
    format::{Counts, End, Head, Part},
    row::Row,
    source::Source,
};
use crate::store::{
    Error,
    embedded::{
        disk::{
            database::{self, Open, Space},
            directory::Directory,
        },
        faults::{fault, refused},
        key, shape,
        sync::sync_directory,
    },
};

/// The name of the database until it is whole.
const HALF_MADE: &str = "store.restored";

/// A backup that was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Its head.
    pub head: Head,
    /// Its rows.
    pub counts: Counts,
}

/// Reads a backup to its end, and changes nothing.
///
/// # Errors
/// When it is none, is cut off, or damaged; the reason says what to do.
pub fn check(backup: Source<'_>) -> Result<Restored, Error> {
    read(backup, |_, _| Ok(()))
}

/// Makes a data directory of a backup. The directory must be new or empty. It may be used once this has returned.
///
/// # Errors
/// [`Error::Unsuitable`] when the backup or the directory cannot be used, [`Error::Full`] without room; the reason says what to
/// do. The directory holds nothing then, and the call can be repeated.
pub fn restore(backup: Source<'_>, directory: &Path) -> Result<Restored, Error> {
    let locked = Directory::lock(directory)?;
    let store = locked.store();
    if store.exists() || directory.join("FORMAT").exists() {
        let reason = format!(
            "{} holds a store already: restore into a new directory, and start the service with that",
            directory.display()
        );
        return Err(Error::Unsuitable { reason });
    }
    let half = directory.join(HALF_MADE);
    remove(&half)?;
    let filled = fill(backup, &half);
    if filled.is_err() {
        remove(&half)?;
    }
    let restored = filled?;
    let named = fs::rename(&half, &store).and_then(|()| sync_directory(directory));
    named.map_err(|error| refused(&store, &error))?;
    locked.set_up(&restored.head.shape)?;
    Ok(restored)
}

/// Puts the rows of a backup into a new database, and closes it.
fn fill(backup: Source<'_>, path: &Path) -> Result<Restored, Error> {
    let mut database = None;
    let restored = read(backup, |head, rows| {
        let open = match &database {
            Some(open) => open,
            None => {
                database::create(path, &head.shape)?;
                database.insert(database::open(path, &head.shape)?)
            }
        };
        put(open, rows).map_err(|cause| fault("restore a backup", &cause))
    })?;
    let Some(open) = database else {
        let reason = "the backup cannot be used: it has no rows, not even clocks".to_owned();
        return Err(Error::Unsuitable { reason });
    };
    let settled = open.settle_on_disk().and_then(|()| open.sync());
    settled.map_err(|cause| fault("restore a backup", &cause))?;
    Ok(restored)
}

fn put(open: &Open, rows: &[Row]) -> Result<(), fjall::Error> {
    open.wait_for_room()?;
    let mut batch = open.batch();
    for row in rows {
        batch.insert(open.space(row.space), &*row.key, &*row.value);
    }
    // Not synced piece by piece: nothing is promised before the end.
    open.commit(batch, PersistMode::Buffer)
}

/// Hands the rows to `take`, piece by piece, after they were checked.
fn read(
    mut backup: Source<'_>,
    mut take: impl FnMut(&Head, &[Row]) -> Result<(), Error>,
) -> Result<Restored, Error> {
    let head = backup.head();
    loop {
        match backup.read()? {
            Part::Rows(rows) => {
                let of_shape = |row: &&Row| row.space == Space::Clock && *row.key == *key::shape();
                if let Some(row) = rows.iter().find(of_shape) {
                    shape::compare(&row.value, &head.shape, "the head of the backup")?;
                }
                take(&head, &rows)?;
            }
            Part::End(End { counts, .. }) => return Ok(Restored { head, counts }),
        }
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
