//! The types of causes tell clients why a task, or a run of a schedule, does not run.

use std::fmt;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    task_state::TaskState,
    text::{DurationText, InstantText},
};

/// Why a task does not run, or what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct WhyResponse {
    /// The id of the task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// Its callback; absent for a record of Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// When this was read.
    pub time: InstantText,
    /// One sentence for people, about the first cause.
    pub sentence: String,
    /// The causes in the order of time, of which there is at least one. Each of them keeps the task now.
    pub causes: Vec<Cause>,
}

/// A thing that keeps a task from running. Fields that say nothing about it are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Cause {
    /// Its kind.
    pub code: CauseCode,
    /// The cause in one sentence, for people.
    pub detail: String,
    /// The remedy, for people; absent where there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Since when it keeps the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<InstantText>,
    /// Until when, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<InstantText>,
    /// Whether it is known. Otherwise it may be the cause, and only the memory of the node in `node` tells.
    pub certain: bool,
    /// The worker that runs the task, or that was lost; of a gate, the name of the API key with which it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The collection of the gate; absent where it concerns all tasks of the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// The reason that was given for the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The limit of the callback: `rate` or `max_in_flight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The first of the tasks that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<CauseTask>,
    /// How many tasks it waits for, or, of `catching_up`, how many tasks of its wheel come before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The attempt that runs, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The last sign of life of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_time: Option<InstantText>,
    /// When a worker of the callback last polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_poll_time: Option<InstantText>,
    /// A callback that is polled and has nearly the same name: the task may name the wrong one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// How far the wheel of the task has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired: Option<InstantText>,
    /// How far the wheel of the task is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<DurationText>,
    /// The node that owns the wheel of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<CauseNode>,
    /// The last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The kind of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CauseCode {
    /// Its start is ahead.
    NotDue,
    /// A gate of its callback is not open.
    Gate,
    /// A limit of its callback is used up.
    Limit,
    /// Another task of its ordering key comes first.
    Turn,
    /// The own run of its parent has not ended.
    Parent,
    /// Tasks that it waits for have not ended.
    Tasks,
    /// Its own run has ended, and a task below it has not.
    Children,
    /// No worker polls for tasks of its callback.
    NoWorker,
    /// All workers of its callback run other tasks.
    Busy,
    /// It is in the queue, on its way to a worker.
    Queued,
    /// A worker runs it.
    Running,
    /// Its worker has stopped sending heartbeats.
    WorkerLost,
    /// It waits for its next attempt.
    Retry,
    /// The node that owned its wheel is gone, and another takes the wheel over.
    TakeOver,
    /// Its wheel is behind, and catches up.
    CatchingUp,
    /// Its topic does not take it.
    Topic,
    /// The queue does not answer.
    QueueAway,
    /// It has succeeded.
    Succeeded,
    /// Its record was published.
    Published,
    /// It has failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// A gate of its callback has dropped it.
    Dropped,
    /// It was too late to be useful.
    Expired,
    /// It has used up its attempts.
    Dead,
}

impl CauseCode {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotDue => "not_due",
            Self::Gate => "gate",
            Self::Limit => "limit",
            Self::Turn => "turn",
            Self::Parent => "parent",
            Self::Tasks => "tasks",
            Self::Children => "children",
            Self::NoWorker => "no_worker",
            Self::Busy => "busy",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WorkerLost => "worker_lost",
            Self::Retry => "retry",
            Self::TakeOver => "take_over",
            Self::CatchingUp => "catching_up",
            Self::Topic => "topic",
            Self::QueueAway => "queue_away",
            Self::Succeeded => "succeeded",
            Self::Published => "published",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Dropped => "dropped",
            Self::Expired => "expired",
            Self::Dead => "dead",
        }
    }

    /// Tells whether the task has ended so.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::Succeeded
                | Self::Published
                | Self::Failed
                | Self::Cancelled
                | Self::Dropped
                | Self::Expired
                | Self::Dead
        )
    }
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A task that another one waits for. Of a task that the API key does not cover, nothing is told but that it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CauseTask {
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: Option<String>,
    /// Its callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// Its state; absent where it is not known (yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
}

impl CauseTask {
    /// Makes one of its parts.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(id: String, callback: Option<String>, state: Option<TaskState>) -> Self {
        Self {
            id: Some(id),
            callback,
            state,
        }
    }
}

/// A node of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CauseNode {
    /// The node's name, for people.
    pub name: String,
    /// Where its API answers.
    pub address: String,
}

impl CauseNode {
    /// Makes one of its parts.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(name: String, address: String) -> Self {
        Self { name, address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_by_their_names() {
        let all = [
            CauseCode::NotDue,
            CauseCode::Gate,
            CauseCode::Limit,
            CauseCode::Turn,
            CauseCode::Parent,
            CauseCode::Tasks,
            CauseCode::Children,
            CauseCode::NoWorker,
            CauseCode::Busy,
            CauseCode::Queued,
            CauseCode::Running,
            CauseCode::WorkerLost,
            CauseCode::Retry,
            CauseCode::TakeOver,
            CauseCode::CatchingUp,
            CauseCode::Topic,
            CauseCode::QueueAway,
            CauseCode::Succeeded,
            CauseCode::Published,
            CauseCode::Failed,
            CauseCode::Cancelled,
            CauseCode::Dropped,
            CauseCode::Expired,
            CauseCode::Dead,
        ];
        for code in all {
            let written = serde_json::to_value(code).unwrap();
            assert_eq!(written, code.name());
            assert_eq!(serde_json::from_value::<CauseCode>(written).unwrap(), code);
        }
    }
}
