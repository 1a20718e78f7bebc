//! The copier reads the rows of a store as they were at one moment, for a backup.
//!
//! A snapshot of the database would give the same rows. But while one is open, the database keeps every buffer that was filled
//! since: ten megabytes a second at 5,000 tasks/s. So a snapshot is held only until the readers of all keyspaces stand at its
//! moment. A reader holds the buffers and tables that its keyspace had then, also when they are merged or dropped.

use std::{collections::VecDeque, sync::Arc};

use fjall::AbstractTree as _;
use lsm_tree::{Guard as _, IterGuardImpl};

use super::format::{self, Counts, End, Head, PIECE_BYTES, Piece};
use crate::store::{
    Error,
    embedded::{
        disk::database::{Open, Space},
        faults::fault,
        shared::Shared,
    },
};

/// The rows of a keyspace as they were at the moment of the copy, in the order of their keys.
type Rows = Box<dyn Iterator<Item = IterGuardImpl> + Send>;

/// The pieces of a copy, in order: the head, rows, the end. Reading one may wait for the disk. Drop it to end early.
pub struct Pieces {
    /// The rest of each keyspace. Dropped before the database: a table that was merged meanwhile is removed by its path.
    rows: VecDeque<(Space, Rows)>,
    open: Arc<Open>,
    shared: Arc<Shared>,
    next: Next,
    counts: Counts,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// The piece that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Head,
    Rows,
    Nothing,
}

impl Pieces {
    pub(in crate::store::embedded) fn of(shared: &Arc<Shared>) -> Result<Self, Error> {
        let open = shared.open()?;
        Ok(Self {
            rows: readers(shared, &open),
            open,
            shared: Arc::clone(shared),
            next: Next::Head,
            counts: Counts::default(),
        })
    }

    fn piece(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.next {
            Next::Nothing => Ok(None),
            Next::Head => {
                self.next = Next::Rows;
                let head = Head {
                    shape: self.shared.shape,
                    made: self.shared.time.now(),
                };
                Ok(Some(format::head(&head)))
            }
            Next::Rows => {
                self.is_current()?;
                if let Some(piece) = self.piece_of_rows()? {
                    return Ok(Some(piece));
                }
                self.next = Next::Nothing;
                let end = End {
                    counts: self.counts,
                    digest: None,
                };
                Ok(Some(format::end(&end)))
            }
        }
    }

    /// Makes way for a database that has to be opened anew: the one that is read may not stay open beside it.
    fn is_current(&self) -> Result<(), Error> {
        let current = self.shared.open()?;
        if Arc::ptr_eq(&current, &self.open) {
            return Ok(());
        }
        Err(Error::Unavailable {
            operation: "copy the store",
            reason: "it was opened anew after a failure of the disk: make the backup again"
                .to_owned(),
        })
    }

    /// Returns rows of one keyspace; none behind the last of all.
    fn piece_of_rows(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some((space, rows)) = self.rows.front_mut() else {
            return Ok(None);
        };
        let (space, mut count) = (*space, 0);
        let mut piece = Piece::of(space);
        while piece.bytes() < PIECE_BYTES {
            let Some(row) = rows.next() else {
                self.rows.pop_front();
                break;
            };
            let row = row.into_inner().map_err(fjall::Error::from);
            let (key, value) = row.map_err(|cause| fault("copy the store", &cause))?;
            piece.add(&key, &value);
            count += 1;
        }
        self.counts.add(space, count);
        Ok(Some(piece.finish()))
    }
}

/// Returns a reader of each keyspace, all at one moment.
fn readers(shared: &Shared, open: &Open) -> VecDeque<(Space, Rows)> {
    // A table that is dropped between the moment and its reader would be missed.
    let alone = &shared.dropping;
    let _alone = alone.lock();
    // Until all readers stand, nothing is merged away that was there at the moment.
    let snapshot = open.snapshot();
    let reader = |space: Space| -> (Space, Rows) {
        let tree = &open.space(space).tree;
        (space, tree.iter(snapshot.seqno(), None))
    };
    Space::ALL.into_iter().map(reader).collect()
}

impl Iterator for Pieces {
    type Item = Result<Vec<u8>, Error>;

    /// Returns the next piece; none behind the last, and behind an error. The copy has to be made anew then.
    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.piece();
        if piece.is_err() {
            self.next = Next::Nothing;
        }
        piece.transpose()
    }
}

