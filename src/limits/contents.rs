//! Bounds of waits for memory, for stages that move contents and have a caller who waits.

use std::time::Duration;

/// Longest wait of a claim, or of a record of a death, for the memory of the contents that it reads: a batch that holds it is
/// read and answered in less, and a worker that is told to come back is served like all others.
pub const CONTENTS_WAIT_MAX: Duration = Duration::from_secs(3);
