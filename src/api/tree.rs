//! The types of trees carry tasks with all below them to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    task_response::{CancelOutcome, TaskResponse},
    task_state::TaskState,
    text::InstantText,
};

pub use super::task_state::TreeState;

/// A tree of tasks: its root, down to the depth that was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TreeResponse {
    /// The tasks; parents come before their children, and the root is the first.
    pub nodes: Vec<TreeNodeResponse>,
}

/// A task of a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TreeNodeResponse {
    /// Its id.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// The id of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// Where it stands with all below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_state: Option<TreeState>,
    /// When it is to start.
    pub start_time: InstantText,
    /// When its own run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<InstantText>,
    /// Its last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its result, when it is JSON of up to 4 KiB; view=FULL. The results of all tasks have 256 KiB together.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// Such a result as base64, when it is not JSON; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Media type of the result; absent is `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// How many bytes the result has that found no room here: `GET /v1/tasks/{id}` has it; view=FULL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// How many children it has, by state. Of children that have not ended with all below them the states of the first thousand
    /// in the answer are read; further ones are counted as `open`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<String, u64>,
    /// Some of its children are not shown: they lie deeper than was asked for, or are too many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The wish about a cancel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Also cancels all tasks below it that have not ended. Its tree takes no more tasks then, and ends as `cancelled`.
    #[serde(default)]
    pub tree: bool,
}

/// The result of a cancel of a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CancelTreeResponse {
    /// The outcome for the tree. `cancelled`: this request has cancelled it, and nothing of it starts any more but tasks that
    /// follow the cancel. `cancel_requested`: the same, and an attempt of the task itself is told to stop. `already_cancelled`:
    /// an earlier one had. `too_late`: it had ended. Of a task without children it is the outcome of its own cancel.
    pub outcome: CancelOutcome,
    /// Why it was too late; with `too_late`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task after it.
    pub task: TaskResponse,
    /// Tasks below it that were cancelled by this request; with `tree`, as what follows.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub cancelled: u64,
    /// Tasks below it whose attempts were told to stop by this request.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub cancel_requested: u64,
    /// All tasks below it were told. If not, the service goes on by itself; the same request goes on, too.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub complete: bool,
}

/// The wish about a retry of the failed part of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryFailedRequest {
    /// Only tasks that ended before this time run again: the `failed_before` of the answer that this request goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_before: Option<InstantText>,
}

/// The wish to reopen a task of a tree that has succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReopenRequest {
    /// The number of its last attempt. The task stays as it is if it has had another one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1))]
    pub attempt: Option<u32>,
}

/// A task that was reopened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ReopenAnswer))]
#[non_exhaustive]
pub struct ReopenResponse {
    /// The task after it: it starts at once, or has started.
    pub task: TaskResponse,
}

/// The result of a retry of the failed part of a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = RetryFailedAnswer))]
#[non_exhaustive]
pub struct RetryFailedResponse {
    /// The task of the request after it.
    pub task: TaskResponse,
    /// Tasks that run again by this request, or wait for their parents again.
    pub retried: u64,
    /// Failed tasks that cannot run again: they, or a task above them, are not kept any more, or they waited for others in vain.
    pub left: u64,
    /// All of the tree was looked at. If not, send the request again with this `failed_before`: it goes on.
    pub complete: bool,
    /// Of an answer that is not complete: the time before which tasks must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_before: Option<InstantText>,
}
