//! The journal check protects the store at each start: it finds out whether the journals are as they were
//! written.
//!
//! fjall reads them at a start, and cuts a journal off at the first place that it cannot read, whatever lies
//! behind. So all journals are read here before fjall may touch them:
//! - **A torn end** is left by a crash: a last batch that is cut short or garbled, and nothing whole behind
//!   it. It was never acknowledged, since its sync had not returned. It is cut off, and kept beside the
//!   journal as a `.torn` file.
//! - **Damage** is everything else: a broken place with a whole batch behind it, in the same journal or a
//!   later one; a sequence number out of order, which no checksum covers; a journal that is missing; journals
//!   that end before what was synced, as the witness tells. No file is changed then. A person decides, and
//!   [`repair`] keeps every batch that is whole.
//! - **A missing file** beside the journals is damage that no repair can undo. A part of the database whose tables no
//!   file names would be taken for new, and its folder be emptied. Nothing is changed then.
//!
//! # What is not seen
//! Every journal ends with zeros, from the end of its last batch on. A sealed journal that lost its last
//! batches exactly so looks whole, and the oldest journal may be removed, as the database does it. A loss of
//! power may leave damage that only cost unacknowledged writes: pages of several unsynced batches (clocks,
//! heartbeats) that reached the disk out of order.

mod batch;
mod files;
mod mend;
mod packed;
mod start;
mod survey;
pub(super) mod witness;

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

pub use self::mend::{Repaired, repair};
pub(super) use self::start::prepare;
use self::{
    survey::{Order, Survey},
    witness::Note,
};

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The journal, or the other file.
    pub file: PathBuf,
    /// The defect.
    pub kind: Kind,
    /// Whole batches behind the place, in this journal and later ones.
    pub whole_behind: u64,
}

/// A defect of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes are not as they were written.
    Broken {
        /// Where they begin.
        at: u64,
        /// How many there are.
        bytes: u64,
    },
    /// The sequence number of a batch does not fit between those of its neighbours.
    Misnumbered {
        /// Where the batch begins.
        at: u64,
        /// Its number.
        found: u64,
    },
    /// It is missing, while the journals before and after it are there, or though it held what was written last.
    Missing,
    /// The journals end before a batch that was synced.
    CutOff {
        /// The sequence number of the last batch that is there; none where there is no batch.
        last: Option<u64>,
        /// A batch of this number, or of a later one, was synced.
        synced: u64,
    },
    /// A file of the database is missing: one that names the tables of a part, or that says which version it is of.
    Nameless,
}

