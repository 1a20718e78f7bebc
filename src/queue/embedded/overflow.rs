//! The overflow keeps for a partition the records that do not fit into memory: a file that is appended to and
//! read in order.
//!
//! It promises order and bounded disk: the file is written in segments, and each is deleted once it was read.
//! It is not synced, and no other process reads it: a record of a task is only a copy of what the store
//! knows. A write that fails (a full disk) leaves the file as it was. Files stay open as long as the queue's
//! [`Budget`] allows.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{budget::Budget, kept::Kept};
use crate::{limits, model::time::Millis};

/// The suffix of the files. At start, files with it that another life of the process left are deleted.
pub(super) const SUFFIX: &str = ".overflow";

/// Marks a record without key; longer than any key can be.
const NO_KEY: u32 = u32::MAX;

/// Bytes of the length in front of each record.
const LENGTH_BYTES: usize = 4;

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    budget: Arc<Budget>,
    /// None while it is closed.
    file: Option<File>,
    written: u64,
    read: u64,
}

impl Segment {
    /// Makes the file.
    fn create(path: PathBuf, budget: Arc<Budget>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        budget.opened();
        Ok(Self {
            path,
            budget,
            file: Some(file),
            written: 0,
            read: 0,
        })
    }

    /// Does something with the open file, and closes it if too many are open.
    fn with<T>(&mut self, act: impl FnOnce(&mut Self, &File) -> io::Result<T>) -> io::Result<T> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
                self.budget.opened();
                file
            }
        };
        let done = act(self, &file);
        if self.budget.too_many_files() {
            drop(file);
            self.budget.closed();
        } else {
            self.file = Some(file);
        }
        done
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.file.is_some() {
            self.budget.closed();
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot delete an overflow file");
        }
    }
}

/// The records of one partition that wait on disk.
#[derive(Debug)]
pub(super) struct Overflow {
    stem: PathBuf,
    budget: Arc<Budget>,
    segments: VecDeque<Segment>,
    made: u64,
    records: usize,
}

impl Overflow {
    /// Returns an overflow without records, whose files will be called `stem` and a number. It does not touch
    /// the disk.
    pub(super) const fn new(stem: PathBuf, budget: Arc<Budget>) -> Self {
        Self {
            stem,
            budget,
            segments: VecDeque::new(),
            made: 0,
            records: 0,
        }
    }

    /// Returns how many records wait on disk.
    pub(super) const fn len(&self) -> usize {
        self.records
    }

    /// Appends records, in order, in as few writes as their size allows. Returns how many were appended, and
    /// the answer of the disk to the next one.
    pub(super) fn append(&mut self, records: &[Kept]) -> (usize, io::Result<()>) {
        let mut rest = records.iter().peekable();
        let before = self.records;
        while rest.peek().is_some() {
            if let Err(error) = self.write(&mut rest) {
                return (self.records - before, Err(error));
            }
        }
        (records.len(), Ok(()))
    }

    /// Writes the next of the records: at least one, as many as go into one write.
    ///
    /// # Errors
    /// The disk's; none of the records that were taken is appended then.
    fn write<'a>(&mut self, records: &mut impl Iterator<Item = &'a Kept>) -> io::Result<()> {
        self.budget.has_disk(limits::OVERFLOW_WRITE_BYTES)?;
        let full = |segment: &Segment| segment.written >= limits::OVERFLOW_SEGMENT_BYTES;
        if self.segments.back().is_none_or(full) {
            let path = numbered(&self.stem, self.made);
            let segment = Segment::create(path, Arc::clone(&self.budget))?;
            self.made += 1;
            self.segments.push_back(segment);
        }
        let mut bytes = BytesMut::new();
        let mut count = 0;
        while bytes.len() < limits::OVERFLOW_WRITE_BYTES
            && let Some(kept) = records.next()
        {
            encode(kept, &mut bytes);
            count += 1;
        }
        if let Some(segment) = self.segments.back_mut() {
            // Written at its place, so that the next write replaces the remains of a failed one.
            segment.with(|segment, file| file.write_all_at(&bytes, segment.written))?;
            segment.written += bytes.len() as u64;
            self.records += count;
        }
        Ok(())
    }

    /// Takes the oldest records: up to about [`limits::OVERFLOW_READ_BYTES`] of them, at least one if there
    /// is any.
    ///
    /// # Errors
    /// The disk's. All records of the overflow are given up then: the looks of their tasks publish them
    /// again.
    pub(super) fn take(&mut self) -> Result<Vec<Arc<Kept>>, Lost> {
        let Some(segment) = self.segments.front_mut() else {
            return Ok(Vec::new());
        };
        match segment.with(read) {
            Ok(taken) => {
                self.records = self.records.saturating_sub(taken.len());
                if segment.read >= segment.written {
                    self.segments.pop_front();
                }
                Ok(taken)
            }
            Err(error) => {
                // It is not known how many records the segment had, so all segments are given up.
                let records = std::mem::take(&mut self.records);
                self.segments.clear();
                Err(Lost { records, error })
            }
        }
    }
}

