//! Limits of the memory of tasks that may expire before their next looks.

use std::time::Duration;

/// Tasks of that memory, some 200 bytes each beside the task itself. The next look ends the others.
pub const EXPIRIES_MAX: usize = 200_000;

/// Bytes of that memory, with the tasks that it holds: half of what near tasks may take.
pub const EXPIRIES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The pause before an expired task is examined again whose row could not be read, or has moved on.
pub const EXPIRY_PAUSE: Duration = Duration::from_secs(1);