impl Kind {
    /// Tells whether a repair can keep the rest.
    #[must_use]
    pub const fn is_mended(self) -> bool {
        match self {
            Self::Broken { .. }
            | Self::Misnumbered { .. }
            | Self::Missing
            | Self::CutOff { .. } => true,
            Self::Nameless => false,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (journal, behind) = (self.file.display(), self.whole_behind);
        match self.kind {
            Kind::Broken { at, bytes } => write!(
                f,
                "the journal {journal} is damaged at byte {at}: {bytes} bytes are not what was written, and {behind} whole \
                 batches lie behind them"
            ),
            Kind::Misnumbered { at, found } => write!(
                f,
                "the journal {journal} is damaged at byte {at}: a batch has the sequence number {found}, which does not fit \
                 between those of its neighbours"
            ),
            Kind::Missing if behind == 0 => write!(
                f,
                "the journal {journal} is missing, which was written last"
            ),
            Kind::Missing => write!(
                f,
                "the journal {journal} is missing, and {behind} whole batches lie in later ones"
            ),
            Kind::CutOff { last, synced } => {
                write!(f, "the journal {journal} was cut off: ")?;
                match last {
                    Some(last) => write!(f, "its last batch has the sequence number {last}")?,
                    None => write!(f, "it has no batch")?,
                }
                write!(f, ", and batches up to number {synced} were synced")
            }
            Kind::Nameless => write!(
                f,
                "the file {journal} is missing, without which the database is not opened, or begins a part anew"
            ),
        }
    }
}

/// A broken end that a crash left.
#[derive(Debug, PartialEq, Eq)]
struct Torn {
    journal: PathBuf,
    at: usize,
}

/// The findings.
#[derive(Debug, Default)]
struct Found {
    damages: Vec<Damage>,
    torn: Vec<Torn>,
}

/// A journal and its contents.
struct Journal {
    number: u64,
    path: PathBuf,
    survey: Survey,
}

/// Lists the damage in the journals and parts of a database, and changes nothing. Reads all journals. A torn end is no
/// damage.
///
/// # Errors
/// The disk's.
pub fn damages(store: &Path) -> io::Result<Vec<Damage>> {
    look(store).map(|found| found.damages)
}

/// Looks at all journals of a database, in order.
fn look(store: &Path) -> io::Result<Found> {
    let (journals, note) = (surveyed(store)?, witness::read(store)?);
    let mut found = judged(store, &journals, note.as_ref());
    found.damages.extend(nameless(store, note.as_ref())?);
    Ok(found)
}

/// Returns the files that are missing beside the journals. Without some of them the database would begin a part anew.
fn nameless(store: &Path, note: Option<&Note>) -> io::Result<Vec<Damage>> {
    let mut parts = files::nameless(store)?;
    let noted = note.into_iter().flat_map(Note::parts);
    parts.extend(noted.filter(|part| !files::current(store, *part).exists()));
    parts.sort_unstable();
    parts.dedup();
    let mut missing: Vec<PathBuf> = files::absent(store)?;
    missing.extend(parts.into_iter().map(|part| files::current(store, part)));
    let damage = |file| Damage {
        file,
        kind: Kind::Nameless,
        whole_behind: 0,
    };
    Ok(missing.into_iter().map(damage).collect())
}

fn surveyed(store: &Path) -> io::Result<Vec<Journal>> {
    let mut order = Order::default();
    let survey = |(number, path): (u64, PathBuf)| {
        let survey = Survey::of(&files::written(&path)?, &mut order);
        Ok(Journal {
            number,
            path,
            survey,
        })
    };
    files::journals(store)?.into_iter().map(survey).collect()
}

fn judged(store: &Path, journals: &[Journal], note: Option<&Note>) -> Found {
    let mut found = Found::default();
    let mut later = 0;
    let mut next_number = None;
    for journal in journals.iter().rev() {
        let survey = &journal.survey;
        if let Some(next) = next_number {
            found.damages.extend(missing(journal, next, later));
        }
        next_number = Some(journal.number);
        let mut here = Vec::new();
        let damage = |kind, whole_behind| Damage {
            file: journal.path.clone(),
            kind,
            whole_behind,
        };
        for hole in &survey.holes {
            here.push(damage(
                broken(&hole.bytes),
                later + survey.batches - hole.before,
            ));
        }
        for wrong in &survey.misnumbered {
            let kind = Kind::Misnumbered {
                at: wrong.at as u64,
                found: wrong.found,
            };
            here.push(damage(kind, later + survey.batches - wrong.before - 1));
        }
        match &survey.broken_end {
            Some(end) if later > 0 => here.push(damage(broken(end), later)),
            Some(end) => found.torn.push(Torn {
                journal: journal.path.clone(),
                at: end.start,
            }),
            None => {}
        }
        found.damages.extend(here.into_iter().rev());
        later += survey.batches;
    }
    found.damages.reverse();
    found.damages.extend(shortened(store, journals, note));
    found
}

/// Returns what is missing at the end of the journals. A database has a journal at any time, the oldest are removed first, and
/// the newest never is.
fn shortened(store: &Path, journals: &[Journal], note: Option<&Note>) -> Option<Damage> {
    let damage = |file: PathBuf, kind| {
        Some(Damage {
            file,
            kind,
            whole_behind: 0,
        })
    };
    let noted = note.map_or(0, |note| note.journal);
    let newest = journals.last().filter(|newest| newest.number >= noted);
    let Some(newest) = newest else {
        return damage(store.join(format!("{noted}.jnl")), Kind::Missing);
    };
    let note = note?;
    // Where the journal of the note was removed, what it held is in tables, and nothing is known of later ones.
    let from = journals.iter().position(|one| one.number == noted)?;
    let later = journals.get(from..).unwrap_or_default().iter();
    let last = later.filter_map(|journal| journal.survey.last).max();
    let (is_there, synced) = (
        last.is_some_and(|last| last >= note.sequence),
        note.sequence,
    );
    if is_there || synced == 0 {
        return None;
    }
    damage(newest.path.clone(), Kind::CutOff { last, synced })
}

/// Returns the journals that are missing between one and the next that is there. They are numbered one after
/// the other, and the oldest are removed first.
fn missing(journal: &Journal, next: u64, later: u64) -> impl Iterator<Item = Damage> {
    /// The most journals that are reported of a large gap, because a repair would make each anew.
    const TOLD_MAX: usize = 100;
    let directory = journal
        .path
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default();
    let absent = (journal.number + 1..next).rev().take(TOLD_MAX);
    absent.map(move |number| Damage {
        file: directory.join(format!("{number}.jnl")),
        kind: Kind::Missing,
        whole_behind: later,
    })
}

fn broken(bytes: &std::ops::Range<usize>) -> Kind {
    Kind::Broken {
        at: bytes.start as u64,
        bytes: bytes.len() as u64,
    }
}
