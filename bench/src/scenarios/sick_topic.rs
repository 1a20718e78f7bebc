//! This scenario measures for the report how a sick topic delays the records of a healthy one.
//!
//! A healthy topic gets 500 tasks a second, without and with 50 a second to a sick one. The brokers are
//! librdkafka's own (a mock cluster in this process), because one real broker has no sick topics: being below
//! `min.insync.replicas` needs a second, dead broker. The partitions of the sick topic have no leader. A
//! producer sees that in the same way: each record is tried again until its time is over.

use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use rdkafka::mocking::MockCluster;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::{Bench, batches::Batches};
use crate::{
    generator::{self, Load, histogram},
    observer::{self, Observer, Registered},
    report::Report,
    servers::{PARTITIONS, Server, Servers},
    tasks::Kind,
};

/// Tasks a second to the healthy topic.
const WELL_RATE: u64 = 500;
/// Tasks a second to the sick topic.
const SICK_RATE: u64 = 50;
/// How long before they are due tasks are registered, so that they pass through the wheel.
const LEAD: Duration = Duration::from_secs(6);
/// Tasks of a registration.
const BATCH: u64 = 25;
const PATIENCE: Duration = Duration::from_secs(20);
/// At the beginning nothing is warm, and the service does not know yet that the topic is sick.
const WARM_UP: Duration = Duration::from_secs(5);

pub(super) async fn round(bench: &Bench, _: u32, report: &mut Report) -> anyhow::Result<()> {
    let without = measure(bench, false, report).await?;
    let with = measure(bench, true, report).await?;
    let p99 = |lateness: &Histogram<u64>| lateness.value_at_quantile(0.99) as f64;
    let ratio = p99(&with) / p99(&without).max(1.0);
    report.figure(
        "p99 beside a sick topic over p99 without".to_owned(),
        ratio,
        "x",
    );
    Ok(())
}

async fn measure(bench: &Bench, sick: bool, report: &mut Report) -> anyhow::Result<Histogram<u64>> {
    let time = &bench.servers.time;
    let brokers = MockCluster::new(1)?;
    for topic in ["well", "sick"] {
        brokers.create_topic(topic, PARTITIONS, 1)?;
    }
    for partition in 0..PARTITIONS {
        brokers.partition_leader("sick", partition, None)?;
    }
    let servers = Servers {
        kafka: brokers.bootstrap_servers(),
        ..bench.servers.clone()
    };
    let server = servers.serve().await?;
    // The node takes its wheels before the load begins.
    time.sleep(Duration::from_secs(2)).await;
    let observer = Observer::start(&servers.kafka, "well", time)?;
    let first_due = time.now().after(LEAD);
    let well = register(time, &server, "well", WELL_RATE, bench.seconds);
    let sick_rate = if sick { SICK_RATE } else { 0 };
    let beside = register(time, &server, "sick", sick_rate, bench.seconds);
    let (registered, _) = tokio::try_join!(well, beside)?;
    let verdict = observer::wait(time, &registered, &observer.arrivals, PATIENCE).await;
    let mut lateness = histogram()?;
    let counted = first_due.after(WARM_UP);
    for (due, seen) in &verdict.first {
        if *due >= counted {
            lateness.saturating_record(generator::micros(seen.since(*due)));
        }
    }
    let beside = if sick { "beside" } else { "without" };
    report.times(
        format!("{WELL_RATE}/s {beside} a sick topic: due to consumer"),
        &lateness,
        verdict.check,
    );
    drop(server);
    Ok(lateness)
}

/// Registers at the rate; each task is due [`LEAD`] behind the scheduled time of its registration.
async fn register(
    time: &TimeSource,
    server: &Server,
    topic: &str,
    rate: u64,
    seconds: u64,
) -> anyhow::Result<Registered> {
    if rate == 0 {
        return Ok(Registered::new());
    }
    let seconds = seconds + WARM_UP.as_secs();
    let pace = Duration::from_nanos(1_000_000_000 * BATCH / rate);
    let load = Load::at_rate(rate * seconds / BATCH, pace);
    let first_due = time.now().after(LEAD);
    let due = move |number: u64| -> Millis {
        first_due.after(Duration::from_millis(number * 1000 / rate))
    };
    let batches = Batches {
        kind: Kind::Kafka,
        name: topic,
        size: BATCH,
    };
    let registered = batches.register(time, server, load, due).await;
    Ok(registered
        .with_context(|| format!("cannot register tasks to {topic}"))?
        .0)
}
