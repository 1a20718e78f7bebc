//! The types of schedules carry what a user has set to the service, and times and runs to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    problem::Problem,
    task_request::TaskRequest,
    task_response::{TaskResponse, TaskState},
    text::{DurationText, InstantText},
};

/// One cron expression, or several: a run is due when one of them is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(untagged, expecting = "`cron` is a text or a list of texts")]
#[non_exhaustive]
pub enum CronText {
    /// `"30 2 * * MON-FRI"`.
    One(String),
    /// `["30 2 * * MON-FRI", "0 12 * * SAT"]`.
    Several(Vec<String>),
}

impl CronText {
    /// Returns the expressions.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// The fate of a run that is due while the one before has not ended. A run that waits for a retry has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Overlap {
    /// It is skipped: the default. A schedule with a `kafka` task allows overlap instead.
    Skip,
    /// Both run.
    Allow,
    /// It waits for the end of the other; one run may wait, further ones are skipped.
    BufferOne,
    /// The other is told to stop, and it runs when that has ended.
    CancelOther,
}

/// The fate of times that passed while the service could not start runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// The last of them within the window runs: the default.
    Latest,
    /// All of them within the window run.
    All,
    /// None of them runs.
    Skip,
}

/// A schedule: it is stored as a whole, in place of the one before. Exactly one of `cron` and `every`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Times by the clock on the wall: five fields, or six with the seconds first; names, ranges, steps, `L`, `W`, `#`, `?`, `H`;
    /// `@hourly` to `@yearly`; `@every 5m`. At most 16 expressions of 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<CronText>,
    /// Times that are equally far apart, from `start_time` on, else from the creation: 1 s to ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<DurationText>,
    /// The zone of the expressions, a name of the IANA database; `UTC` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// No run is before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// No run is behind this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// Most runs. Those that were skipped or withdrawn do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1))]
    pub limit: Option<u64>,
    /// Each run starts later by a part of this, always the same for one run, and by no more than half of the way to the next
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<DurationText>,
    /// About runs that would overlap; `skip` by default. Without it, and with `missed` `all`, missed times follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// About times that were missed; `latest` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// How long a missed time can be made up for; 24 h by default, 3 days at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_window: Option<DurationText>,
    /// A run that fails for good pauses the schedule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pause_on_failure: bool,
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 1024))]
    pub note: Option<String>,
    /// Labels of the schedule, for people; at most 8. Labels of its tasks are in `task`.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// A schedule that is created waits until it is resumed. It has no effect on one that is there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// The task of each run: any, without `start_time`, `delay`, `key` and `id`. At most 16 KiB.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub task: Option<TaskRequest>,
}

impl ScheduleRequest {
    /// Returns a schedule with a cron expression.
    #[must_use]
    pub fn cron(expression: impl Into<String>) -> Self {
        Self {
            cron: Some(CronText::One(expression.into())),
            ..Self::default()
        }
    }

    /// Returns a schedule whose runs are equally far apart.
    #[must_use]
    pub fn every(interval: std::time::Duration) -> Self {
        Self {
            every: Some(interval.into()),
            ..Self::default()
        }
    }

    /// Sets the zone of the expressions.
    #[must_use]
    pub fn in_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// Sets the task of each run.
    #[must_use]
    pub fn runs(mut self, task: TaskRequest) -> Self {
        self.task = Some(task);
        self
    }

    /// Sets what becomes of runs that would overlap.
    #[must_use]
    pub const fn with_overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = Some(overlap);
        self
    }

    /// Sets what becomes of times that were missed.
    #[must_use]
    pub const fn with_missed(mut self, missed: Missed) -> Self {
        self.missed = Some(missed);
        self
    }
}

/// Where a schedule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScheduleState {
    /// It starts runs.
    Live,
    /// It waits for a person.
    Paused,
    /// Its times or its limit are used up.
    Ended,
}

