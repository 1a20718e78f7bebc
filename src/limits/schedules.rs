//! Bounds of schedules.

use std::time::Duration;

use crate::model::schedule::{advance, cron, line, missed, plan};

/// Longest cron expression: a hundred numbers fit, and reading it takes microseconds.
pub const CRON_BYTES_MAX: usize = cron::TEXT_BYTES_MAX;

/// Most expressions of a schedule.
pub const CRONS_MAX: usize = plan::EXPRESSIONS_MAX;

/// Longest catch-up window; rows of tasks that have ended live more than twice as long.
pub const CATCH_UP_WINDOW_MAX: Duration = missed::WINDOW_MAX;

/// Catch-up window of a schedule that names none: a night and a day.
pub const CATCH_UP_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// Missed times of a schedule that follow each other.
pub const LINE_MAX: u64 = line::LINE_MAX;

/// Longest jitter: it is also at most half of the way to the next run.
pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Longest name of a zone: the longest of the database has 32.
pub const ZONE_BYTES_MAX: usize = 64;

/// Longest note of a schedule: a paragraph.
pub const NOTE_CHARS_MAX: usize = 1024;

/// Largest task of a schedule, as encoded: it lies in the record, which is written at each run.
pub const SCHEDULE_TASK_BYTES_MAX: usize = 16 * 1024;

/// Labels of a schedule.
pub const SCHEDULE_LABELS_MAX: usize = 8;

/// A record holds the longest expressions, note, reason and labels, the runs in sight and the task.
const _: () = assert!(
    CRONS_MAX * CRON_BYTES_MAX
        + 4 * (NOTE_CHARS_MAX + super::REASON_CHARS_MAX)
        + SCHEDULE_LABELS_MAX * 2 * 4 * super::LABEL_CHARS_MAX
        + advance::AHEAD_MAX * 48
        + advance::BEGUN_MAX * 8
        + SCHEDULE_TASK_BYTES_MAX
        < super::RECORD_VALUE_BYTES_MAX - 1024
);

/// The record of a backfill has what was set, and a page of runs.
const _: () = assert!(
    CRONS_MAX * CRON_BYTES_MAX
        + 4 * NOTE_CHARS_MAX
        + SCHEDULE_LABELS_MAX * 2 * 4 * super::LABEL_CHARS_MAX
        + super::JOB_PAGE_ITEMS_MAX * 32
        + SCHEDULE_TASK_BYTES_MAX
        < super::RECORD_VALUE_BYTES_MAX - 512
);

/// Runs of one backfill: a quarter of an hour at ten a second, and months of an hourly schedule. A wider span is several of them.
pub const BACKFILL_RUNS_MAX: usize = 10_000;

/// Times that an answer shows of a schedule.
pub const NEXT_TIMES: usize = 5;

/// Most times of a preview: a screen or two.
pub const PREVIEW_TIMES_MAX: usize = 100;

/// How often a change of a schedule is made anew after another was first: people and one node write it.
pub const SCHEDULE_RACES_MAX: usize = 20;

/// Writes of one look at a schedule; what is left comes with the next look.
pub const SCHEDULE_WRITES_A_LOOK_MAX: usize = 32;

/// Schedules that a node looks at together: each is a few round trips.
pub const SCHEDULE_LOOKS_IN_FLIGHT_MAX: usize = 32;

/// A row that says when to look at a schedule lies at least so far ahead that every node reads it after it was written: clocks
/// differ by a second, and nodes read [`WAKES_READ_AHEAD`] ahead.
pub const WAKE_AHEAD_MIN: Duration = Duration::from_secs(8);

/// How far ahead nodes read those rows, so that a look happens at its millisecond.
pub const WAKES_READ_AHEAD: Duration = Duration::from_secs(3);

/// A row that was acknowledged later than this before its time may not have been read.
pub const WAKE_WRITTEN_BEFORE: Duration = Duration::from_secs(6);

const _: () = assert!(WAKE_WRITTEN_BEFORE.as_secs() >= WAKES_READ_AHEAD.as_secs() + 3);

/// How often such a row is written anew because its write took too long.
pub const WAKE_WRITES_MAX: usize = 5;

/// How long such a row lives behind its time: longer than any node that lags reads.
pub const WAKE_KEPT: Duration = Duration::from_secs(3600);

/// Another look makes sure of the entries of new runs so long after they were decided on: well before they start.
pub const REPAIR_AFTER: Duration = Duration::from_secs(15);

/// A schedule whose look failed is looked at again after this.
pub const SCHEDULE_RETRY: Duration = Duration::from_secs(1);

/// A node that another should look at a schedule asks again after this whether that node is still there: nodes are known to be
/// dead after a few seconds.
pub const WAKE_ASKED_AGAIN: Duration = Duration::from_secs(6);

/// How often, and no more, a node asks so.
pub const WAKE_ASKS_MAX: u8 = 3;

/// How often one node reads all schedules, to find what no row tells of: a repair of what should not happen.
pub const SWEEP_EVERY: Duration = Duration::from_secs(900);

/// A schedule that should have been looked at so long ago is found by the sweep.
pub const SWEEP_OVERDUE: Duration = Duration::from_secs(20);

/// A node that is so far behind in reading rows reads all schedules instead.
pub const WAKES_LAG_MAX: Duration = Duration::from_secs(60);

/// How long a node remembers that it has entered the runs of a schedule: until the look that makes sure of it.
pub const ENTERED_REMEMBERED: Duration = Duration::from_secs(60);

/// How long a deleted schedule is remembered against late writes, and for the withdrawal of its runs.
pub const SCHEDULE_DELETED_KEPT: Duration = crate::model::record::REMOVED_KEPT;

/// How long a run is listed.
pub const RUN_LISTED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Runs that a page of a list shows: each is a read.
pub const RUNS_PAGE_MAX: usize = 100;

/// A `kafka` run is taken to have gone out so long after its start; no row tells of it.
pub const RECORD_RUN_OVER: Duration = Duration::from_secs(60);
