//! The embedded store keeps the contract of [`crate::store`] for one machine, on fjall, an LSM tree in this
//! process.
//!
//! # Promises
//! - **Acknowledged means synced**: entries, contents, tasks and rows set aside are on the disk before the
//!   answer. A `kill -9` at any moment loses nothing that was acknowledged, nor does a loss of power.
//! - **One writer** takes the requests of all callers in groups, decides conditions one after the other, and
//!   commits a group by one write and one sync: the throughput comes from this. Reads, except serial ones,
//!   never wait for it.
//! - **One process** has the directory. Another is refused, and so is a later format or another wheel shape,
//!   in a sentence.
//! - **A full disk** stops new tasks ([`Error::Full`]) while the reserve lasts, so that those already there
//!   fire. After any failure the database is opened anew until it works again, without a restart.
//!
//! # Writes that are not synced, and why that is safe
//! These are heartbeats and swaps of clocks. All writes go to one journal in order, and every sync covers all
//! before it. A crash of the process loses none of them (the system has them). A loss of power may turn the
//! newest back:
//! - An older `opened`: slots are closed again, and every entry in them was durable before it was
//!   acknowledged.
//! - An older `fired`: entries are handed over again, which they may be at any time.
//! - An older `erased`: ticks are erased again that may be gone already. Before any go, the clocks that have
//!   passed them are synced.
//! - An older heartbeat: its worker was told that it has its timeout from then on, so each claimed attempt
//!   counts as alive when the store is opened.
//!
//! A write that anybody acts on beyond this process (a claim, a settle, a registration) is synced, with all
//! before it.
//!
//! # Plain writes need no read
//! The write time is part of a row's key, newest first, so a write never looks at the row that it replaces.
//! Readers take the first of each key. A row that is overwritten keeps its old bytes until its tick is
//! erased. Erasing reads and writes no row: a tick is hidden by its wheel's clock, and gone when all clocks
//! have passed the table that it lies in (`erased.rs`).
//!
//! # The format
//! The bytes on the disk are public ([`key`], [`value`], [`record_bytes`], [`journal`]): golden files hold them,
//! and tests read them damaged.
//!
//! # Left to others
//! `queue/` in the same directory; the recovery at a start of messages that were lost with the process
//! ([`Underway`](super::Underway) lists what it needs).

pub mod backup;
mod clock;
mod disk;
mod erased;
mod faults;
pub mod journal;
pub mod key;
mod maintenance;
mod marks;
mod merging;
mod private;
mod reading;
pub mod record_bytes;
mod records;
mod room;
mod sealed;
mod shape;
mod shared;
mod stalls;
mod sync;
#[cfg(test)]
mod sync_tests;
mod tasks;
pub mod value;
mod wheel;
mod writing;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use self::{
    disk::{
        database::{Open, Space},
        directory::Directory,
    },
    faults::fault,
    room::Room,
    shared::Shared,
    writing::{command::Act, group::Group, handle::WriterHandle},
};
pub use self::{
    disk::{
        directory::{Found, check_tables, damages, inspect, repair},
        space::{Probed, probe},
        tables::{CheckedTables, DamagedFile, Defect},
    },
    private::open_to_others,
};
use super::Error;
use crate::{
    limits::EMBEDDED_RESERVE_BYTES,
    model::{
        clock::ClockRow,
        wheel::{Shape, WheelNumber},
    },
    time_source::TimeSource,
};

/// Space that is kept for tasks that are already there.
pub const RESERVE_BYTES_DEFAULT: u64 = EMBEDDED_RESERVE_BYTES;

/// Tells the free bytes of a path's file system.
pub type FreeBytes = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// The thread that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A thread of its own, which waits for the disk.
    Threaded,
    /// The caller, who does not wait for the disk: same decisions, no thread, no real time. For tests in
    /// virtual time.
    Inline,
}

/// The settings of the store.
#[derive(Clone)]
pub struct Settings {
    /// The data directory; created if need be.
    pub directory: PathBuf,
    /// The shape of the wheels, for ever.
    pub shape: Shape,
    /// The thread that writes.
    pub mode: Mode,
    /// With less free space new tasks are refused.
    pub reserve_bytes: u64,
    /// The part of the reserve that is taken as a file, for operators' calls on a full disk; none by default.
    pub ballast_bytes: u64,
    /// The function that tells the free space.
    pub free_bytes: FreeBytes,
}

impl Settings {
    /// Returns the defaults for a directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, shape: Shape) -> Self {
        Self {
            directory: directory.into(),
            shape,
            mode: Mode::Threaded,
            reserve_bytes: RESERVE_BYTES_DEFAULT,
            ballast_bytes: 0,
            free_bytes: Arc::new(disk::space::free_bytes),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("shape", &self.shape)
            .field("mode", &self.mode)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("ballast_bytes", &self.ballast_bytes)
            .finish_non_exhaustive()
    }
}

