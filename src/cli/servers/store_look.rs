//! This look tells an operator whether a store that nodes share is healthy: its schema, its nodes, its
//! wheels.

use std::time::Duration;

use super::{conditions, settings};
use crate::{
    cli::{
        Failure,
        finding::{Finding, bad, good},
    },
    config::Settings,
    model::{
        clock::{self, Rules},
        ids::NodeId,
        time::Millis,
    },
    store::{ClockStore as _, Freshness, NodeRow, NodeStore as _, cassandra},
    time_source::TimeSource,
};

/// Largest age of a node's wall clock, which it writes every second. An older one, or one in the future,
/// means a wrong clock or a dead node.
const WALL_AGE_MAX: Duration = Duration::from_millis(2500);

/// Looks at the whole store.
pub(in crate::cli) async fn look_at_store(
    settings: &Settings,
    time: &TimeSource,
) -> Result<Vec<Finding>, Failure> {
    const ABOUT: &str = "store";
    let store = match cassandra::Store::connect(&settings::cassandra(settings)?, time).await {
        Ok(store) => store,
        Err(error) => return Ok(vec![bad(ABOUT, error.to_string())]),
    };
    let shape = store.shape();
    let mut findings = vec![good(
        ABOUT,
        format!(
            "keyspace {} has the schema of this version: {} wheels, ticks of {} ms",
            settings.keyspace,
            shape.wheels(),
            shape.tick().millis()
        ),
    )];
    match store.nodes().await {
        Ok(nodes) => findings.extend(clocks_of_nodes(&nodes, time.now())),
        Err(error) => findings.push(bad("nodes", error.to_string())),
    }
    match store.conditions(&settings.keyspace).await {
        Ok(found) => findings.extend(conditions::of_store(&found, &settings.keyspace, time.now())),
        Err(error) => findings.push(bad("replication", error.to_string())),
    }
    findings.push(wheels(&store, time).await);
    Ok(findings)
}

fn clocks_of_nodes(nodes: &[NodeRow], now: Millis) -> Vec<Finding> {
    const ABOUT: &str = "nodes";
    if nodes.is_empty() {
        return vec![bad(ABOUT, "no node runs: start one with `tickwheel serve`")];
    }
    let of_node = |node: &NodeRow| {
        let name = &node.name;
        let (behind, ahead) = (now.since(node.wall), node.wall.since(now));
        if ahead > Duration::from_millis(500) || behind > WALL_AGE_MAX {
            bad(
                ABOUT,
                format!(
                    "{name} ({}) is dead, or its clock is {} ms off this one: check that NTP runs on both",
                    node.address,
                    ahead.max(behind).as_millis()
                ),
            )
        } else if node.ready {
            good(
                ABOUT,
                format!("{name} ({}) is ready, its clock agrees", node.address),
            )
        } else {
            bad(
                ABOUT,
                format!(
                    "{name} ({}) is not ready: ask its /readyz?verbose",
                    node.address
                ),
            )
        }
    };
    nodes.iter().map(of_node).collect()
}

async fn wheels(store: &cassandra::Store, time: &TimeSource) -> Finding {
    const ABOUT: &str = "wheels";
    let (shape, rules) = (store.shape(), Rules::of(store.shape()));
    let (mut free, mut worst) = (0, Duration::ZERO);
    for wheel in shape.all_wheels() {
        match store.clock(wheel, Freshness::Quorum).await {
            Ok(row) => {
                let now = time.now();
                free += i32::from(row.owner == NodeId::NOBODY || clock::is_free(&row, &rules, now));
                worst = worst.max(now.since(row.fired.due));
            }
            Err(error) => return bad(ABOUT, error.to_string()),
        }
    }
    let worst_ms = worst.as_millis();
    if free > 0 {
        bad(
            ABOUT,
            format!(
                "{free} of {} are owned by nobody: is a node with the role scanner ready?",
                shape.wheels()
            ),
        )
    } else if worst > rules.lease * 2 {
        bad(
            ABOUT,
            format!(
                "the slowest is {worst_ms} ms behind: is the queue reachable, are there enough nodes?"
            ),
        )
    } else {
        good(
            ABOUT,
            format!("all are owned, the slowest is {worst_ms} ms behind"),
        )
    }
}
