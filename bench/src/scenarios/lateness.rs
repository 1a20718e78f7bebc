//! This scenario measures lateness at a fixed rate for the report, as the consumer and as the callback see
//! it.
//!
//! As many tasks are registered meanwhile.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tickwheel::{
    model::{task::Priority, time::Millis},
    queue::message,
    time_source::TimeSource,
    worker::{self, Job, Source, Worker},
};
use tokio::sync::oneshot;

use super::{Bench, batches::Batches};
use crate::{
    check::Check,
    generator::{self, Load, Outcome, histogram},
    observer::{self, Arrival, Arrivals, Observer, Registered, Verdict},
    report::Report,
    servers::Server,
    tasks::Kind,
};

/// How long before they are due tasks are registered, so that they pass through the wheel.
const LEAD: Duration = Duration::from_secs(6);
/// Tasks of a registration.
const BATCH: u64 = 25;
const PATIENCE: Duration = Duration::from_secs(20);
/// Callbacks that run at once, so many that none waits for another.
const CONCURRENCY: usize = 512;
/// The service is not warm at the beginning: tasks due in this time are checked and not measured.
const WARM_UP: Duration = Duration::from_secs(5);

pub(super) async fn round(bench: &Bench, _: u32, report: &mut Report) -> anyhow::Result<()> {
    for rate in &bench.rates {
        for kind in [Kind::Kafka, Kind::Callback] {
            let server = bench.servers.serve().await?;
            let time = &bench.servers.time;
            // The node takes its wheels before the load begins.
            time.sleep(Duration::from_secs(2)).await;
            measure(bench, &server, kind, *rate, report).await?;
            server.stop(time).await?;
        }
    }
    Ok(())
}

async fn measure(
    bench: &Bench,
    server: &Server,
    kind: Kind,
    rate: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let time = &bench.servers.time;
    let name = format!("late{}", time.random());
    let topic = match kind {
        Kind::Kafka => name.clone(),
        Kind::Callback => message::topic(&name, Priority::Normal),
    };
    bench.servers.topics(std::slice::from_ref(&topic)).await?;
    let observer = Observer::start(&bench.servers.kafka, &topic, time)?;
    let calls = Arrivals::default();
    let (stop, stopped) = oneshot::channel();
    let working = match kind {
        Kind::Kafka => None,
        Kind::Callback => Some(work(bench, server, &name, &calls, stopped)?),
    };
    let first_due = time.now().after(LEAD);
    let (registered, outcome) = register(time, server, kind, &name, rate, bench.seconds).await?;
    let verdict = observer::wait(time, &registered, &observer.arrivals, PATIENCE).await;
    report.times(
        format!("{rate}/s {kind:?}: registration of {BATCH}"),
        &outcome.latency,
        Check::default(),
    );
    let counted = first_due.after(WARM_UP);
    add(
        report,
        format!("{rate}/s {kind:?}: due to consumer"),
        &verdict,
        counted,
    )?;
    if let Some(working) = working {
        let verdict = observer::wait(time, &registered, &calls, PATIENCE).await;
        add(
            report,
            format!("{rate}/s {kind:?}: due to callback"),
            &verdict,
            counted,
        )?;
        drop(stop);
        working.await??;
    }
    Ok(())
}

/// Registers at the rate; each task is due [`LEAD`] behind the scheduled time of its registration.
async fn register(
    time: &TimeSource,
    server: &Server,
    kind: Kind,
    name: &str,
    rate: u64,
    seconds: u64,
) -> anyhow::Result<(Registered, Outcome)> {
    let seconds = seconds + WARM_UP.as_secs();
    let load = Load::at_rate(
        rate * seconds / BATCH,
        Duration::from_nanos(1_000_000_000 * BATCH / rate.max(1)),
    );
    let first_due = time.now().after(LEAD);
    let due =
        move |number: u64| first_due.after(Duration::from_millis(number * 1000 / rate.max(1)));
    let batches = Batches {
        kind,
        name,
        size: BATCH,
    };
    batches.register(time, server, load, due).await
}

type Working = tokio::task::JoinHandle<Result<(), worker::Error>>;

/// Runs a worker of the SDK until `stop` is dropped; its callback notes the time and returns.
fn work(
    bench: &Bench,
    server: &Server,
    name: &str,
    calls: &Arrivals,
    stop: oneshot::Receiver<()>,
) -> anyhow::Result<Working> {
    let (calls, time) = (Arc::clone(calls), bench.servers.time.clone());
    let callback = move |job: Job<worker::Raw>, _: worker::Context| {
        let seen = time.now();
        calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arrival {
                id: job.id,
                seen,
                made: seen,
            });
        async { Ok(worker::Outcome::Done) }
    };
    let worker = Worker::builder()
        .callback(name, callback)
        .source(Source::kafka(&bench.servers.kafka))
        .server(&server.url)
        .concurrency(CONCURRENCY)
        .build()?;
    Ok(tokio::spawn(async move {
        // Dropping the sender stops it.
        worker.run_until(async { drop(stop.await) }).await
    }))
}

/// Reports the lateness of tasks that were due when everything was warm.
fn add(
    report: &mut Report,
    case: String,
    verdict: &Verdict,
    counted: Millis,
) -> anyhow::Result<()> {
    let mut lateness = histogram()?;
    for (due, seen) in &verdict.first {
        if *due >= counted {
            lateness.saturating_record(generator::micros(seen.since(*due)));
        }
    }
    report.times(case, &lateness, verdict.check);
    Ok(())
}
