//! The form of a backup: a head in text, pieces with rows, and a last piece with the count of each keyspace.
//!
//! ```text
//! tickwheel backup 1
//! format=4              the format of keys and values
//! wheels=16             the shape
//! tick_ms=1000
//! slots=3600
//! made_ms=1764000000000
//! (an empty line)
//! space: u8  length: u32  check: u64  body: length bytes      again and again
//!   body: (key length: u32  value length: u32  key  value) ...
//! 255: u8    length: u32  check: u64  body: a count (u64) for each keyspace
//! ```
//!
//! Numbers are little-endian. The check is XXH3 over space, length and body. It finds damage; it keeps nobody from forging a
//! backup, which has to be kept as safe as the store itself.

use std::io::{self, Read};

use xxhash_rust::xxh3::Xxh3;

use crate::{
    model::{
        time::{Millis, TickLength},
        wheel::Shape,
    },
    store::embedded::disk::database::Space,
};

/// The first line.
const MAGIC: &str = "tickwheel backup 1";

/// The number of the last piece.
const END: u8 = u8::MAX;

/// Longest head. Ours has about a hundred bytes.
const HEAD_BYTES_MAX: usize = 4096;

/// Largest body of a piece that is read: a row has at most a content of a MiB, or a result, with its key, and rows are put
/// together up to a quarter of that.
const PIECE_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// Returns the number by which a keyspace is known in every backup.
const fn number_of(space: Space) -> u8 {
    match space {
        Space::Due => 0,
        Space::Look => 1,
        Space::Row => 2,
        Space::Clock => 3,
        Space::Body => 4,
        Space::Record => 5,
        Space::Index => 6,
    }
}

/// The head of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The shape of the store.
    pub shape: Shape,
    /// When it was made.
    pub made: Millis,
}

/// The number of rows of each keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u64; Space::ALL.len()]);

impl Counts {
    /// Counts rows of a keyspace.
    pub(super) fn add(&mut self, space: Space, rows: u64) {
        if let Some(count) = self.0.get_mut(usize::from(number_of(space))) {
            *count += rows;
        }
    }

    /// Returns the rows of all keyspaces together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.iter().sum()
    }
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
}

/// Writes the head.
pub(super) fn head(head: &Head, format: &str) -> Vec<u8> {
    let (wheels, slots) = (head.shape.wheels(), head.shape.slots());
    let tick = head.shape.tick().duration().as_millis();
    let made = head.made.0;
    format!("{MAGIC}\nformat={format}\nwheels={wheels}\ntick_ms={tick}\nslots={slots}\nmade_ms={made}\n\n").into_bytes()
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
        for length in [key.len(), value.len()] {
            // Both are below the bound of a record in bytes.
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            self.body.extend_from_slice(&length.to_le_bytes());
        }
        self.body.extend_from_slice(key);
        self.body.extend_from_slice(value);
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

/// Writes the last piece.
pub(super) fn end(counts: &Counts) -> Vec<u8> {
    let body = counts.0.iter().flat_map(|count| count.to_le_bytes());
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

/// Rows of one keyspace, as they were read.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) space: Space,
    body: Vec<u8>,
}

impl Rows {
    /// Returns the number of rows; none where the body does not consist of rows.
    pub(super) fn count(&self) -> Option<u64> {
        self.iter().try_fold(0, |count, row| row.map(|_| count + 1))
    }

    /// Returns keys and values; none where the body does not consist of rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
        let mut rest = self.body.as_slice();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let row = row(&mut rest);
            if row.is_none() {
                rest = &[];
            }
            Some(row)
        })
    }
}

