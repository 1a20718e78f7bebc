//! The states of tasks, as answers and filters name them, for clients.

use std::fmt;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
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
    /// Its own run has ended, and a task below it has not.
    #[serde(rename = "waiting_for_children")]
    WaitingForChildren,
    /// It waits for the own run of its parent, or for other tasks.
    Waiting,
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
            Self::WaitingForChildren => "waiting_for_children",
            Self::Waiting => "waiting",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a task stands that may have children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TreeState {
    /// It is in no tree as a parent: no task is below it, and none was announced.
    None,
    /// Its own run, or a task below it, has not ended.
    WaitingForChildren,
    /// All have ended, and none has failed.
    Completed,
    /// All have ended, and one of them has failed: it is failed, dead or expired.
    Faulted,
    /// All have ended, and the tree was cancelled as a whole before.
    Cancelled,
}

impl TreeState {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::WaitingForChildren => "waiting_for_children",
            Self::Completed => "completed",
            Self::Faulted => "faulted",
            Self::Cancelled => "cancelled",
        }
    }
}