#[cfg(test)]
mod tests {
    use fjall::AbstractTree as _;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        model::{time::Tick, wheel::WheelNumber},
        store::embedded::{
            Mode, Settings, Store,
            backup::{restore, source::Source},
            clock,
            erased::tests::{NOW, put_clocks, put_ticks},
            tests::shape,
        },
        time_source::TimeSource,
    };

    fn opened(directory: &TempDir) -> Arc<Store> {
        let settings = Settings {
            mode: Mode::Inline,
            ..Settings::new(directory.path(), shape(2))
        };
        Store::open(settings, &TimeSource::simulated(NOW, 1)).unwrap()
    }

    /// Writes a whole copy.
    fn whole(pieces: &mut Pieces) -> Vec<u8> {
        let pieces: Vec<Vec<u8>> = pieces.map(Result::unwrap).collect();
        pieces.concat()
    }

    fn read(copy: &[u8]) -> Source<'_> {
        Source::of(copy).unwrap()
    }

    fn tables(open: &Open) -> usize {
        open.space(Space::Due).tree.table_count()
    }

    fn table_files(open: &Open) -> usize {
        let (directory, _) = open.next_table(Space::Due);
        std::fs::read_dir(directory).unwrap().count()
    }

    /// Buffers that are written out while a copy is made are given back at once.
    #[test]
    fn a_copy_keeps_no_buffer_that_is_filled_behind_its_moment() {
        let directory = TempDir::new().unwrap();
        let store = opened(&directory);
        let open = store.shared.open().unwrap();
        let row = open.space(Space::Row);
        row.insert("before", "1").unwrap();
        let mut pieces = store.backup().unwrap();
        assert!(pieces.next().unwrap().is_ok(), "the head");
        let mut filled = Vec::new();
        for round in 0..5 {
            row.insert("before", [round]).unwrap();
            row.insert(format!("behind {round}"), "2").unwrap();
            filled.push(Arc::downgrade(&row.tree.active_memtable()));
            row.rotate_memtable_and_wait().unwrap();
        }
        row.major_compact().unwrap();
        row.insert("behind", "3").unwrap();
        row.rotate_memtable_and_wait().unwrap();
        let held: Vec<bool> = filled
            .iter()
            .map(|buffer| buffer.strong_count() > 0)
            .collect();
        // The first is the buffer at the moment of the copy; the last two may be those of the present.
        assert_eq!(held[1..4], [false; 3], "{held:?}");
        let copy = whole(&mut pieces);
        let text = String::from_utf8_lossy(&copy);
        assert!(
            text.contains("before") && !text.contains("behind"),
            "a row behind the moment is in the copy"
        );
    }

    #[test]
    fn a_copy_has_what_is_erased_and_dropped_while_it_is_made() {
        let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = opened(&directory);
        let open = store.shared.open().unwrap();
        let first = NOW.0 / 1000;
        put_clocks(&open, [first, first]);
        put_ticks(&open, first + 1..first + 4);
        let mut pieces = store.backup().unwrap();
        let (there, files) = (tables(&open), table_files(&open));
        put_clocks(&open, [first + 9, first + 9]);
        for _ in 0..1000 {
            store.shared.drop_erased();
            if tables(&open) < there {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        assert!(tables(&open) < there, "they are dropped beside the copy");
        assert_eq!(table_files(&open), files, "and stay on disk for it");
        let copy = whole(&mut pieces);
        drop(pieces);
        let restored = restore::restore(read(&copy), other.path()).unwrap();
        assert_eq!(restored.head.shape, shape(2));
        assert!(restored.head.made >= NOW);
        // Six entries, six looks, and the clocks as they were.
        assert!(restored.counts.rows() >= 14, "{restored:?}");
        let open = opened(&other).shared.open().unwrap();
        let rows = open.space(Space::Due).iter().count();
        assert_eq!(rows, 6);
        let clock = clock::read(&open, WheelNumber::from_low_bits(1)).unwrap();
        assert_eq!(clock.erased, Tick(first));
    }

    #[test]
    fn a_directory_that_holds_a_store_and_a_copy_that_is_not_whole_are_refused() {
        let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = opened(&directory);
        let copy = whole(&mut store.backup().unwrap());
        let said = restore::restore(read(&copy[..copy.len() - 1]), other.path()).unwrap_err();
        assert!(said.to_string().contains("cut off"), "{said}");
        assert!(restore::check(read(&copy[..copy.len() - 1])).is_err());
        // The same directory takes the whole copy.
        let restored = restore::restore(read(&copy), other.path()).unwrap();
        assert_eq!(restore::check(read(&copy)).unwrap(), restored);
        let said = restore::restore(read(&copy), other.path()).unwrap_err();
        assert!(said.to_string().contains("holds a store already"), "{said}");
        drop(store);
        let said = restore::restore(read(&copy), directory.path()).unwrap_err();
        assert!(said.to_string().contains("holds a store already"), "{said}");
        opened(&other);
    }

    #[test]
    fn a_copy_ends_when_the_database_is_opened_anew() {
        let directory = TempDir::new().unwrap();
        let store = opened(&directory);
        let mut pieces = store.backup().unwrap();
        assert!(pieces.next().unwrap().is_ok(), "the head");
        assert!(
            pieces.next().unwrap().is_ok(),
            "the same database is read on"
        );
        let open = store.shared.replace(None);
        assert!(pieces.next().unwrap().is_err());
        store.shared.replace(open);
        assert!(pieces.next().is_none(), "it is not whole");
    }
}
