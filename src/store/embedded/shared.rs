//! The shared state connects the store's callers, its writer and its upkeep.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use super::{
    FreeBytes,
    disk::{database::Open, directory::Directory},
    erased,
    stalls::write_stall::WriteStall,
};
use crate::{
    model::{ids::NodeId, time::Millis, wheel::Shape},
    store::{Error, NodeRow},
    time_source::TimeSource,
};

/// The part of the reserve that must be free above it before new work is taken again, so that the state does
/// not flicker.
const ROOM_AGAIN: u64 = 10;

/// With less the database is not opened anew, because the contents of its buffers would not fit.
const REOPEN_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// See the module.
pub(super) struct Shared {
    /// The path of the database.
    pub(super) path: PathBuf,
    pub(super) shape: Shape,
    pub(super) time: TimeSource,
    /// When this process opened the store.
    pub(super) opened_at: Millis,
    /// The brake that new tasks wait for.
    pub(super) brake: WriteStall,
    /// Held while erased ticks are dropped, and while a copy fixes its moment.
    pub(super) dropping: Mutex<()>,
    reserve_bytes: u64,
    free_bytes: FreeBytes,
    open: RwLock<Option<Arc<Open>>>,
    full: RwLock<Option<String>>,
    nodes: Mutex<BTreeMap<NodeId, NodeRow>>,
    /// Dropped last: the directory is ours until the database is closed.
    directory: Directory,
}

impl Shared {
    pub(super) fn new(
        directory: Directory,
        open: Open,
        shape: Shape,
        time: TimeSource,
        reserve_bytes: u64,
        free_bytes: FreeBytes,
    ) -> Self {
        Self {
            path: directory.store(),
            shape,
            opened_at: time.now(),
            time,
            brake: WriteStall::default(),
            dropping: Mutex::default(),
            reserve_bytes,
            free_bytes,
            open: RwLock::new(Some(Arc::new(open))),
            full: RwLock::new(None),
            nodes: Mutex::default(),
            directory,
        }
    }

    /// Returns the database to read from. Drop it soon: the writer may be waiting to open it anew.
    pub(super) fn open(&self) -> Result<Arc<Open>, Error> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| Error::Unavailable {
            operation: "use the store",
            reason: "it is being opened anew after a failure of the disk".to_owned(),
        })
    }

    pub(super) fn replace(&self, open: Option<Arc<Open>>) -> Option<Arc<Open>> {
        std::mem::replace(
            &mut *self.open.write().unwrap_or_else(PoisonError::into_inner),
            open,
        )
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeRow>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails while there is no room for new work.
    pub(super) fn room(&self) -> Result<(), Error> {
        let full = self.full.read().unwrap_or_else(PoisonError::into_inner);
        full.clone()
            .map_or(Ok(()), |reason| Err(Error::Full { reason }))
    }

    /// Returns the reason when there is no room to open the database anew.
    pub(super) fn has_no_room_at_all(&self) -> Option<String> {
        // If the free space is unknown, opening is tried.
        let free = (self.free_bytes)(&self.path).ok()?;
        (free < REOPEN_BYTES_MIN).then(|| {
            format!(
                "the disk is full at {}: free some space; it goes on by itself",
                self.directory.shown()
            )
        })
    }

    /// Drops erased ticks from the disk. A failure is tried again later.
    pub(super) fn drop_erased(&self) {
        let alone = self.dropping.lock();
        let _alone = alone.unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = self.look_after(erased::drop_tables) {
            tracing::warn!(%error, "could not drop what was erased");
        }
    }

    /// Runs upkeep work on the database. If a thread of the database has panicked within a lock, the caller
    /// must not end with it: `None` then.
    pub(super) fn look_after(
        &self,
        act: impl FnOnce(&Open) -> Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        let act = || self.open().and_then(|open| act(&open));
        catch_unwind(AssertUnwindSafe(act)).ok()
    }

    /// Checks how much space there is.
    pub(super) fn look_at_space(&self) {
        let free = match (self.free_bytes)(&self.path) {
            Ok(free) => free,
            Err(error) => {
                tracing::warn!(%error, path = %self.path.display(), "cannot tell how much space is free");
                return;
            }
        };
        metrics::gauge!("tickwheel_store_free_bytes").set(free as f64);
        let mut full = self.full.write().unwrap_or_else(PoisonError::into_inner);
        let enough = match *full {
            None => self.reserve_bytes,
            Some(_) => self
                .reserve_bytes
                .saturating_add(self.reserve_bytes / ROOM_AGAIN),
        };
        let is_full = (free < enough).then(|| {
            format!(
                "{} MiB are free at {} and {} MiB are kept for the tasks that are already there: free some space; new \
                 tasks are taken again by themselves",
                free >> 20,
                self.directory.shown(),
                self.reserve_bytes >> 20
            )
        });
        match (&*full, &is_full) {
            (None, Some(reason)) => tracing::error!(reason, "new tasks are refused"),
            (Some(_), None) => tracing::info!("there is space again: new tasks are taken"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        *full = is_full;
    }
}
