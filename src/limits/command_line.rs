//! The limits of the command line bound for the commands what they read as a whole, and what one call of theirs carries.

/// Largest crontab: a million lines. All of it is held until its last line was checked.
pub const CRONTAB_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Things of an import that go to the service in one call: each is a conditional write, and together they take about a second.
pub const PIECE_ITEMS_MAX: usize = 100;

/// Bytes of an import's lines after which a call is made: with the longest line behind them it stays below the limit of a call.
pub const PIECE_BYTES_MAX: usize = super::BATCH_REQUEST_BYTES_MAX / 2;

/// Lines of a crontab that are checked at once: as many as keep a node of a few cores busy.
pub const CHECKS_IN_FLIGHT_MAX: usize = 16;

/// Bytes of a line that a command wrote, behind which the worker passes it on in parts.
pub const PASSED_LINE_BYTES_MAX: usize = 8 * 1024;
