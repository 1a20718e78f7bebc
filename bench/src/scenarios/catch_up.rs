//! This scenario measures for the report how fast the tasks of a missed hour come out, and how late new tasks
//! are meanwhile.
//!
//! The hour is not waited for. Tasks are registered with starts over the next hour while no node has a wheel.
//! The first node that takes one is started with a wall clock an hour ahead (the program's own option for
//! drills), and this harness's clock is set ahead with it. The node has every tick of the hour to read. The
//! clocks of that keyspace stay ahead, so it is a keyspace of its own.

use std::{fs, time::Duration};

use anyhow::ensure;
use tickwheel::{
    model::time::{Millis, whole_millis},
    time_source::TimeSource,
};

use super::{Bench, WARM_UP, batches::Batches, fire};
use crate::{
    check::Check,
    generator::{Load, histogram, micros},
    observer::{self, Observer, Registered, Verdict},
    report::Report,
    servers::{Server, Servers},
    tasks::{self, Kind},
};

pub(super) const CASE: &str = "caught up with an hour, kafka targets";

const HOUR: Duration = Duration::from_secs(3600);
/// Time from the beginning of registration to the first due time: this, and at least the time that so many
/// tasks take to register.
const LEAD: Duration = Duration::from_secs(10);
const REGISTERED_PER_SECOND: u64 = 15_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long after the due time of their registration new tasks are due.
const NEAR_LEAD: Duration = Duration::from_millis(1500);
const NEAR_BATCH: u64 = 5;
const NEAR_PER_SECOND: u64 = 500;

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    if round == WARM_UP {
        return Ok(());
    }
    // A clock of its own, because it is set ahead.
    let time = TimeSource::real();
    let servers = Servers {
        keyspace: format!("{}_hour{round}", bench.servers.keyspace),
        time: time.clone(),
        ..bench.servers.clone()
    };
    servers.init().await?;
    let [backlog, near] = ["hour", "near"].map(|name| format!("{name}{}", time.random()));
    servers.topics(&[backlog.clone(), near.clone()]).await?;
    let lead = LEAD + Duration::from_secs(bench.tasks / REGISTERED_PER_SECOND);
    let first = time.now().after(lead);
    let hour_ms = HOUR.as_millis() as u64;
    let starts: Vec<Millis> = (0..bench.tasks)
        .map(|index| first.after(Duration::from_millis(index * 7919 % hour_ms)))
        .collect();
    let node = Box::pin(servers.in_process()).await?;
    let target = tasks::target(Kind::Kafka, &backlog);
    let registered = fire::register(&node.service(), &starts, &target).await?;
    node.stop().await;
    ensure!(time.now() < first, "not registered in time");

    let ahead = whole_millis(HOUR + lead);
    let file = std::env::temp_dir().join(format!("{}-clock", servers.keyspace));
    fs::write(&file, ahead.to_string())?;
    time.set_wall_error_ms(ahead);
    let observe = |topic: &str| Observer::start_ahead(&servers.kafka, topic, &time, HOUR + lead);
    let (hour, new) = (observe(&backlog)?, observe(&near)?);
    let began = time.now();
    let option = ["--clock-offset-file".into(), file.clone().into_os_string()];
    let server = servers.serve_with(&option).await?;
    let (missed, came) = tokio::join!(
        observer::wait(&time, &registered, &hour.arrivals, PATIENCE),
        register_near(bench, &server, &time, &near)
    );
    let came = came?;
    let came = observer::wait(&time, &came, &new.arrivals, PATIENCE).await;
    server.stop(&time).await?;
    fs::remove_file(&file)?;
    judge(round, began, &missed, &came, report)
}

/// Registers new tasks at a rate.
async fn register_near(
    bench: &Bench,
    server: &Server,
    time: &TimeSource,
    topic: &str,
) -> anyhow::Result<Registered> {
    let requests = NEAR_PER_SECOND * bench.seconds / NEAR_BATCH;
    let interval = Duration::from_secs(NEAR_BATCH).div_f64(NEAR_PER_SECOND as f64);
    let first = time.now().after(NEAR_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / NEAR_PER_SECOND));
    let batches = Batches {
        kind: Kind::Kafka,
        name: topic,
        size: NEAR_BATCH,
    };
    let load = Load::at_rate(requests, interval);
    let (registered, _) = batches.register(time, server, load, due).await?;
    Ok(registered)
}

/// Separates new tasks that were due while the hour came out from those after it.
fn judge(
    round: u32,
    began: Millis,
    missed: &Verdict,
    new: &Verdict,
    report: &mut Report,
) -> anyhow::Result<()> {
    let drained = missed.first.iter().map(|(_, seen)| *seen).max();
    let drained = drained.unwrap_or(began);
    let took = drained.since(began).as_secs_f64().max(0.001);
    report.rate(CASE, round, missed.first.len() as f64 / took, missed.check);
    let (mut during, mut behind) = (histogram()?, histogram()?);
    for (due, seen) in &new.first {
        let lateness = if *due <= drained {
            &mut during
        } else {
            &mut behind
        };
        lateness.saturating_record(micros(seen.since(*due)));
    }
    ensure!(
        !during.is_empty(),
        "the hour was out before the first new task was due: ask for more tasks"
    );
    let case = |when: &str| format!("new tasks {when} the hour comes out: due to consumer");
    report.times(case("while"), &during, new.check);
    report.times(case("after"), &behind, Check::default());
    Ok(())
}
