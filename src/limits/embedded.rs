//! Bounds of the queues in one process, and of the disk that the embedded store and queue share.

/// Space that the embedded store keeps for tasks that are already there: their claims, looks and settles, and the merges of
/// the database, each of which needs room for a copy of what it merges.
pub const EMBEDDED_RESERVE_BYTES: u64 = 512 * 1024 * 1024;

/// The part of the reserve that is taken as a file, and given back for operators' calls on a full disk: thousands of them, or
/// the buffers of the database, when it is opened anew.
pub const EMBEDDED_BALLAST_BYTES: u64 = EMBEDDED_RESERVE_BYTES / 8;

/// Space that overflow files of the embedded queue leave: a quarter more, so that a callback without workers never is why new
/// tasks of others are refused, which are taken again with a tenth more.
pub const OVERFLOW_RESERVE_BYTES: u64 = EMBEDDED_RESERVE_BYTES + EMBEDDED_RESERVE_BYTES / 4;

/// Records of one topic that the in-process queue holds for consumers that are behind: beyond it publishers wait.
pub const MEMORY_TOPIC_RECORDS_MAX: usize = 100_000;

/// Bytes of one topic that the in-process queue holds for consumers that are behind.
pub const MEMORY_TOPIC_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Records of one topic that the embedded queue holds in memory: some batches for each worker; the rest is on disk.
pub const EMBEDDED_TOPIC_RECORDS_MAX: usize = 20_000;

/// Records of one wheel that are handed to the embedded queue at once: half a millisecond or so of a core, behind which everybody
/// else may wait, and enough to amortise what a batch costs.
pub const EMBEDDED_RECORDS_AT_ONCE: usize = 64;

/// Records that are handed to the embedded queue without a turn: so few take less time than the turns of others.
pub const PUBLISHED_WITHOUT_TURN: usize = 8;

/// Topics of the embedded queue from which on those are looked for that nobody uses: a topic is made for any name that is polled.
pub const EMBEDDED_TOPICS_KEPT: usize = 3000;

/// Bytes of one topic that the embedded queue holds in memory.
pub const EMBEDDED_TOPIC_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of all topics that the embedded queue holds in memory: beyond it, each has its least.
pub const EMBEDDED_QUEUE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes of a partition that the embedded queue holds in memory whatever others hold: a batch or two for a worker, and a
/// thousand callbacks without workers are 128 MiB. With most of the queue's memory taken it is filled again at half of it.
pub const EMBEDDED_TOPIC_BYTES_MIN: usize = 128 * 1024;

/// Overflow files that are kept open: beyond it each is opened for each use. A quarter of the usual limit of a process.
pub const OVERFLOW_FILES_OPEN_MAX: usize = 256;

/// Bytes after which an overflow file is followed by the next: what was read is still on disk for up to this much.
pub const OVERFLOW_SEGMENT_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes after which a write to an overflow file is not added to: beyond it a call costs nothing beside what it writes.
pub const OVERFLOW_WRITE_BYTES: usize = 256 * 1024;

/// Bytes that are read back from an overflow file at once: amortises the call, and is read on the caller's thread.
pub const OVERFLOW_READ_BYTES: u64 = 256 * 1024;

/// Copies of the store that rest on each other: all of them are read at once, each with a file and a piece in memory, and one
/// that is damaged makes those above it worthless. A month of days, with a whole one at its beginning.
pub const BACKUP_CHAIN_MAX: usize = 31;
