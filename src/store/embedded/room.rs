//! The room tells the store how much of the disk is left, and what may still be written.
//!
//! - With less than the reserve left, new tasks are refused. Everything else goes on.
//! - With hardly a byte left, nothing is written that begins or drives work: hands of clocks and claims. So nothing fires. What
//!   ends work, and what operators change, goes on from the ballast, and the node is not ready. Heartbeats do until half of
//!   the ballast is left.
//!
//! The ballast is a part of the reserve: what it holds counts as left.

use std::{
    io::ErrorKind,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::{
    FreeBytes,
    disk::{ballast::Ballast, directory::Directory},
};
use crate::store::Error;

/// The part of the reserve that must be left above it before new work is taken again, so that the state does not flicker.
const ROOM_AGAIN: u64 = 10;

/// The part of the reserve with less of which nothing is begun: 16 MiB of 512, several groups of the writer.
const STAND_STILL: u64 = 32;

/// With less the database is not opened anew, because the contents of its buffers would not fit.
const REOPEN_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Bytes that are made free before a group of operators' calls is written, beside those of their rows. Another program may
/// take the rest of them at once, so the ballast is enough for hundreds of calls.
pub(super) const GROUP_BYTES: u64 = 256 * 1024;

/// See the module.
pub(super) struct Room {
    /// The directory.
    path: PathBuf,
    reserve_bytes: u64,
    free_bytes: FreeBytes,
    ballast: Mutex<Ballast>,
    /// Why new tasks are refused.
    full: RwLock<Option<String>>,
    /// Why nothing is begun.
    standing: RwLock<Option<String>>,
    /// Requests that were refused since nothing is begun.
    refused: AtomicU64,
    /// The log says that no ballast can be made.
    unfilled: AtomicBool,
}

impl Room {
    pub(super) fn new(
        directory: &Directory,
        reserve_bytes: u64,
        ballast: Ballast,
        free_bytes: FreeBytes,
    ) -> Self {
        Self {
            path: directory.path().to_owned(),
            reserve_bytes,
            free_bytes,
            ballast: Mutex::new(ballast),
            full: RwLock::new(None),
            standing: RwLock::new(None),
            refused: AtomicU64::new(0),
            unfilled: AtomicBool::new(false),
        }
    }

    /// Fails while there is no room for new work.
    pub(super) fn for_new(&self) -> Result<(), Error> {
        let full = self.full.read();
        full.clone()
            .map_or(Ok(()), |reason| Err(Error::Full { reason }))
    }

    /// Returns the reason when nothing may be begun, as it is at this moment. A program that fills the disk does not wait for
    /// the next look of the upkeep.
    pub(super) fn stands_still(&self) -> Option<String> {
        if let Some(reason) = self.standing() {
            return Some(reason);
        }
        let free = self.free()?;
        // The bytes that were given back are for operators' calls, also in the next process.
        let kept = self.least().saturating_add(self.ballast().given());
        if free >= kept {
            return None;
        }
        let mut standing = self.standing.write();
        if standing.is_none() {
            let reason = format!(
                "the disk is full at {}, {} KiB are free: nothing fires and no task is claimed; free some space; it goes on by \
                 itself",
                self.path.display(),
                free >> 10
            );
            tracing::error!(reason, "the service stands still");
            *standing = Some(reason);
        }
        standing.clone()
    }

    /// Returns the reason when nothing may be begun, as it was at the last look.
    pub(super) fn standing(&self) -> Option<String> {
        self.standing.read().clone()
    }

    /// Takes note of requests that were refused because nothing is begun.
    pub(super) fn note_refused(&self, requests: usize) {
        self.refused.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Returns the reason when there is no room to open the database anew.
    pub(super) fn is_too_small_to_open(&self) -> Option<String> {
        // If the free space is unknown, opening is tried.
        self.free()
            .filter(|free| *free < REOPEN_BYTES_MIN)
            .map(|_| {
                format!(
                    "the disk is full at {}: free some space; it goes on by itself",
                    self.path.display()
                )
            })
    }

    /// Gives the ballast back until so many bytes are free, or none is left of it. Tells whether so many are.
    pub(super) fn make(&self, bytes: u64) -> bool {
        let Some(lacking) = self.free().and_then(|free| bytes.checked_sub(free)) else {
            return true;
        };
        let mut ballast = self.ballast();
        match ballast.give(lacking) {
            Ok(given) => {
                tracing::debug!(
                    given,
                    left = ballast.held(),
                    "gave space back that was set aside"
                );
                given == lacking
            }
            Err(error) => {
                tracing::debug!(%error, "space that was set aside cannot be given back");
                false
            }
        }
    }

    /// Tells whether less than half of the ballast is left.
    pub(super) fn is_low(&self) -> bool {
        self.ballast().is_low()
    }

    /// Gives the whole ballast back if there is no room to open the database.
    pub(super) fn make_to_open(&self) {
        if self.is_too_small_to_open().is_some() {
            self.make(u64::MAX);
        }
    }

    /// Looks how much there is, sets the ballast aside where it lacks, and decides what is refused from now on.
    pub(super) fn look(&self) {
        let Some(free) = self.free() else { return };
        metrics::gauge!("tickwheel_store_free_bytes").set(free as f64);
        let has_room = self.set_aside(free);
        let standing = self.stands_still().is_some();
        if standing && has_room && free >= self.least().saturating_mul(2) {
            let mut standing = self.standing.write();
            *standing = None;
            let refused = self.refused.swap(0, Ordering::Relaxed);
            tracing::info!(refused, "there is space again: the service goes on");
        }
        self.look_for_new(free);
    }

    fn look_for_new(&self, free: u64) {
        let held = self.ballast().held();
        let left = free.saturating_add(held);
        let mut full = self.full.write();
        let enough = match *full {
            None => self.reserve_bytes,
            Some(_) => self
                .reserve_bytes
                .saturating_add(self.reserve_bytes / ROOM_AGAIN),
        };
        let is_full = (left < enough).then(|| {
            format!(
                "{} MiB are free at {} and {} MiB are kept for the tasks that are already there: free some space; new \
                 tasks are taken again by themselves",
                left >> 20,
                self.path.display(),
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

    /// Sets the ballast aside if there is room for it. Tells whether there was.
    fn set_aside(&self, free: u64) -> bool {
        let mut ballast = self.ballast();
        let missing = ballast.missing();
        if missing == 0 {
            return true;
        }
        if free < missing.saturating_add(self.least().saturating_mul(2)) {
            return false;
        }
        match ballast.fill() {
            Ok(()) => {
                self.unfilled.store(false, Ordering::Relaxed);
                true
            }
            // Another program has taken the room meanwhile: it is tried again.
            Err(error) if error.kind() == ErrorKind::StorageFull => false,
            // A quota, or rights: the disk itself has room, so work goes on.
            Err(error) => {
                if !self.unfilled.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %error, path = %self.path.display(),
                        "no space can be set aside: with a full disk no call that writes is served"
                    );
                }
                true
            }
        }
    }

    /// Returns the free bytes with less of which nothing is begun.
    const fn least(&self) -> u64 {
        self.reserve_bytes / STAND_STILL
    }

    /// Returns the free bytes; none if they are not known.
    fn free(&self) -> Option<u64> {
        let free = (self.free_bytes)(&self.path);
        free.inspect_err(|error| {
            tracing::warn!(%error, path = %self.path.display(), "cannot tell how much space is free");
        })
        .ok()
    }

    fn ballast(&self) -> MutexGuard<'_, Ballast> {
        self.ballast.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;

    const MIB: u64 = 1 << 20;
    const RESERVE: u64 = 512 * MIB;
    const BALLAST: u64 = 4 * MIB;

    /// A room whose free bytes are told, with a ballast that is real.
    fn room(directory: &TempDir, free: &Arc<AtomicU64>) -> Room {
        let locked = Directory::lock(directory.path()).unwrap();
        let told = Arc::clone(free);
        let free_bytes: FreeBytes = Arc::new(move |_| Ok(told.load(Ordering::Relaxed)));
        Room::new(&locked, RESERVE, locked.ballast(BALLAST), free_bytes)
    }

    #[test]
    fn work_stands_still_below_a_part_of_the_reserve_and_goes_on_once_the_ballast_is_whole() {
        let (directory, free) = (TempDir::new().unwrap(), Arc::new(AtomicU64::new(u64::MAX)));
        let room = room(&directory, &free);
        let least = RESERVE / STAND_STILL;
        let at = |bytes| {
            free.store(bytes, Ordering::Relaxed);
            room.look();
            (room.standing().is_some(), room.for_new().is_err())
        };
        assert_eq!(at(RESERVE), (false, false));
        assert_eq!(room.ballast().held(), BALLAST);
        // The bytes of the ballast count as left.
        assert_eq!(at(RESERVE - BALLAST), (false, false));
        assert_eq!(at(RESERVE - BALLAST - 1), (false, true));
        assert_eq!(at(least), (false, true));
        assert_eq!(room.stands_still(), None);
        free.store(least - 1, Ordering::Relaxed);
        // The writer sees it before the next look.
        let reason = room.stands_still().unwrap();
        assert!(reason.contains("the disk is full at"), "{reason}");
        assert_eq!(at(2 * least - 1), (true, true));
        assert_eq!(at(2 * least), (false, true));
        assert_eq!(at(least - 1), (true, true));
        assert!(room.make(least - 1));
        assert_eq!(room.ballast().held(), BALLAST, "there is room for a group");
        free.store(MIB, Ordering::Relaxed);
        assert!(room.make(2 * MIB));
        assert_eq!(room.ballast().held(), BALLAST - MIB);
        assert!(!room.make(MIB + BALLAST), "a MiB is lacking");
        assert_eq!(room.ballast().held(), 0);
        assert_eq!(at(2 * least + BALLAST - 1), (true, true));
        assert_eq!(at(2 * least + BALLAST), (false, true));
        assert_eq!(room.ballast().held(), BALLAST);
        assert_eq!(at(RESERVE * 2), (false, false));
    }

    #[test]
    fn a_database_is_opened_on_a_full_disk_with_the_whole_ballast() {
        let (directory, free) = (TempDir::new().unwrap(), Arc::new(AtomicU64::new(u64::MAX)));
        let room = room(&directory, &free);
        room.look();
        free.store(REOPEN_BYTES_MIN, Ordering::Relaxed);
        room.make_to_open();
        assert_eq!(room.ballast().held(), BALLAST);
        free.store(REOPEN_BYTES_MIN - 1, Ordering::Relaxed);
        assert!(room.is_too_small_to_open().is_some());
        room.make_to_open();
        assert_eq!(room.ballast().held(), 0);
        // The bytes that were given back are kept for operators, also by the next process.
        drop(room);
        let next = self::room(&directory, &free);
        for (bytes, stands) in [(BALLAST, false), (BALLAST - 1, true)] {
            free.store(RESERVE / STAND_STILL + bytes, Ordering::Relaxed);
            assert_eq!(next.stands_still().is_some(), stands, "{bytes}");
        }
    }
}
