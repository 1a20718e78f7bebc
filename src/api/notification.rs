//! The types of notifications carry the message that tells the end of a task to its receivers.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    task_response::TaskResponse,
    task_state::{TaskState, TreeState},
    text::InstantText,
};

/// The message that tells the end of a task. It may come several times; `id` is the same each time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Notification {
    /// The name of the message: that of the task of the service that delivers it.
    pub id: String,
    /// `task.` and the state that the task ended in, such as `task.succeeded`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the task ended.
    pub timestamp: InstantText,
    /// The end.
    pub data: Ended,
}

/// The end of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Ended {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub task_id: String,
    /// The state that it ended in.
    pub state: TaskState,
    /// When it ended.
    pub end_time: InstantText,
    /// Its attempts.
    pub attempt: u32,
    /// Reschedules and redrives up to the end: a task that was redriven ends again.
    pub generation: u32,
    /// The task as it read when the message was made, with its attempts, and its result up to 16384 bytes. Absent where the task
    /// was redriven or deleted meanwhile, or is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
}

/// The message that tells the end of the tree of a task. It may come several times; `id` is the same each time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TreeNotification {
    /// The name of the message: that of the task of the service that delivers it.
    pub id: String,
    /// `tree.completed`, `tree.faulted` or `tree.cancelled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the tree ended.
    pub timestamp: InstantText,
    /// The end.
    pub data: TreeEnded,
}

/// The end of the tree of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TreeEnded {
    /// The task at the top of the tree.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub task_id: String,
    /// How the tree ended.
    pub tree_state: TreeState,
    /// When it ended.
    pub tree_end_time: InstantText,
    /// The task as it read when the message was made. Absent where it was deleted meanwhile, or is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
}

impl TreeNotification {
    /// Makes the message.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        id: String,
        task_id: String,
        (tree_state, tree_end_time): (TreeState, InstantText),
        task: Option<TaskResponse>,
    ) -> Self {
        Self {
            id,
            kind: format!("tree.{}", tree_state.name()),
            timestamp: tree_end_time.clone(),
            data: TreeEnded {
                task_id,
                tree_state,
                tree_end_time,
                task,
            },
        }
    }
}

/// The message that tells the first claim of a task. It may come several times; `id` is the same each time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ClaimNotification {
    /// The name of the message: that of the task of the service that delivers it.
    pub id: String,
    /// `task.claimed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the task was claimed.
    pub timestamp: InstantText,
    /// The claim.
    pub data: Claimed,
}

/// The first claim of a task since it was registered, redriven or reopened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Claimed {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub task_id: String,
    /// `claimed`.
    pub state: TaskState,
    /// When it was claimed.
    pub claim_time: InstantText,
    /// The number of the attempt.
    pub attempt: u32,
    /// The task as it read when the message was made: it may have ended by then. Absent where it was redriven, reopened or
    /// deleted meanwhile, or is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskResponse>,
}

impl ClaimNotification {
    /// Makes the message.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        id: String,
        task_id: String,
        (attempt, claim_time): (u32, InstantText),
        task: Option<TaskResponse>,
    ) -> Self {
        Self {
            id,
            kind: "task.claimed".to_owned(),
            timestamp: claim_time.clone(),
            data: Claimed {
                task_id,
                state: TaskState::Claimed,
                claim_time,
                attempt,
                task,
            },
        }
    }
}

/// The message that tells the answer of a check. It may come several times; `id` is the same each time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CheckNotification {
    /// The name of the message: that of the task of the service that makes the check.
    pub id: String,
    /// `task.checked`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The time of the check.
    pub timestamp: InstantText,
    /// The answer.
    pub data: Checked,
}

/// The answer of a check.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Checked {
    /// The task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub task_id: String,
    /// The place of the check among those of its task, from 0 on.
    pub check: u32,
    /// The answer: `then` or `else`.
    pub answer: String,
    /// The task as it read when the message was made, with its attempts, and without its payload.
    pub task: TaskResponse,
}

impl CheckNotification {
    /// Makes the message.
    #[doc(hidden)]
    #[must_use]
    pub fn new(id: String, timestamp: InstantText, data: Checked) -> Self {
        Self {
            id,
            kind: "task.checked".to_owned(),
            timestamp,
            data,
        }
    }
}

impl Checked {
    /// Makes the answer about a task.
    #[doc(hidden)]
    #[must_use]
    pub fn new(task: TaskResponse, check: u32, answer: &str) -> Self {
        Self {
            task_id: task.id.clone(),
            check,
            answer: answer.to_owned(),
            task,
        }
    }
}

impl Notification {
    /// Makes the message.
    #[doc(hidden)]
    #[must_use]
    pub fn new(id: String, data: Ended) -> Self {
        Self {
            id,
            kind: format!("task.{}", data.state.name()),
            timestamp: data.end_time.clone(),
            data,
        }
    }
}

impl Ended {
    /// Makes the end of a task.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        task_id: String,
        (state, end_time): (TaskState, InstantText),
        (attempt, generation): (u32, u32),
        task: Option<TaskResponse>,
    ) -> Self {
        Self {
            task_id,
            state,
            end_time,
            attempt,
            generation,
            task,
        }
    }
}
