//! These are the forms of the keyspaces of the database: how much of each is held in memory, and how it lies on disk.
//!
//! A keyspace keeps the form that it was created with, whatever is said here when it is opened again.

use fjall::{
    CompressionType, KeyspaceCreateOptions, KvSeparationOptions,
    config::{BlockSizePolicy, CompressionPolicy, FilterPolicy},
};

use crate::failpoint;

const MIB: u64 = 1024 * 1024;

/// Bytes of rows of the wheel in memory before they are sorted onto disk. Each time, and after each merge,
/// everything stands for the syncs with which fjall notes its tables, 2 to 5 ms. A larger size means fewer of
/// them, and fewer merges. Two or three such buffers are held.
const WHEEL_BUFFER_BYTES: u64 = 32 * MIB;

/// As above, for rows of tasks.
const ROW_BUFFER_BYTES: u64 = 24 * MIB;

/// As above, for clocks and heartbeats: the same few again and again.
const CLOCK_BUFFER_BYTES: u64 = 8 * MIB;

/// As above, for contents: each is up to a MiB.
const BODY_BUFFER_BYTES: u64 = 16 * MIB;

/// As above, for records: few, and written by people and by schedules.
const RECORD_BUFFER_BYTES: u64 = 8 * MIB;

/// As above, for rows of the index: many, each written once and removed once.
const INDEX_BUFFER_BYTES: u64 = 16 * MIB;

/// Bytes of a file of contents: those of one buffer, so that a file goes as a whole once its contents have gone.
const BODY_FILE_BYTES: u64 = BODY_BUFFER_BYTES;

/// The part of a file of contents that must be gone before a merge writes the rest of it into another one. Contents go with
/// their tasks, mostly in the order in which they came, so most files go as a whole and need no such copy.
const BODY_FILE_STALE: f32 = 0.5;

/// Bytes of a block of the wheel. It is read in ranges, so it is larger than usual, which also packs better.
const WHEEL_BLOCK_BYTES: u32 = 16 * 1024;

/// The compression of tables of the wheel, level by level. The library's default leaves two levels as they
/// are. But tables sorted into the second go down without being written again, so of three million pending
/// tasks nothing was compressed.
const WHEEL_COMPRESSION: [CompressionType; 2] = [CompressionType::None, CompressionType::Lz4];

/// Due entries and looks.
pub(super) fn wheel() -> KeyspaceCreateOptions {
    buffered(WHEEL_BUFFER_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(WHEEL_BLOCK_BYTES))
        .filter_policy(FilterPolicy::disabled())
        .data_block_compression_policy(CompressionPolicy::new(WHEEL_COMPRESSION))
}

/// Rows of tasks.
pub(super) fn rows() -> KeyspaceCreateOptions {
    buffered(ROW_BUFFER_BYTES)
}

/// Clocks and heartbeats.
pub(super) fn clocks() -> KeyspaceCreateOptions {
    buffered(CLOCK_BUFFER_BYTES)
}

/// Contents: merges move their places, and not the contents themselves.
pub(super) fn contents() -> KeyspaceCreateOptions {
    let files = KvSeparationOptions::default()
        .file_target_size(BODY_FILE_BYTES)
        .staleness_threshold(BODY_FILE_STALE);
    buffered(BODY_BUFFER_BYTES).with_kv_separation(Some(files))
}

/// Records.
pub(super) fn records() -> KeyspaceCreateOptions {
    buffered(RECORD_BUFFER_BYTES)
}

/// Rows of the index.
pub(super) fn index() -> KeyspaceCreateOptions {
    buffered(INDEX_BUFFER_BYTES)
}

/// A keyspace with so many bytes in memory; a test may ask for fewer.
fn buffered(bytes: u64) -> KeyspaceCreateOptions {
    let bytes = failpoint::buffer_bytes().unwrap_or(bytes);
    KeyspaceCreateOptions::default().max_memtable_size(bytes)
}
