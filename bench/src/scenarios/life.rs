//! This scenario measures whole lives of tasks for the report, with the service and over its public API.
//!
//! Tasks are registered by hundreds, found by a service that starts behind their due time, and published.
//! Tracked ones are also polled and settled by workers over HTTP. The measured time is that of the
//! registration and that from the first arrival to the last end; taking over wheels is not part of it.

use std::time::Duration;

use anyhow::Context as _;
use tickwheel::model::time::Millis;

use super::{Bench, WARM_UP, batches::Batches};
use crate::{
    check::Check,
    embedded::{
        check::{self, verdict},
        crew::{self, Shift},
        http::Connection,
        wire,
    },
    generator::Load,
    observer::{self, Observer, Registered},
    report::Report,
    servers::Server,
    tasks::Kind,
};

pub(super) const RECORDS: &str = "lives: kafka targets";
pub(super) const TRACKED: &str = "lives: callback targets";

const BATCH: u64 = 100;
const BATCHES_IN_FLIGHT: usize = 8;
/// Time from the beginning of registration to the due time: this, and at least the time that so many tasks
/// take to register.
const LEAD: Duration = Duration::from_secs(8);
const REGISTERED_PER_SECOND: u64 = 15_000;
/// All due times are within this.
const SPREAD_MS: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    for (kind, case) in [(Kind::Kafka, RECORDS), (Kind::Callback, TRACKED)] {
        let (per_second, check) = measure(bench, kind, round, report).await?;
        if round != WARM_UP {
            report.rate(case, round, per_second, check);
        }
    }
    Ok(())
}

async fn measure(
    bench: &Bench,
    kind: Kind,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<(f64, Check)> {
    let time = &bench.servers.time;
    let topic = format!("life{}", time.random());
    let name = match kind {
        Kind::Kafka => topic.clone(),
        Kind::Callback => wire::CALLBACK.to_owned(),
    };
    if let Kind::Kafka = kind {
        bench.servers.topics(std::slice::from_ref(&topic)).await?;
    }
    let server = bench.servers.serve().await?;
    let due = time
        .now()
        .after(LEAD + Duration::from_secs(bench.tasks / REGISTERED_PER_SECOND));
    let began = time.moment();
    let batches = Batches {
        kind,
        name: &name,
        size: BATCH,
    };
    let load = Load::flat_out(bench.tasks / BATCH, BATCHES_IN_FLIGHT);
    let spread = move |number: u64| due.after(Duration::from_millis(number % SPREAD_MS));
    let (registered, _) = batches.register(time, &server, load, spread).await?;
    let registering = time.moment().since(began);
    server.stop(time).await?;
    time.sleep_until_wall(due.after(Duration::from_millis(SPREAD_MS)))
        .await;
    let (ending, check) = match kind {
        Kind::Kafka => {
            let observer = Observer::start(&bench.servers.kafka, &topic, time)?;
            let server = bench.servers.serve().await?;
            let verdict = observer::wait(time, &registered, &observer.arrivals, PATIENCE).await;
            server.stop(time).await?;
            let rate = verdict.per_second();
            (bench.tasks as f64 / rate, verdict.check)
        }
        Kind::Callback => {
            let server = bench.servers.serve().await?;
            let (ending, check) = work(bench, &server, &registered).await?;
            let writes = conditional_writes(&server).await?;
            if round != WARM_UP {
                let of =
                    |what: &str| format!("{TRACKED}: conditional writes {what}, round {round}");
                let per_task = writes.tasks / bench.tasks as f64;
                report.figure(of("of tasks, a task"), per_task, "");
                report.figure(of("of clocks, in all"), writes.clocks, "");
            }
            server.stop(time).await?;
            (ending, check)
        }
    };
    let took = registering.as_secs_f64() + ending;
    Ok((bench.tasks as f64 / took, check))
}

/// Polls and settles everything; returns how long that took from the first arrival, in seconds.
async fn work(
    bench: &Bench,
    server: &Server,
    registered: &Registered,
) -> anyhow::Result<(f64, Check)> {
    let time = &bench.servers.time;
    let shift = Shift::new(registered.len() as u64, PATIENCE);
    let seen = crew::work_shift(server.address()?, time.clone(), shift).await?;
    let first_us = seen.arrivals.iter().map(|arrival| arrival.seen_us).min();
    let took = (seen.last_settled_us - first_us.unwrap_or_default()).max(1) as f64 / 1e6;
    let registered = (0..)
        .zip(registered)
        .map(|(index, (id, due))| check::Registered {
            id: id.uuid().as_u128(),
            due: *due,
            index,
        });
    let verdict = verdict(registered.collect(), seen.arrivals, Millis(0))?;
    Ok((took, verdict.check))
}

/// Conditional statements that a server has made since its start; one may be of many tasks.
struct Conditional {
    tasks: f64,
    clocks: f64,
}

async fn conditional_writes(server: &Server) -> anyhow::Result<Conditional> {
    let mut connection = Connection::open(server.address()?).await?;
    let metrics = String::from_utf8_lossy(connection.get("/metrics").await?).into_owned();
    let count = |operation: &str| {
        let name = "tickwheel_store_operation_duration_seconds_count";
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name) && line.contains(&format!("op=\"{operation}\"")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        value.with_context(|| format!("no count of {operation} in the metrics"))
    };
    Ok(Conditional {
        tasks: count("swap_tasks")?,
        clocks: count("swap_clock")?,
    })
}
