//! The command `tickwheel top` shows the user, again and again, what the service does.
//!
//! Figures of tasks are those of the node that is asked; a line says so where they are lower bounds.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use clap::Args;
use serde::Serialize;

use super::{
    ClientArgs, Exit, Failure, Format, cluster,
    output::{aligned, counted, json, printable},
    times,
};
use crate::{
    client::{Client, ClosedGate, ClusterResponse, GateState, StatsResponse, UnclaimedCallback},
    time_source::TimeSource,
};

/// Callbacks that a screen shows: those with the most waiting tasks. A screen of 24 lines holds them.
const CALLBACKS_SHOWN: usize = 7;

/// Gates that a screen shows, likewise.
const GATES_SHOWN: usize = 3;

/// Shortest time between two screens. The service reads its figures once a second.
const INTERVAL_MIN: Duration = Duration::from_millis(500);

/// Failures in a row that are waited for: a node that is restarted comes back.
const FAILURES_MAX: u32 = 30;

/// Puts the cursor into the first column of the first line.
const HOME: &str = "\u{1b}[H";

/// Clears the rest of a line.
const CLEAR_LINE: &str = "\u{1b}[K";

/// Clears the rest of the screen.
const CLEAR_REST: &str = "\u{1b}[J";

/// `tickwheel top`.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Time between two screens.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = times::duration)]
    interval: Duration,
    /// End after this many screens. Without it: never at a terminal, after one otherwise.
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

/// The state that one screen shows.
#[derive(Debug, Serialize)]
struct View {
    stats: StatsResponse,
    cluster: ClusterResponse,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let (client, time) = (command.client.connect()?, TimeSource::real());
    let format = command.client.print.output;
    let moving = format == Format::Table && io::stdout().is_terminal();
    let endless = format != Format::Json && io::stdout().is_terminal();
    let mut left = command.count.unwrap_or(if endless { u64::MAX } else { 1 });
    let mut failures = 0;
    while left > 0 {
        match read(&client).await {
            Ok(view) => {
                (failures, left) = (0, left - 1);
                show(&mut io::stdout().lock(), format, moving, &view)?;
            }
            Err(error) if error.is_temporary() && failures < FAILURES_MAX && moving => {
                failures += 1;
                let mut out = io::stdout().lock();
                write!(
                    out,
                    "{HOME}{}; trying again{CLEAR_LINE}",
                    printable(&error.to_string())
                )?;
                out.flush()?;
            }
            Err(error) => return Err(error.into()),
        }
        if left > 0 {
            time.sleep(command.interval.max(INTERVAL_MIN)).await;
        }
    }
    Ok(Exit::Ok)
}

async fn read(client: &Client) -> Result<View, crate::client::Error> {
    let (stats, cluster) = tokio::try_join!(client.stats(), client.cluster())?;
    Ok(View { stats, cluster })
}

fn show(out: &mut impl Write, format: Format, moving: bool, view: &View) -> io::Result<()> {
    if format != Format::Table {
        return json(out, format, view);
    }
    let text = screen(view)?;
    if moving {
        // Written over the last screen, so that nothing flickers.
        let lines: Vec<String> = text
            .lines()
            .map(|line| format!("{line}{CLEAR_LINE}"))
            .collect();
        writeln!(out, "{HOME}{}\n{CLEAR_REST}", lines.join("\n"))?;
    } else {
        write!(out, "{text}")?;
    }
    out.flush()
}

