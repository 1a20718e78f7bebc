//! The types of dead letters carry dead tasks, their groups, and the outcomes of redrives to clients.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{problem::Problem, task_response::TaskResponse, text::InstantText};

/// A page of dead letters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListDeadLettersAnswer))]
#[non_exhaustive]
pub struct ListDeadLettersResponse {
    /// The dead letters, newest first. A page may have fewer than asked for, even none, and not be the last.
    pub dead_letters: Vec<DeadLetter>,
    /// Send this as `page_token`, with the same filters, to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// A dead letter: a task that used up its attempts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// Its callback.
    pub callback: String,
    /// The class of its last error: the first line, with a `#` for each number; host and status of a request
    /// over HTTP stay. Send it as `error` to find its like.
    pub error: String,
    /// Claims, those before earlier redrives included.
    pub attempt: u32,
    /// When it died.
    pub end_time: InstantText,
    /// The task, without payload; absent when its row cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
}

/// Dead letters of one callback with one class of error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct DeadLetterGroup {
    /// The callback; `(other)` stands for those beyond the first thousand groups.
    pub callback: String,
    /// The class of the error; `(other)` as for the callback.
    pub error: String,
    /// How many tasks.
    pub tasks: u64,
    /// When the first of them died.
    pub oldest: InstantText,
    /// When the last of them died.
    pub newest: InstantText,
    /// There are more dead letters than one call counts: `tasks` is a lower bound.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_least: bool,
}

/// A redrive: either some ids, or a filter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RedriveRequest {
    /// Up to 1000 ids of dead tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// All dead tasks of this callback, as a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// All dead tasks with this class of error, as a job; a whole error stands for its class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of a job: so many tasks a second at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 0.001, maximum = 1_000_000))]
    pub rate_per_second: Option<f64>,
    /// Change nothing, and say what would be redriven.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// The outcome of a redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RedriveOutcome {
    /// The task runs again, with all its attempts.
    Redriven,
    /// The task is not dead: it never was, or another redrive came first.
    NotDead,
    /// The task stays dead: its key names another live task, or its payload is gone.
    Blocked,
}

/// The result for one id of a redrive: either outcome and task, or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct RedriveResult {
    /// The id, as it was sent; empty for an item that is no text.
    pub id: String,
    /// Whether it runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RedriveOutcome>,
    /// The task after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
    /// Why it was not redriven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// The answer to a redrive of ids.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct RedriveResponse {
    /// Tasks that run again.
    pub redriven: u64,
    /// Tasks that were not dead any more.
    pub not_dead: u64,
    /// Tasks for which it failed. They are as before, or run again; the same call may be repeated.
    pub failed: u64,
    /// One result per id, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<RedriveResult>,
    /// Nothing was changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
    /// Tasks that would be redriven; with `dry_run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<u64>,
    /// The first of them, up to 20; with `dry_run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<TaskResponse>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}
