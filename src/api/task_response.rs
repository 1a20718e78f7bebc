//! The types of task answers carry tasks, and the outcomes of calls about them, to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    action::{ActionResponse, CheckResponse, EndState},
    join::AfterResponse,
    notify::Notify,
    previous::PreviousResponse,
    problem::Problem,
    target::TargetResponse,
    task_request::{FollowUp, Priority, RetryPolicy, TaskRequest},
    text::{DurationText, InstantText},
    why::CauseCode,
};

pub use super::task_state::{TaskState, TreeState};

/// A task. Fields that are not known, or not set, are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TaskResponse {
    /// Its id: a UUID of version 8.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The outcome of the registration; only in the answer to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RegistrationOutcome>,
    /// The target of the task.
    pub target: TargetResponse,
    /// The name that its client chose, by which it is found while the key names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key of its sequence, of which one task runs at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// The id of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// Whether it starts when the own run of its parent has succeeded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_parent: bool,
    /// How long behind the end of its own run its tree is held open for children to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children_within: Option<DurationText>,
    /// The tasks that it waits for, or waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterResponse>,
    /// Where it stands with all tasks below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_state: Option<TreeState>,
    /// When its tree ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_end_time: Option<InstantText>,
    /// Label for a subset of the callback's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The schedule that it is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The time of the schedule that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_time: Option<InstantText>,
    /// The state of the task.
    pub state: TaskState,
    /// When the task is to start, as registered or last rescheduled; it may have passed when the task was
    /// registered.
    pub start_time: InstantText,
    /// When the task really starts: later than `start_time` while it waits for a retry, or where that had
    /// passed already.
    pub effective_start_time: InstantText,
    /// When the task was registered.
    pub create_time: InstantText,
    /// When the task was handed to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_time: Option<InstantText>,
    /// When the task was claimed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_time: Option<InstantText>,
    /// When the task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// Claims so far.
    pub attempt: u32,
    /// How often the task may be tried.
    pub max_attempts: u32,
    /// The queue of the callback in which it travels.
    pub priority: Priority,
    /// Labels. Labels of a large task are part of its content and shown with view=FULL only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The worker that claimed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The progress of the worker, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub progress: Option<Box<RawValue>>,
    /// The result of the callback, when it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// The result of the callback as base64, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Media type of the result; absent is `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// How many bytes a result has that is too large to be shown here: a read of the task by its id shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The reason of an end that no call and no attempt has brought: `dropped` by the gate of its callback, `replaced` by another
    /// task of its key, `parent_failed`, since the own run of its parent did not succeed, or how its wait for other tasks ended:
    /// `dependency_failed`, `dependency_missing`, `deadline_passed`. Of a tree that was held open for children to come:
    /// `children_time_passed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first thing that keeps it from running; view=FULL. `why` of the task tells all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<CauseCode>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Someone asked to cancel the task while it was running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancel_requested: bool,
    /// Reschedules, and redrives of a dead task, so far.
    pub generation: u32,
    /// The attempts, newest last: the last 20 at most. Only a read of the task by its id shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptResponse>,
    /// Older attempts that are not kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts_dropped: u32,
    /// The payload, when it is JSON; view=FULL.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Box<RawValue>>,
    /// The payload as base64, when it is not JSON; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Media type of the payload; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Waits between attempts; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long the task may stay unclaimed before it is published again; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long an attempt may take in all; absent means for ever; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<DurationText>,
    /// How long after its start time the task is still useful; absent means for ever; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// How long the task can be read once it has ended; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// How long the task can be read and redriven once it is dead, where that was given; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<DurationText>,
    /// Where the end of the task is told; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// Things that the service does when the task ends, and how they went: a read by id shows it, and view=FULL without outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ActionResponse>,
    /// Things that the service does at times, and how they went: a read by id shows it, and view=FULL without outcomes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResponse>,
    /// Tasks that are registered when the task ends: a read by id shows them, and view=FULL with their payloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<FollowUpResponse>,
    /// The task that it follows, if it is a follow-up; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousResponse>,
}

