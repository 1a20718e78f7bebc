//! The scenarios measure the service on Cassandra and Kafka for the report, and take turns where they are
//! compared.

mod batches;
mod catch_up;
mod fire;
mod isolation;
mod lateness;
mod life;
mod limits;
mod nodes;
mod raw_insert;
mod raw_life;
mod raw_publish;
mod raw_scan;
mod register;
mod rest;
mod schedules;
mod sick_topic;
mod trees;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::ValueEnum;

use crate::{raw::Raw, report::Report, servers::Servers};

/// The options of a run, and the tools of its scenarios.
pub(crate) struct Bench {
    pub(crate) servers: Servers,
    pub(crate) raw: Arc<Raw>,
    /// Tasks of a throughput measurement.
    pub(crate) tasks: u64,
    /// Length of a lateness measurement.
    pub(crate) seconds: u64,
    /// Tasks a second of the lateness measurements.
    pub(crate) rates: Vec<u64>,
    /// The number of requests in flight with the highest rate, by case; found in the round that does not
    /// count.
    pub(crate) best: Mutex<Vec<(&'static str, usize)>>,
}

impl Bench {
    /// Returns the best number in flight of a case.
    pub(crate) fn best(&self, case: &'static str) -> Option<usize> {
        let best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        best.iter()
            .find(|(known, _)| *known == case)
            .map(|(_, best)| *best)
    }
}

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// The driver inserts rows, which bounds the rate of registration.
    RawInsert,
    /// Registration: in process, over REST one by one, over REST in batches of 100.
    Register,
    /// The driver pages through a backlog, which bounds the rate at which firing can read.
    RawScan,
    /// The Kafka client produces the records of a backlog, which bounds the rate at which firing can publish.
    RawPublish,
    /// A backlog comes due: at once with the service running, and found by a service that starts behind it.
    Fire,
    /// The driver leads whole lives: insert, scan and delete of records; insert, conditional claim and settle of tasks.
    RawLife,
    /// Whole lives: registered by hundreds, found behind their time, published; claimed and settled by polls.
    Life,
    /// An hour is missed: how fast its tasks come out, and how late new tasks are meanwhile.
    CatchUp,
    /// From due time to consumer, and to callback, at fixed rates.
    Lateness,
    /// From due time to consumer, without and beside a topic that does not answer.
    SickTopic,
    /// Three nodes with limits, one of which is killed: how closely rates are held. Runs only when named.
    Limits,
    /// Lateness of a stream beside much of low priority, whose workers sleep. Runs only when named.
    Isolation,
    /// Schedules that fire at one second, and a stream beside them. Runs only when named.
    Schedules,
    /// Children that come and go under one root, and how soon its tree ends. Runs only when named.
    Trees,
}

/// Compared scenarios take turns, so that a disturbance of the machine affects all of them.
const GROUPS: [&[Scenario]; 9] = [
    &[Scenario::RawInsert, Scenario::Register],
    &[Scenario::RawScan, Scenario::RawPublish, Scenario::Fire],
    &[Scenario::RawLife, Scenario::Life, Scenario::CatchUp],
    &[Scenario::Lateness],
    &[Scenario::SickTopic],
    &[Scenario::Limits],
    &[Scenario::Isolation],
    &[Scenario::Schedules],
    &[Scenario::Trees],
];

/// The round whose figures do not count: servers and connections warm up, numbers in flight are tried.
pub(crate) const WARM_UP: u32 = 0;

impl Scenario {
    /// Runs one round.
    async fn round(self, bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Self::RawInsert => Box::pin(raw_insert::round(bench, round, report)).await,
            Self::Register => Box::pin(register::round(bench, round, report)).await,
            Self::RawScan => Box::pin(raw_scan::round(bench, round, report)).await,
            Self::RawPublish => Box::pin(raw_publish::round(bench, round, report)).await,
            Self::Fire => Box::pin(fire::round(bench, round, report)).await,
            Self::RawLife => Box::pin(raw_life::round(bench, round, report)).await,
            Self::Life => Box::pin(life::round(bench, round, report)).await,
            Self::CatchUp => Box::pin(catch_up::round(bench, round, report)).await,
            Self::Lateness => Box::pin(lateness::round(bench, round, report)).await,
            Self::SickTopic => Box::pin(sick_topic::round(bench, round, report)).await,
            Self::Limits => Box::pin(limits::round(bench, round, report)).await,
            Self::Isolation => Box::pin(isolation::round(bench, round, report)).await,
            Self::Schedules => Box::pin(schedules::round(bench, report)).await,
            Self::Trees => Box::pin(trees::round(bench, report)).await,
        }
    }
}

/// Runs the chosen scenarios: a round that warms up, then `rounds` that count.
pub(crate) async fn run(
    bench: &Bench,
    chosen: &[Scenario],
    rounds: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    for group in GROUPS {
        let group: Vec<Scenario> = group
            .iter()
            .copied()
            .filter(|scenario| chosen.contains(scenario))
            .collect();
        // Each rate of lateness is a distribution of its own and needs no repetition.
        let rounds = match group.as_slice() {
            [
                Scenario::Lateness
                | Scenario::SickTopic
                | Scenario::Limits
                | Scenario::Isolation
                | Scenario::Schedules
                | Scenario::Trees,
            ] => 0,
            _ => rounds,
        };
        for round in WARM_UP..=rounds {
            for scenario in &group {
                scenario.round(bench, round, report).await?;
                bench.servers.time.sleep(Duration::from_secs(1)).await;
            }
        }
    }
    summarize(report);
    Ok(())
}

/// Adds the spread of every case, and the ratios that have an aim.
fn summarize(report: &mut Report) {
    for case in [
        raw_insert::CASE,
        register::IN_PROCESS,
        register::REST_ONE,
        register::REST_BATCH,
        register::REST_TOGETHER,
        raw_scan::CASE,
        raw_publish::KAFKA,
        raw_publish::CALLBACK,
        fire::KAFKA,
        fire::CALLBACK,
        fire::KAFKA_BEHIND,
        fire::CALLBACK_BEHIND,
        raw_life::RECORDS,
        raw_life::TRACKED,
        life::RECORDS,
        life::TRACKED,
        catch_up::CASE,
    ] {
        report.summarize(case);
    }
    for (case, aim) in [
        (register::IN_PROCESS, 0.85),
        (register::REST_ONE, 0.85),
        (register::REST_BATCH, 1.5),
        (register::REST_TOGETHER, 1.5),
    ] {
        report.ratio(case, &[raw_insert::CASE], aim);
    }
    report.ratio(life::RECORDS, &[raw_life::RECORDS], 0.7);
    report.ratio(catch_up::CASE, &[life::RECORDS], 0.8);
    report.ratio(life::TRACKED, &[raw_life::TRACKED], 3.0);
    for case in [fire::KAFKA, fire::KAFKA_BEHIND] {
        report.ratio(case, &[raw_scan::CASE, raw_publish::KAFKA], 0.7);
    }
    for case in [fire::CALLBACK, fire::CALLBACK_BEHIND] {
        report.ratio(case, &[raw_scan::CASE, raw_publish::CALLBACK], 0.7);
    }
}
