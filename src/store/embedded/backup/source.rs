//! The source reads a copy for the restorer and the checker: a whole one, or an increment together with the copies below it.
//!
//! Rows of a copy are sorted, keyspace by keyspace and by key in each. So an increment is put upon the copy that it rests on in
//! one walk over both, with a piece of each in memory. The sum over all rows tells whether the result is the copy that the
//! increment stands for.

use std::{
    cmp::Ordering,
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
    vec,
};

use super::{
    format::{Counts, End, Head, PIECE_BYTES, Part, Reader, Unreadable},
    row::{Row, Sum},
};
use crate::{limits::BACKUP_CHAIN_MAX, store::Error};

/// Bytes that are read from a file at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// A copy that is read from its beginning to its end.
pub struct Source<'a> {
    head: Head,
    head_text: String,
    since: Option<String>,
    kind: Kind<'a>,
}

/// The form in which a copy lies there.
enum Kind<'a> {
    /// A file, piece by piece as it is.
    Plain(Plain<'a>),
    /// An increment, and the copy that it rests on.
    Increment(Box<Increment<'a>>),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("head", &self.head)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// Reads the head of a whole copy.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when it is none, or an increment: that is read from its file.
    pub fn of(from: impl Read + 'a) -> Result<Self, Error> {
        let source = Self::plain(Box::new(from))?;
        if source.since.is_none() {
            return Ok(source);
        }
        let why =
            "it is an increment, which is read from its file, beside the copy that it rests on";
        Err(Unreadable::Foreign(why.to_owned()).into())
    }

    fn plain(from: Box<dyn Read + 'a>) -> Result<Self, Unreadable> {
        let (reader, head) = Reader::open(from)?;
        Ok(Self {
            head,
            head_text: reader.head().to_owned(),
            since: reader.since().map(str::to_owned),
            kind: Kind::Plain(Plain {
                reader,
                counted: Counts::default(),
            }),
        })
    }

    /// Returns the head.
    pub(super) const fn head(&self) -> Head {
        self.head
    }

    /// Returns the lines of the head, without their sum.
    pub(super) fn head_text(&self) -> &str {
        &self.head_text
    }

    /// Returns the name of the file that must lie beside this one; none for a whole copy.
    #[must_use]
    pub fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    /// Reads the next rows, or the end. Nothing may be read behind that, nor behind an error.
    pub(super) fn read(&mut self) -> Result<Part, Unreadable> {
        match &mut self.kind {
            Kind::Plain(plain) => plain.read(),
            Kind::Increment(increment) => increment.read(),
        }
    }
}

impl Source<'static> {
    /// Opens the file of a copy, and those of the copies that it rests on.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when one of them is not there or is no copy; the reason says which one.
    pub fn open(file: &Path) -> Result<Self, Error> {
        Ok(Self::open_below(file, 0)?)
    }

    /// Opens a copy that so many others rest on, one on the other.
    pub(super) fn open_below(file: &Path, above: usize) -> Result<Self, Unreadable> {
        if above > BACKUP_CHAIN_MAX {
            let why = format!(
                "more than {BACKUP_CHAIN_MAX} copies rest on it, one on the other: make a whole one"
            );
            return Err(Unreadable::Foreign(why));
        }
        let buffered = BufReader::with_capacity(BUFFER_BYTES, File::open(file)?);
        let plain = Self::plain(Box::new(buffered))?;
        let Some(since) = plain.since.clone() else {
            return Ok(plain);
        };
        let base_file = file.with_file_name(&since);
        let base = Self::open_below(&base_file, above + 1).and_then(Cursor::begin);
        Ok(Self {
            head: plain.head,
            head_text: plain.head_text.clone(),
            since: Some(since),
            kind: Kind::Increment(Box::new(Increment {
                base: base.map_err(|why| why.of_base(&base_file))?,
                base_file,
                changes: Cursor::begin(plain)?,
                sum: Sum::default(),
            })),
        })
    }
}

