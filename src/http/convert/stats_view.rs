//! This conversion turns the statistics of the flow into answers for clients.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::callback::gate_response;
use crate::{
    api::stats::{
        CallbackTaskCounts, ClosedGate, ClusterResponse, LatenessResponse, NodeResponse, NodeStats,
        PendingCount, SecondsResponse, StatsResponse, TaskCounts, UnclaimedCallback,
        UnclaimedResponse, WheelResponse,
    },
    flow::{
        base::figures::second::Second,
        stages::query::{
            standing::{Standing, total},
            stats::Stats,
        },
    },
    limits::CALLBACKS_TOLD_MAX,
    model::{
        ids::NodeId,
        time::{Millis, TickLength},
    },
};

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
            tasks: counts(stats),
            gates: gates(stats),
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
                seconds: seconds(stats.lately()),
            },
        }
    }
}

fn counts(stats: &Stats) -> TaskCounts {
    let standing = &stats.standing;
    TaskCounts {
        running: total(&standing.running),
        retrying: total(&standing.retrying),
        waiting: total(&standing.waiting),
        limited: stats.unclaimed.limited,
        held: standing.held.as_ref().map(total),
        dead: standing.dead.as_ref().map(total),
        callbacks: by_callback(standing),
    }
}

/// Returns the counts of each callback that has some.
fn by_callback(standing: &Standing) -> Vec<CallbackTaskCounts> {
    let (held, dead) = (standing.held.as_ref(), standing.dead.as_ref());
    let known = [
        &standing.running,
        &standing.retrying,
        &standing.waiting,
        &standing.limited,
    ];
    let names = known.into_iter().chain(held).chain(dead);
    let names: BTreeSet<&String> = names.flat_map(|counts| counts.keys()).collect();
    let counts = names.into_iter().map(|name| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or_default();
        CallbackTaskCounts {
            callback: name.clone(),
            running: of(&standing.running),
            retrying: of(&standing.retrying),
            waiting: of(&standing.waiting),
            limited: of(&standing.limited),
            held: held.map(of).unwrap_or_default(),
            dead: dead.map(of).unwrap_or_default(),
        }
    });
    let sum = |one: &CallbackTaskCounts| {
        one.running + one.retrying + one.waiting + one.limited + one.held + one.dead
    };
    let mut counts: Vec<CallbackTaskCounts> = counts.filter(|one| sum(one) > 0).collect();
    // The sort keeps the order of the names among equals.
    counts.sort_by_key(|one| Reverse(sum(one)));
    counts.truncate(CALLBACKS_TOLD_MAX);
    counts
}

fn seconds(lately: &[Second]) -> Option<SecondsResponse> {
    let of = |count: fn(&Second) -> u64| lately.iter().map(count).collect();
    Some(SecondsResponse {
        from: Millis(lately.first()?.at * 1000).into(),
        registered: of(|second| second.registered),
        fired: of(|second| second.fired),
        settled: of(|second| second.settled),
    })
}

fn gates(stats: &Stats) -> Vec<ClosedGate> {
    let held = stats.standing.held.as_ref();
    let gates = stats.gates.iter();
    gates
        .map(|(callback, gate)| ClosedGate {
            held: held.and_then(|held| held.get(callback).copied()),
            callback: callback.clone(),
            gate: gate_response(gate),
        })
        .collect()
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
                cause: waiting.cause.name().to_owned(),
                last_poll_ms: waiting.polled.map(millis),
            })
            .collect(),
    }
}

/// Converts the view of the cluster.
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
