//! The passed output is what a worker hands on of the standard error of its commands, for the reader of its log.
//!
//! Each line has a mark before it, so that it is not taken for one of the log, and no character of it moves the cursor.

use std::io::{self, Write as _};

use super::output::printable;
use crate::limits::PASSED_LINE_BYTES_MAX;

/// The mark before each line.
const MARK: &str = "| ";

/// The output of a command, of which the last line may be open.
#[derive(Debug, Default)]
pub(super) struct Passed {
    open: Vec<u8>,
}

impl Passed {
    /// Adds some output, and passes on the lines that have ended.
    pub(super) fn add(&mut self, some: &[u8]) {
        let lines = self.ended(some);
        // When our own standard error is closed, nobody reads it.
        io::stderr().write_all(lines.as_bytes()).unwrap_or_default();
    }

    /// Returns the lines that have ended.
    fn ended(&mut self, some: &[u8]) -> String {
        let mut lines = String::new();
        for part in some.split_inclusive(|byte| *byte == b'\n') {
            self.open.extend(part);
            if part.ends_with(b"\n") || self.open.len() >= PASSED_LINE_BYTES_MAX {
                lines.push_str(&self.line());
            }
        }
        lines
    }

    fn line(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.open);
        let line = format!("{MARK}{}\n", printable(line.trim_end_matches(['\r', '\n'])));
        self.open.clear();
        line
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if !self.open.is_empty() {
            let line = self.line();
            io::stderr().write_all(line.as_bytes()).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_marked_and_move_no_cursor() {
        let mut passed = Passed::default();
        assert_eq!(passed.ended(b"one\ntw"), "| one\n");
        let lines = passed.ended("o \u{1b}[2J\u{202e}\r\n\n".as_bytes());
        assert_eq!(lines, "| two \\u{1b}[2J\\u{202e}\n| \n");
        let long = vec![b'x'; PASSED_LINE_BYTES_MAX + 1];
        assert_eq!(passed.ended(&long).len(), MARK.len() + long.len() + 1);
        assert!(passed.open.is_empty());
    }
}
