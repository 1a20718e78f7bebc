//! The form of a backup: a head in text, pieces with rows, and a last piece with the count of each keyspace.
//!
//! ```text
//! tickwheel backup 1
//! format=4              the format of keys and values
//! wheels=16             the shape
//! tick_ms=1000
//! slots=3600
//! made_ms=1764000000000
//! check=0123456789abcdef the sum (XXH3) of the lines above
//! (an empty line)
//! space: u8  length: u32  check: u64  body: length bytes      again and again
//!   body: (key length: u32  value length: u32  key  value) ...
//! 255: u8    length: u32  check: u64  body: a count (u64) for each keyspace
//! ```
//!
//! An increment begins with `tickwheel backup 2`, and its head has the name of the file that it rests on as well (`since=`). Its
//! rows are those that differ: a value begins with 1, and a row that is gone has the value 0. Its last piece has the counts of
//! the copy that it stands for, and behind them a sum (u64, XXH3) over all rows of that copy.
//!
//! Numbers are little-endian. The check is XXH3 over space, length and body. It finds damage; it keeps nobody from forging a
//! backup, which has to be kept as safe as the store itself.

use std::{
    io::{self, Read},
    path::Path,
};

use xxhash_rust::xxh3::Xxh3;

pub use super::row::Counts;
use super::row::{GONE, Row, THERE, number_of, rows};
use crate::{
    model::{
        time::{Millis, TickLength},
        wheel::Shape,
    },
    store::{
        Error,
        embedded::{
            disk::{database::Space, directory::FORMAT},
            sealed::{Seal, seal_of, sealed},
        },
    },
};

/// The first line of a whole copy.
const MAGIC: &str = "tickwheel backup 1";

/// The first line of an increment. Programs that know none say that a later one has made it.
const MAGIC_INCREMENT: &str = "tickwheel backup 2";

/// The number of the last piece.
const END: u8 = u8::MAX;

/// Bytes of rows that make a piece full.
pub(super) const PIECE_BYTES: usize = 256 * 1024;

/// Longest head. Ours has about a hundred bytes, and the name of a file.
const HEAD_BYTES_MAX: usize = 4096;

/// Largest body of a piece that is read: a row has at most a content of a MiB, or a result, with its key, and rows are put
/// together up to a quarter of that.
const PIECE_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// The head of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The shape of the store.
    pub shape: Shape,
    /// When it was made.
    pub made: Millis,
}

/// The reason why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file could not be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else, or a later program has made it.
    #[error("{0}")]
    Foreign(String),
    /// It ends too early.
    #[error("it ends within piece {piece}: the copy was cut off; make it again")]
    Short {
        /// The number of the piece.
        piece: u64,
    },
    /// It has changed since it was made.
    #[error("piece {piece} is damaged: use another backup")]
    Damaged {
        /// The number of the piece.
        piece: u64,
    },
    /// It is an increment, and the copy that it rests on cannot be read.
    #[error("{file}, which it rests on: {why}")]
    Base {
        /// The file of that copy.
        file: String,
        /// The reason.
        why: Box<Self>,
    },
}

impl Unreadable {
    /// Returns the reason why an increment cannot be read that rests on the file with this one. The lowest file has it.
    pub(super) fn of_base(self, file: &Path) -> Self {
        if matches!(self, Self::Base { .. }) {
            return self;
        }
        Self::Base {
            file: file.display().to_string(),
            why: Box::new(self),
        }
    }
}

impl From<Unreadable> for Error {
    fn from(why: Unreadable) -> Self {
        Self::Unsuitable {
            reason: format!("the backup cannot be used: {why}"),
        }
    }
}

/// Writes the head.
pub(super) fn head(head: &Head) -> Vec<u8> {
    let (wheels, slots) = (head.shape.wheels(), head.shape.slots());
    let tick = head.shape.tick().duration().as_millis();
    let made = head.made.0;
    finished(format!(
        "{MAGIC}\nformat={FORMAT}\nwheels={wheels}\ntick_ms={tick}\nslots={slots}\nmade_ms={made}\n"
    ))
}

