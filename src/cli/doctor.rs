//! `tickwheel doctor`: looks at everything a node rests on; each finding says what to do.

use std::{io::Write as _, time::Duration};

use clap::Args;

use super::{Exit, Failure, Format, PrintArgs, node};
use crate::{
    app,
    config::{Settings, SettingsArgs},
    model::{clock, ids::NodeId, time::Millis},
    queue::{Publisher as _, kafka::KafkaPublisher},
    store::{ClockStore as _, Freshness, NodeRow, NodeStore as _, cassandra},
    time_source::TimeSource,
};

/// Open files that a busy node needs: a connection each for workers and clients, and those of the drivers.
const OPEN_FILES_MIN: u64 = 8192;

/// A node writes its wall clock every second; older than this, or in the future, is a clock that is off or a dead node.
const WALL_AGE_MAX: Duration = Duration::from_millis(2500);

/// `tickwheel doctor`.
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    print: PrintArgs,
}

/// What was found out about one thing.
struct Finding {
    about: &'static str,
    /// What is fine, or what is wrong and what to do.
    result: Result<String, String>,
}

fn good(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Ok(text.into()),
    }
}

fn bad(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Err(text.into()),
    }
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let settings = Settings::load(&command.settings, |name| std::env::var(name).ok())?;
    let time = TimeSource::real();
    let mut findings = vec![open_files()];
    findings.extend(store(&settings, &time).await?);
    findings.push(queue(&settings, &time).await?);
    print(command.print.output, &findings)?;
    let healthy = findings.iter().all(|finding| finding.result.is_ok());
    Ok(if healthy { Exit::Ok } else { Exit::Failed })
}

fn print(format: Format, findings: &[Finding]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let value = |Finding { about, result }: &Finding| {
        let (text, problem) = match result {
            Ok(text) => (text, false),
            Err(text) => (text, true),
        };
        serde_json::json!({"about": about, "problem": problem, "text": text})
    };
    match format {
        Format::Table => {
            for Finding { about, result } in findings {
                match result {
                    Ok(text) => writeln!(out, "ok       {about}: {text}")?,
                    Err(text) => writeln!(out, "problem  {about}: {text}")?,
                }
            }
        }
        Format::Json => {
            let values: Vec<_> = findings.iter().map(value).collect();
            writeln!(out, "{:#}", serde_json::Value::from(values))?;
        }
        Format::Jsonl => {
            for finding in findings {
                writeln!(out, "{}", value(finding))?;
            }
        }
    }
    Ok(())
}

fn open_files() -> Finding {
    const ABOUT: &str = "open files";
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line
        .and_then(|line| line.split_whitespace().nth(3))
        .unwrap_or_default();
    match soft.parse::<u64>() {
        Ok(limit) if limit < OPEN_FILES_MIN => bad(
            ABOUT,
            format!(
                "the limit is {limit}: raise it to {OPEN_FILES_MIN} or more (ulimit -n, LimitNOFILE=)"
            ),
        ),
        Ok(limit) => good(ABOUT, format!("the limit is {limit}")),
        Err(_) if soft == "unlimited" => good(ABOUT, "no limit"),
        Err(_) => good(ABOUT, "the limit is not known on this system"),
    }
}

async fn store(settings: &Settings, time: &TimeSource) -> Result<Vec<Finding>, Failure> {
    const ABOUT: &str = "store";
    let store = match cassandra::Store::connect(&node::cassandra(settings)?, time).await {
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
    let (shape, rules) = (store.shape(), app::rules(store.shape()));
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

async fn queue(settings: &Settings, time: &TimeSource) -> Result<Finding, Failure> {
    const ABOUT: &str = "queue";
    let queue = KafkaPublisher::connect(node::kafka(settings)?, time.clone())?;
    Ok(match queue.ping().await {
        Ok(()) => good(ABOUT, format!("{} answers", settings.kafka.join(","))),
        Err(error) => bad(
            ABOUT,
            format!("{error}: is --kafka right, does the broker run?"),
        ),
    })
}