/// Returns the lines of a screen.
fn screen(view: &View) -> io::Result<String> {
    let (stats, node) = (&view.stats, &view.stats.node);
    let mut out = Vec::new();
    writeln!(out, "{}  {}", stats.time.0, cluster::summary(&view.cluster))?;
    let pending = stats.pending.iter().map(|count| {
        let more = if count.complete { "" } else { "+" };
        format!("{} {}{more}", count.horizon, count.tasks)
    });
    let pending: Vec<String> = pending.collect();
    writeln!(
        out,
        "pending    {}{}",
        pending.join("   "),
        at_least(stats.exact)
    )?;
    writeln!(
        out,
        "this node  registered {:.1}/s   fired {:.1}/s   settled {:.1}/s",
        node.registered_per_second, node.fired_per_second, node.settled_per_second
    )?;
    if let Some(seconds) = &node.seconds {
        writeln!(out, "fired      {}", spark(&seconds.fired))?;
    }
    match &node.lateness {
        None => writeln!(out, "lateness   no task was due in the last minute")?,
        Some(late) => writeln!(
            out,
            "lateness   p50 {} ms   p99 {} ms   max {} ms",
            late.p50_ms, late.p99_ms, late.max_ms
        )?,
    }
    let unclaimed = &stats.unclaimed;
    let waiting = counted(unclaimed.tasks, "due task");
    writeln!(
        out,
        "unclaimed  {waiting} not taken{}{}",
        limited(stats.tasks.limited),
        at_least(unclaimed.exact)
    )?;
    writeln!(out, "others     {}", others(stats))?;
    if !unclaimed.callbacks.is_empty() {
        writeln!(out)?;
        let mut rows = vec![["CALLBACK", "WAIT", "FOR", "OLDEST", "LAST POLL"].map(str::to_owned)];
        rows.extend(unclaimed.callbacks.iter().take(CALLBACKS_SHOWN).map(row));
        aligned(&mut out, &rows)?;
    }
    let hidden = unclaimed.callbacks.len().saturating_sub(CALLBACKS_SHOWN);
    if hidden > 0 {
        writeln!(out, "and {hidden} more callbacks")?;
    }
    gates(&mut out, &stats.gates)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Draws counts of seconds, the oldest first, and says how many the most were.
fn spark(counts: &[u64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = counts.iter().max().copied().unwrap_or_default();
    let bar = |count: &u64| {
        let height = (u128::from(*count) * 8).div_ceil(u128::from(most.max(1)));
        let bar = usize::try_from(height).ok().and_then(|at| BARS.get(at));
        bar.copied().unwrap_or(' ')
    };
    let bars: String = counts.iter().map(bar).collect();
    format!("|{bars}| the last minute, {most} in a second at most")
}

/// Returns how many of the tasks wait for a limit, if some do.
fn limited(tasks: u64) -> String {
    match tasks {
        0 => String::new(),
        tasks => format!(", {tasks} over a limit"),
    }
}

/// Returns the tasks that wait for something else than their start or a worker. A count that was not made yet is left out.
fn others(stats: &StatsResponse) -> String {
    let tasks = &stats.tasks;
    let counts = [
        ("running", Some(tasks.running)),
        ("retrying", Some(tasks.retrying)),
        ("waiting for tasks", Some(tasks.waiting)),
        ("held", tasks.held),
        ("dead", tasks.dead),
    ];
    let counts = counts.iter();
    let counts = counts.filter_map(|(name, tasks)| Some(format!("{name} {}", (*tasks)?)));
    let counts: Vec<String> = counts.collect();
    counts.join("   ")
}

/// Writes the gates that are not open, with their reasons.
fn gates(out: &mut impl Write, gates: &[ClosedGate]) -> io::Result<()> {
    if gates.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let row = |of: &ClosedGate| {
        let gate = &of.gate;
        let name = match &gate.collection {
            Some(collection) => format!("{}/{collection}", of.callback),
            None => of.callback.clone(),
        };
        let state = match gate.gate {
            GateState::Open => "open",
            GateState::Paused => "paused",
            GateState::Dropping => "dropping",
        };
        let held = of.held.map(|held| held.to_string());
        [
            name,
            state.to_owned(),
            held.unwrap_or_else(|| "-".to_owned()),
            gate.reason.clone().unwrap_or_default(),
        ]
    };
    let mut rows = vec![["GATE", "STATE", "HELD", "REASON"].map(str::to_owned)];
    rows.extend(gates.iter().take(GATES_SHOWN).map(row));
    aligned(out, &rows)?;
    let hidden = gates.len().saturating_sub(GATES_SHOWN);
    if hidden > 0 {
        writeln!(out, "and {hidden} more gates")?;
    }
    Ok(())
}

const fn at_least(exact: bool) -> &'static str {
    if exact { "" } else { "   (at least)" }
}

fn row(of: &UnclaimedCallback) -> [String; 5] {
    let ago = |ms: u64| {
        let seconds = ms / 1000;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => format!("{seconds} s"),
            (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
            (hours, minutes, _) => format!("{hours} h {minutes} min"),
        }
    };
    [
        of.callback.clone(),
        of.tasks.to_string(),
        of.cause.clone(),
        ago(of.oldest_age_ms),
        of.last_poll_ms.map_or_else(
            || "none in 10 min".to_owned(),
            |ms| format!("{} ago", ago(ms)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view(exact: bool, callbacks: usize, gates: usize, lateness: &Value) -> View {
        let at = "2026-11-25T18:00:00Z";
        let waiting = |number: usize| {
            json!({"callback": format!("c{number}"), "tasks": 40, "oldest_due_time": at, "oldest_age_ms": 3_725_000,
                "cause": if number == 0 { "worker" } else { "rate" },
                "last_poll_ms": if number == 0 { json!(61_000) } else { Value::Null }})
        };
        let waiting: Vec<Value> = (0..callbacks).map(waiting).collect();
        let gate = |number: usize| {
            json!({"callback": format!("g{number}"), "gate": "paused", "since": at, "reason": "the bank is away",
                "held": 5})
        };
        let gates: Vec<Value> = (0..gates).map(gate).collect();
        let tasks = json!({"running": 4, "retrying": 3, "waiting": 1, "limited": if exact { 40 } else { 0 }, "dead": 2});
        let stats = json!({"time": at, "tasks": tasks, "gates": gates, "exact": exact, "behind_ms": 0,
            "pending": [{"horizon": "minute", "tasks": 7, "complete": true}, {"horizon": "later", "tasks": 1000, "complete": false}],
            "unclaimed": {"tasks": 1, "exact": exact, "callbacks": waiting},
            "node": {"registered_per_second": 1.25, "fired_per_second": 0.0, "settled_per_second": 3.0, "lateness": lateness,
                "seconds": {"from": at, "registered": [1, 2], "fired": [0, 1, 80, 40], "settled": [0]}}});
        let cluster = json!({"time": at, "nodes": [], "wheels": []});
        View {
            stats: serde_json::from_value(stats).unwrap(),
            cluster: serde_json::from_value(cluster).unwrap(),
        }
    }

    #[test]
    fn a_screen_shows_what_waits_and_says_what_is_not_exact() {
        let late = json!({"p50_ms": 1, "p99_ms": 9, "max_ms": 12});
        let text = screen(&view(true, 2, 1, &late)).unwrap();
        for line in [
            "pending    minute 7   later 1000+\n",
            "registered 1.2/s   fired 0.0/s   settled 3.0/s",
            "fired      | ▁█▄| the last minute, 80 in a second at most\n",
            "lateness   p50 1 ms   p99 9 ms   max 12 ms",
            "unclaimed  1 due task not taken, 40 over a limit\n",
            "others     running 4   retrying 3   waiting for tasks 1   dead 2\n",
            "c0        40    worker  1 h 2 min  1 min 1 s ago",
            "c1        40    rate    1 h 2 min  none in 10 min",
            "GATE  STATE   HELD  REASON\n",
            "g0    paused  5     the bank is away\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("at least"), "{text}");
        let text = screen(&view(false, 0, 0, &Value::Null)).unwrap();
        assert!(
            text.contains("no task was due") && text.matches("(at least)").count() == 2,
            "{text}"
        );
        assert!(
            !text.contains("CALLBACK") && !text.contains("GATE"),
            "{text}"
        );
        assert!(text.contains("1 due task not taken   (at least)"), "{text}");
    }

    #[test]
    fn a_screen_of_24_lines_holds_everything() {
        let text = screen(&view(false, 100, 100, &Value::Null)).unwrap();
        assert!(text.contains("and 93 more callbacks\n"), "{text}");
        assert!(text.ends_with("and 97 more gates\n"), "{text}");
        assert!(text.lines().count() < 24, "{text}");
    }
}
