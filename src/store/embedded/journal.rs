//! Repair of a torn journal: what a crash of the machine may leave at the end of the newest one.
//!
//! fjall cuts off an end that is cut short. It refuses a journal whose last batch is all there by its outline, but not in
//! its bytes: pages of one write reach the disk in any order. Such a batch was never acknowledged, since its sync had not
//! returned; it is set aside and cut off. A batch that is broken in the middle, with whole ones behind it, is not the trace
//! of a crash: that is left as it is, for a person to decide.
//!
//! Written against the format of fjall 3 (`src/journal/entry.rs`): `[1, items u32, seqno u64]`, items `[2, type u8,
//! compression u8, keyspace u64, key length u16, value length u32, stored length u32, key, value]` or `[4, keyspace u64]`,
//! then `[3, xxh3 of the items u64, magic]`; little-endian.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8] = b"FJL\x03";

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
    let bytes = fs::read(&path)?;
    let Some(cut) = broken_end(&bytes) else {
        return Ok(false);
    };
    let torn = bytes.get(cut..).unwrap_or_default();
    let kept = torn
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let aside = path.with_extension("torn");
    fs::write(&aside, torn.get(..kept).unwrap_or_default())?;
    File::open(&aside)?.sync_all()?;
    let journal = OpenOptions::new().write(true).open(&path)?;
    journal.set_len(u64::try_from(cut).unwrap_or(u64::MAX))?;
    journal.sync_all()?;
    Ok(true)
}

fn newest(store: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest = None;
    for found in fs::read_dir(store)? {
        let path = found?.path();
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| is_journal) {
            newest = newest.max(Some((number, path)));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Returns where a broken last batch begins; none when all are whole, or when whole ones follow a broken one.
#[must_use]
pub fn broken_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut broken = None;
    while let Some(batch) = bytes.get(at..).and_then(outline) {
        match (batch.whole, broken) {
            (true, None) => {}
            (true, Some(_)) => return None,
            (false, _) => broken = broken.or(Some(at)),
        }
        at += batch.end;
    }
    broken
}

fn outline(bytes: &[u8]) -> Option<Outline> {
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
                rest.number::<4>()?;
                let value = rest.number::<4>()?;
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
