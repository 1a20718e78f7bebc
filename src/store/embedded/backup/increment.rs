//! The increment writer compares a copy that comes in with an earlier one, for the operator, and writes what differs.
//!
//! The earlier copy may be an increment itself. Both are read once, from beginning to end, with a piece of each in memory.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use super::{
    format::{self, End, PIECE_BYTES, Piece, Unreadable},
    row::{Row, Sum},
    source::{Cursor, Source},
};
use crate::store::{
    Error,
    embedded::{disk::database::Space, faults::refused},
};

/// The pieces of an increment, which become full one after the other.
struct Changes<W> {
    piece: Piece,
    space: Space,
    into: W,
}

impl<W: Write> Changes<W> {
    /// Adds a row that is new, or has another value now; with no value one that is gone.
    fn add(&mut self, row: &Row, value: Option<&[u8]>) -> io::Result<()> {
        if self.space != row.space || self.piece.bytes() >= PIECE_BYTES {
            self.flush(row.space)?;
        }
        self.piece.add_change(&row.key, value);
        Ok(())
    }

    fn flush(&mut self, next: Space) -> io::Result<()> {
        self.space = next;
        let full = std::mem::replace(&mut self.piece, Piece::of(next));
        if full.bytes() == 0 {
            return Ok(());
        }
        self.into.write_all(&full.finish())
    }
}

/// Writes an increment to `into`, the file `part`: what differs between the whole copy `made` and the one in the file `base`. It
/// can be read in the folder of `base` only.
///
/// # Errors
/// [`Error::Unsuitable`] when one of the copies cannot be read, or the file cannot be written; [`Error::Full`] without room.
pub fn write(made: impl Read, base: &Path, into: impl Write, part: &Path) -> Result<(), Error> {
    let unusable = |why: Unreadable| why.of_base(base);
    let named = base.file_name().and_then(|name| name.to_str());
    let named = named.filter(|name| !name.contains(char::is_control));
    let since = named.ok_or_else(|| {
        unusable(Unreadable::Foreign(
            "its name has to be text in one line: give it another".to_owned(),
        ))
    })?;
    let failed = |error: io::Error| refused(part, &error);
    let made = Source::of(made)?;
    let head = format::increment_head(made.head_text(), since);
    let mut changes = Changes {
        piece: Piece::of(Space::Due),
        space: Space::Due,
        into,
    };
    changes.into.write_all(&head).map_err(failed)?;
    let mut made = Cursor::begin(made)?;
    let base = Source::open_below(base, 1).and_then(Cursor::begin);
    let mut base = base.map_err(unusable)?;
    let mut sum = Sum::default();
    while let Some(order) = base.compare(&made) {
        let mut was = None;
        if order.is_le() {
            was = base.take().map_err(unusable)?;
        }
        let is = if order.is_ge() { made.take()? } else { None };
        if let Some(row) = &is {
            sum.add(row);
        }
        let written = match (was, is) {
            (Some(was), Some(is)) if was.value == is.value => Ok(()),
            (_, Some(is)) => changes.add(&is, Some(&is.value)),
            (Some(was), None) => changes.add(&was, None),
            (None, None) => Ok(()),
        };
        written.map_err(failed)?;
    }
    let end = End {
        counts: sum.counts,
        digest: Some(sum.digest()),
    };
    let last = changes.flush(Space::Due);
    let last = last.and_then(|()| changes.into.write_all(&format::end(&end)));
    last.map_err(failed)
}

#[cfg(test)]
#[path = "increment_tests.rs"]
mod tests;