impl ScheduleState {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

/// Why a schedule is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct PauseResponse {
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The person, or `tickwheel` where a run has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Since when.
    pub since: InstantText,
}

/// The answer to the deletion of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = DeleteScheduleAnswer))]
#[non_exhaustive]
pub struct DeleteScheduleResponse {
    /// The number of changes, with this one.
    pub generation: u32,
    /// Runs that were withdrawn before they began.
    pub runs_cancelled: u64,
    /// Runs that had begun, and go on.
    pub runs_started: u64,
}

/// A schedule with its name, as it was set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedSchedule {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub schedule: ScheduleRequest,
}

/// A page of schedules as they were set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ExportSchedulesAnswer))]
#[non_exhaustive]
pub struct ExportSchedulesResponse {
    /// The schedules, by name.
    pub schedules: Vec<NamedSchedule>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// Schedules to set together; one bad schedule fails only itself.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ImportSchedulesRequest {
    /// The schedules; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub schedules: Vec<NamedSchedule>,
}

/// The results of an import, in the order of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ImportSchedulesAnswer))]
#[non_exhaustive]
pub struct ImportSchedulesResponse {
    /// The results.
    pub results: Vec<ImportScheduleResult>,
}

/// The result for one schedule of an import: either the outcome or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ImportScheduleResult {
    /// The schedule; absent when its item could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ImportOutcome>,
    /// Why it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// The effect of an import on a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImportOutcome {
    /// There was none of this name; now there is.
    Created,
    /// It is set anew.
    Replaced,
    /// It was set so already.
    Unchanged,
}

/// The reason of a pause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 256))]
    pub reason: Option<String>,
    /// The person who pauses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 256))]
    pub who: Option<String>,
}

/// The runs of a schedule that are to be made up for: one for each time from `from` to `to`, both included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackfillRequest {
    /// The first time.
    pub from: InstantText,
    /// The last time; it must have passed. There may be 10,000 runs in between.
    pub to: InstantText,
    /// The fate of a run whose turn comes while one of the backfill, or of the schedule, has not ended. `allow`, the default:
    /// both run. `skip`: it is left out. `buffer_one`: it waits, so that they run one after the other. `cancel_other`: the
    /// others are told to stop, and it runs when they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// So many runs a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 0.001, maximum = 1_000_000))]
    pub rate_per_second: Option<f64>,
    /// Start nothing: count the runs, and show the first of their times.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

impl BackfillRequest {
    /// Returns a backfill of a span.
    #[must_use]
    pub const fn new(from: InstantText, to: InstantText) -> Self {
        Self {
            from,
            to,
            overlap: None,
            rate_per_second: None,
            dry_run: false,
        }
    }
}

/// A time of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct RunTime {
    /// In the zone of the schedule, with its offset.
    pub local: String,
    /// In UTC.
    pub utc: InstantText,
}

/// The times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct PreviewResponse {
    /// Its times in words.
    pub description: String,
    /// The zone.
    pub time_zone: String,
    /// The version of the data about time zones.
    pub time_zone_version: String,
    /// The times, the first one first. Jitter is not in them.
    pub run_times: Vec<RunTime>,
    /// The same times in the zone alone, as a schedule shows them.
    #[serde(default)]
    pub next_run_times: Vec<String>,
}

/// The cause of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCause {
    /// A time of the schedule.
    Schedule,
    /// A person.
    Trigger,
    /// A backfill.
    Backfill,
}

/// A run of a schedule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct RunResponse {
    /// The id of its task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The time of the schedule that it stands for.
    pub scheduled_time: InstantText,
    /// Its number; 0 where a person or a backfill started it.
    pub number: u64,
    /// The generation of the schedule.
    pub generation: u32,
    /// Its cause.
    pub cause: RunCause,
    /// The state of its task; absent when that cannot be read any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// `skipped`: another run had not ended, so this one has no task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
}

/// A page of runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ListRunsResponse {
    /// The runs, the newest first.
    pub runs: Vec<RunResponse>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}
