//! The embedded harness puts the embedded service under load for developers: one `tickwheel serve` over its
//! public HTTP API.
//!
//! The service has a directory of its own. Every task is checked (lost, early, twice) in every measurement.
//! At a rate, no request waits for an answer before it is sent, and lateness counts from the due time.
//! Service and client share the machine; the costs of the client are in the result.

pub(crate) mod check;
pub(crate) mod crew;
pub(crate) mod flat;
pub(crate) mod http;
mod http2;
pub(crate) mod load;
mod log;
mod meter;
mod options;
mod overload;
pub(crate) mod rates;
mod receiver;
mod scenarios;
mod sdk;
pub(crate) mod service;
mod timeline;
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

pub(crate) use self::scenarios::{Size, family, firing, isolated};
use self::{
    options::Sizes,
    service::{Service, load_average},
};
use crate::{finish::finish, report::Report};

/// A scenario of the embedded service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Registration: one task a request over 64 connections, also over HTTP/2, 100 a request; beside them an empty request, and
    /// the raw store.
    Register,
    /// Tracked tasks that are due in the same second are claimed and settled, beside the raw store.
    Burst,
    /// Lateness of a stream of one callback beside a burst of another, whose workers are slow.
    BurstBeside,
    /// The same beside much of low priority, whose workers sleep.
    Isolation,
    /// Lateness at rates, with nothing else and with much pending; memory, disk, a kill.
    Steady,
    /// Tasks at a rate, with three in ten cancelled just before they are due.
    Mixed,
    /// Ninety-nine in a hundred are cancelled; a stream beside them, with and without.
    CancelHeavy,
    /// Killed within a burst: time until all of it is handed out.
    Recover,
    /// An hour is missed: time until its tasks are handed out, and the lateness of new tasks meanwhile.
    CatchUp,
    /// The costs of a service that has nothing to do.
    Idle,
    /// Registrations with a key, beside registrations without one.
    Keys,
    /// Tasks of many lanes and of one, which run one after the other.
    Ordering,
    /// Callbacks with limits that all have too much to do: how closely their rates are held.
    Limits,
    /// Deliveries over HTTP: their rate, and their lateness alone and beside a dead host.
    Http,
    /// Schedules that fire at one second, a stream beside them, and schedules that rest.
    Schedules,
    /// Children that come and go under one root, a chain, and how soon a tree ends.
    Trees,
    /// Lateness at a rate while the store is copied.
    Backup,
    /// Registration with TLS and an API key, beside registration without both.
    Access,
    /// First pages of lists of many tasks.
    Lists,
    /// Lateness of a stream beside large contents without workers.
    Payloads,
    /// Tasks that wait for a worker while no process runs. Runs only when named.
    Unclaimed,
    /// Ten times the registrations that it sustains. Runs only when named.
    Overload,
    /// Half load for --minutes: whether memory, disk and lateness are flat. Runs only when named.
    Soak,
}

/// The options of a run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory in which data directories are made; they are removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Scenarios to run; those before `keys` in the list when none is named.
    #[arg(long = "scenario", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Tasks of `burst`, and of `register` one by one; in batches it registers five times as many. `burst_beside` has twice as
    /// many that are due at once, `isolation` five times.
    #[arg(long, default_value_t = 100_000)]
    tasks: u64,
    /// Connections that register one task a request.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Tasks that are pending in the later parts of `steady`, due in a month; 0 leaves those out.
    #[arg(long, default_value = "1000000", num_args = 1.., value_delimiter = ',')]
    pending: Vec<u64>,
    /// Tasks a second of `steady`; the last one is that of `mixed` and of the stream of `cancel_heavy`, too.
    #[arg(long, default_value = "5000", num_args = 1.., value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    rate: Vec<u64>,
    /// Length of a measurement of `steady`, `burst_beside`, `isolation`, `mixed`, `idle`, and of the parts of `cancel_heavy`.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Tasks that were due in the hour that `catch_up` misses.
    #[arg(long, default_value_t = 100_000)]
    missed: u64,
    /// New tasks a second while `catch_up` catches up.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    near_rate: u64,
    /// Length of `soak`.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Tasks a second of `soak`; half of the rate that is reached flat out when not given.
    #[arg(long)]
    soak_rate: Option<u64>,
    /// Tasks that a request of `cancel_heavy` cancels; 1 means the call for a single task.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    cancel_batch: u64,
    /// How often `register`, `burst`, `burst_beside`, `isolation` and `cancel_heavy` are repeated.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// The program under test; the one beside this one when not given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    sizes: Sizes,
    /// Write every figure to a file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw every chart into a folder, as SVG.
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
}

/// The tools of the scenarios.
#[derive(Debug)]
struct Setup {
    tasks: u64,
    connections: usize,
    /// In rising order.
    pendings: Vec<u64>,
    rates: Vec<u64>,
    /// The last of them.
    rate: u64,
    seconds: u64,
    missed: u64,
    near_rate: u64,
    minutes: u64,
    soak_rate: Option<u64>,
    cancel_batch: usize,
    sizes: Sizes,
    program: PathBuf,
    root: PathBuf,
    time: TimeSource,
    started: AtomicU32,
}