/// Writes the head of an increment: the lines of the copy that it stands for, and the name of the file that it rests on.
pub(super) fn increment_head(whole: &str, since: &str) -> Vec<u8> {
    let lines = whole.strip_prefix(MAGIC).unwrap_or_default();
    finished(format!("{MAGIC_INCREMENT}{lines}since={since}\n"))
}

fn finished(lines: String) -> Vec<u8> {
    let mut head = sealed(lines).into_bytes();
    head.push(b'\n');
    head
}

/// A piece that is being put together.
#[derive(Debug)]
pub(super) struct Piece {
    space: u8,
    body: Vec<u8>,
}

impl Piece {
    pub(super) const fn of(space: Space) -> Self {
        Self {
            space: number_of(space),
            body: Vec::new(),
        }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_parts(key, &[value]);
    }

    /// Adds a row to an increment; no value is one that is gone.
    pub(super) fn add_change(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.add_parts(key, &[&[THERE], value]),
            None => self.add_parts(key, &[&[GONE]]),
        }
    }

    fn add_parts(&mut self, key: &[u8], value: &[&[u8]]) {
        for length in [key.len(), value.iter().map(|part| part.len()).sum()] {
            // Both are below the bound of a record in bytes.
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            self.body.extend_from_slice(&length.to_le_bytes());
        }
        self.body.extend_from_slice(key);
        for part in value {
            self.body.extend_from_slice(part);
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.body.len()
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        let mut whole = Vec::with_capacity(self.body.len() + 13);
        whole.push(self.space);
        whole.extend_from_slice(&length.to_le_bytes());
        whole.extend_from_slice(&check(self.space, length, &self.body).to_le_bytes());
        whole.extend_from_slice(&self.body);
        whole
    }
}

/// Writes the last piece: the counts, and behind those of an increment the sum.
pub(super) fn end(end: &End) -> Vec<u8> {
    let numbers = end.counts.0.into_iter().chain(end.digest);
    let body = numbers.flat_map(u64::to_le_bytes);
    let piece = Piece {
        space: END,
        body: body.collect(),
    };
    piece.finish()
}

fn check(space: u8, length: u32, body: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&[space]);
    hash.update(&length.to_le_bytes());
    hash.update(body);
    hash.digest()
}

/// The last piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The rows of the copy, or of the one that an increment stands for.
    pub(super) counts: Counts,
    /// The sum over them; none in a whole copy.
    pub(super) digest: Option<u64>,
}

/// A piece that was read.
#[derive(Debug)]
pub(super) enum Part {
    Rows(Vec<Row>),
    End(End),
}

/// The reader of a backup.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    head: String,
    since: Option<String>,
    pieces: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the head. The format of keys and values must be ours.
    pub(super) fn open(mut from: R) -> Result<(Self, Head), Unreadable> {
        let text = head_text(&mut from)?;
        let (lines, head) = parsed(&text)?;
        let reader = Self {
            from,
            since: since(lines)?,
            head: lines.to_owned(),
            pieces: 0,
        };
        Ok((reader, head))
    }

    /// Returns the lines of the head, without their sum.
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// Returns the name of the file that an increment rests on; none for a whole copy.
    pub(super) fn since(&self) -> Option<&str> {
        self.since.as_deref()
    }

    /// Reads the next piece.
    pub(super) fn read(&mut self) -> Result<Part, Unreadable> {
        self.pieces += 1;
        let mut start = [0; 13];
        self.fill(&mut start)?;
        let [space, a, b, c, d, checked @ ..] = start;
        let length = u32::from_le_bytes([a, b, c, d]);
        let damaged = Unreadable::Damaged { piece: self.pieces };
        if length > PIECE_BYTES_MAX {
            return Err(damaged);
        }
        let mut body = vec![0; length as usize];
        self.fill(&mut body)?;
        if check(space, length, &body) != u64::from_le_bytes(checked) {
            return Err(damaged);
        }
        if space == END {
            let end = end_of(&body).filter(|end| end.digest.is_some() == self.since.is_some());
            return end.map(Part::End).ok_or(damaged);
        }
        let space = Space::ALL.into_iter().find(|one| number_of(*one) == space);
        let rows = space.and_then(|space| rows(space, body.into()));
        rows.map(Part::Rows).ok_or(damaged)
    }

    /// Tells that something in the last piece is not as it was written.
    pub(super) const fn damaged(&self) -> Unreadable {
        Unreadable::Damaged { piece: self.pieces }
    }

    /// Makes sure that nothing follows the last piece.
    pub(super) fn ends(&mut self) -> Result<(), Unreadable> {
        if self.from.read(&mut [0])? == 0 {
            return Ok(());
        }
        let what = "it goes on behind its end: it is not the file that was written".to_owned();
        Err(Unreadable::Foreign(what))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Unreadable> {
        self.from.read_exact(bytes).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                Unreadable::Short { piece: self.pieces }
            } else {
                Unreadable::Io(error)
            }
        })
    }
}

