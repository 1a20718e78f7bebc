//! The types of worker calls carry the requests of workers and their answers; each is a list, in order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    dependency::DependencyResponse,
    previous::PreviousResponse,
    problem::Problem,
    task_request::Priority,
    text::{DurationText, InstantText},
};

/// How much of a task is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum View {
    /// Without content.
    Basic,
    /// With content.
    #[default]
    Full,
}

/// Messages from the queue that a worker wants to run.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ClaimRequest {
    /// The worker's name, for people; 1 to 256 characters.
    pub worker: String,
    /// The messages; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub messages: Vec<ClaimItem>,
    /// `FULL` (the default) returns payloads, `BASIC` does not.
    #[serde(default)]
    pub view: View,
}

/// One message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaimItem {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The message's generation.
    pub generation: u32,
    /// The attempt that the message expects.
    pub expected_attempt: u32,
    /// The record's value (a protobuf `tickwheel.v1.TaskMessage`) as base64, when it is at hand. It saves the
    /// service a read, and must agree with the fields above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The answers to a claim.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ClaimAnswer))]
pub struct ClaimResponse {
    /// One per message, in order.
    pub results: Vec<ClaimResult>,
}

/// The answer to one message.
// Flat, not a tagged enum: serde cannot read a raw JSON value inside of one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ClaimResult {
    /// How to treat the message.
    pub status: ClaimStatus,
    /// The task to run; with `claimed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ClaimedTask>,
    /// Hold the message until this time; with `early` and `limited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<InstantText>,
    /// A description of the mistake; with `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// How to treat a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClaimStatus {
    /// Run it.
    Claimed,
    /// Forget it: the message is outdated.
    Stale,
    /// Forget it: another attempt is alive, and the service comes back to the task.
    Held,
    /// Forget it: a gate of its callback is not open, and the service comes back to the task once it is.
    Gated,
    /// Forget it: another task of its sequence has the turn, and the service comes back to this one.
    Behind,
    /// Hold it until `not_before`.
    Early,
    /// A limit of its callback is reached: hold it until `not_before`.
    Limited,
    /// Not known, or not understood. Forget it: the service comes back to the task.
    Error,
}

/// A task to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ClaimedTask {
    /// Its id.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The fencing token: pass (`id`, `attempt`) to every system that the callback changes.
    pub attempt: u32,
    /// Reschedules so far.
    pub generation: u32,
    /// The callback to run.
    pub callback: String,
    /// Label for a subset of the callback's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The queue of the callback it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The key of its sequence: no other task of the callback with this key runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// The id of its parent; only for a task of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// The schedule that the task is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The time of the schedule that the run stands for, before any jitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_time: Option<InstantText>,
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
    /// When the task was to start.
    pub start_time: InstantText,
    /// When the claim ends unless a heartbeat extends it.
    pub claim_expire_time: InstantText,
    /// How long a heartbeat extends the claim.
    pub heartbeat_timeout: DurationText,
    /// How long the attempt may take in all; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<DurationText>,
    /// How often the task may be tried.
    pub max_attempts: u32,
    /// Labels; view=FULL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The task that it follows, if it is a follow-up; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousResponse>,
    /// The tasks that it waited for (`after`), in the order of their ids, as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<DependencyResponse>,
    /// W3C trace context of the registration; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// Signs of life.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct HeartbeatRequest {
    /// The worker's name.
    pub worker: String,
    /// The attempts that are alive; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub tasks: Vec<HeartbeatItem>,
}

/// One attempt that is alive.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatItem {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The attempt.
    pub attempt: u32,
    /// The progress: any JSON value up to 4096 bytes. Without it, what was told before stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub progress: Option<Box<RawValue>>,
}

/// The answers to signs of life.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = HeartbeatAnswer))]
pub struct HeartbeatResponse {
    /// One per attempt, in order.
    pub results: Vec<HeartbeatResult>,
}

/// The answer to one sign of life.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct HeartbeatResult {
    /// How the worker is to go on.
    pub status: HeartbeatStatus,
    /// Why the attempt is not alive; with `lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A description of the mistake; with `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// How the worker is to go on after a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeartbeatStatus {
    /// Go on.
    Ok,
    /// Stop: the attempt is not the live one any more.
    Lost,
    /// Stop, and settle: someone asked to cancel.
    CancelRequested,
    /// Not recorded: try again when `error.retryable`.
    Error,
}

/// Reports of how attempts ended.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SettleRequest {
    /// The worker's name.
    pub worker: String,
    /// The reports; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub tasks: Vec<SettleItem>,
}

/// One report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SettleItem {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The attempt.
    pub attempt: u32,
    /// How the attempt ended.
    pub outcome: SettleOutcome,
    /// The result of the callback: any JSON value up to 1048576 bytes; with `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// The result as base64, when it is not JSON: up to 1048576 bytes before the encoding; with `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Media type of the result; `application/json` by default, and `application/octet-stream` with `result_base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 256))]
    pub result_content_type: Option<String>,
    /// The failure in words; required with `retry` and `failed`. The first 4096 characters are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The wait before the next attempt: required with `snoozed`, optional with `retry` (default: the task's
    /// own rule).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// All children were added: the tree of the task, which is held open for them, ends as others do. With `succeeded` and
    /// `failed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub children_complete: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettleOutcome {
    /// Done.
    Succeeded,
    /// Failed; try again.
    Retry,
    /// Failed; trying again is of no use.
    Failed,
    /// Not now: run again later; does not count as an attempt.
    Snoozed,
}

/// The answers to reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = SettleAnswer))]
pub struct SettleResponse {
    /// One per report, in order.
    pub results: Vec<SettleResult>,
}

/// The answer to one report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct SettleResult {
    /// Whether the report was recorded.
    pub status: SettleStatus,
    /// Why the attempt is not alive; with `lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A description of the mistake; with `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

/// Whether a report was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SettleStatus {
    /// Recorded, now or by an earlier identical report.
    Ok,
    /// The attempt is not the live one any more. The report has no effect.
    Lost,
    /// Not known: report again when `error.retryable`.
    Error,
}

/// A task that its worker takes up again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerReopenRequest {
    /// The worker's name: that of the worker which had the attempt.
    pub worker: String,
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The attempt, which is its last one and has succeeded.
    pub attempt: u32,
}

/// Callbacks that a worker wants to consume.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SubscribeRequest {
    /// The worker's name.
    pub worker: String,
    /// The callbacks; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub callbacks: Vec<String>,
}

/// The topics in which their tasks arrive.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = SubscribeAnswer))]
pub struct SubscribeResponse {
    /// The topics; they exist now.
    pub topics: Vec<String>,
    /// The consumer group of each callback's workers.
    pub groups: BTreeMap<String, String>,
}
