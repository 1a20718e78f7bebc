//! The witness tells the next start what the journals held when the store last answered a writer.
//!
//! A journal that was cut off, emptied or removed looks like one whose last batches were never written. So a small file beside
//! the database names the number of a batch that was synced, the journal that is written, and the parts of the database. It is
//! written behind each sync and not synced itself: after a loss of power it may name an earlier batch, never a later one than
//! the disk has. A directory of an earlier version has none, and then less is checked.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use super::files;

/// The name of the file in the data directory.
const NAME: &str = "SYNCED";

/// Bytes of what is noted, check sum included.
const NOTE_BYTES: usize = 48;

/// Notes take turns between two places, on different pages of the disk, so that one of them is whole.
const PLACES: [u64; 2] = [0, 4096];

const MAGIC: [u8; 8] = *b"twsynced";

/// Parts of the database that one note can name.
const PARTS_MAX: u32 = 64;

/// A note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// Counts the notes.
    turn: u64,
    /// The number of a journal that was there: the batch is in it or in a later one.
    pub(super) journal: u64,
    /// A batch of this sequence number, or of a later one, was synced. None was written before 1.
    pub(super) sequence: u64,
    /// The parts of the database, one bit for each number.
    parts: u64,
}

impl Note {
    fn bytes(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        let numbers = [self.turn, self.journal, self.sequence, self.parts];
        let fields = std::iter::once(MAGIC).chain(numbers.map(u64::to_le_bytes));
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field);
        }
        let sum = xxh3_64(bytes.get(..NOTE_BYTES - 8).unwrap_or_default());
        if let Some(place) = bytes.get_mut(NOTE_BYTES - 8..) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8; NOTE_BYTES]) -> Option<Self> {
        let mut fields = bytes.chunks_exact(8);
        let mut next = || fields.next().and_then(|field| field.try_into().ok());
        let (magic, turn, journal) = (next()?, next()?, next()?);
        let (sequence, parts) = (next()?, next()?);
        let note = Self {
            turn: u64::from_le_bytes(turn),
            journal: u64::from_le_bytes(journal),
            sequence: u64::from_le_bytes(sequence),
            parts: u64::from_le_bytes(parts),
        };
        (magic == MAGIC && note.bytes() == *bytes).then_some(note)
    }

    /// Returns the numbers of the parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = u32> {
        let parts = self.parts;
        (0..PARTS_MAX).filter(move |part| parts & (1 << part) != 0)
    }
}

fn file_of(store: &Path) -> PathBuf {
    store.with_file_name(NAME)
}

/// Reads the note about a database; none where there is none, or none that is whole.
pub(super) fn read(store: &Path) -> io::Result<Option<Note>> {
    let file = match File::open(file_of(store)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut newest: Option<Note> = None;
    for place in PLACES {
        let mut bytes = [0; NOTE_BYTES];
        match file.read_exact_at(&mut bytes, place) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error),
        }
        let note = Note::read(&bytes);
        newest = newest.into_iter().chain(note).max_by_key(|note| note.turn);
    }
    Ok(newest)
}

/// Gives up what was synced, as a person has accepted that it is lost. The parts of the database stay noted: one that is missing
/// would be begun anew otherwise.
///
/// # Errors
/// The disk's.
pub(super) fn give_up(store: &Path) -> io::Result<()> {
    if read(store)?.is_none() {
        return Ok(());
    }
    let mut witness = Witness::open(store)?;
    for _ in PLACES {
        witness.note(0, 0);
    }
    Ok(())
}

