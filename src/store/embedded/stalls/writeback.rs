//! The writeback sends tables to the disk while the database is still writing them, so that a sync at the end
//! blocks no caller.
//!
//! fjall writes a table of up to 64 MiB within tenths of a second, all of it into the system's memory. It
//! syncs it at the end, the last one of a merge even under the lock that every read and write of its keyspace
//! takes. A sync of a few bytes of a journal then waits behind all of that: 100 ms and more. So the part of a
//! table that is there is sent at each look, and little is left for the end. It is a hint only: tables rest
//! on the sync at the end. RocksDB has it built in (`bytes_per_sync`).

use std::{fs::File, path::PathBuf};

use crate::store::embedded::disk::database::{Open, Space};

/// Looks without growth after which a table is taken for done.
const LOOKS_MAX: u8 = 20;

/// A table that is being written, or will be soon.
struct Growing {
    path: PathBuf,
    file: Option<File>,
    /// Bytes that the file had at the last look.
    seen: u64,
    /// Bytes that are on their way.
    sent: u64,
    /// Looks since it last grew.
    looks: u8,
}

/// The tables that are being written.
#[derive(Default)]
pub(in crate::store::embedded) struct Writeback {
    next: [Option<u64>; Space::ALL.len()],
    growing: Vec<Growing>,
}

impl Writeback {
    /// Sends the parts that were there at the last call.
    pub(in crate::store::embedded) fn look(&mut self, open: &Open) {
        for (space, next) in Space::ALL.into_iter().zip(&mut self.next) {
            let (folder, now) = open.next_table(space);
            let before = next.replace(now).unwrap_or(now);
            self.growing
                .extend((before..now).map(|number| Growing::new(folder.join(number.to_string()))));
        }
        self.growing.retain_mut(Growing::look);
    }

    /// Tells whether tables are being written.
    pub(in crate::store::embedded) const fn is_busy(&self) -> bool {
        !self.growing.is_empty()
    }
}

impl Growing {
    const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            seen: 0,
            sent: 0,
            looks: 0,
        }
    }

    /// Sends the part that was there before if more has come since. Tells whether still more may come.
    ///
    /// A file that has not grown may have been synced. The system would take the advice to mean that its
    /// pages are not needed any more, and they would be read from the disk again.
    fn look(&mut self) -> bool {
        self.looks += 1;
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        if let Some(file) = &self.file
            && let Ok(metadata) = file.metadata()
            && metadata.len() > self.seen
        {
            if self.seen > self.sent {
                send(file, self.sent, self.seen);
                self.sent = self.seen;
            }
            self.seen = metadata.len();
            self.looks = 0;
        }
        self.looks < LOOKS_MAX
    }
}

/// Starts writing a part of a file. Linux does that for this advice before it drops pages that are clean
/// already. The pages written now may be dropped soon where memory is short. `sync_file_range` means just
/// this, but no safe interface offers it.
#[cfg(target_os = "linux")]
fn send(file: &File, from: u64, to: u64) {
    use std::num::NonZeroU64;

    use rustix::fs::{Advice, fadvise};

    if let Err(error) = fadvise(file, from, NonZeroU64::new(to - from), Advice::DontNeed) {
        tracing::debug!(%error, "tables are not written ahead");
    }
}

/// On other systems it is left to the sync at the end.
#[cfg(not(target_os = "linux"))]
const fn send(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::store::embedded::tests::created;

    #[test]
    fn the_tables_of_a_database_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let open = created(&directory.path().join("store"));
        let mut writeback = Writeback::default();
        writeback.look(&open);
        assert!(!writeback.is_busy());
        let row = open.space(Space::Row);
        row.insert([1], [1]).unwrap();
        row.rotate_memtable_and_wait().unwrap();
        writeback.look(&open);
        assert!(writeback.is_busy());
        assert!(writeback.growing.iter().all(|growing| growing.seen > 0));
    }

    #[test]
    fn what_was_there_is_sent_once_more_has_come_and_what_stays_is_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("7");
        let mut growing = Growing::new(path.clone());
        assert!(growing.look());
        let mut file = File::create(&path).unwrap();
        let mut grow = |growing: &mut Growing| {
            file.write_all(&[1; 10_000]).unwrap();
            assert!(growing.look());
            (growing.seen, growing.sent)
        };
        assert_eq!(grow(&mut growing), (10_000, 0));
        assert_eq!(grow(&mut growing), (20_000, 10_000));
        for _ in 1..LOOKS_MAX {
            assert!(growing.look());
        }
        assert_eq!(grow(&mut growing), (30_000, 20_000));
        for _ in 1..LOOKS_MAX {
            assert!(growing.look());
        }
        assert!(!growing.look());
        // The last part is left to the sync.
        assert_eq!((growing.seen, growing.sent), (30_000, 20_000));
    }
}
