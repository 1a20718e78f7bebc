//! Answers about tasks.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    problem::Problem,
    target::KafkaHeader,
    task_request::{Priority, RetryPolicy},
    text::{DurationText, InstantText},
};

/// A task as it reads. What is not known, or not there, is left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TaskResponse {
    /// Its id: a UUID of version 8.
    #[schema(format = "uuid")]
    pub id: String,
    /// Where it goes.
    pub target: TargetResponse,
    /// Label for a subset of the callback's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Where it stands.
    pub state: TaskState,
    /// When it is to start, as registered or last rescheduled; it may have passed when the task was registered.
    pub start_time: InstantText,
    /// When it really starts: later than `start_time` while it waits for a retry, or where that had passed already.
    pub effective_start_time: InstantText,
    /// When it was registered.
    pub create_time: InstantText,
    /// When it was handed to the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_time: Option<InstantText>,
    /// When it was claimed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_time: Option<InstantText>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// Claims so far.
    pub attempt: u32,
    /// How often it may be tried.
    pub max_attempts: u32,
    /// Which of the callback's queues.
    pub priority: Priority,
    /// Labels. Of a large task they are part of the content and shown with view=FULL only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Who claimed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How far the worker is, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub progress: Option<Box<RawValue>>,
    /// What the callback returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Someone asked to cancel it while it was running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancel_requested: bool,
    /// Reschedules, and redrives of a dead task, so far.
    pub generation: u32,
    /// The payload, when it is JSON; view=FULL.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<serde_json::Value>)]
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
    /// How long it may stay unclaimed before it is published again; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long after its start time it is still useful, unless for ever; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// How long it can be read once it has ended; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
}

/// Where a task goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TargetResponse {
    /// To a callback.
    Callback {
        /// Its name.
        name: String,
    },
    /// To a topic.
    Kafka {
        /// The topic.
        topic: String,
        /// The partition, when it was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<i32>,
        /// The record's key, when it is text; view=FULL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The record's key, when it is not text; view=FULL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_base64: Option<String>,
        /// The record's headers in order; view=FULL.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<KafkaHeader>,
    },
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Waits for its start time.
    Scheduled,
    /// Handed to the queue, not claimed yet.
    Enqueued,
    /// Claimed by a worker.
    Claimed,
    /// Its worker has sent a heartbeat.
    Processing,
    /// Done.
    Succeeded,
    /// Failed for good, as its callback said.
    Failed,
    /// Failed, and waits for its next attempt.
    Retrying,
    /// Cancelled.
    Cancelled,
    /// Too late to be useful.
    Expired,
    /// Used up its attempts.
    Dead,
    /// A `kafka` target's record was published.
    Published,
}

impl TaskState {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Enqueued => "enqueued",
            Self::Claimed => "claimed",
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Dead => "dead",
            Self::Published => "published",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer to a batch registration: one result per task, in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchCreateResponse {
    /// The results.
    pub results: Vec<BatchCreateResult>,
}

/// What became of one task of a batch: exactly one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchCreateResult {
    /// The registered task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
    /// Why it was not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Who won between a cancel and the firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// It will not run.
    Cancelled,
    /// It had been cancelled before.
    AlreadyCancelled,
    /// An attempt is running; its worker is told, and no further attempt follows.
    CancelRequested,
    /// It had ended, or was published.
    TooLate,
}

/// The answer to a cancel.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CancelResponse {
    /// Who won.
    pub outcome: CancelOutcome,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after it.
    pub task: TaskResponse,
}

/// The answer to a cancel of many: one result per id, in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchCancelResponse {
    /// The results.
    pub results: Vec<BatchCancelResult>,
}

/// What became of one cancel of a batch: either who won and the task, or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct BatchCancelResult {
    /// Who won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<CancelOutcome>,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
    /// Why it was not cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Who won between a reschedule and the firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RescheduleOutcome {
    /// It starts at the new time; one that was dead and is told to run, at once and with all its attempts.
    Rescheduled,
    /// It is running, has ended, or was published. A dead task can be told to run, not moved.
    TooLate,
}

/// The answer to a reschedule or a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RescheduleResponse {
    /// Who won.
    pub outcome: RescheduleOutcome,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after it.
    pub task: TaskResponse,
}

const fn is_false(value: &bool) -> bool {
    !*value
}