/// Forgets what was noted about a database of this name: it is created.
///
/// # Errors
/// The disk's.
pub(in crate::store::embedded) fn forget(store: &Path) -> io::Result<()> {
    match fs::remove_file(file_of(store)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells whether anything was written to a database since it was set up, as far as it was noted.
///
/// # Errors
/// The disk's.
pub(in crate::store::embedded) fn was_used(store: &Path) -> io::Result<bool> {
    Ok(read(store)?.is_some_and(|note| note.sequence > 0))
}

/// The writer of the notes.
#[derive(Debug)]
pub(in crate::store::embedded) struct Witness {
    store: PathBuf,
    /// None once a note could not be written.
    file: Option<File>,
    last: Note,
    /// Journals that there were when their numbers were looked up.
    journals: usize,
    /// The newest of them.
    newest: u64,
}

impl Witness {
    /// Goes on with the notes about a database that was opened, in which nothing was written yet. Where they cannot be written,
    /// none are.
    ///
    /// # Errors
    /// The disk's, for reads.
    pub(in crate::store::embedded) fn open(store: &Path) -> io::Result<Self> {
        let (before, newest) = (read(store)?, files::newest(store)?);
        let parts = files::parts(store)?
            .filter(|part| *part < PARTS_MAX)
            // One that was noted and is missing was refused before, or stays noted while a repair gives up batches.
            .fold(before.map_or(0, |note| note.parts), |parts, part| {
                parts | 1 << part
            });
        // The batch that was noted before is in the journal that was noted with it, or in a later one.
        let last = Note {
            turn: before.map_or(0, |note| note.turn),
            journal: before.map_or(newest, |note| note.journal),
            sequence: before.map_or(0, |note| note.sequence),
            parts,
        };
        let mut witness = Self {
            store: store.to_owned(),
            file: None,
            last,
            journals: 0,
            newest,
        };
        let begun = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(file_of(store));
        match begun {
            Ok(file) => witness.file = Some(file),
            Err(error) => untold(&error),
        }
        // Both places have their room on the disk from now on.
        for _ in PLACES {
            witness.write(last);
        }
        Ok(witness)
    }

    /// Returns the number of the newest journal, of so many. A batch that is written from now on is in it, or in a later one.
    pub(in crate::store::embedded) fn journal(&mut self, journals: usize) -> u64 {
        if journals != self.journals && self.file.is_some() {
            match files::newest(&self.store) {
                Ok(newest) => (self.newest, self.journals) = (newest, journals),
                Err(error) => {
                    untold(&error);
                    self.file = None;
                }
            }
        }
        self.newest
    }

    /// Notes that a batch of this number, or of a later one, was synced, and lies in this journal or in a later one.
    pub(in crate::store::embedded) fn note(&mut self, sequence: u64, journal: u64) {
        self.write(Note {
            journal,
            sequence,
            ..self.last
        });
    }

    /// Writes a note. One that cannot be written is told once: the store is as good without, and less of its damage is seen.
    fn write(&mut self, note: Note) {
        let Some(file) = &self.file else {
            return;
        };
        let next = Note {
            turn: self.last.turn.saturating_add(1),
            ..note
        };
        let [even, odd] = PLACES;
        let place = if next.turn.is_multiple_of(2) {
            even
        } else {
            odd
        };
        match file.write_all_at(&next.bytes(), place) {
            Ok(()) => self.last = next,
            Err(error) => {
                untold(&error);
                self.file = None;
            }
        }
    }
}

fn untold(error: &io::Error) {
    tracing::warn!(
        %error,
        "what is synced cannot be noted: a journal that is cut off would look like one that ended there"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &tempfile::TempDir) -> PathBuf {
        let store = directory.path().join("store");
        fs::create_dir_all(store.join("keyspaces/3")).unwrap();
        fs::write(store.join("keyspaces/3/current"), "").unwrap();
        fs::write(store.join("7.jnl"), "").unwrap();
        store
    }

    #[test]
    fn the_newest_note_that_is_whole_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        assert_eq!(read(&store).unwrap(), None);
        let mut witness = Witness::open(&store).unwrap();
        for sequence in [5, 9] {
            let journal = witness.journal(1);
            witness.note(sequence, journal);
        }
        let noted = read(&store).unwrap().unwrap();
        assert_eq!((noted.journal, noted.sequence), (7, 9));
        assert_eq!(noted.parts().collect::<Vec<_>>(), [3]);
        let file = file_of(&store);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            let read = read(&store).unwrap().unwrap();
            assert!(read.sequence == 9 || read.sequence == 5, "{at}");
        }
        fs::write(&file, &whole[..20]).unwrap();
        assert_eq!(read(&store).unwrap(), None);
    }

    #[test]
    fn a_start_keeps_the_journal_and_the_batch_that_were_noted_together() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let mut witness = Witness::open(&store).unwrap();
        assert!(!was_used(&store).unwrap());
        assert_eq!(witness.journal(1), 7);
        witness.note(9, 7);
        // The batch of number 9 is in journal 7 still.
        fs::write(store.join("8.jnl"), "").unwrap();
        let mut witness = Witness::open(&store).unwrap();
        let noted = read(&store).unwrap().unwrap();
        assert_eq!((noted.journal, noted.sequence), (7, 9));
        assert_eq!(witness.journal(2), 8);
        witness.note(12, 8);
        let noted = read(&store).unwrap().unwrap();
        assert_eq!((noted.journal, noted.sequence), (8, 12));
        assert!(was_used(&store).unwrap());
        forget(&store).unwrap();
        forget(&store).unwrap();
        assert_eq!(read(&store).unwrap(), None);
    }
}