/// Records that cannot be read back.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) records: usize,
    pub(super) error: io::Error,
}

fn numbered(stem: &Path, number: u64) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(format!("-{number}{SUFFIX}"));
    name.into()
}

/// Reads whole records from where the segment was read last.
fn read(segment: &mut Segment, file: &File) -> io::Result<Vec<Arc<Kept>>> {
    let left = segment.written - segment.read;
    let mut size = left.min(limits::OVERFLOW_READ_BYTES);
    loop {
        let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, segment.read)?;
        let mut rest = Bytes::from(bytes);
        let mut taken = Vec::new();
        let mut needed = 0;
        while rest.remaining() >= LENGTH_BYTES {
            let length =
                usize::try_from(rest.slice(..LENGTH_BYTES).get_u32()).map_err(io::Error::other)?;
            needed = LENGTH_BYTES + length;
            if rest.remaining() < needed {
                break;
            }
            rest.advance(LENGTH_BYTES);
            taken.push(Arc::new(
                decode(rest.split_to(length)).ok_or(io::ErrorKind::InvalidData)?,
            ));
            segment.read += needed as u64;
        }
        if !taken.is_empty() {
            return Ok(taken);
        }
        if needed as u64 <= size || needed as u64 > left {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // This single record is larger than one read.
        size = needed as u64;
    }
}

/// Appends the bytes of a record.
fn encode(kept: &Kept, bytes: &mut BytesMut) {
    let begin = bytes.len();
    bytes.reserve(kept.bytes + 64);
    bytes.put_u32(0);
    bytes.put_i64(kept.at.0);
    match &kept.key {
        Some(key) => put(bytes, key),
        None => bytes.put_u32(NO_KEY),
    }
    put(bytes, &kept.value);
    bytes.put_u32(length(kept.headers.len()));
    for (name, value) in &kept.headers {
        put(bytes, name.as_bytes());
        put(bytes, value);
    }
    let size = length(bytes.len() - begin - LENGTH_BYTES);
    if let Some(head) = bytes.get_mut(begin..begin + LENGTH_BYTES) {
        head.copy_from_slice(&size.to_be_bytes());
    }
}

fn put(bytes: &mut BytesMut, part: &[u8]) {
    bytes.put_u32(length(part.len()));
    bytes.put_slice(part);
}

/// Returns a length as `u32`: a record is far below 4 GiB ([`limits::RECORD_BYTES_MAX`]).
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn decode(mut bytes: Bytes) -> Option<Kept> {
    let at = Millis(bytes.try_get_i64().ok()?);
    let key = match bytes.try_get_u32().ok()? {
        NO_KEY => None,
        length => Some(part(&mut bytes, length)?),
    };
    let length = bytes.try_get_u32().ok()?;
    let value = part(&mut bytes, length)?;
    let count = bytes.try_get_u32().ok()?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_u32().ok()?;
        let name = String::from_utf8(part(&mut bytes, length)?.to_vec()).ok()?;
        let length = bytes.try_get_u32().ok()?;
        headers.push((name.into(), part(&mut bytes, length)?));
    }
    Some(Kept::new(at, key, value, headers))
}

