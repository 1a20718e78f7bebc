//! The command `tickwheel doctor` checks for operators all that a node depends on; each finding says what to
//! do.

mod directory;
mod ntp;
mod workers;

use std::io::Write as _;

use clap::Args;

use super::{
    Exit, Failure, Format, PrintArgs,
    finding::{Finding, bad, good},
    output::printable,
    servers, variables,
};
use crate::{
    config::{QueueKind, Settings, SettingsArgs, StoreKind},
    time_source::TimeSource,
};

/// Open files that a busy node needs: one for each connection of workers and clients, and those of the
/// drivers.
const OPEN_FILES_MIN: u64 = 8192;

/// `tickwheel doctor`.
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Repair a damaged data directory: damaged parts are set aside as files in it, intact parts are kept.
    /// The service must not run.
    #[arg(long)]
    repair: bool,
    /// Read every table of the data directory, and compare it with its check sum. The service may run
    /// meanwhile. It takes as long as the disk needs to read the directory.
    #[arg(long)]
    tables: bool,
    /// Compare the clock of this machine with that of a time server: HOST, or HOST:PORT.
    #[arg(long, value_name = "HOST")]
    ntp: Option<String>,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    variables::warn();
    let settings = Settings::load(&command.settings, |name| std::env::var(name).ok())?;
    let time = TimeSource::real();
    let mut findings = vec![open_files()];
    if let Some(server) = &command.ntp {
        findings.push(ntp::look(server, &time).await);
    }
    if command.repair {
        findings.extend(match settings.store {
            StoreKind::Cassandra => vec![bad(
                "repair",
                "a shared store has no data directory: its own tools repair it",
            )],
            StoreKind::Embedded => directory::repair(&settings),
        });
    }
    if command.tables {
        findings.extend(match settings.store {
            StoreKind::Cassandra => vec![bad(
                "tables",
                "a shared store has no data directory: `nodetool verify` checks the tables of its servers",
            )],
            StoreKind::Embedded => directory::tables(&settings).await?,
        });
    }
    findings.extend(match settings.store {
        StoreKind::Cassandra => servers::look_at_store(&settings, &time).await?,
        StoreKind::Embedded => directory::look(&settings, &time).await?,
    });
    if settings.queue_kind() == QueueKind::Kafka {
        findings.extend(servers::look_at_queue(&settings, &time).await?);
    }
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
                    Ok(text) => writeln!(out, "ok       {about}: {}", printable(text))?,
                    Err(text) => writeln!(out, "problem  {about}: {}", printable(text))?,
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
    // `serve` raises its own limit to the hard limit, which is the second.
    let hard = line
        .and_then(|line| line.split_whitespace().nth(4))
        .unwrap_or_default();
    match hard.parse::<u64>() {
        Ok(limit) if limit < OPEN_FILES_MIN => bad(
            ABOUT,
            format!(
                "the hard limit is {limit}: raise it to {OPEN_FILES_MIN} or more (ulimit -Hn, LimitNOFILE=)"
            ),
        ),
        Ok(limit) => good(ABOUT, format!("the limit is {limit}")),
        Err(_) if hard == "unlimited" => good(ABOUT, "no limit"),
        Err(_) => good(ABOUT, "the limit is not known on this system"),
    }
}
