//! The line reader turns JSON lines into batches of tasks for `task import`.
//!
//! It reads on a thread of its own: standard input may have no data for hours, and only the end of the
//! process ends such a read. The channel is small, so that the batches that are read ahead fit into memory.

use std::{
    io::{BufRead, Read as _},
    path::Path,
};

use tokio::sync::mpsc;

use crate::{
    api::task_request::TaskRequest,
    http::convert::json,
    limits::{BATCH_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX},
};

/// Bytes of a batch after which it is sent; with the JSON around them it stays below the limit of a request.
const BATCH_BYTES_MAX: usize = BATCH_REQUEST_BYTES_MAX / 2;

/// One line that is not empty.
#[derive(Debug)]
pub(super) struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    /// As it was read; cut off when it is too long.
    pub(super) text: String,
    /// The task, or the mistake in the line.
    pub(super) task: Result<TaskRequest, String>,
}

/// Some lines in a row.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The lines that are not empty.
    pub(super) lines: Vec<Line>,
    /// The number of the last line, even if it is empty.
    pub(super) last: u64,
    /// Bytes read so far.
    pub(super) bytes_read: u64,
}

/// How lines are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Lines to leave out at the beginning.
    pub(super) skip: u64,
    /// Lines of a batch.
    pub(super) batch: usize,
    /// Batches to read ahead.
    pub(super) ahead: usize,
}

/// Opens a file, or standard input when it is `-`; returns its size where it has one.
pub(super) fn open(path: &Path) -> std::io::Result<(Box<dyn BufRead + Send>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(std::io::BufReader::new(std::io::stdin())), None));
    }
    let file = std::fs::File::open(path)?;
    let size = file.metadata().ok().filter(|data| data.is_file());
    Ok((
        Box::new(std::io::BufReader::new(file)),
        size.map(|data| data.len()),
    ))
}

/// Starts to read. When the input cannot be read, the batches end with an error.
pub(super) fn read(
    from: Box<dyn BufRead + Send>,
    reading: Reading,
) -> mpsc::Receiver<std::io::Result<Batch>> {
    let (sender, receiver) = mpsc::channel(reading.ahead.max(1));
    // Not joined: the thread ends when the receiver has gone, or with the process.
    std::thread::spawn(move || {
        let mut lines = Lines {
            from,
            number: 0,
            bytes_read: 0,
        };
        loop {
            let batch = lines.batch(reading);
            let failed = match &batch {
                Ok(batch) if batch.last == 0 => return,
                Ok(_) => false,
                Err(_) => true,
            };
            if sender.blocking_send(batch).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

struct Lines {
    from: Box<dyn BufRead + Send>,
    number: u64,
    bytes_read: u64,
}

impl Lines {
    /// Reads the next batch. When its last line is 0, nothing was left.
    fn batch(&mut self, reading: Reading) -> std::io::Result<Batch> {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while batch.lines.len() < reading.batch && bytes < BATCH_BYTES_MAX {
            let Some(text) = self.line()? else { break };
            batch.last = self.number;
            if self.number <= reading.skip || text.trim_ascii().is_empty() {
                continue;
            }
            bytes += text.len();
            batch.lines.push(line(self.number, text));
        }
        batch.bytes_read = self.bytes_read;
        Ok(batch)
    }

    fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let Some((text, read)) = next(&mut *self.from)? else {
            return Ok(None);
        };
        self.number += 1;
        self.bytes_read += read;
        Ok(Some(text))
    }
}

/// Reads a line, and returns it with the number of bytes that were read. Of a line that is longer than a request, it returns only
/// enough to show that.
pub(super) fn next(from: &mut dyn BufRead) -> std::io::Result<Option<(Vec<u8>, u64)>> {
    let mut text = Vec::new();
    let most = REQUEST_BYTES_MAX as u64 + 1;
    let mut read = (&mut *from).take(most).read_until(b'\n', &mut text)? as u64;
    if read == 0 {
        return Ok(None);
    }
    if read == most && !text.ends_with(b"\n") {
        read += from.skip_until(b'\n')? as u64;
    }
    Ok(Some((text, read)))
}

fn line(number: u64, bytes: Vec<u8>) -> Line {
    let too_long = bytes.len() > REQUEST_BYTES_MAX;
    let (text, valid) = match String::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => (
            String::from_utf8_lossy(error.as_bytes()).into_owned(),
            false,
        ),
    };
    let task = if too_long {
        Err(format!("longer than {REQUEST_BYTES_MAX} bytes"))
    } else if valid {
        json::read::<TaskRequest>(text.trim()).map_err(|error| error.detail)
    } else {
        Err("not UTF-8".to_owned())
    };
    Line { number, text, task }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: impl Into<Vec<u8>>, skip: u64, batch: usize) -> Vec<Batch> {
        let reading = Reading {
            skip,
            batch,
            ahead: 1,
        };
        let from = Box::new(std::io::Cursor::new(text.into()));
        let mut receiver = read(from, reading);
        let mut batches = Vec::new();
        while let Some(batch) = receiver.blocking_recv() {
            batches.push(batch.unwrap());
        }
        batches
    }

    fn numbers(batch: &Batch) -> Vec<u64> {
        batch.lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_keep_their_numbers_through_blanks_and_skips() {
        let text = "{\"callback\":\"a\"}\n\n  \r\n{\"callback\":\"b\"}\n{\"callback\":\"c\"}";
        let read = batches(text, 0, 2);
        assert_eq!(
            read.iter().map(numbers).collect::<Vec<_>>(),
            [vec![1, 4], vec![5]]
        );
        assert!(
            read.iter()
                .flat_map(|b| &b.lines)
                .all(|line| line.task.is_ok())
        );
        assert_eq!(read[1].bytes_read, text.len() as u64);
        let skipped = batches(text, 3, 10);
        assert_eq!(
            skipped.iter().map(numbers).collect::<Vec<_>>(),
            [vec![4, 5]]
        );
        assert!(batches("", 0, 10).is_empty());
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_and_spoils_no_other() {
        let mut text = b"{\"callbak\":\"a\"}\n{\n\xff\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 2 * REQUEST_BYTES_MAX));
        text.extend(b"\n{\"callback\":\"b\"}\n");
        let read = batches(text, 0, 10);
        let reasons: Vec<String> = read[0]
            .lines
            .iter()
            .map(|line| {
                line.task
                    .as_ref()
                    .map_or_else(Clone::clone, |_| String::new())
            })
            .collect();
        let words = [
            "did you mean `callback`?",
            "EOF",
            "not UTF-8",
            "longer than",
            "",
        ];
        assert_eq!(reasons.len(), words.len());
        for (reason, words) in reasons.iter().zip(words) {
            assert!(reason.contains(words), "{reason}");
        }
    }
}
