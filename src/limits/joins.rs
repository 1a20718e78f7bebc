//! The bounds of joins: tasks that wait for others.

use std::time::Duration;

/// Tasks that one task waits for: each costs two rows, and one check reads all of them in some milliseconds.
pub const AFTER_IDS_MAX: usize = 1000;

/// Tasks that all tasks of one request wait for together: each costs some reads and two rows, and one request is not to keep the
/// store busy for minutes.
pub const AFTER_IDS_OF_REQUEST_MAX: usize = 10 * AFTER_IDS_MAX;

/// Tasks that are looked for at once when a waiter is registered: the searches of one request leave room for others.
pub const AFTER_LOOKED_FOR_AT_ONCE: usize = 32;

/// Dependencies of which one look of a waiter asks whether anything still comes to them: a search for each.
pub const AFTER_FINISHED_AT_ONCE: usize = 32;

/// Dependencies whose rows are read at once for the claim of their waiter: a row has a result of 16 KiB at most.
pub const DEPENDENCIES_READ_AT_ONCE: usize = 64;

/// Rows of joins that are read or written at once: 100 KB, and a waiter of the most has four pages.
pub const JOINS_PAGE: usize = 500;

/// Waiters of one request that are registered at once: they share syncs.
pub const WAITERS_ENLISTED_AT_ONCE: usize = 8;

/// Waiters that one node checks at once: they share syncs and leave room for others.
pub const JOINS_IN_FLIGHT_MAX: usize = 16;

/// How old the copy of a node may be that says for tasks of which callbacks others wait. Until it is read again, the end of a
/// task of a callback that is new there may be told to no waiter.
pub const JOIN_MARKS_AGE_MAX: Duration = Duration::from_secs(2);

/// How long after its registration a waiter is checked again: by then each node knows that its dependencies are waited for.
pub const JOIN_CHECKED_AGAIN: Duration = Duration::from_secs(3);

/// How long before its deadline a node remembers it for a waiter: longer than the longest way between two looks.
pub const JOIN_DEADLINE_AHEAD: Duration = Duration::from_secs(20 * 60);

/// How long rows of a wait stay whose registration did not come to its end: longer than anybody repeats a registration, and
/// than an outage that a wait is to survive in its first day.
pub const JOIN_ROWS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a wait lasts before its rows are written once more, to stay for as long as it does. Most waits are over by then and
/// do not pay for it.
pub const JOIN_ROWS_KEPT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Waiters of which a node remembers how far their dependencies have ended: some 100 bytes each. All rows of another one are
/// read again.
pub const JOINS_REMEMBERED_MAX: usize = 10_000;

/// Waiters that a node counts for figures: some 100 bytes each. Others are not counted.
pub const JOINS_COUNTED_MAX: usize = 100_000;

/// Rows behind the first that a check reads when that one has ended: ends come in no order.
pub const JOINS_SWEEP_PAGE: usize = 50;

const _: () = assert!(JOIN_ROWS_KEPT_AFTER.as_secs() * 2 < JOIN_ROWS_KEPT.as_secs());
const _: () = assert!(JOINS_SWEEP_PAGE < JOINS_PAGE);
const _: () = assert!(JOIN_CHECKED_AGAIN.as_millis() > JOIN_MARKS_AGE_MAX.as_millis());
