//! `/v1/stats` and `/v1/cluster`: what they look like.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::text::InstantText;
use crate::{
    flow::stats::Stats,
    model::{ids::NodeId, time::TickLength},
};

/// What the service is doing, as the node that was asked sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StatsResponse {
    /// When it was looked at.
    pub time: InstantText,
    /// Tasks that wait for their time, over all wheels, the nearest first.
    pub pending: Vec<PendingCount>,
    /// Whether the counts of what is pending are exact; else each is a lower bound: on a cluster, and while a node that has just
    /// started counts what it has found.
    pub exact: bool,
    /// Due tasks that no worker has taken.
    pub unclaimed: UnclaimedResponse,
    /// How far the slowest wheel is behind, in milliseconds.
    pub behind_ms: u64,
    /// What the node that was asked has done in the last minute.
    pub node: NodeStats,
}

/// Tasks by how far ahead they are due.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PendingCount {
    /// `overdue` (for more than three seconds), then
    /// within a `minute`, an `hour`, a `day`, or `later`; each without what the ones before it have.
    pub horizon: String,
    /// How many were counted.
    pub tasks: u64,
    /// Whether that is all of them: the count is bounded.
    pub complete: bool,
}

/// Due tasks that no worker has taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct UnclaimedResponse {
    /// How many there are, of all callbacks.
    pub tasks: u64,
    /// Whether that is all of them; on a cluster a node knows of some.
    pub exact: bool,
    /// By callback, the most first; a hundred at most.
    pub callbacks: Vec<UnclaimedCallback>,
}

/// Due tasks of one callback that no worker has taken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct UnclaimedCallback {
    /// The callback.
    pub callback: String,
    /// How many.
    pub tasks: u64,
    /// Since when the oldest is due.
    pub oldest_due_time: InstantText,
    /// For how long, in milliseconds.
    pub oldest_age_ms: u64,
    /// How long ago a worker last asked this node for tasks of it, in milliseconds; absent when none did within ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_poll_ms: Option<u64>,
}

/// What a node has done in the last minute.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
}

/// How late tasks were handed over.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LatenessResponse {
    /// Half of them at most so late, in milliseconds, rounded up.
    pub p50_ms: i64,
    /// All but one in a hundred, rounded up.
    pub p99_ms: i64,
    /// The latest, exactly.
    pub max_ms: i64,
}

/// The nodes and the wheels.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ClusterResponse {
    /// When it was looked at.
    pub time: InstantText,
    /// The nodes that have given a sign of life lately.
    pub nodes: Vec<NodeResponse>,
    /// The wheels, in order.
    pub wheels: Vec<WheelResponse>,
}

/// A node.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NodeResponse {
    /// Of this life of its process.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where its API answers.
    pub address: String,
    /// Whether it can own wheels.
    pub ready: bool,
    /// Its wall clock when it said so.
    pub wall_time: InstantText,
}

/// A wheel's clock.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WheelResponse {
    /// Its number.
    pub wheel: u16,
    /// The node that owns it; absent when nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Changes so far.
    pub version: i64,
    /// Closed to new entries, and read ahead, up to here.
    pub opened: InstantText,
    /// Handed over up to here.
    pub fired: InstantText,
    /// Erased up to here.
    pub erased: InstantText,
    /// How far `fired` is behind, in milliseconds.
    pub behind_ms: u64,
}

impl From<&Stats> for StatsResponse {
    fn from(stats: &Stats) -> Self {
        let pending = stats.pending.iter().map(|pending| PendingCount {
            horizon: pending.horizon.name().to_owned(),
            tasks: pending.tasks,
            complete: pending.complete,
        });
        Self {
            time: stats.at.into(),
            pending: pending.collect(),
            exact: stats.exact,
            unclaimed: unclaimed(stats),
            behind_ms: millis(stats.behind()),
            node: NodeStats {
                registered_per_second: stats.per_second(|second| second.registered),
                fired_per_second: stats.per_second(|second| second.fired),
                settled_per_second: stats.per_second(|second| second.settled),
                lateness: stats.lateness.map(|late| LatenessResponse {
                    p50_ms: late.p50_ms,
                    p99_ms: late.p99_ms,
                    max_ms: late.max_ms,
                }),
            },
        }
    }
}

fn unclaimed(stats: &Stats) -> UnclaimedResponse {
    let callbacks = stats.unclaimed.callbacks.iter();
    UnclaimedResponse {
        tasks: stats.unclaimed.tasks,
        exact: stats.unclaimed.exact,
        callbacks: callbacks
            .map(|waiting| UnclaimedCallback {
                callback: waiting.callback.clone(),
                tasks: waiting.tasks,
                oldest_due_time: waiting.oldest.into(),
                oldest_age_ms: millis(stats.at.since(waiting.oldest)),
                last_poll_ms: waiting.polled.map(millis),
            })
            .collect(),
    }
}

/// Converts what was seen of the cluster.
#[must_use]
pub fn cluster(stats: &Stats, tick: TickLength) -> ClusterResponse {
    let nodes = stats.nodes.iter().map(|node| NodeResponse {
        id: node.node.0.to_string(),
        name: node.name.clone(),
        address: node.address.clone(),
        ready: node.ready,
        wall_time: node.wall.into(),
    });
    let wheels = stats.wheels.iter().map(|(wheel, row)| WheelResponse {
        wheel: wheel.get(),
        owner: (row.owner != NodeId::NOBODY).then(|| row.owner.0.to_string()),
        version: row.version,
        opened: tick.end_of(row.opened).into(),
        fired: row.fired.due.into(),
        erased: tick.end_of(row.erased).into(),
        behind_ms: millis(stats.at.since(row.fired.due)),
    });
    ClusterResponse {
        time: stats.at.into(),
        nodes: nodes.collect(),
        wheels: wheels.collect(),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
