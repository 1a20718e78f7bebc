//! The load harness measures Tickwheel for developers: real servers, the real program, one open-loop
//! generator, a check of every task.
//!
//! `tickwheel-bench list` lists the scenarios; `README.md` beside this file explains the figures.

mod chart;
mod check;
mod embedded;
mod finish;
mod gate;
mod generator;
mod observer;
mod payload;
mod peers;
mod raw;
mod report;
mod scenarios;
mod servers;
mod simulate;
mod tasks;

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Mutex};

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tickwheel::time_source::TimeSource;

use crate::{
    finish::finish,
    raw::Raw,
    report::Report,
    scenarios::{Bench, Scenario},
    servers::Servers,
};

/// Load harness of Tickwheel.
#[derive(Debug, Parser)]
#[command(name = "tickwheel-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios on a Cassandra and a Kafka that have nothing else to do.
    Run(Run),
    /// Run scenarios on the embedded store and queue: the real program, over HTTP, and nothing else.
    Embedded(embedded::Options),
    /// Compute the rate of a cluster of scanners when neither store nor broker is the limit: a model.
    SimulateCluster(simulate::Options),
    /// Run the embedded service and the systems that a user might choose instead, by turns.
    Peers(peers::Options),
    /// Judge whether a built program costs more CPU a task than another: see `bench/gate`.
    Gate(gate::Options),
    /// List the scenarios.
    List,
}

#[derive(Debug, Args)]
struct Run {
    /// Scenarios to run; all when none is named.
    #[arg(long = "scenario", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Contact points of Cassandra.
    #[arg(long, env = "TICKWHEEL_TEST_CASSANDRA", value_name = "HOST:PORT,..")]
    cassandra: String,
    /// Bootstrap servers of Kafka.
    #[arg(long, env = "TICKWHEEL_TEST_KAFKA", value_name = "HOST:PORT,..")]
    kafka: String,
    /// The program under test; the one beside this one when not given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Tasks of each throughput measurement.
    #[arg(long, default_value_t = 50_000)]
    tasks: u64,
    /// Rounds in which compared scenarios take turns.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Length of each lateness measurement.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Tasks a second of the lateness measurements.
    #[arg(long, default_value = "500,2000", value_delimiter = ',')]
    rates: Vec<u64>,
    /// Write every figure to a file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The same as the program's, so that the raw parts and the whole have no other difference.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Run(run) => start(run),
        Command::Embedded(options) => on_one_thread(embedded::run(options)),
        Command::SimulateCluster(options) => simulate::run(&options),
        Command::Peers(options) => on_one_thread(peers::run(options)),
        Command::Gate(options) => on_one_thread(gate::run(options)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // When standard error is closed, nobody reads it; the exit code remains.
            writeln!(std::io::stderr().lock(), "error: {error:?}").unwrap_or_default();
            ExitCode::from(2)
        }
    }
}

fn list() -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    describe::<Scenario>(&mut out)?;
    writeln!(out, "\nembedded:")?;
    describe::<embedded::Scenario>(&mut out)?;
    writeln!(out, "\npeers:")?;
    describe::<peers::Scenario>(&mut out)?;
    writeln!(out, "\ngate:")?;
    describe::<gate::Scenario>(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn describe<S: ValueEnum>(out: &mut impl std::io::Write) -> anyhow::Result<()> {
    for scenario in S::value_variants() {
        let value = scenario.to_possible_value().context("a name")?;
        let about = value.get_help().map(ToString::to_string);
        let (name, about) = (value.get_name(), about.unwrap_or_default());
        writeln!(out, "{name:<12} {about}")?;
    }
    Ok(())
}

/// Runs work on one thread, so that the program under test has the rest of two cores.
fn on_one_thread(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(work))
}

fn start(run: Run) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("bench")
        .build()?;
    runtime.block_on(Box::pin(measure(run)))
}

/// Runs the scenarios; the exit code is 1 when a task was lost or early.
async fn measure(run: Run) -> anyhow::Result<ExitCode> {
    let time = TimeSource::real();
    let program = match run.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tickwheel"),
    };
    let servers = Servers {
        cassandra: run.cassandra,
        kafka: run.kafka,
        program,
        keyspace: format!("bench_{:08x}", time.random() & 0xffff_ffff),
        time,
    };
    Box::pin(servers.init()).await?;
    let raw = Box::pin(Raw::connect(&servers)).await?;
    let bench = Bench {
        servers,
        raw,
        tasks: run.tasks,
        seconds: run.seconds,
        rates: run.rates,
        best: Mutex::default(),
    };
    let chosen = if run.scenarios.is_empty() {
        let all = Scenario::value_variants().iter().copied();
        all.filter(|scenario| !matches!(scenario, Scenario::Limits | Scenario::Isolation))
            .collect()
    } else {
        run.scenarios
    };
    let mut report = Report::default();
    // A run that is told to stop takes the service down, too, and reports its measurements until then.
    let ran = tokio::select! {
        ran = scenarios::run(&bench, &chosen, run.rounds, &mut report) => ran,
        stopped = embedded::told_to_stop() => stopped.and_then(|()| bail!("told to stop")),
    };
    finish(&report, run.json.as_deref(), ran)
}