fn row<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (key, value) = (number(rest)?, number(rest)?);
    Some((taken(rest, key)?, taken(rest, value)?))
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let bytes = taken(rest, 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// A piece that was read.
#[derive(Debug)]
pub(super) enum Part {
    Rows(Rows),
    End(Counts),
}

/// The reader of a backup.
#[derive(Debug)]
pub(super) struct Reader<R> {
    from: R,
    pieces: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the head. The format of keys and values must be one of `known`.
    pub(super) fn open(mut from: R, known: &[&str]) -> Result<(Self, Head), Unreadable> {
        let text = head_text(&mut from)?;
        let head = parsed(&text, known)?;
        Ok((Self { from, pieces: 0 }, head))
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
            return counts(&body).map(Part::End).ok_or(damaged);
        }
        let space = Space::ALL.into_iter().find(|one| number_of(*one) == space);
        let space = space.ok_or(damaged)?;
        Ok(Part::Rows(Rows { space, body }))
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

fn counts(body: &[u8]) -> Option<Counts> {
    let (numbers, rest) = body.as_chunks::<8>();
    let mut counts = Counts::default();
    if !rest.is_empty() || numbers.len() != counts.0.len() {
        return None;
    }
    for (count, bytes) in counts.0.iter_mut().zip(numbers) {
        *count = u64::from_le_bytes(*bytes);
    }
    Some(counts)
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

fn parsed(text: &str, known: &[&str]) -> Result<Head, Unreadable> {
    let foreign = |what: String| Unreadable::Foreign(what);
    let first = text.lines().next().unwrap_or_default();
    if first != MAGIC {
        let what = if first.starts_with("tickwheel backup ") {
            format!("it begins with `{first}`: a later program has made it, and reads it")
        } else {
            "it is no backup of Tickwheel".to_owned()
        };
        return Err(foreign(what));
    }
    let found = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    let format = found("format").unwrap_or_default();
    if !known.contains(&format) {
        return Err(foreign(format!(
            "its rows have format {format}, and this program reads {}: use the program that made it",
            known.join(", ")
        )));
    }
    let number = |name: &str| found(name).and_then(|text| text.parse::<i64>().ok());
    let shape = || {
        let tick = u64::try_from(number("tick_ms")?).ok()?;
        let tick = TickLength::new(std::time::Duration::from_millis(tick))?;
        let wheels = u16::try_from(number("wheels")?).ok()?;
        Shape::new(wheels, tick, number("slots")?)
    };
    let head = shape().zip(number("made_ms"));
    let (shape, made) = head.ok_or_else(|| foreign("its head is damaged".to_owned()))?;
    Ok(Head {
        shape,
        made: Millis(made),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::tests::shape;

    fn whole() -> Vec<u8> {
        let begin = Head {
            shape: shape(2),
            made: Millis(1_764_000_000_000),
        };
        let mut piece = Piece::of(Space::Row);
        piece.add(b"a", b"");
        piece.add(b"", b"value");
        let mut counts = Counts::default();
        counts.add(Space::Row, 2);
        [head(&begin, "4"), piece.finish(), end(&counts)].concat()
    }

    /// Reads everything, and returns the rows.
    fn read(bytes: &[u8]) -> Result<(Head, u64), Unreadable> {
        let (mut reader, head) = Reader::open(bytes, &["3", "4"])?;
        let mut rows = 0;
        loop {
            match reader.read()? {
                Part::Rows(some) => rows += some.count().ok_or_else(|| reader.damaged())?,
                Part::End(counts) => {
                    assert_eq!(counts.rows(), rows);
                    reader.ends()?;
                    return Ok((head, rows));
                }
            }
        }
    }

    #[test]
    fn a_backup_is_read_as_it_was_written() {
        let (head, rows) = read(&whole()).unwrap();
        assert_eq!(
            (head.shape, head.made),
            (shape(2), Millis(1_764_000_000_000))
        );
        assert_eq!(rows, 2);
    }

    #[test]
    fn a_backup_that_was_cut_off_anywhere_or_changed_anywhere_is_refused() {
        let whole = whole();
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut at {length}");
        }
        let body = whole.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
        for place in body..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0x40;
            assert!(read(&changed).is_err(), "changed at {place}");
        }
    }

    #[test]
    fn a_backup_with_something_behind_its_end_is_refused() {
        let said = read(&[&whole()[..], b"x"].concat())
            .unwrap_err()
            .to_string();
        assert!(said.contains("behind its end"), "{said}");
    }

    #[test]
    fn what_another_program_has_made_is_named() {
        let later = String::from_utf8_lossy(&whole()).replace("backup 1", "backup 2");
        let said = read(later.as_bytes()).unwrap_err().to_string();
        assert!(said.contains("a later program"), "{said}");
        let later = String::from_utf8_lossy(&whole()).replace("format=4", "format=9");
        let said = read(later.as_bytes()).unwrap_err().to_string();
        assert!(said.contains("format 9") && said.contains("3, 4"), "{said}");
        let said = read(&vec![b'x'; 10_000]).unwrap_err().to_string();
        assert!(said.contains("no backup of Tickwheel"), "{said}");
    }
}
