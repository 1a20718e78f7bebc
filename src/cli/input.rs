//! The input reader hands files and standard input to the commands, for the user, and never stops early in silence.
//!
//! A file that is needed as a whole has a bound, and one beyond it is refused before anything is sent. A file with a line of JSON
//! for each thing has none: its lines are handed on in pieces.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek as _},
    marker::PhantomData,
    path::Path,
};

use serde::de::DeserializeOwned;

use super::{Failure, lines};
use crate::limits::{PIECE_BYTES_MAX, PIECE_ITEMS_MAX, REQUEST_BYTES_MAX};

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot read {}: {why}", path.display()))
}

/// Reads a whole file, or standard input when it is `-`, of so many bytes at most.
pub(super) fn whole(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let from: Box<dyn Read> = if is_standard_input(path) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|error| unreadable(path, error))?)
    };
    let mut bytes = Vec::new();
    let read = from.take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, error))?;
    if bytes.len() > most {
        let why = format!("it has more than {most} bytes, and nothing of it was sent: split it");
        return Err(unreadable(path, why));
    }
    Ok(bytes)
}

/// Reads a whole file of text, or standard input when it is `-`, of so many bytes at most.
pub(super) fn text(path: &Path, most: usize) -> Result<String, Failure> {
    String::from_utf8(whole(path, most)?).map_err(|_| unreadable(path, "it is not UTF-8"))
}

/// A line that was read.
#[derive(Debug)]
pub(super) struct JsonLine<T> {
    /// Counted from 1.
    pub(super) number: u64,
    /// The value.
    pub(super) value: T,
}

/// The lines of a file with a value of JSON in each; empty ones are left out.
pub(super) struct JsonLines<T> {
    from: Box<dyn BufRead>,
    number: u64,
    bytes: u64,
    /// The fault behind the lines that were handed on last.
    fault: Option<Failure>,
    values: PhantomData<T>,
}

impl<T: DeserializeOwned> JsonLines<T> {
    /// Opens a file, or standard input when it is `-`. A file is handed to `check` first, so that nothing is sent of one that
    /// has a bad line; a pipe can be read only once.
    pub(super) fn open(
        path: &Path,
        check: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        if is_standard_input(path) {
            return Ok(Self::of(BufReader::new(io::stdin())));
        }
        let cannot = |error| unreadable(path, error);
        let mut file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_file() {
            check(&mut Self::of(BufReader::new(
                file.try_clone().map_err(cannot)?,
            )))?;
            file.rewind().map_err(cannot)?;
        }
        Ok(Self::of(BufReader::new(file)))
    }

    /// Reads the lines of a text.
    pub(super) fn of(from: impl BufRead + 'static) -> Self {
        Self {
            from: Box::new(from),
            number: 0,
            bytes: 0,
            fault: None,
            values: PhantomData,
        }
    }

    /// Returns the next lines, as many as go into a call; none behind the last. A fault comes behind the lines before it.
    pub(super) fn piece(&mut self) -> Result<Vec<JsonLine<T>>, Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let (mut piece, begun) = (Vec::new(), self.bytes);
        while piece.len() < PIECE_ITEMS_MAX && self.bytes - begun < PIECE_BYTES_MAX as u64 {
            match self.next() {
                None => break,
                Some(Ok(line)) => piece.push(line),
                Some(Err(fault)) if piece.is_empty() => return Err(fault),
                Some(Err(fault)) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
        Ok(piece)
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::usage(format!("line {}: {why}", self.number))
    }
}

impl<T: DeserializeOwned> Iterator for JsonLines<T> {
    type Item = Result<JsonLine<T>, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            let (text, read) = match lines::next(&mut *self.from) {
                Ok(line) => line?,
                Err(error) => return Some(Err(self.wrong(&error.to_string()))),
            };
            self.bytes += read;
            if text.len() > REQUEST_BYTES_MAX {
                let why = format!("it is longer than {REQUEST_BYTES_MAX} bytes");
                return Some(Err(self.wrong(&why)));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            return Some(match serde_json::from_slice(&text) {
                Ok(value) => Ok(JsonLine {
                    number: self.number,
                    value,
                }),
                Err(error) => Err(self.wrong(&without_values(&error.to_string()))),
            });
        }
    }
}

/// Leaves the values out of an error about JSON, which stand in quotation marks: one may be a secret.
fn without_values(error: &str) -> String {
    let parts: Vec<&str> = error.split('"').collect();
    match parts.as_slice() {
        [before, _, .., after] => format!("{before}\"...\"{after}"),
        _ => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn read(text: &[u8]) -> JsonLines<Value> {
        JsonLines::of(io::Cursor::new(text.to_vec()))
    }

    #[test]
    fn a_file_beyond_its_bound_is_refused_and_not_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "four").unwrap();
        assert_eq!(text(file.path(), 4).unwrap(), "four");
        let refused = text(file.path(), 3).unwrap_err();
        assert!(
            refused.text.contains("more than 3 bytes"),
            "{}",
            refused.text
        );
        std::fs::write(file.path(), [0xff]).unwrap();
        let refused = text(file.path(), 3).unwrap_err();
        assert!(refused.text.contains("not UTF-8"), "{}", refused.text);
        assert_eq!(whole(file.path(), 3).unwrap(), [0xff]);
    }

    #[test]
    fn lines_come_in_pieces_and_a_fault_behind_those_before_it() {
        let mut text = "{}\n\n".repeat(PIECE_ITEMS_MAX + 1).into_bytes();
        text.extend(b"[]\n{\n");
        let mut lines = read(&text);
        assert_eq!(lines.piece().unwrap().len(), PIECE_ITEMS_MAX);
        let numbers: Vec<u64> = lines.piece().unwrap().iter().map(|l| l.number).collect();
        assert_eq!(numbers, [201, 203]);
        let fault = lines.piece().unwrap_err();
        assert!(fault.text.starts_with("line 204: "), "{}", fault.text);
        assert!(read(b" \n").piece().unwrap().is_empty());
    }

    #[test]
    fn long_lines_end_a_piece_and_too_long_ones_are_refused() {
        let line = format!("\"{}\"\n", "x".repeat(REQUEST_BYTES_MAX - 3));
        let mut lines = read(line.repeat(9).as_bytes());
        let long = PIECE_BYTES_MAX / line.len();
        assert_eq!(lines.piece().unwrap().len(), long);
        let fault = read(&vec![b'1'; REQUEST_BYTES_MAX + 1])
            .piece()
            .unwrap_err();
        assert!(
            fault.text.contains("line 1: it is longer"),
            "{}",
            fault.text
        );
    }

    #[test]
    fn values_of_an_error_are_left_out() {
        let fault = "invalid type: string \"whsec_AA\\\"BB\", expected a sequence";
        let told = without_values(fault);
        assert_eq!(told, "invalid type: string \"...\", expected a sequence");
        assert_eq!(without_values("plain"), "plain");
    }
}
