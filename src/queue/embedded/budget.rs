//! The budget of a queue counts the resources that all partitions share: memory beyond a small part of each,
//! open files and the disk.
//!
//! It only counts and reserves nothing. Two partitions that ask at once may both be let in, so a bound may be
//! passed by one record or one file for each thread that publishes.

use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::limits;

/// The counters.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    bytes_max: usize,
    files: AtomicUsize,
    files_max: usize,
    disk: Option<Disk>,
}

/// The disk that overflow files lie on.
#[derive(Debug)]
struct Disk {
    path: PathBuf,
    /// With less free space than this nothing more is written: the rest is kept for others.
    reserve_bytes: u64,
}

impl Budget {
    /// Allows so many bytes in memory and so many files open.
    pub(super) const fn new(bytes_max: usize, files_max: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max,
            files: AtomicUsize::new(0),
            files_max,
            disk: None,
        }
    }

    /// Allows what a queue may take by default, on the disk of a directory.
    pub(super) fn on_disk(path: PathBuf, reserve_bytes: u64) -> Self {
        let bytes_max = limits::EMBEDDED_QUEUE_BYTES_MAX;
        Self {
            disk: Some(Disk {
                path,
                reserve_bytes,
            }),
            ..Self::new(bytes_max, limits::OVERFLOW_FILES_OPEN_MAX)
        }
    }

    /// Asks whether so many bytes may be written to the disk.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] when the reserve would be touched.
    pub(super) fn has_disk(&self, bytes: usize) -> io::Result<()> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        // If the system cannot tell the free space, the write is tried.
        let Ok(found) = rustix::fs::statvfs(&disk.path) else {
            return Ok(());
        };
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let needed = disk.reserve_bytes.saturating_add(bytes as u64);
        if free >= needed {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "{} MiB are free and {} MiB are kept for claims and settles",
                free >> 20,
                disk.reserve_bytes >> 20
            ),
        ))
    }

    /// Tells whether a partition that holds `own` bytes may hold another record.
    pub(super) fn has_room(&self, own: usize) -> bool {
        own < limits::EMBEDDED_TOPIC_BYTES_MIN
            || self.bytes.load(Ordering::Relaxed) < self.bytes_max
    }

    /// Tells whether a partition that holds `own` bytes may be filled from the disk. It may while an eighth
    /// of the whole budget is free, or up to half of what it may hold whatever the others hold. One read then
    /// brings many records.
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
