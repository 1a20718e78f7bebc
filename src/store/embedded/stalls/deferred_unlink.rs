//! The deferred unlink frees the blocks of files that the database has removed, so that no reader or writer
//! waits for it.
//!
//! fjall removes merged tables, and journals, under locks that reads and writes take. To free the blocks of
//! 64 MiB may take the system 10 ms and more, longer where it tells the disk of each (the mount option
//! `discard`), and a dozen tables go after a merge. With ten million tasks pending everything stood for 0.2
//! to 0.4 s. Blocks are freed once a file has no name any more and is not open anywhere. So files that are
//! about to be removed are opened here, and closed file by file, with pauses.
//!
//! A process that dies in between has closed them all, and removed files stay removed.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{store::embedded::disk::database::Open, time_source::TimeSource};

/// The time after which no further file is closed until the next call. It leaves most of the time for
/// everything else.
const CLOSING_MAX: Duration = Duration::from_millis(10);

/// Files that are held open. The blocks of others are freed by the database. They are part of the files kept
/// for the store.
const FILES_MAX: usize = 96;

/// A file that was removed, or is about to be.
struct Going {
    path: Arc<PathBuf>,
    file: File,
    /// Whether it was removed at the last look. Only then has the database closed it, too.
    removed: bool,
}

/// The files that the database has removed, or is about to.
#[derive(Default)]
pub(in crate::store::embedded) struct DeferredUnlink {
    going: VecDeque<Going>,
    /// Journals, which are all removed at some time.
    journals: Vec<Going>,
}

impl DeferredUnlink {
    /// Opens the tables that the database has merged since the last call. It has to be called often: the
    /// blocks of a table that was made and merged between two calls are freed by the database, at its
    /// callers' expense. But such a table is small.
    pub(in crate::store::embedded) fn look_at_tables(&mut self, open: &Open) {
        let going = &mut self.going;
        open.look_for_past_tables(|path| {
            if going.len() < FILES_MAX {
                going.extend(Going::open(path));
            }
        });
    }

    /// Opens the journals of a directory. There are few, and one is there for a second or so before it is removed.
    pub(in crate::store::embedded) fn look_at_journals(&mut self, directory: &Path) {
        for path in journals(directory) {
            let is_known = self.journals.iter().any(|known| *known.path == path);
            if !is_known && self.journals.len() < FILES_MAX {
                self.journals.extend(Going::open(&Arc::new(path)));
            }
        }
    }

    /// Tells whether there are tables that were merged, or dropped, and not removed yet.
    pub(in crate::store::embedded) fn is_waiting(&self) -> bool {
        self.going.iter().any(|going| !going.removed)
    }

    /// Frees the blocks of files that have been removed: some of them, or all at once where space is short.
    pub(in crate::store::embedded) fn free(&mut self, time: &TimeSource, all: bool) {
        let removed = self.journals.extract_if(.., |journal| journal.is_removed());
        self.going.extend(removed);
        let started = time.moment();
        for _ in 0..self.going.len() {
            let Some(mut going) = self.going.pop_front() else {
                return;
            };
            if !going.removed {
                going.removed = going.is_removed();
                self.going.push_back(going);
                continue;
            }
            drop(going);
            if !all && time.moment().since(started) >= CLOSING_MAX {
                return;
            }
        }
    }
}

impl Going {
    /// Opens a file. One that cannot be opened is left to the database.
    fn open(path: &Arc<PathBuf>) -> Option<Self> {
        Some(Self {
            file: File::open(&**path).ok()?,
            path: Arc::clone(path),
            removed: false,
        })
    }

    /// Tells whether the file is no longer at its path. The path decides, since some file systems rename a
    /// removed file while it is open.
    fn is_removed(&self) -> bool {
        let (Ok(there), Ok(file)) = (fs::metadata(&*self.path), self.file.metadata()) else {
            return true;
        };
        (there.dev(), there.ino()) != (file.dev(), file.ino())
    }
}

fn journals(directory: &Path) -> impl Iterator<Item = PathBuf> {
    // A directory that cannot be listed is left to the database.
    let listed = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = listed.map(|entry| entry.path());
    paths.filter(|path| path.extension() == Some(OsStr::new("jnl")))
}

#[cfg(test)]
mod tests {
    use fjall::AbstractTree as _;

    use super::*;
    use crate::{
        model::time::Millis,
        store::embedded::{
            disk::database::{Space, open},
            tests::{created, shape},
        },
    };

    fn time() -> TimeSource {
        TimeSource::simulated(Millis(0), 1)
    }

    fn write_out(open: &Open, value: u8) {
        let row = open.space(Space::Row);
        row.insert([value], [value]).unwrap();
        row.rotate_memtable_and_wait().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_merged_table_keeps_its_blocks_until_it_is_freed_here() {
        let directory = tempfile::tempdir().unwrap();
        let open = created(&directory.path().join("store"));
        let mut removal = DeferredUnlink::default();
        for value in 0..3 {
            write_out(&open, value);
            removal.look_at_tables(&open);
            removal.free(&time(), false);
        }
        assert!(removal.going.is_empty());
        open.space(Space::Row).major_compact().unwrap();
        removal.look_at_tables(&open);
        // The database releases merged tables when it next writes a buffer out, and only then are their files
        // removed.
        removal.free(&time(), true);
        let removed =
            |removal: &DeferredUnlink| removal.going.iter().filter(|going| going.removed).count();
        assert_eq!((removal.going.len(), removed(&removal)), (3, 0));
        assert!(removal.is_waiting());
        (0..3).for_each(|value| write_out(&open, value));
        removal.free(&time(), false);
        assert_eq!((removal.going.len(), removed(&removal)), (3, 3));
        removal.free(&time(), false);
        assert!(removal.going.is_empty());
    }

    /// A database that is opened anew counts its tables from the highest that it has. A table that another
    /// instance held under the same number must not remove it.
    #[tokio::test(start_paused = true)]
    async fn a_table_of_a_database_that_was_opened_anew_is_not_taken_for_one_of_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let first = created(&path);
        let mut removal = DeferredUnlink::default();
        write_out(&first, 1);
        removal.look_at_tables(&first);
        let dropped = first.space(Space::Row).tree.drop_range::<&[u8], _>(..);
        dropped.unwrap();
        drop(first);
        let second = open(&path, &shape(2)).unwrap();
        write_out(&second, 2);
        removal.look_at_tables(&second);
        removal.free(&time(), true);
        drop(second);
        let third = open(&path, &shape(2)).unwrap();
        let read = third.get(Space::Row, &[2]).unwrap();
        assert_eq!(read.as_deref(), Some([2].as_slice()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_journal_that_was_removed_is_freed_and_one_that_is_there_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["1.jnl", "2.jnl", "lock"] {
            fs::write(path(name), name).unwrap();
        }
        let mut removal = DeferredUnlink::default();
        let look = |removal: &mut DeferredUnlink| {
            removal.look_at_journals(directory.path());
            removal.free(&time(), false);
            (removal.journals.len(), removal.going.len())
        };
        assert_eq!(look(&mut removal), (2, 0));
        fs::remove_file(path("1.jnl")).unwrap();
        assert_eq!(look(&mut removal), (1, 1));
        assert_eq!(look(&mut removal), (1, 0));
    }
}