/// The pieces of a file.
struct Plain<'a> {
    reader: Reader<Box<dyn Read + 'a>>,
    counted: Counts,
}

impl Plain<'_> {
    fn read(&mut self) -> Result<Part, Unreadable> {
        let part = self.reader.read()?;
        match &part {
            Part::Rows(rows) => {
                for row in rows {
                    self.counted.add(row.space, 1);
                }
            }
            Part::End(end) => {
                // An increment has the sum of the copy that it stands for, which is compared when that is there.
                if end.digest.is_none() && end.counts != self.counted {
                    return Err(self.reader.damaged());
                }
                self.reader.ends()?;
            }
        }
        Ok(part)
    }
}

/// The rows of a copy in their order, one after the other.
pub(super) struct Cursor<'a> {
    source: Source<'a>,
    rows: vec::IntoIter<Row>,
    next: Option<Row>,
    end: Option<End>,
}

impl<'a> Cursor<'a> {
    pub(super) fn begin(source: Source<'a>) -> Result<Self, Unreadable> {
        let mut begun = Self {
            source,
            rows: Vec::new().into_iter(),
            next: None,
            end: None,
        };
        begun.take()?;
        Ok(begun)
    }

    /// Takes the next row; none behind the last.
    pub(super) fn take(&mut self) -> Result<Option<Row>, Unreadable> {
        let taken = self.next.take();
        while self.next.is_none() && self.end.is_none() {
            self.next = self.rows.next();
            if self.next.is_none() {
                match self.source.read()? {
                    Part::Rows(rows) => self.rows = rows.into_iter(),
                    Part::End(end) => self.end = Some(end),
                }
            }
        }
        let is_behind = |next: &Row| {
            taken
                .as_ref()
                .is_none_or(|taken| taken.place() < next.place())
        };
        if !self.next.as_ref().is_none_or(is_behind) {
            let why = "its rows are in no order: make a whole copy".to_owned();
            return Err(Unreadable::Foreign(why));
        }
        Ok(taken)
    }

    /// Compares the places of the next rows of two copies; none behind the last rows of both.
    pub(super) fn compare(&self, other: &Cursor<'_>) -> Option<Ordering> {
        match (&self.next, &other.next) {
            (Some(one), Some(other)) => Some(one.place().cmp(&other.place())),
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (None, None) => None,
        }
    }
}

/// An increment that is put upon the copy that it rests on.
struct Increment<'a> {
    base: Cursor<'a>,
    base_file: PathBuf,
    changes: Cursor<'a>,
    sum: Sum,
}

impl Increment<'_> {
    fn read(&mut self) -> Result<Part, Unreadable> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE_BYTES {
            let Some(row) = self.row()? else { break };
            self.sum.add(&row);
            bytes += row.bytes();
            rows.push(row);
        }
        match self.changes.end {
            Some(end) if rows.is_empty() => self.ended(end).map(Part::End),
            _ => Ok(Part::Rows(rows)),
        }
    }

    /// Returns the next row of the copy that the increment stands for.
    fn row(&mut self) -> Result<Option<Row>, Unreadable> {
        while let Some(order) = self.base.compare(&self.changes) {
            let mut row = None;
            if order.is_le() {
                let kept = self.base.take();
                row = kept.map_err(|why| why.of_base(&self.base_file))?;
            }
            if order.is_ge() {
                let change = self.changes.take()?.and_then(Row::change);
                row = change.ok_or_else(|| self.foreign())?;
            }
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }

    fn ended(&self, end: End) -> Result<End, Unreadable> {
        let made = End {
            counts: self.sum.counts,
            digest: Some(self.sum.digest()),
        };
        (made == end).then_some(end).ok_or_else(|| self.foreign())
    }

    fn foreign(&self) -> Unreadable {
        Unreadable::Foreign(format!(
            "{} is not the copy that it was made from: put that one back, or use another backup",
            self.base_file.display()
        ))
    }
}
