//! The peers compare this service for its users with timers and delayed jobs of other systems, by one
//! generator.
//!
//! They stand behind one trait. Every peer runs as a program of its own on the loopback, on a fresh
//! directory, with settings that are named. The same tasks with the same bodies go in and are checked when
//! they come out (lost, early, twice). Compared peers take turns. A peer that is not installed or fails is a
//! line of the result, and the others go on. This program fetches and installs nothing: `bench/peers/setup`
//! does that.

mod adapted;
mod adapter;
mod beanstalkd;
mod bullmq;
mod case;
mod cases;
pub(crate) mod catalogue;
mod load;
mod nats;
mod postgres;
mod process;
mod redis;
mod resp;
mod rocketmq;
mod scenarios;
mod tickwheel;
mod wire;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use ::tickwheel::{model::time::Millis, time_source::TimeSource};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use clap::{Args, ValueEnum};

use crate::{
    embedded::{check::Arrival, service::load_average, told_to_stop},
    finish::finish,
    report::{
        Report,
        setting::{Kind, Setting},
    },
};

/// A scenario that every peer goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Registration: singly over 64 connections, then in batches where the peer has them.
    Register,
    /// Tasks that are due within one second are delivered and acknowledged.
    Burst,
    /// Lateness at a rate, registered ahead.
    Steady,
    /// Memory and disk of tasks that are due in a day.
    Pending,
}

/// The options of a run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory in which data directories are made; they are removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Peers to run; all when none is named.
    #[arg(long = "peer", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    peers: Vec<Kind>,
    /// Scenarios to run; all when none is named.
    #[arg(long = "scenario", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Settings to run, by a part of their names; all of the peers when none is given.
    #[arg(long = "setting", value_name = "TEXT", num_args = 1..)]
    settings: Vec<String>,
    /// Tasks of `register` and `pending`; a slow peer gets fewer.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..))]
    tasks: u64,
    /// Tasks of `burst`; a slow peer gets fewer, a peer that keeps up with the due times gets more.
    #[arg(long, default_value_t = 150_000, value_parser = clap::value_parser!(u64).range(1000..))]
    burst: u64,
    /// Tasks a second of `steady`; a peer that fails at one is tried with the next lower one.
    #[arg(long = "rate", default_values_t = [5000, 500], num_args = 1.., value_delimiter = ',', value_parser = clap::value_parser!(u64).range(100..))]
    rates: Vec<u64>,
    /// Length of `steady`.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Longest time of a measurement, with the start of its peer.
    #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u64).range(1..))]
    limit_seconds: u64,
    /// Rounds in which the peers take turns.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Directory into which `bench/peers/setup` has put programs that no package has.
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers_dir: PathBuf,
    /// The program under test; the one beside this one when not given.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write every figure to a file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A task on its way in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) id: u64,
    /// A producer changes it only when its server has whole seconds, to the time that it asked for.
    pub(super) due: Millis,
}

/// How tasks are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Each by a request of its own that is answered before the connection is used again.
    Singly,
    /// As many at once as the peer takes.
    Batched,
}

impl Manner {
    /// Returns how many of so many tasks go before an answer is waited for; at least one.
    fn at_once(self, tasks: usize) -> usize {
        match self {
            Self::Singly => 1,
            Self::Batched => tasks.max(1),
        }
    }
}

/// The way in which the generator drives producers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes {
    pub(super) producers: usize,
    /// Tasks that a producer gets at once.
    pub(super) chunk: usize,
}

/// A running peer; all its parts end when it is dropped.
#[async_trait]
pub(super) trait Peer: Send {
    /// Returns how it is driven. An adapter gets many tasks at once, and registers them singly over as many
    /// connections.
    fn lanes(&self, manner: Manner) -> Lanes {
        match manner {
            Manner::Singly => Lanes {
                producers: 64,
                chunk: 1,
            },
            Manner::Batched => Lanes {
                producers: 8,
                chunk: 100,
            },
        }
    }

    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>>;

    /// Returns all consumers of tasks, as many as suit the peer.
    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>>;

