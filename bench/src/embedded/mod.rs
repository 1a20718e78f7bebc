//! The embedded service under load: one `tickwheel serve` on a directory of its own, driven over its public HTTP API.
//!
//! Promises: every task is checked (lost, early, twice), whatever is measured; at a rate nothing waits for an answer
//! before it is sent, and lateness counts from the due time. Service and client share the machine; what the client costs
//! is in the result.

pub(crate) mod check;
mod crew;
pub(crate) mod http;
mod load;
mod meter;
mod scenarios;
pub(crate) mod service;
pub(crate) mod wire;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::bail;
use clap::{Args, ValueEnum};
use tickwheel::time_source::TimeSource;
use tokio::signal::unix::{SignalKind, signal};

use self::service::{Service, load_average};
use crate::report::Report;

/// A scenario of the embedded service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Registration: one task a request over 64 connections, 100 a request, and an empty request beside them.
    Register,
    /// Tracked tasks that are due in the same second are claimed and settled.
    Burst,
    /// Lateness at a rate, with nothing else and with much pending; memory, disk, a kill.
    Steady,
    /// What a service costs that has nothing to do.
    Idle,
}

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where directories for data are made; they are removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Scenarios to run; all when none is named.
    #[arg(long = "scenario", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Tasks of `burst`, and of `register` one by one; in batches it registers five times as many.
    #[arg(long, default_value_t = 100_000)]
    tasks: u64,
    /// Connections that register one task a request.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Tasks that are pending in the second half of `steady`, due in a month; 0 leaves it out.
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// Tasks a second of `steady`.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Length of a measurement of `steady` and `idle`.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How often `register` and `burst` are repeated.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// The program under test; the one beside this one when not given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write every figure to a file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What scenarios work with.
#[derive(Debug)]
struct Setup {
    tasks: u64,
    connections: usize,
    pending: u64,
    rate: u64,
    seconds: u64,
    program: PathBuf,
    root: PathBuf,
    time: TimeSource,
    started: AtomicU32,
}

impl Setup {
    /// Starts a service on a fresh directory.
    async fn start(&self) -> anyhow::Result<Service> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let directory = self.root.join(number.to_string());
        Ok(Service::start(&self.program, &directory, &self.time)
            .await?
            .0)
    }

    /// Ends a service, and says what it had to complain of.
    fn end(&self, service: Service, report: &mut Report) -> anyhow::Result<()> {
        let log = service.log();
        if let Some(first) = log.lines().find(|line| !line.starts_with("ready on")) {
            let count = log.lines().count();
            report.note(format!(
                "the service's log has {count} lines, such as: {first}"
            ));
        }
        drop(service);
        scenarios::remove(&self.root)
    }
}

/// Runs the scenarios; the exit code is 1 when a task was lost or early.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    // One thread: what it leaves of two cores is the service's.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(measure(options)))
}

async fn measure(options: Options) -> anyhow::Result<ExitCode> {
    let time = TimeSource::real();
    let program = match options.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tickwheel"),
    };
    let name = format!("tickwheel-bench-{:08x}", time.random() & 0xffff_ffff);
    let setup = Setup {
        tasks: options.tasks,
        connections: options.connections.max(1),
        pending: options.pending,
        rate: options.rate,
        seconds: options.seconds,
        program,
        root: options.data_dir.join(name),
        time,
        started: AtomicU32::new(0),
    };
    let chosen = if options.scenarios.is_empty() {
        Scenario::value_variants().to_vec()
    } else {
        options.scenarios
    };
    let mut report = Report::default();
    // Whoever is told to stop takes the service down, too, and removes its data.
    let ran = tokio::select! {
        ran = all(&setup, &chosen, options.rounds, &mut report) => ran,
        stopped = told_to_stop() => stopped.and_then(|()| bail!("told to stop")),
    };
    if setup.root.exists() {
        scenarios::remove(&setup.root)?;
    }
    crate::finish(&report, options.json.as_deref(), ran)
}

pub(crate) async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn all(
    setup: &Setup,
    chosen: &[Scenario],
    rounds: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.note(format!("load average {} before the first", load_average()));
    for scenario in chosen {
        match scenario {
            Scenario::Register => {
                for round in 1..=rounds {
                    Box::pin(scenarios::register(setup, round, report)).await?;
                }
            }
            Scenario::Burst => {
                for round in 1..=rounds {
                    Box::pin(scenarios::burst(setup, round, report)).await?;
                }
            }
            Scenario::Steady => Box::pin(scenarios::steady(setup, report)).await?,
            Scenario::Idle => Box::pin(scenarios::idle(setup, report)).await?,
        }
    }
    for case in [
        scenarios::FLOOR,
        scenarios::SINGLE,
        scenarios::BATCHED,
        scenarios::BURST,
        scenarios::FILL,
    ] {
        report.summarize(case);
    }
    Ok(())
}
