//! The types of jobs carry bulk work over a filter to the service, and its progress to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    schedule::Overlap,
    task_response::{TaskResponse, TaskState},
    text::{DurationText, InstantText},
};

/// The work that is done to each task of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobKind {
    /// Tasks that have not ended are cancelled.
    Cancel,
    /// Dead tasks run again, each with all its attempts.
    Redrive,
    /// Tasks that wait start at another time.
    Reschedule,
    /// Tasks that have ended are deleted for good.
    Delete,
    /// Runs of a schedule whose times have passed are registered. It is begun at the schedule.
    Backfill,
    /// Tasks that wait start now.
    Run,
    /// Tasks of trees that have succeeded begin a new round.
    Reopen,
}

impl JobKind {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Redrive => "redrive",
            Self::Reschedule => "reschedule",
            Self::Delete => "delete",
            Self::Backfill => "backfill",
            Self::Run => "run",
            Self::Reopen => "reopen",
        }
    }
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobState {
    /// No node has begun.
    Pending,
    /// It goes on.
    Running,
    /// It goes on when it is told to.
    Paused,
    /// It has worked on every task that it found.
    Completed,
    /// It was told to end. Its work so far stays done.
    Cancelled,
    /// Its tasks could not be found; `error` says why.
    Failed,
}

impl JobState {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Tells whether it never goes on.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Paused => false,
            Self::Completed | Self::Cancelled | Self::Failed => true,
        }
    }
}

/// The tasks that a job is about. A field that is absent leaves out none. A field that cannot be used with the kind of the job is
/// refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobFilter {
    /// Tasks of this callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// Tasks of this collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Tasks in this state. Redrive takes dead tasks only, delete those that have ended, and reopen those that have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// Tasks with all of these labels.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Tasks that start at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time_from: Option<InstantText>,
    /// Tasks that start before this. With Cassandra, cancel, reschedule and run need it, or a label that the callback names in
    /// `indexed_labels`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time_to: Option<InstantText>,
    /// Tasks that ended with this class of error, as groups of dead letters show it; a whole error stands for its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Bulk work over a filter.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The work.
    pub kind: JobKind,
    /// Its tasks.
    #[serde(default)]
    pub filter: JobFilter,
    /// Needed for a filter without any field: the work is done to every task.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
    /// Of a reschedule: the new start of every task; in the past means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// Of a reschedule: the new start of every task, so long after the job is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// So many tasks a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 0.001, maximum = 1_000_000))]
    pub rate_per_second: Option<f64>,
    /// Change nothing: count the tasks, and show the first of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// The same as the header `Idempotency-Key`: repetitions of the request are one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 255))]
    pub idempotency_key: Option<String>,
}

impl JobRequest {
    /// Returns a request for this work.
    #[must_use]
    pub const fn new(kind: JobKind, filter: JobFilter) -> Self {
        Self {
            kind,
            filter,
            all: false,
            start_time: None,
            delay: None,
            rate_per_second: None,
            dry_run: false,
            idempotency_key: None,
        }
    }
}

/// A job and its progress.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct JobResponse {
    /// Its id.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The work.
    pub kind: JobKind,
    /// Its tasks.
    pub filter: JobFilter,
    /// The schedule, of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The fate of runs that would overlap, of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// The new start of every task, of a reschedule or a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// So many tasks a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// Nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
    /// Where it stands.
    pub state: JobState,
    /// When it was registered.
    pub create_time: InstantText,
    /// When it ended. It can be read for three days from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// Tasks that are as the job wants them.
    pub done: u64,
    /// Tasks that could not be changed; `error` has the last reason.
    pub failed: u64,
    /// Tasks that had ended or did not match any more when their turn came.
    pub skipped: u64,
    /// All tasks of the job; of a dry run, those that were found so far. Absent until it is known: dead tasks and times of a
    /// schedule are counted before, others as they are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_estimate: Option<u64>,
    /// The first 20 tasks of a dry run, as they are now; where one job is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Vec<TaskResponse>>,
    /// The first 20 times of the dry run of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_times: Option<Vec<InstantText>>,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A page of jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListJobsAnswer))]
#[non_exhaustive]
pub struct ListJobsResponse {
    /// The jobs, the newest first.
    pub jobs: Vec<JobResponse>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}
