//! Repair of a torn journal: what a crash of the machine may leave at the end of the newest one.
//!
//! fjall cuts off an end that is cut short. It refuses a journal whose last batch is all there by its outline, but not in
//! its bytes: pages of one write reach the disk in any order. Such a batch was never acknowledged, since its sync had not
//! returned; it is set aside and cut off. A batch that is broken in the middle, with whole ones behind it, is not the trace
//! of a crash: that is left as it is, for a person to decide.
//!
//! fjall also believes what an item says of its length, and asks for as much memory: up to 4 GiB for a flipped bit. So lengths
//! are looked at before it reads them, and a batch with one that nothing here writes is treated as a broken one.
//!
//! Written against the format of fjall 3 (`src/journal/entry.rs`): `[1, items u32, seqno u64]`, items `[2, type u8,
//! compression u8, keyspace u64, key length u16, value length u32, stored length u32, key, value]` or `[4, keyspace u64]`,
//! then `[3, xxh3 of the items u64, magic]`; little-endian.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::RECORD_BYTES_MAX;

const MAGIC: &[u8] = b"FJL\x03";

/// No item is longer: the largest is a content.
const ITEM_BYTES_MAX: u64 = 4 * RECORD_BYTES_MAX as u64;

/// A batch by its outline.
struct Outline {
    /// Where the next one begins.
    end: usize,
    /// Whether its bytes are what was written.
    whole: bool,
}

/// Cuts a broken last batch off the newest journal. True when there was one.
///
/// # Errors
/// The disk's.
pub fn repair(store: &Path) -> io::Result<bool> {
    let Some(path) = newest(store)? else {
        return Ok(false);
    };
    let bytes = written(&path)?;
    match broken_end(&bytes) {
        Some(cut) => cut_off(&path, &bytes, cut).map(|()| true),
        None => Ok(false),
    }
}

/// What was found of items that claim to be longer than any is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overlong {
    /// None.
    None,
    /// One in the last batch of the newest journal, which was cut off.
    Cut,
    /// One elsewhere: a person has to decide.
    In(PathBuf),
}

/// Looks at the lengths in all journals. Reads them once, from the page cache mostly: the database does it again.
pub(super) fn overlong(store: &Path) -> io::Result<Overlong> {
    let newest = newest(store)?;
    for path in journals(store)? {
        let bytes = written(&path)?;
        let Some(at) = overlong_in(&bytes) else {
            continue;
        };
        let behind = bytes.get(at..).unwrap_or_default();
        let is_last = !behind.windows(MAGIC.len()).any(|four| four == MAGIC);
        if !is_last || newest.as_ref() != Some(&path) {
            return Ok(Overlong::In(path));
        }
        cut_off(&path, &bytes, at)?;
        return Ok(Overlong::Cut);
    }
    Ok(Overlong::None)
}

/// Returns where the batch begins that has an item of a length that nothing here writes.
fn overlong_in(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match outline(bytes.get(at..)?) {
            Ok(batch) => at += batch.end,
            Err(Unreadable::Overlong) => return Some(at),
            Err(Unreadable::Ended) => return None,
        }
    }
}

/// Reads what was written of a journal, which is longer than that. So many zeros on end are in no item.
fn written(path: &Path) -> io::Result<Vec<u8>> {
    const CHUNK_BYTES: u64 = 2 * ITEM_BYTES_MAX;
    let (mut file, mut bytes) = (File::open(path)?, Vec::new());
    loop {
        let from = bytes.len();
        let read = (&mut file).take(CHUNK_BYTES).read_to_end(&mut bytes)?;
        let chunk = bytes.get(from..).unwrap_or_default();
        if read == 0 || chunk.iter().all(|byte| *byte == 0) {
            bytes.truncate(from);
            return Ok(bytes);
        }
    }
}

/// Sets what lies behind a place aside, and cuts the journal off there.
fn cut_off(path: &Path, bytes: &[u8], cut: usize) -> io::Result<()> {
    let torn = bytes.get(cut..).unwrap_or_default();
    let kept = torn
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let aside = path.with_extension("torn");
    fs::write(&aside, torn.get(..kept).unwrap_or_default())?;
    File::open(&aside)?.sync_all()?;
    let journal = OpenOptions::new().write(true).open(path)?;
    journal.set_len(u64::try_from(cut).unwrap_or(u64::MAX))?;
    journal.sync_all()
}

/// Lists the journals.
fn journals(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut journals = Vec::new();
    for found in fs::read_dir(store)? {
        let path = found?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            journals.push(path);
        }
    }
    journals.sort();
    Ok(journals)
}

fn newest(store: &Path) -> io::Result<Option<PathBuf>> {
    let numbered = journals(store)?.into_iter().filter_map(|path| {
        let number = path.file_stem()?.to_str()?.parse::<u64>().ok()?;
        Some((number, path))
    });
    Ok(numbered.max().map(|(_, path)| path))
}

/// Returns where a broken last batch begins; none when all are whole, or when whole ones follow a broken one.
#[must_use]
pub fn broken_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut broken = None;
    while let Some(Ok(batch)) = bytes.get(at..).map(outline) {
        match (batch.whole, broken) {
            (true, None) => {}
            (true, Some(_)) => return None,
            (false, _) => broken = broken.or(Some(at)),
        }
        at += batch.end;
    }
    broken
}

/// Why there is no outline.
enum Unreadable {
    /// There is no whole batch.
    Ended,
    /// An item claims to be longer than any is.
    Overlong,
}

fn outline(bytes: &[u8]) -> Result<Outline, Unreadable> {
    let mut overlong = false;
    let found = outline_or(bytes, &mut overlong);
    found.ok_or(if overlong {
        Unreadable::Overlong
    } else {
        Unreadable::Ended
    })
}

fn outline_or(bytes: &[u8], overlong: &mut bool) -> Option<Outline> {
    let mut rest = Reader { bytes, at: 0 };
    (rest.number::<1>()? == 1).then_some(())?;
    let items = rest.number::<4>()?;
    rest.number::<8>()?;
    let from = rest.at;
    let mut count = 0;
    loop {
        let to = rest.at;
        match rest.number::<1>()? {
            2 => {
                rest.skip(1 + 1 + 8)?;
                let key = rest.number::<2>()?;
                let (unpacked, value) = (rest.number::<4>()?, rest.number::<4>()?);
                *overlong = unpacked.max(value) > ITEM_BYTES_MAX;
                (!*overlong).then_some(())?;
                rest.skip(usize::try_from(key + value).ok()?)?;
            }
            4 => rest.skip(8)?,
            3 => {
                let checksum = rest.number::<8>()?;
                let magic = rest.skip_over(MAGIC.len())?;
                let sound = magic == MAGIC && count == items;
                return Some(Outline {
                    end: rest.at,
                    whole: sound && xxh3_64(bytes.get(from..to)?) == checksum,
                });
            }
            _ => return None,
        }
        count += 1;
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_over(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let skipped = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(skipped)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.skip_over(count).map(|_| ())
    }

    /// Reads a little-endian number of so many bytes.
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let read = self.skip_over(N)?;
        Some(
            read.iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }
}
