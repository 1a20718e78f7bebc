//! The types of events tell readers of streams what becomes of a task, or of the tasks of a callback.
//!
//! A stream is one of server-sent events. The `id` of an event has the generation, the attempt and the state of its task, such as
//! `0.1.claimed`; in the stream of a callback the id of the task stands before it.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{task_state::TaskState, text::InstantText};

/// The data of an event `state`: a task is in another state, or in another attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TaskEvent {
    /// The id of the task.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub task: String,
    /// Its state. Of an attempt that is over, how it ended is in `outcome`.
    pub state: TaskState,
    /// Reschedules, and redrives of a dead task, so far.
    pub generation: u32,
    /// Claims so far.
    pub attempt: u32,
    /// When the state was entered, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<InstantText>,
    /// How an attempt ended that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The worker that claimed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The data of an event `scope`, the first one of the stream of a callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ScopeEvent {
    /// The callback.
    pub callback: String,
    /// The node that was asked.
    pub node: String,
    /// Whether the stream has the events of all tasks. Otherwise it has those that this node of the cluster writes.
    pub all: bool,
}

/// The data of an event `missed`: the reader was away, or slow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct MissedEvent {
    /// How many events were lost; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
}

impl TaskEvent {
    /// Returns the id of the event, without that of the task.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}.{}.{}", self.generation, self.attempt, self.state)
    }
}
