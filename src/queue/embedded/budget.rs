//! What all partitions of a queue share: memory beyond a little of each, and open files.
//!
//! Counters, no reservations: two partitions that ask at once may both be let in, so the bounds hold to within a record or a
//! file for each thread that publishes.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits;

/// The counters.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    bytes_max: usize,
    files: AtomicUsize,
    files_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(
            limits::EMBEDDED_QUEUE_BYTES_MAX,
            limits::OVERFLOW_FILES_OPEN_MAX,
        )
    }
}

impl Budget {
    /// Allows so many bytes in memory and so many files open.
    pub(super) const fn new(bytes_max: usize, files_max: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max,
            files: AtomicUsize::new(0),
            files_max,
        }
    }

    /// Tells whether a partition that holds `own` bytes may hold another record.
    pub(super) fn has_room(&self, own: usize) -> bool {
        own < limits::EMBEDDED_TOPIC_BYTES_MIN
            || self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    /// Tells whether a partition that holds `own` bytes may be filled from the disk: an eighth of all is free, or half of
    /// what it may hold whatever others hold. So what is read at once is many records.
    pub(super) fn has_room_to_fill(&self, own: usize) -> bool {
        own <= limits::EMBEDDED_TOPIC_BYTES_MIN / 2
            || self.bytes.load(Ordering::Relaxed) < self.bytes_max - self.bytes_max / 8
    }

    /// Counts bytes that came into memory.
    pub(super) fn hold(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that left memory.
    pub(super) fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts a file that was opened.
    pub(super) fn opened(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a file that was closed.
    pub(super) fn closed(&self) {
        self.files.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tells whether as many files are open as may stay open.
    pub(super) fn too_many_files(&self) -> bool {
        self.files.load(Ordering::Relaxed) > self.files_max
    }
}