/// Returns a copy of a part, so that a small record does not keep alive everything that was read with it.
fn part(bytes: &mut Bytes, length: u32) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    (bytes.remaining() >= length).then(|| Bytes::copy_from_slice(&bytes.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(number: usize, bytes: usize) -> Kept {
        let value = Bytes::from(vec![b'x'; bytes]);
        let headers = vec![
            ("n".into(), Bytes::from(number.to_string())),
            ("".into(), Bytes::new()),
        ];
        let key = number
            .is_multiple_of(2)
            .then(|| Bytes::from_static(b"\x00key"));
        Kept::new(Millis(number as i64 - 5), key, value, headers)
    }

    /// An overflow among many: its files are closed after each use.
    fn overflow(stem: &Path) -> Overflow {
        Overflow::new(stem.to_owned(), Arc::new(Budget::new(0, 0)))
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn records_come_back_unchanged_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut overflow = overflow(&dir.path().join("0-0"));
        assert_eq!(files(dir.path()), 0);
        let sizes = [0, 1, 1000, 2 * 1024 * 1024, 300_000, 7];
        let sent: Vec<Kept> = (0..100).map(|n| kept(n, sizes[n % sizes.len()])).collect();
        let (mut rest, mut size) = (sent.as_slice(), 1);
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            assert!(matches!(overflow.append(batch), (count, Ok(())) if count == batch.len()));
            (rest, size) = (later, size + 1);
        }
        assert_eq!(overflow.len(), 100);
        assert!(files(dir.path()) > 1, "written in segments");
        let mut taken = Vec::new();
        while overflow.len() > 0 {
            let some = overflow.take().unwrap();
            assert!(!some.is_empty());
            taken.extend(some);
        }
        assert!(sent.iter().zip(&taken).all(|(one, other)| *one == **other));
        assert_eq!((taken.len(), files(dir.path())), (100, 0));
    }

    #[test]
    fn reading_and_writing_may_alternate() {
        let dir = tempfile::tempdir().unwrap();
        let mut overflow = overflow(&dir.path().join("0-0"));
        let (mut next, mut seen) = (0, 0);
        for _ in 0..20 {
            for _ in 0..3 {
                overflow.append(&[kept(next, 100_000)]).1.unwrap();
                next += 1;
            }
            for one in overflow.take().unwrap() {
                assert_eq!(*one, kept(seen, 100_000));
                seen += 1;
            }
        }
        assert!(seen > 20 && overflow.len() == next - seen);
        drop(overflow);
        assert_eq!(files(dir.path()), 0, "its files go with it");
    }

    #[test]
    fn records_of_a_batch_share_writes() {
        let dir = tempfile::tempdir().unwrap();
        let mut overflow = overflow(&dir.path().join("0-0"));
        let batch: Vec<Kept> = (0..100).map(|n| kept(n, 1000)).collect();
        let mut records = batch.iter();
        overflow.write(&mut records).unwrap();
        assert_eq!((overflow.len(), records.len()), (100, 0));
        let large: Vec<Kept> = (0..4)
            .map(|n| kept(n, limits::OVERFLOW_WRITE_BYTES / 2))
            .collect();
        let mut records = large.iter();
        overflow.write(&mut records).unwrap();
        assert_eq!((overflow.len(), records.len()), (102, 2));
    }

    #[test]
    fn what_the_disk_takes_of_a_batch_is_counted_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut overflow = overflow(&dir.path().join("0-0"));
        // Eight of these fill the first file, and the second cannot be made.
        let in_the_way = numbered(&dir.path().join("0-0"), 1);
        std::fs::write(&in_the_way, []).unwrap();
        let batch: Vec<Kept> = (0..9).map(|n| kept(n, 2 * 1024 * 1024)).collect();
        assert!(matches!(overflow.append(&batch), (8, Err(_))));
        assert_eq!(overflow.len(), 8);
        std::fs::remove_file(&in_the_way).unwrap();
        assert!(matches!(overflow.append(&batch[8..]), (1, Ok(()))));
        let mut taken = Vec::new();
        while overflow.len() > 0 {
            taken.extend(overflow.take().unwrap());
        }
        assert!(batch.iter().zip(&taken).all(|(one, other)| *one == **other));
        assert_eq!(taken.len(), 9);
    }

    #[test]
    fn the_reserve_of_the_disk_is_left_alone_and_what_lies_there_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let on_disk = |reserve| Arc::new(Budget::on_disk(dir.path().to_owned(), reserve));
        let mut overflow = Overflow::new(dir.path().join("0-0"), on_disk(0));
        overflow.append(&[kept(0, 1000)]).1.unwrap();
        overflow.budget = on_disk(u64::MAX);
        let (count, answer) = overflow.append(&[kept(1, 1000)]);
        let refusal = answer.unwrap_err();
        assert_eq!((count, refusal.kind()), (0, io::ErrorKind::StorageFull));
        assert!(
            refusal.to_string().contains("are kept for claims"),
            "{refusal}"
        );
        assert_eq!(*overflow.take().unwrap()[0], kept(0, 1000));
    }

    #[test]
    fn a_disk_that_refuses_is_told_and_a_file_that_is_damaged_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut nowhere = overflow(&dir.path().join("missing/0-0"));
        assert!(matches!(nowhere.append(&[kept(0, 1)]), (0, Err(_))));
        assert_eq!(nowhere.len(), 0);
        let mut overflow = overflow(&dir.path().join("0-0"));
        overflow.append(&[kept(0, 1), kept(1, 1)]).1.unwrap();
        std::fs::write(dir.path().join(format!("0-0-0{SUFFIX}")), [0xff; 200]).unwrap();
        assert_eq!(overflow.take().unwrap_err().records, 2);
        assert_eq!(overflow.len(), 0);
        overflow.append(&[kept(2, 1)]).1.unwrap();
        assert_eq!(*overflow.take().unwrap()[0], kept(2, 1));
    }
}
