//! The limits of lists bound for the lister what one page reads and holds.

use std::time::Duration;

/// Lists that a node reads at once: each may read for [`LIST_TIME_MAX`].
pub const LISTS_IN_FLIGHT_MAX: usize = 16;

/// Most tasks of a page of a list: a client holds them in memory, and one answer of some megabytes carries them.
pub const LIST_TASKS_MAX: usize = 1000;

/// Tasks of a page of a list whose request gives no number.
pub const LIST_TASKS_DEFAULT: usize = 100;

/// Slots that one request for a list reads before it answers with what it has: over 16 wheels the ticks of four minutes,
/// half a second of single-partition reads.
pub const LIST_SLOTS_MAX: usize = 4096;

/// Slots that one step of such a request reads, over all wheels: small enough that a page that is soon full wastes little.
pub const LIST_STEP_SLOTS_MAX: usize = 512;

/// Wheels that a list reads at once.
pub const LIST_WHEELS_IN_FLIGHT_MAX: usize = 16;

/// Entries that one request for a list looks at: each may need its task's row and a look for another entry.
pub const LIST_ENTRIES_MAX: usize = 5000;

/// Time after which a request for a list answers with what it has found: well below the limit of its client.
pub const LIST_TIME_MAX: Duration = Duration::from_secs(2);

/// How far ahead a list without an end looks: a day of seconds is a million slots of 16 wheels, read in parts.
pub const LIST_HORIZON: Duration = Duration::from_secs(24 * 3600);

/// How far ahead of now a list looks for the entries of tasks that have started: the looks of a waiting task are at most a
/// quarter of an hour apart, and retries wait ten minutes by default.
pub const LIST_STARTED_AHEAD: Duration = Duration::from_secs(30 * 60);

/// How many days back a list looks for tasks that have ended, on a store that cannot list them itself: the longest retention that
/// people commonly give, a year, and a month.
pub const LIST_ENDED_DAYS_MAX: i64 = 400;

/// Parts of ended tasks, of a state and a day each, that a list reads in its first step: most lists are full with them. Each
/// further step reads twice as many.
pub const LIST_ENDED_PARTS_FIRST: usize = 4;

/// Parts of ended tasks, of a state and a day each, that a list reads in one step: most are empty, and cost a read.
pub const LIST_ENDED_PARTS_MAX: usize = 64;

/// Requests that wait for the end of a task and are woken by it, some 150 bytes each: 15 MB. Others find it by reading.
pub const END_WAITS_MAX: usize = 100_000;

/// The pause of a request that waits for the end of a task before its second read. Each further one is half as long again.
pub const END_READ_FIRST: Duration = Duration::from_millis(20);

/// The longest pause between two such reads while few requests wait: how late an end is told that another node has written.
pub const END_READ_MIN: Duration = Duration::from_millis(50);

/// The addition of each request that waits to the longest pause of all: together they read some 500 tasks a second.
pub const END_READ_APART: Duration = Duration::from_millis(2);

/// The longest pause between two such reads, however many wait, and while the task has not started.
pub const END_READ_MAX: Duration = Duration::from_millis(500);
