//! Bounds of the clock that tests of users move.

use std::time::Duration;

/// Times at which one call that moves the clock stops: twice a schedule of every minute for three days, and more. A test
/// that needs more calls again.
pub const WALK_STOPS_MAX: usize = 10_000;

/// How far ahead the clock may be moved by a call: a year and more. Each tick on the way is read.
pub const WALK_MAX: Duration = Duration::from_secs(400 * 86_400);

/// How long one call goes on to the next stop: it is answered within the time that clients give a call.
pub const WALK_CALL_MAX: Duration = Duration::from_secs(4);

/// How long the clock waits at a stop for workers by default: a handler of a test is done within a second.
pub const WALK_SETTLE: Duration = Duration::from_secs(5);

/// How long it waits for them at most.
pub const WALK_SETTLE_MAX: Duration = Duration::from_secs(60);

/// How long the clock waits at a stop for the service itself, which reads the ticks that were passed. A year is read in half
/// of it.
pub const WALK_BUSY_MAX: Duration = Duration::from_secs(60);

/// How long a call waits for a worker of a callback that no worker polls: one that was started with the test has polled by then.
pub const WALK_FIRST_POLL: Duration = Duration::from_millis(500);

/// A worker that polled so lately comes back: it reports what it has done, and polls again.
pub const WALK_POLLED_LATELY: Duration = Duration::from_secs(1);

/// How long a poll waits for the first task of a callback there, whose topic does not exist yet.
pub const WALK_TOPIC_MISSING: Duration = Duration::from_millis(20);

/// How often the clock looks, while it waits, whether all is done.
pub const WALK_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Entries of a wheel that are read at once in search of the next stop.
pub const WALK_ROWS: usize = 256;
