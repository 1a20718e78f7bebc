//! The limits of results bound for workers and stores what the callback of a task may return.

use std::time::Duration;

/// Largest result of a task, in bytes: as large as stores keep contents, so that one value of the body table bounds both.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// Largest result that lies in the row of its task, in bytes, beside the columns that conditional writes move. A larger one is
/// kept apart.
pub const RESULT_INLINE_BYTES_MAX: usize = 16 * 1024;

/// How much longer than its task's retention a result that is kept apart lives: it is written before its task ends, and a
/// settle takes minutes at most.
pub const RESULT_KEPT_LONGER: Duration = Duration::from_secs(3600);

/// Longest part of an attempt's error that a line of the log about one task repeats: such lines are many.
pub const LOGGED_ERROR_CHARS_MAX: usize = 256;

/// Attempts of which a node remembers what their workers told last: some 50 bytes each. They are forgotten together.
pub const TOLD_ATTEMPTS_MAX: usize = 100_000;
