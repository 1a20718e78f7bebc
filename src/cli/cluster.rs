//! The commands `tickwheel cluster ...` show the nodes and the wheels of the service to the user, and carry its configuration.

use std::io::{self, Write};

use clap::Subcommand;

use super::{
    ClientArgs, Exit, Failure, Format,
    configuration::{self, ExportArgs, ImportArgs},
    output::{aligned, counted, json},
};
use crate::client::ClusterResponse;

const EXAMPLES: &str = "Examples:
  tickwheel cluster export shop.jsonl
  tickwheel cluster import shop.jsonl --server http://new:7420

The file has callbacks with their gates, schedules and API keys. It holds the secrets of callbacks and the payloads of schedules:
keep it as safe as the service. It does not hold the texts of API keys, which nobody keeps; their holders go on using them.
An import sets what the file names and leaves the rest. A new schedule begins anew. A key that was revoked works again.";

/// `tickwheel cluster`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the nodes, the wheels that each one owns, and how far the slowest wheel is behind.
    Status(ClientArgs),
    /// Write everything that is configured to a file: callbacks, gates, schedules and API keys.
    #[command(after_help = EXAMPLES)]
    Export(ExportArgs),
    /// Set what a file says, at this service or another one. It can be repeated.
    #[command(after_help = EXAMPLES)]
    Import(ImportArgs),
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Status(args) => status(&args).await,
        Command::Export(args) => configuration::export(&args).await,
        Command::Import(args) => configuration::import(&args).await,
    }
}

async fn status(args: &ClientArgs) -> Result<Exit, Failure> {
    let cluster = args.connect()?.cluster().await?;
    let mut out = io::stdout().lock();
    match args.print.output {
        Format::Table => table(&mut out, &cluster)?,
        format => json(&mut out, format, &cluster)?,
    }
    Ok(Exit::Ok)
}

/// Prints a line about all, and one for each node.
fn table(out: &mut impl Write, cluster: &ClusterResponse) -> io::Result<()> {
    writeln!(out, "{}", summary(cluster))?;
    let mut rows = vec![["NODE", "ADDRESS", "STATE", "SEEN", "WHEELS"].map(str::to_owned)];
    for node in &cluster.nodes {
        let owned = cluster
            .wheels
            .iter()
            .filter(|wheel| owns(wheel.owner.as_ref(), &node.id));
        let owned: Vec<u16> = owned.map(|wheel| wheel.wheel).collect();
        let state = if node.ready { "ready" } else { "not ready" };
        rows.push([
            node.name.clone(),
            node.address.clone(),
            state.to_owned(),
            node.wall_time.0.clone(),
            spans(&owned),
        ]);
    }
    let known = |owner: &String| cluster.nodes.iter().any(|node| node.id == *owner);
    let lost = cluster
        .wheels
        .iter()
        .filter(|wheel| !wheel.owner.as_ref().is_some_and(known));
    let lost: Vec<u16> = lost.map(|wheel| wheel.wheel).collect();
    if !lost.is_empty() {
        let none = String::new();
        rows.push([
            "(no live node)".to_owned(),
            none.clone(),
            none.clone(),
            none,
            spans(&lost),
        ]);
    }
    aligned(out, &rows)
}

fn owns(owner: Option<&String>, id: &str) -> bool {
    owner.is_some_and(|owner| owner == id)
}

/// Returns the sentence about all nodes and wheels.
pub(super) fn summary(cluster: &ClusterResponse) -> String {
    let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
    let nodes = counted(count(cluster.nodes.len()), "node");
    let wheels = counted(count(cluster.wheels.len()), "wheel");
    let behind = cluster
        .wheels
        .iter()
        .map(|wheel| wheel.behind_ms)
        .max()
        .unwrap_or_default();
    let ownerless = cluster
        .wheels
        .iter()
        .filter(|wheel| wheel.owner.is_none())
        .count();
    let ownerless = match ownerless {
        0 => String::new(),
        some => format!("; {some} without an owner"),
    };
    format!("{nodes}, {wheels}, the slowest {behind} ms behind{ownerless}")
}

/// Returns numbers in order as spans: `0-4, 7`.
fn spans(numbers: &[u16]) -> String {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for &number in numbers {
        match spans.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |(first, last): (u16, u16)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    let spans: Vec<String> = spans.into_iter().map(text).collect();
    spans.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_span() {
        assert_eq!(spans(&[]), "");
        assert_eq!(spans(&[3]), "3");
        assert_eq!(spans(&[0, 1, 2, 7, 9, 10, u16::MAX]), "0-2, 7, 9-10, 65535");
    }

    #[test]
    fn wheels_stand_with_their_node_and_those_of_a_dead_one_apart() {
        let at = "2026-11-25T18:00:00Z";
        let wheel = |wheel: u16, owner: Option<&str>| {
            serde_json::json!({"wheel": wheel, "owner": owner, "version": 3, "opened": at, "fired": at, "erased": at,
                "behind_ms": 5 * u64::from(wheel)})
        };
        let cluster = serde_json::json!({
            "time": at,
            "nodes": [{"id": "a1", "name": "one\u{1b}[2J", "address": "http://h:1", "ready": true, "wall_time": at}],
            "wheels": [wheel(0, Some("a1")), wheel(1, Some("a1")), wheel(2, Some("gone")), wheel(3, None)],
        });
        let cluster: ClusterResponse = serde_json::from_value(cluster).unwrap();
        let mut out = Vec::new();
        table(&mut out, &cluster).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "1 node, 4 wheels, the slowest 15 ms behind; 1 without an owner"
        );
        assert!(
            lines[2].starts_with("one\\u{1b}[2J") && lines[2].ends_with("0-1"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("(no live node)") && lines[3].ends_with("2-3"),
            "{text}"
        );
    }
}
