//! What a thread of the store looks after all the time: that nothing the database does has everybody wait.

use std::{
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use super::{release::Release, removal::Removal, shared::Shared, writeback::Writeback};
use crate::time_source::Moment;

/// Between two looks: at the highest rates a buffer of the database is full after two tenths of a second.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Between two looks at tables that are being written: some 5 MiB come meanwhile, which a disk takes in ten milliseconds.
pub(super) const WRITING_INTERVAL: Duration = Duration::from_millis(25);

/// Between two looks at the free space, and of the writer at the database.
const SPACE_INTERVAL: Duration = Duration::from_secs(1);

/// What is looked at all the time.
pub(super) struct Upkeep {
    shared: Arc<Shared>,
    release: Release,
    removal: Removal,
    tables_begun: u64,
    /// Told of tables that are being written.
    writing: SyncSender<()>,
    space_at: Moment,
}

impl Upkeep {
    pub(super) fn new(shared: Arc<Shared>, writing: SyncSender<()>) -> Self {
        Self {
            release: Release::default(),
            removal: Removal::default(),
            tables_begun: 0,
            writing,
            space_at: shared.time.moment().after(SPACE_INTERVAL),
            shared,
        }
    }

    /// Looks; tells whether the writer has to look after the database, too.
    pub(super) fn look(&mut self) -> bool {
        let is_open = self.look_at_database();
        if !is_open {
            self.shared.brake.press(0);
            self.release.free();
        }
        let is_short = !is_open || self.shared.room().is_err();
        self.removal.free(&self.shared.time, is_short);
        let now = self.shared.time.moment();
        if now < self.space_at {
            return false;
        }
        self.space_at = now.after(SPACE_INTERVAL);
        self.shared.look_at_space();
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
                // A journal is removed when a table has been written, and was there when one was before.
                self.removal.look_at_journals(&self.shared.path);
                // Whoever has not looked yet will.
                self.writing.try_send(()).ok();
            }
            Ok(())
        });
        matches!(looked, Some(Ok(())))
    }
}

/// What is looked at while tables are written, by a thread that may wait for the disk.
pub(super) struct Writing {
    shared: Arc<Shared>,
    writeback: Writeback,
}

impl Writing {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            writeback: Writeback::default(),
            shared,
        }
    }

    /// Looks; tells whether to look again soon.
    pub(super) fn look(&mut self) -> bool {
        let looked = self.shared.look_after(|open| {
            self.writeback.look(open);
            Ok(())
        });
        // The writer finds out what a database that does not open has to say.
        looked.and_then(Result::ok);
        self.writeback.is_busy()
    }
}
