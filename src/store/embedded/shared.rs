//! The shared state connects the store's callers, its writer and its upkeep.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::{
    disk::{database::Open, directory::Directory},
    erased,
    room::Room,
    stalls::write_stall::WriteStall,
};
use crate::{
    model::{ids::NodeId, time::Millis, wheel::Shape},
    store::{Error, NodeRow},
    time_source::TimeSource,
};

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
    /// The room that is left on the disk.
    pub(super) room: Room,
    open: RwLock<Option<Arc<Open>>>,
    /// Why the writer takes nothing.
    broken: RwLock<Option<String>>,
    nodes: Mutex<BTreeMap<NodeId, NodeRow>>,
    /// Dropped last: the directory is ours until the database is closed.
    _directory: Directory,
}

impl Shared {
    pub(super) fn new(
        directory: Directory,
        open: Open,
        shape: Shape,
        time: TimeSource,
        room: Room,
    ) -> Self {
        Self {
            path: directory.store(),
            shape,
            opened_at: time.now(),
            time,
            brake: WriteStall::default(),
            dropping: Mutex::default(),
            room,
            open: RwLock::new(Some(Arc::new(open))),
            broken: RwLock::new(None),
            nodes: Mutex::default(),
            _directory: directory,
        }
    }

    /// Returns the database to read from. Drop it soon: the writer may be waiting to open it anew.
    pub(super) fn open(&self) -> Result<Arc<Open>, Error> {
        let open = self.open.read();
        open.clone().ok_or_else(|| Error::Unavailable {
            operation: "use the store",
            reason: "it is being opened anew after a failure of the disk".to_owned(),
        })
    }

    pub(super) fn replace(&self, open: Option<Arc<Open>>) -> Option<Arc<Open>> {
        std::mem::replace(&mut *self.open.write(), open)
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeRow>> {
        self.nodes.lock()
    }

    /// Takes note of why the writer takes nothing; of nothing once it does again.
    pub(super) fn note_broken(&self, reason: Option<String>) {
        *self.broken.write() = reason;
    }

    /// Returns the reason when the store takes no writes, or none that begins work.
    pub(super) fn problem(&self) -> Option<String> {
        let broken = || self.broken.read().clone();
        self.room.standing().or_else(broken)
    }

    /// Drops erased ticks from the disk. A failure is tried again later. The database notes what it drops, and a note that
    /// finds no room would keep it from every other write.
    pub(super) fn drop_erased(&self) {
        if self.room.is_too_small_to_open().is_some() {
            return;
        }
        let _alone = self.dropping.lock();
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
}
