//! The register scenario measures registrations for the report: through the client in Rust by one caller and by 64, one by one,
//! over HTTP/2 too, and in batches of 100.
//!
//! An empty request and the raw store run in the same round for comparison.

use std::time::Duration;

use anyhow::ensure;

use super::{
    parts::{BATCH_CONNECTIONS, PATIENCE, drain},
    raw,
};
use crate::{
    check::Check,
    embedded::{
        Setup,
        load::{self, Plan},
        meter::Meter,
        sdk,
        service::Service,
    },
    generator::{histogram, micros},
    report::Report,
};

pub(super) const FLOOR: &str = "GET /livez, as many connections";
pub(super) const SINGLE: &str = "registered, one a request";
pub(super) const SHARED: &str = "registered, one a request over HTTP/2";
pub(super) const BATCHED: &str = "registered, 100 a request";

pub(super) const LONELY: &str = "registered by one caller of the client in Rust";
pub(super) const TOGETHER: &str = "registered by 64 callers of one client in Rust";

/// Callers of one client at once.
const SDK_CALLERS: usize = 64;

/// Connections over HTTP/2. Each carries its part of as many requests at once as there are connections over
/// HTTP/1.1.
const SHARED_CONNECTIONS: usize = 4;

/// Measures registration one by one and in batches of 100, beside the least cost of a request.
pub(in crate::embedded) async fn register(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let service = setup.start().await?;
    floor(setup, &service, round, report).await?;
    raw::insert(setup, round, report).await?;
    let shared = SHARED_CONNECTIONS.min(setup.connections);
    for (case, batch, tasks, connections) in [
        (LONELY, 1, setup.tasks / 10, 1),
        (TOGETHER, 1, setup.tasks, SDK_CALLERS),
        (SINGLE, 1, setup.tasks, setup.connections),
        (SHARED, 1, setup.tasks, setup.connections / shared * shared),
        (BATCHED, 100, setup.tasks * 5, BATCH_CONNECTIONS),
    ] {
        // The due time is long after the last registration, even at a fifth of the aim.
        let lead = Duration::from_secs(5 + tasks / (8_000 * batch.min(4)));
        let first = service.time.now().after(lead);
        let due = move |index: u64| first.after(Duration::from_millis(index % 3000));
        let plan = Plan {
            tasks,
            batch,
            connections,
            interval: None,
            keep_every: 1,
        };
        let meter = Meter::start(&service)?;
        let loaded = match case {
            LONELY | TOGETHER => sdk::register(&service, (connections, tasks), due).await?,
            SHARED => load::register_over_http2(&service, shared, plan, due).await?,
            _ => load::register(&service, plan, due).await?,
        };
        let used = meter.stop(&service, tasks)?;
        ensure!(service.time.now() < first, "not registered in time");
        let (rate, latency) = (tasks as f64 / loaded.took.as_secs_f64(), loaded.latency);
        let (verdict, _) = drain(&service, loaded.registered, lead + PATIENCE).await?;
        report.rate(case, round, rate, verdict.check);
        report.times(format!("{case}: request"), &latency, Check::default());
        used.report(case, report);
    }
    setup.end(service, report)
}

/// Measures a request that does nothing: client, kernel, HTTP.
async fn floor(
    setup: &Setup,
    service: &Service,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    let each = setup.tasks / setup.connections as u64;
    let connections = service.connections(setup.connections).await?;
    let (meter, begun) = (Meter::start(service)?, service.time.moment());
    let mut latency = histogram()?;
    for mut connection in connections {
        let time = service.time.clone();
        callers.spawn(async move {
            let mut latency = histogram()?;
            for _ in 0..each {
                let begun = time.moment();
                connection.get("/livez").await?;
                latency.saturating_record(micros(time.moment().since(begun)));
            }
            anyhow::Ok(latency)
        });
    }
    while let Some(ended) = callers.join_next().await {
        latency.add(ended??)?;
    }
    let sent = each * setup.connections as u64;
    let rate = sent as f64 / service.time.moment().since(begun).as_secs_f64();
    report.rate(FLOOR, round, rate, Check::default());
    report.times(format!("{FLOOR}: request"), &latency, Check::default());
    meter.stop(service, sent)?.report(FLOOR, report);
    Ok(())
}