/// The store. Dropping it waits for writes under way, closes the database and gives the directory free.
pub struct Store {
    // Dropped first: it may be writing.
    pen: WriterHandle,
    shared: Arc<Shared>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store of a directory, or creates it. Blocks for as long as the disk does.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when the directory cannot be used: locked, of another format or shape, not
    /// writable. [`Error::Corrupt`] when its contents cannot be read. [`Error::Full`] when the disk has no
    /// room even to open it. The reason says what to do.
    pub fn open(settings: Settings, time: &TimeSource) -> Result<Arc<Self>, Error> {
        let Settings {
            directory,
            shape,
            mode,
            reserve_bytes,
            ballast_bytes,
            free_bytes,
        } = settings;
        let directory = Directory::lock(&directory)?;
        let is_set_up = directory.check(&shape)?;
        let path = directory.store();
        let ballast = directory.ballast(ballast_bytes);
        let room = Room::new(&directory, reserve_bytes, ballast, free_bytes);
        room.make_to_open();
        if !is_set_up {
            directory.check_clock(time.now())?;
        }
        if !path.is_dir() {
            disk::database::create(&path, &shape)?;
        }
        let open = disk::database::open(&path, &shape)?;
        refuse_if_larger(&open, &shape, &path)?;
        shape::check(&open, &shape, &format!("FORMAT beside {}", path.display()))?;
        if is_set_up {
            directory.sync()?;
        } else {
            refuse_if_used(&open, &path)?;
            directory.set_up(&shape)?;
        }
        add_clocks(&open, &shape, time)?;
        room.look();
        let shared = Arc::new(Shared::new(directory, open, shape, time.clone(), room));
        let pen = WriterHandle::new(&shared, mode)?;
        Ok(Arc::new(Self { pen, shared }))
    }

    /// Does the work of each second: looks at the free space and at the database, removes some expired rows,
    /// drops erased ticks. The threaded store does it by itself.
    pub fn upkeep(&self) {
        self.shared.room.look();
        self.pen.offer(Act::Upkeep);
        self.shared.drop_erased();
    }

    /// Begins a copy of the store as it is now. It is read piece by piece; tables of erased ticks stay on the disk meanwhile.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while the database is being opened anew.
    pub fn backup(&self) -> Result<backup::Pieces, Error> {
        backup::Pieces::of(&self.shared)
    }

    /// Runs a read that may wait for the disk on a thread where it delays no other task.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Open) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let open = self.shared.open()?;
        if self.pen.is_inline() {
            return read(&open);
        }
        // The directory stays ours until the read is over, even if the store is dropped meanwhile.
        let shared = Arc::clone(&self.shared);
        let reading = move || {
            let result = read(&open);
            drop((open, shared));
            result
        };
        let joined = tokio::task::spawn_blocking(reading).await;
        joined.unwrap_or_else(|error| {
            Err(Error::Unavailable {
                operation: "read",
                reason: error.to_string(),
            })
        })
    }
}

/// Refuses a database without format that has clocks. It was set up, but its format and shape are unknown.
fn refuse_if_used(open: &Open, path: &Path) -> Result<(), Error> {
    let first = key::clock(WheelNumber::from_low_bits(0));
    let found = open
        .get(Space::Clock, &first)
        .map_err(|cause| fault("open the store", &cause))?;
    if found.is_some() {
        return Err(Error::Unsuitable {
            reason: format!(
                "FORMAT is missing beside {}: restore it, or choose another data directory",
                path.display()
            ),
        });
    }
    Ok(())
}

/// Refuses a database that has a clock of a wheel beyond the shape: the rows of such a wheel would never be read.
fn refuse_if_larger(open: &Open, shape: &Shape, path: &Path) -> Result<(), Error> {
    let Some(beyond) = WheelNumber::new(shape.wheels()) else {
        return Ok(());
    };
    let clocks = key::clock(beyond)..=key::clock(WheelNumber::from_low_bits(u16::MAX));
    if open.space(Space::Clock).range(clocks).next().is_none() {
        return Ok(());
    }
    Err(Error::Corrupt {
        operation: "open the store",
        reason: format!(
            "{} has rows of more than {} wheels: restore FORMAT beside it from a copy, and configure what that names",
            path.display(),
            shape.wheels()
        ),
    })
}

/// Gives every wheel without a clock one that begins now, and a database without its shape a row of it.
fn add_clocks(open: &Open, shape: &Shape, time: &TimeSource) -> Result<(), Error> {
    let first = value::clock(&ClockRow::first(shape, time.now()));
    let mut group = Group::new(open, time.now());
    for wheel in shape.all_wheels() {
        if clock::read_if_any(open, wheel)?.is_none() {
            group.insert(Space::Clock, key::clock(wheel), first.clone());
        }
    }
    shape::keep(open, shape, &mut group)?;
    group.commit(true)
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::disk::database::{Open, create, open};
    use crate::model::{time::TickLength, wheel::Shape};

    /// Returns a shape with ticks of a second.
    pub(super) fn shape(wheels: u16) -> Shape {
        let second = TickLength::new(Duration::from_secs(1)).unwrap();
        Shape::new(wheels, second, 8).unwrap()
    }

    /// Returns a database without rows.
    pub(super) fn created(path: &Path) -> Open {
        create(path, &shape(2)).unwrap();
        open(path, &shape(2)).unwrap()
    }
}