impl Setup {
    /// Returns a directory that was never used.
    fn fresh(&self) -> PathBuf {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        self.root.join(number.to_string())
    }

    /// Starts a service on a fresh directory.
    async fn start(&self) -> anyhow::Result<Service> {
        Ok(Service::start(&self.program, &self.fresh(), &self.time)
            .await?
            .0)
    }

    /// Ends a service, and reports its warnings and errors.
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
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let time = TimeSource::real();
    let program = match options.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tickwheel"),
    };
    let name = format!("tickwheel-bench-{:08x}", time.random() & 0xffff_ffff);
    let mut pendings = options.pending;
    pendings.sort_unstable();
    let setup = Setup {
        tasks: options.tasks,
        connections: options.connections.max(1),
        pendings,
        rate: options.rate.last().copied().unwrap_or(1),
        rates: options.rate,
        seconds: options.seconds,
        missed: options.missed,
        near_rate: options.near_rate,
        minutes: options.minutes,
        soak_rate: options.soak_rate,
        cancel_batch: usize::try_from(options.cancel_batch)?,
        sizes: options.sizes,
        program,
        root: options.data_dir.join(name),
        time,
        started: AtomicU32::new(0),
    };
    let chosen = if options.scenarios.is_empty() {
        let all = Scenario::value_variants().iter().copied();
        all.filter(|scenario| !scenario.only_named()).collect()
    } else {
        options.scenarios
    };
    let mut report = Report::default();
    // A run that is told to stop takes the service down, too, and removes its data.
    let ran = tokio::select! {
        ran = all(&setup, &chosen, options.rounds, &mut report) => ran,
        stopped = told_to_stop() => stopped.and_then(|()| bail!("told to stop")),
    };
    if setup.root.exists() {
        scenarios::remove(&setup.root)?;
    }
    if let Some(folder) = &options.charts {
        report.write_charts(folder)?;
    }
    finish(&report, options.json.as_deref(), ran)
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
        for round in 1..=scenario.rounds(rounds) {
            Box::pin(scenario.round(setup, round, report)).await?;
        }
    }
    scenarios::summarize(report);
    Ok(())
}

impl Scenario {
    /// Tells whether it runs only when it is named.
    const fn only_named(self) -> bool {
        match self {
            Self::Register
            | Self::Burst
            | Self::BurstBeside
            | Self::Isolation
            | Self::Steady
            | Self::Mixed
            | Self::CancelHeavy
            | Self::Recover
            | Self::CatchUp
            | Self::Idle => false,
            Self::Keys
            | Self::Ordering
            | Self::Limits
            | Self::Http
            | Self::Schedules
            | Self::Trees
            | Self::Backup
            | Self::Access
            | Self::Lists
            | Self::Payloads
            | Self::Unclaimed
            | Self::Overload
            | Self::Soak => true,
        }
    }

    /// Returns how often it is run: distributions need no repetition.
    const fn rounds(self, asked: u32) -> u32 {
        match self {
            Self::Register
            | Self::Burst
            | Self::BurstBeside
            | Self::Isolation
            | Self::CancelHeavy
            | Self::Keys
            | Self::Ordering
            | Self::Access => asked,
            Self::Steady
            | Self::Mixed
            | Self::Recover
            | Self::CatchUp
            | Self::Idle
            | Self::Limits
            | Self::Http
            | Self::Schedules
            | Self::Trees
            | Self::Backup
            | Self::Lists
            | Self::Payloads
            | Self::Unclaimed
            | Self::Overload
            | Self::Soak => 1,
        }
    }

    async fn round(self, setup: &Setup, round: u32, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Self::Register => scenarios::register(setup, round, report).await,
            Self::Burst => scenarios::burst(setup, round, report).await,
            Self::BurstBeside => scenarios::burst_beside(setup, round, report).await,
            Self::Isolation => scenarios::isolation(setup, round, report).await,
            Self::Steady => scenarios::steady(setup, report).await,
            Self::Mixed => scenarios::mixed(setup, report).await,
            Self::CancelHeavy => scenarios::cancel_heavy(setup, round, report).await,
            Self::Recover => scenarios::recover(setup, report).await,
            Self::Unclaimed => scenarios::unclaimed(setup, report).await,
            Self::CatchUp => scenarios::catch_up(setup, report).await,
            Self::Idle => scenarios::idle(setup, report).await,
            Self::Keys => scenarios::keys(setup, round, report).await,
            Self::Ordering => scenarios::ordering(setup, round, report).await,
            Self::Limits => scenarios::limits(setup, report).await,
            Self::Http => scenarios::http(setup, round, report).await,
            Self::Schedules => scenarios::schedules(setup, report).await,
            Self::Trees => scenarios::trees(setup, report).await,
            Self::Backup => scenarios::backup(setup, report).await,
            Self::Access => scenarios::access(setup, round, report).await,
            Self::Lists => scenarios::lists(setup, report).await,
            Self::Payloads => scenarios::payloads(setup, report).await,
            Self::Overload => overload::overload(setup, report).await,
            Self::Soak => scenarios::soak(setup, report).await,
        }
    }
}
