//! The journal check protects the store at each start: it finds out whether the journals are as they were
//! written.
//!
//! fjall reads them at a start, and cuts a journal off at the first place that it cannot read, whatever lies
//! behind. So all journals are read here before fjall may touch them:
//! - **A torn end** is left by a crash: a last batch that is cut short or garbled, and nothing whole behind
//!   it. It was never acknowledged, since its sync had not returned. It is cut off, and kept beside the
//!   journal as a `.torn` file.
//! - **Damage** is everything else: a broken place with a whole batch behind it, in the same journal or a
//!   later one; a sequence number out of order, which no checksum covers; a journal that is missing. No file
//!   is changed then. A person decides, and [`repair`] keeps every batch that is whole.
//!
//! # What is not seen
//! Every journal ends with zeros, from the end of its last batch on. A sealed journal that lost its last
//! batches exactly so looks whole. A loss of power may leave damage that only cost unacknowledged writes:
//! pages of several unsynced batches (clocks, heartbeats) that reached the disk out of order.

mod batch;
mod mend;
mod packed;
mod start;
mod survey;

use std::{
    fmt,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

pub use self::mend::{Repaired, repair};
pub(super) use self::start::prepare;
use self::survey::{Order, Survey};

/// Bytes of a journal that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The journal.
    pub journal: PathBuf,
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
    /// It is missing, while the journals before and after it are there.
    Missing,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (journal, behind) = (self.journal.display(), self.whole_behind);
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
            Kind::Missing => write!(
                f,
                "the journal {journal} is missing, and {behind} whole batches lie in later ones"
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

/// Lists the damage in the journals of a database, and changes nothing. Reads all of them. A torn end is no
/// damage.
///
/// # Errors
/// The disk's.
pub fn damages(store: &Path) -> io::Result<Vec<Damage>> {
    look(store).map(|found| found.damages)
}

/// Looks at all journals of a database, in order.
fn look(store: &Path) -> io::Result<Found> {
    Ok(judged(&surveyed(store)?))
}

fn surveyed(store: &Path) -> io::Result<Vec<Journal>> {
    let mut order = Order::default();
    let survey = |(number, path): (u64, PathBuf)| {
        let survey = Survey::of(&written(&path)?, &mut order);
        Ok(Journal {
            number,
            path,
            survey,
        })
    };
    listed(store)?.into_iter().map(survey).collect()
}

fn judged(journals: &[Journal]) -> Found {
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
            journal: journal.path.clone(),
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
    found
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
        journal: directory.join(format!("{number}.jnl")),
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

/// Lists the journals by number. Files with another name are left to the database, which refuses them.
fn listed(store: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for found in fs::read_dir(store)? {
        let path = found?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        if let Some(number) = number.filter(|_| is_journal) {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

/// Reads the written bytes of a journal, without the zeros at its end: its file is made longer than its
/// contents.
fn written(path: &Path) -> io::Result<Vec<u8>> {
    static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut bytes, mut zeros) = (Vec::new(), 0);
    loop {
        let read = file.read(&mut chunk)?;
        let read = chunk.get(..read).unwrap_or_default();
        if read.is_empty() {
            return Ok(bytes);
        }
        if ZEROS.starts_with(read) {
            zeros += read.len();
            continue;
        }
        let used = read
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        bytes.resize(bytes.len() + zeros, 0);
        bytes.extend_from_slice(read.get(..used).unwrap_or_default());
        zeros = read.len() - used;
    }
}
