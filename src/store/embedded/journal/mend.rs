//! The repair mends journals for operators: a torn end is cut off, a damaged place is set aside, and whole
//! batches are kept.
//!
//! The part set aside is on the disk before anything is changed. A mended journal is written beside the
//! damaged one and takes its place by a rename. A crash leaves the one or the other, and a repair that is run
//! again goes on from there.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    ops::Range,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
};

use super::{Damage, Journal, Kind, batch::SEQUENCE_AT, files::written, judged, surveyed, witness};
use crate::store::embedded::{
    private::create_anew,
    sync::{sync, sync_directory},
};

/// Names that are tried for a part set aside, when there is a file of that name already.
const NAMES_MAX: usize = 1000;

/// The repair of a damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The place.
    pub damage: Damage,
    /// The place of its copy; none for a journal that was missing, or cut off.
    pub aside: Option<PathBuf>,
}

/// Repairs the journals of a database that no process uses. It sets the damaged parts aside as files in
/// `aside`, and keeps all whole batches before and behind them. A batch with a broken sequence number is kept
/// and numbered anew. Batches that are missing at the end are given up.
///
/// A torn end behind whole batches is left to the start, which cuts it off. A part without a name cannot be mended.
///
/// # Errors
/// The disk's. The journals mended until then stay mended. It can be called again.
pub fn repair(store: &Path, aside: &Path) -> io::Result<Vec<Repaired>> {
    let journals = surveyed(store)?;
    let found = judged(store, &journals, witness::read(store)?.as_ref());
    let mut repaired = Vec::new();
    for journal in &journals {
        let damages: Vec<&Damage> = found
            .damages
            .iter()
            .filter(|damage| damage.file == journal.path && has_place(damage))
            .collect();
        if damages.is_empty() {
            continue;
        }
        let bytes = written(&journal.path)?;
        let mut kept = Vec::new();
        for damage in damages {
            let lost = place(damage, &bytes);
            let copy = set_aside(aside, damage, bytes.get(lost).unwrap_or_default())?;
            kept.push(Repaired {
                damage: damage.clone(),
                aside: Some(copy),
            });
        }
        sync_directory(aside)?;
        replace(journal, &mended(journal, bytes, &kept))?;
        repaired.extend(kept);
    }
    for damage in found.damages {
        if damage.kind == Kind::Missing {
            // An empty journal: the next start finds its number, and no batch in it.
            let empty = File::create_new(&damage.file)?;
            let owner = fs::metadata(store)?;
            chown(&damage.file, Some(owner.uid()), Some(owner.gid()))?;
            sync(&empty)?;
        }
        if !has_place(&damage) {
            repaired.push(Repaired {
                damage,
                aside: None,
            });
        }
    }
    sync_directory(store)?;
    if !repaired.is_empty() {
        // Last: until then a repair that was ended goes on.
        witness::give_up(store)?;
    }
    Ok(repaired)
}

/// Tells whether the defect is a place in a journal that is there.
const fn has_place(damage: &Damage) -> bool {
    matches!(damage.kind, Kind::Broken { .. } | Kind::Misnumbered { .. })
}

/// Returns the bytes that are set aside.
fn place(damage: &Damage, bytes: &[u8]) -> Range<usize> {
    let range = |at: u64, count: u64| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let end = at.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        at..end.min(bytes.len())
    };
    match damage.kind {
        Kind::Broken { at, bytes } => range(at, bytes),
        // Only its head is set aside, because everything else is kept.
        Kind::Misnumbered { at, .. } => range(at, (SEQUENCE_AT + 8) as u64),
        Kind::Missing | Kind::CutOff { .. } | Kind::Nameless => 0..0,
    }
}

/// Returns the journal without its broken parts, and with numbers that fit.
fn mended(journal: &Journal, mut bytes: Vec<u8>, repaired: &[Repaired]) -> Vec<u8> {
    for wrong in &journal.survey.misnumbered {
        let at = wrong.at + SEQUENCE_AT;
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&wrong.fitting.to_le_bytes());
        }
    }
    let mut kept = Vec::with_capacity(bytes.len());
    let mut from = 0;
    let broken = repaired
        .iter()
        .filter_map(|repaired| match repaired.damage.kind {
            Kind::Broken { .. } => Some(place(&repaired.damage, &bytes)),
            Kind::Misnumbered { .. } | Kind::Missing | Kind::CutOff { .. } | Kind::Nameless => None,
        });
    for lost in broken {
        kept.extend_from_slice(bytes.get(from..lost.start).unwrap_or_default());
        from = lost.end;
    }
    kept.extend_from_slice(bytes.get(from..).unwrap_or_default());
    kept
}

/// Puts a mended journal in the place of a damaged one.
fn replace(journal: &Journal, mended: &[u8]) -> io::Result<()> {
    let new = journal.path.with_extension("mended");
    let mut file = create_anew(&new)?;
    file.write_all(mended)?;
    // The service must be able to use it, whoever runs the repair.
    let before = fs::metadata(&journal.path)?;
    file.set_permissions(before.permissions())?;
    chown(&new, Some(before.uid()), Some(before.gid()))?;
    sync(&file)?;
    fs::rename(&new, &journal.path)?;
    sync_directory(parent(&journal.path))
}

fn parent(journal: &Path) -> &Path {
    journal.parent().unwrap_or(journal)
}

fn set_aside(directory: &Path, damage: &Damage, bytes: &[u8]) -> io::Result<PathBuf> {
    let name = damage.file.file_name().unwrap_or_default();
    let at = match damage.kind {
        Kind::Broken { at, .. } | Kind::Misnumbered { at, .. } => at,
        Kind::Missing | Kind::CutOff { .. } | Kind::Nameless => 0,
    };
    let stem = format!("damaged-{}-{at}", name.to_string_lossy());
    keep(&directory.join(stem), bytes)
}

/// Writes a file of a name that is not taken, and waits until it is on the disk.
fn keep(stem: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..=NAMES_MAX {
        let mut name = stem.as_os_str().to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let path = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                sync(&file)?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The result of cutting off a torn end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) bytes: usize,
    /// The place where the cut part is kept; none when the disk has no room for it.
    pub(super) kept: Option<PathBuf>,
}

/// Cuts a journal off, and keeps the cut part beside it.
pub(super) fn cut_off(journal: &Path, at: usize) -> io::Result<Cut> {
    let bytes = written(journal)?;
    let torn = bytes.get(at..).unwrap_or_default();
    let aside = journal.with_extension(format!("{at}.torn"));
    let kept = match fs::write(&aside, torn).and_then(|()| sync(&File::open(&aside)?)) {
        Ok(()) => Some(aside),
        // The part was never acknowledged. A store on a full disk that cannot be opened would be worse than
        // its loss.
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            fs::remove_file(&aside).or_else(|error| match error.kind() {
                ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            None
        }
        Err(error) => return Err(error),
    };
    sync_directory(parent(journal))?;
    let file = OpenOptions::new().write(true).open(journal)?;
    file.set_len(u64::try_from(at).unwrap_or(u64::MAX))?;
    sync(&file)?;
    Ok(Cut {
        bytes: torn.len(),
        kept,
    })
}