fn end_of(body: &[u8]) -> Option<End> {
    let (numbers, rest) = body.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut counts = Counts::default();
    for count in &mut counts.0 {
        *count = numbers.next()?;
    }
    let digest = numbers.next();
    (rest.is_empty() && numbers.next().is_none()).then_some(End { counts, digest })
}

fn head_text(from: &mut impl Read) -> Result<String, Unreadable> {
    let foreign = || Unreadable::Foreign("it is no backup of Tickwheel".to_owned());
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\n\n") {
        if text.len() >= HEAD_BYTES_MAX || from.read(&mut byte)? == 0 {
            return Err(foreign());
        }
        text.extend_from_slice(&byte);
    }
    String::from_utf8(text).map_err(|_| foreign())
}

/// Reads the lines of a head. One of a later program is named as such, whatever else it has.
fn parsed(text: &str) -> Result<(&str, Head), Unreadable> {
    let foreign = |what: String| Unreadable::Foreign(what);
    let first = text.lines().next().unwrap_or_default();
    if ![MAGIC, MAGIC_INCREMENT].contains(&first) {
        let what = if first.starts_with("tickwheel backup ") {
            format!("it begins with `{first}`: a later program has made it, and reads it")
        } else {
            "it is no backup of Tickwheel".to_owned()
        };
        return Err(foreign(what));
    }
    let found = |name: &str| line(text, name);
    let format = found("format").unwrap_or_default();
    if format != FORMAT {
        return Err(foreign(format!(
            "its rows have format {format}, and this program reads format {FORMAT}: use the program that made it"
        )));
    }
    let damaged = || foreign("its head is damaged: use another backup".to_owned());
    let whole = text.strip_suffix('\n').map(seal_of);
    let Some(Seal::Whole(lines)) = whole else {
        return Err(damaged());
    };
    let number = |name: &str| found(name).and_then(|text| text.parse::<i64>().ok());
    let shape = || {
        let tick = u64::try_from(number("tick_ms")?).ok()?;
        let tick = TickLength::new(std::time::Duration::from_millis(tick))?;
        let wheels = u16::try_from(number("wheels")?).ok()?;
        Shape::new(wheels, tick, number("slots")?)
    };
    let head = shape().zip(number("made_ms"));
    let (shape, made) = head.ok_or_else(damaged)?;
    let head = Head {
        shape,
        made: Millis(made),
    };
    Ok((lines, head))
}

/// Returns what stands behind a name in a head.
fn line<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Reads the name of the file that an increment rests on. It lies beside the increment, so it is a name and no path.
fn since(head: &str) -> Result<Option<String>, Unreadable> {
    if !head.starts_with(MAGIC_INCREMENT) {
        return Ok(None);
    }
    let name =
        line(head, "since").filter(|name| Path::new(name).file_name() == Some(name.as_ref()));
    let name = name.ok_or_else(|| Unreadable::Foreign("its head is damaged".to_owned()))?;
    Ok(Some(name.to_owned()))
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