    /// Returns how many pending tasks it reports; none when it cannot.
    async fn pending(&mut self) -> anyhow::Result<Option<u64>>;

    /// Returns the processes that keep and fire tasks.
    fn servers(&self) -> Vec<u32>;

    /// Returns its client processes, whose time counts as the harness's.
    fn adapters(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the directory of its tasks.
    fn directory(&self) -> PathBuf;
}

/// Registers tasks.
#[async_trait]
pub(super) trait Producer: Send {
    /// Returns when all are acknowledged. A due time that the server cannot hold is set to the one that was asked for.
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()>;
}

/// Takes due tasks and acknowledges them.
#[async_trait]
pub(super) trait Consumer: Send {
    /// Adds tasks that have come, with the time of their arrival. Returns after about a second at the latest.
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()>;

    /// Ends the consumer; all tasks that it took are acknowledged then.
    async fn end(self: Box<Self>) -> anyhow::Result<Settled>;
}

/// The acknowledgements of consumers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    pub(super) count: u64,
    /// When the last task was acknowledged, in microseconds of the wall clock.
    pub(super) last_us: i64,
}

impl Settled {
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.last_us = self.last_us.max(other.last_us);
    }
}

/// The environment that a peer needs to start.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) time: TimeSource,
    peers_dir: PathBuf,
    program: PathBuf,
}

/// The tools of the scenarios.
#[derive(Debug)]
struct Setup {
    tasks: u64,
    burst: u64,
    rates: Vec<u64>,
    seconds: u64,
    limit: Duration,
    root: PathBuf,
    place: Place,
    started: AtomicU32,
}

impl Setup {
    /// Starts a peer on a fresh directory.
    async fn start(&self, setting: &Setting) -> anyhow::Result<Box<dyn Peer>> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let directory = self.root.join(number.to_string());
        std::fs::create_dir_all(&directory)?;
        let place = Place {
            directory,
            ..self.place.clone()
        };
        catalogue::start(setting, place).await
    }

    /// Removes the files of peers.
    async fn clear(&self) -> anyhow::Result<()> {
        let (root, time) = (&self.root, &self.place.time);
        let removed = cases::remove(root, time).await;
        removed.with_context(|| format!("{} is still there", root.display()))
    }
}

/// Runs the scenarios; the exit code is 1 when a task was lost or early, or a peer failed.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let time = TimeSource::real();
    let program = match options.program {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("tickwheel"),
    };
    std::fs::create_dir_all(&options.data_dir)?;
    let name = format!("tickwheel-peers-{:08x}", time.random() & 0xffff_ffff);
    let root = options.data_dir.canonicalize()?.join(name);
    let setup = Setup {
        tasks: options.tasks,
        burst: options.burst,
        rates: options.rates,
        seconds: options.seconds,
        limit: Duration::from_secs(options.limit_seconds),
        root: root.clone(),
        place: Place {
            directory: root,
            time,
            peers_dir: options.peers_dir,
            program,
        },
        started: AtomicU32::new(0),
    };
    let settings = catalogue::chosen(&options.peers, &options.settings);
    let scenarios = if options.scenarios.is_empty() {
        Scenario::value_variants().to_vec()
    } else {
        options.scenarios
    };
    let mut report = Report::default();
    // A run that is told to stop takes the peers down, too, and removes their data.
    let ran = tokio::select! {
        () = all(&setup, &settings, &scenarios, options.rounds, &mut report) => Ok(()),
        stopped = told_to_stop() => stopped.and_then(|()| bail!("told to stop")),
    };
    let ran = ran.and(setup.clear().await);
    finish(&report, options.json.as_deref(), ran)
}

async fn all(
    setup: &Setup,
    settings: &[Setting],
    scenarios: &[Scenario],
    rounds: u32,
    report: &mut Report,
) {
    report.note(format!("load average {} before the first", load_average()));
    for setting in settings {
        report.peer_setting(*setting);
    }
    for scenario in scenarios {
        for round in 1..=rounds {
            for setting in settings {
                Box::pin(cases::run(setup, *scenario, setting, round, report)).await;
            }
        }
    }
}