/// A follow-up as it reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct FollowUpResponse {
    /// The ends that it follows.
    pub states: Vec<EndState>,
    /// The task, with what its callback had set when the other task was registered.
    pub task: Box<TaskRequest>,
    /// Whether the result of the other task goes with it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub with_result: bool,
    /// Whether it is a child in the tree of the other task.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_tree: bool,
    /// Its id, once the other task has ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: Option<String>,
}

impl FollowUpResponse {
    /// Makes one; it has an id once it is registered.
    #[doc(hidden)]
    #[must_use]
    pub fn new(follow: FollowUp, id: Option<String>) -> Self {
        let FollowUp {
            states,
            task,
            with_result,
            in_tree,
        } = follow;
        Self {
            states: states.unwrap_or_default(),
            task,
            with_result,
            in_tree,
            id,
        }
    }
}

/// The follow-up that would be registered again as it is.
impl From<FollowUpResponse> for FollowUp {
    fn from(follow: FollowUpResponse) -> Self {
        Self {
            states: Some(follow.states),
            task: follow.task,
            with_result: follow.with_result,
            in_tree: follow.in_tree,
        }
    }
}

/// The outcome of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationOutcome {
    /// The task is new.
    Created,
    /// The task had been registered before, and is shown as it is now.
    Existing,
    /// The task has taken the place of the live task that its key named.
    Replaced,
}

/// One attempt of a task. Fields that are not known, or not set, are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct AttemptResponse {
    /// Its number.
    pub attempt: u32,
    /// The worker that claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_time: Option<InstantText>,
    /// When it ended; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// How it ended: as its worker reported (`succeeded`, `retry`, `failed`, `snoozed`), `lost` when its worker stopped
    /// sending heartbeats, or `cancelled`; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The error that its worker reported; earlier ones are cut at 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The status of the answer; only for a task that is delivered over HTTP, and where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The beginning of the body of that answer: the first KiB, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// The last progress that its worker told with a heartbeat, also once it has ended. `GET /v1/tasks/{id}/messages` has more.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub progress: Option<Box<RawValue>>,
}

/// The answer to a batch registration: one result per task, in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct BatchCreateResponse {
    /// The results.
    pub results: Vec<BatchCreateResult>,
}

/// The result for one task of a batch: either the task or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct BatchCreateResult {
    /// The outcome of the registration: as in its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RegistrationOutcome>,
    /// The registered task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
    /// Why it was not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// The outcome of a cancel: whether it or the firing won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The task will not run.
    Cancelled,
    /// The task had been cancelled before.
    AlreadyCancelled,
    /// An attempt is running. Its worker is told, and no further attempt follows.
    CancelRequested,
    /// The task had ended, or was published.
    TooLate,
}

/// The answer to a cancel.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CancelResponse {
    /// Whether the cancel or the firing won.
    pub outcome: CancelOutcome,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after the cancel.
    pub task: TaskResponse,
}

/// The answer to a cancel of many: one result per id, in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct BatchCancelResponse {
    /// The results.
    pub results: Vec<BatchCancelResult>,
}

/// The result for one id of a batch: either outcome and task, or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct BatchCancelResult {
    /// Whether the cancel or the firing won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CancelOutcome>,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after the cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
    /// Why it was not cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// The outcome of a reschedule: whether it or the firing won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RescheduleOutcome {
    /// The task starts at the new time. A dead task that is told to run starts at once, with all its
    /// attempts.
    Rescheduled,
    /// The task is running, has ended, or was published. A dead task can be told to run, but not be moved.
    TooLate,
}

/// The answer to a reschedule or a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct RescheduleResponse {
    /// Whether the reschedule or the firing won.
    pub outcome: RescheduleOutcome,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after the call.
    pub task: TaskResponse,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

const fn is_false(value: &bool) -> bool {
    !*value
}
