//! The types of statistics carry the answers of `/v1/stats` and `/v1/cluster` to clients.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{callback::GateResponse, text::InstantText};

/// The state of the service, as the node that was asked sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct StatsResponse {
    /// When the state was read.
    pub time: InstantText,
    /// Tasks that wait for their time, over all wheels, the nearest first.
    pub pending: Vec<PendingCount>,
    /// Whether the counts of pending tasks are exact. Otherwise each is a lower bound: on a cluster, and
    /// while a node that has just started still counts what it has found.
    pub exact: bool,
    /// Due tasks that no worker has taken.
    pub unclaimed: UnclaimedResponse,
    /// Tasks that wait for something else than their start or a worker, and dead ones.
    pub tasks: TaskCounts,
    /// The gates that are not open; a hundred at most.
    pub gates: Vec<ClosedGate>,
    /// How far the slowest wheel is behind, in milliseconds.
    pub behind_ms: u64,
    /// The work of the node that was asked, in the last minute.
    pub node: NodeStats,
}

/// Tasks by how far ahead they are due.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct PendingCount {
    /// The horizon: `overdue` (for more than three seconds), or due within a `minute`, an `hour`, a `day`, or
    /// `later`. Each horizon excludes the ones before it.
    pub horizon: String,
    /// How many were counted.
    pub tasks: u64,
    /// Whether these are all; the count is bounded.
    pub complete: bool,
}

/// Tasks that wait for something else than their start or a worker, and dead ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct TaskCounts {
    /// Attempts that run, as the node that was asked watches them.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required = true))]
    pub running: u64,
    /// Tasks that wait for their next attempt, as the node that was asked knows.
    pub retrying: u64,
    /// Tasks that wait for the ends of other tasks, as the node that was asked knows.
    pub waiting: u64,
    /// Due tasks that wait for the `rate` or the `max_in_flight` of their callback. They count in `unclaimed`, too.
    pub limited: u64,
    /// Due tasks that closed gates hold, on all nodes. They are counted about once a minute, up to 10,000 a callback;
    /// absent before the first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
    /// Tasks that are dead and kept, on all nodes. They are counted about once a minute, up to 100,000; absent before the
    /// first count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<u64>,
    /// The same by callback, those with the most first; a hundred at most. Callbacks behind the first hundred that the node has
    /// heard of count together as `(other)`.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required = true))]
    pub callbacks: Vec<CallbackTaskCounts>,
}

/// Tasks of one callback that wait for something else than their start or a worker, and dead ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackTaskCounts {
    /// The callback.
    pub callback: String,
    /// Attempts that run, as the node that was asked watches them.
    pub running: u64,
    /// Tasks that wait for their next attempt, as the node that was asked knows.
    pub retrying: u64,
    /// Tasks that wait for the ends of other tasks, as the node that was asked knows.
    pub waiting: u64,
    /// Due tasks that wait for the `rate` or the `max_in_flight` of the callback.
    pub limited: u64,
    /// Due tasks that closed gates hold, on all nodes, when they were counted last.
    pub held: u64,
    /// Tasks that are dead and kept, on all nodes, when they were counted last.
    pub dead: u64,
}

/// A gate that is not open.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ClosedGate {
    /// The callback.
    pub callback: String,
    /// The gate.
    #[serde(flatten)]
    pub gate: GateResponse,
    /// Due tasks that the gates of the callback hold, when they were counted last; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
}

/// Due tasks that no worker has taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct UnclaimedResponse {
    /// How many there are, of all callbacks.
    pub tasks: u64,
    /// Whether these are all; on a cluster a node knows of only some.
    pub exact: bool,
    /// By callback, the largest count first; a hundred at most.
    pub callbacks: Vec<UnclaimedCallback>,
}

/// Due tasks of one callback that no worker has taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct UnclaimedCallback {
    /// The callback.
    pub callback: String,
    /// How many.
    pub tasks: u64,
    /// Since when the oldest is due.
    pub oldest_due_time: InstantText,
    /// For how long, in milliseconds.
    pub oldest_age_ms: u64,
    /// The cause of the wait: `worker`, or a limit of the callback, `rate` or `max_in_flight`. A node knows the limits of the
    /// callbacks that are polled there.
    pub cause: String,
    /// How long ago a worker last asked this node for tasks of it, in milliseconds; absent when none did within ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_poll_ms: Option<u64>,
}

/// The work of a node in the last minute.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct NodeStats {
    /// Tasks registered, per second.
    pub registered_per_second: f64,
    /// Tasks handed over for the first time, per second.
    pub fired_per_second: f64,
    /// Attempts settled, per second.
    pub settled_per_second: f64,
    /// How late tasks were handed over; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessResponse>,
    /// The seconds of that minute; absent in answers of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<SecondsResponse>,
}

/// The work of a node in the whole seconds of the last minute, the oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct SecondsResponse {
    /// When the first of them began.
    pub from: InstantText,
    /// Tasks registered in each.
    pub registered: Vec<u64>,
    /// Tasks handed over for the first time in each.
    pub fired: Vec<u64>,
    /// Attempts settled in each.
    pub settled: Vec<u64>,
}

/// How late tasks were handed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct LatenessResponse {
    /// Half of the tasks were at most this late, in milliseconds, rounded up.
    pub p50_ms: i64,
    /// 99 in 100 tasks were at most this late, in milliseconds, rounded up.
    pub p99_ms: i64,
    /// The latest task, exactly, in milliseconds.
    pub max_ms: i64,
}

/// The nodes and the wheels.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ClusterResponse {
    /// When the state was read.
    pub time: InstantText,
    /// The nodes that have given a sign of life lately.
    pub nodes: Vec<NodeResponse>,
    /// The wheels, in order.
    pub wheels: Vec<WheelResponse>,
}

/// A node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct NodeResponse {
    /// The id of this run of its process.
    pub id: String,
    /// The node's name, for people.
    pub name: String,
    /// Where its API answers.
    pub address: String,
    /// Whether it can own wheels.
    pub ready: bool,
    /// The node's wall clock when it gave its last sign of life.
    pub wall_time: InstantText,
}

/// A wheel's clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct WheelResponse {
    /// Its number.
    pub wheel: u16,
    /// The node that owns it; absent when nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How often the clock has changed.
    pub version: i64,
    /// The wheel is closed to new entries, and read ahead, up to here.
    pub opened: InstantText,
    /// All tasks were handed over up to here.
    pub fired: InstantText,
    /// The wheel is erased up to here.
    pub erased: InstantText,
    /// How far `fired` is behind, in milliseconds.
    pub behind_ms: u64,
}
