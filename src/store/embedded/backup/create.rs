//! The copier reads the rows of a store as they were at one moment, for a backup.

use std::sync::Arc;

use fjall::{Iter, Readable as _, Snapshot};

use super::{
    format::{self, Counts, End, Head, PIECE_BYTES, Piece},
    under_way::Begun,
};
use crate::store::{
    Error,
    embedded::{
        disk::{
            database::{Open, Space},
            directory::FORMAT,
        },
        faults::fault,
        shared::Shared,
    },
};

/// The pieces of a copy, in order: the head, rows, the end. Reading one may wait for the disk. Drop it to end early.
pub struct Pieces {
    // Dropped in this order: the rows are read from the snapshot, which holds the database.
    rows: Option<Iter>,
    snapshot: Snapshot,
    open: Arc<Open>,
    shared: Arc<Shared>,
    next: Next,
    counts: Counts,
    /// Dropped last: tables may be dropped from then on.
    _begun: Begun,
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
    /// Rows of the keyspace at this place.
    Rows(usize),
    Nothing,
}

impl Pieces {
    pub(in crate::store::embedded) fn of(shared: &Arc<Shared>) -> Result<Self, Error> {
        // Before the moment of the copy: a table that was dropped behind it would be missed.
        let begun = shared.copies.begin();
        let open = shared.open()?;
        Ok(Self {
            rows: None,
            snapshot: open.snapshot(),
            open,
            shared: Arc::clone(shared),
            next: Next::Head,
            counts: Counts::default(),
            _begun: begun,
        })
    }

    fn piece(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.next {
            Next::Nothing => Ok(None),
            Next::Head => {
                self.next = Next::Rows(0);
                let head = Head {
                    shape: self.shared.shape,
                    made: self.shared.time.now(),
                };
                Ok(Some(format::head(&head, FORMAT)))
            }
            Next::Rows(place) => {
                self.is_current()?;
                let Some(space) = Space::ALL.get(place).copied() else {
                    self.next = Next::Nothing;
                    let end = End {
                        counts: self.counts,
                        digest: None,
                    };
                    return Ok(Some(format::end(&end)));
                };
                self.rows_of(space, place).map(Some)
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

    fn rows_of(&mut self, space: Space, place: usize) -> Result<Vec<u8>, Error> {
        let rows = self
            .rows
            .get_or_insert_with(|| self.snapshot.iter(self.open.space(space)));
        let (mut piece, mut count) = (Piece::of(space), 0);
        while piece.bytes() < PIECE_BYTES {
            let Some(row) = rows.next() else {
                (self.rows, self.next) = (None, Next::Rows(place + 1));
                break;
            };
            let row = row.into_inner();
            let (key, value) = row.map_err(|cause| fault("copy the store", &cause))?;
            piece.add(&key, &value);
            count += 1;
        }
        self.counts.add(space, count);
        Ok(piece.finish())
    }
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
            erased::tests::{NOW, put_clocks, put_ticks},
            reading::clock,
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

    #[test]
    fn a_copy_has_what_is_erased_and_dropped_while_it_is_made() {
        let (directory, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = opened(&directory);
        let open = store.shared.open().unwrap();
        let first = NOW.0 / 1000;
        put_clocks(&open, [first, first]);
        put_ticks(&open, first + 1..first + 4);
        let mut pieces = store.backup().unwrap();
        let there = tables(&open);
        put_clocks(&open, [first + 9, first + 9]);
        for _ in 0..20 {
            store.shared.drop_erased();
        }
        assert_eq!(tables(&open), there, "tables of the copy stay");
        let copy = whole(&mut pieces);
        drop(pieces);
        for _ in 0..1000 {
            store.shared.drop_erased();
            if tables(&open) < there {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        assert!(tables(&open) < there, "they go when it is made");
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
