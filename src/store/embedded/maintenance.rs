//! The maintenance threads spread expensive file operations of the database over time, so that they never
//! block readers or writers.

use std::{
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use super::{
    disk::database::Open,
    shared::Shared,
    stalls::{buffer_release::Release, deferred_unlink::DeferredUnlink, writeback::Writeback},
};
use crate::time_source::Moment;

/// Between two looks: at the highest rates a buffer of the database is full after two tenths of a second.
pub(in crate::store::embedded) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Between two looks at tables that are being written. Some 5 MiB come meanwhile, which a disk takes in ten
/// milliseconds.
pub(in crate::store::embedded) const WRITING_INTERVAL: Duration = Duration::from_millis(25);

/// Between two looks at the free space, and of the writer at the database.
const SPACE_INTERVAL: Duration = Duration::from_secs(1);

/// The time without a new table after which the database is made to remove merged tables. It does so by
/// itself whenever it writes a buffer out, under load every second or so, but only then: a gigabyte was kept
/// for ten million tasks at rest.
const REST: Duration = Duration::from_secs(10);

/// The upkeep thread's work, done all the time.
pub(in crate::store::embedded) struct Maintenance {
    shared: Arc<Shared>,
    release: Release,
    removal: DeferredUnlink,
    tables_begun: u64,
    /// When the last table was begun, or the database was last made to remove tables.
    begun_at: Moment,
    /// Gets a signal when tables are being written.
    writing: SyncSender<()>,
    space_at: Moment,
}

impl Maintenance {
    pub(in crate::store::embedded) fn new(shared: Arc<Shared>, writing: SyncSender<()>) -> Self {
        Self {
            release: Release::default(),
            removal: DeferredUnlink::default(),
            tables_begun: 0,
            begun_at: shared.time.moment(),
            writing,
            space_at: shared.time.moment().after(SPACE_INTERVAL),
            shared,
        }
    }

    /// Looks. Tells whether the writer has to look after the database, too.
    pub(in crate::store::embedded) fn look(&mut self) -> bool {
        let is_open = self.look_at_database();
        if !is_open {
            self.shared.brake.press(0);
            self.release.free();
        }
        let is_short = !is_open || self.shared.room.for_new().is_err();
        self.removal.free(&self.shared.time, is_short);
        let now = self.shared.time.moment();
        if now < self.space_at {
            return false;
        }
        self.space_at = now.after(SPACE_INTERVAL);
        self.shared.room.look();
        let may_write = self.shared.room.standing().is_none();
        if may_write && self.removal.is_waiting() && self.begun_at.after(REST) <= now {
            self.begun_at = now;
            // A failure is tried again, and the writer reports it.
            let let_go = self.shared.look_after(Open::let_go);
            let_go.and_then(Result::ok);
        }
        true
    }

    fn look_at_database(&mut self) -> bool {
        let looked = self.shared.look_after(|open| {
            self.shared.brake.press(open.runs());
            self.removal.look_at_tables(open);
            self.release.look(open);
            let begun = open.tables_begun();
            if self.tables_begun != begun {
                self.tables_begun = begun;
                self.begun_at = self.shared.time.moment();
                // A journal is removed when a table has been written, and it was there when an earlier table
                // was.
                self.removal.look_at_journals(&self.shared.path);
                // A full channel is fine: the thread has not looked yet, and it will.
                self.writing.try_send(()).ok();
            }
            Ok(())
        });
        matches!(looked, Some(Ok(())))
    }
}

/// The work that is done while tables are written, by a thread that may wait for the disk.
pub(in crate::store::embedded) struct Writing {
    shared: Arc<Shared>,
    writeback: Writeback,
}

impl Writing {
    pub(in crate::store::embedded) fn new(shared: Arc<Shared>) -> Self {
        Self {
            writeback: Writeback::default(),
            shared,
        }
    }

    /// Looks. Tells whether to look again soon.
    pub(in crate::store::embedded) fn look(&mut self) -> bool {
        let looked = self.shared.look_after(|open| {
            self.writeback.look(open);
            Ok(())
        });
        // The writer finds out the reason when a database does not open.
        looked.and_then(Result::ok);
        self.writeback.is_busy()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::{
        model::time::Millis,
        store::embedded::{Mode, Settings, Store, disk::database::Space, tests::shape},
        time_source::TimeSource,
    };

    #[tokio::test(start_paused = true)]
    async fn what_was_merged_is_removed_when_nothing_happens_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            mode: Mode::Inline,
            ..Settings::new(directory.path(), shape(2))
        };
        let store = Store::open(
            settings,
            &TimeSource::simulated(Millis(1_790_000_000_000), 1),
        )
        .unwrap();
        let open = store.shared.open().unwrap();
        let (tables, _) = open.next_table(Space::Row);
        let files = || std::fs::read_dir(&tables).unwrap().count();
        let (writing, _told) = sync_channel(1);
        let mut upkeep = Maintenance::new(Arc::clone(&store.shared), writing);
        let row = open.space(Space::Row);
        for value in 0..3 {
            row.insert([value], [value]).unwrap();
            row.rotate_memtable_and_wait().unwrap();
            upkeep.look();
        }
        row.major_compact().unwrap();
        for _ in 0..9 {
            upkeep.look();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(files(), 4);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            upkeep.look();
        }
        assert_eq!(files(), 1);
        assert!(!upkeep.removal.is_waiting());
    }
}
