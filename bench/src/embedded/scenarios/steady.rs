//! The steady scenario measures lateness at fixed rates for the report, with few and with many pending tasks.
//!
//! It also measures the costs of many pending tasks, and how the service opens with them again.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::{
    idle::rest,
    parts::{CALM, DAY, PATIENCE, REST, SAMPLES, STEADY_LEAD, WARM_UP, read_back, stream},
};
use crate::{
    chart::Chart,
    check::Check,
    embedded::{
        Setup,
        check::{Registered, verdict},
        crew,
        load::{self, Plan},
        meter::Meter,
        service::{Host, Service},
    },
    report::Report,
};

pub(super) const FILL: &str = "pending, 1000 a request";

/// Measures each rate with each number of pending tasks, least first; then the idle service, a kill, and the
/// time until it is ready.
pub(in crate::embedded) async fn steady(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut service = setup.start().await?;
    let mut curves = at_rates(setup, &service, 0, report).await?;
    let (mut there, mut samples) = (0, Vec::new());
    let empty = service.disk_bytes();
    for pending in setup
        .pendings
        .iter()
        .copied()
        .filter(|pending| *pending > 0)
    {
        samples.extend(fill(pending.saturating_sub(there), &service, report).await?);
        there = there.max(pending);
        curves.extend(at_rates(setup, &service, there, report).await?);
    }
    let of: Vec<(&str, &Histogram<u64>)> = curves
        .iter()
        .map(|(name, of)| (name.as_str(), of))
        .collect();
    report.chart(Chart::percentiles(
        "steady",
        "Steady: from due time to worker",
        &of,
    ));
    if there > 0 {
        service.time.sleep(REST).await;
        rest(setup, &service, &format!("{there} pending, idle"), report).await?;
        // Not earlier: while tables are merged, rows that exist twice or are not listed yet would be counted,
        // too.
        let grown = service.disk_bytes().saturating_sub(empty) as f64 / there as f64;
        report.figure(
            format!("{there} pending, and what has fired since: disk"),
            grown,
            "bytes each",
        );
        let took;
        (service, took) = service.kill_and_restart().await?;
        let resident = service.usage()?.resident_mib;
        report.figure(
            format!("killed with {there} pending: ready again after"),
            took.as_secs_f64(),
            "s",
        );
        report.figure(
            format!("killed with {there} pending: resident then"),
            resident as f64,
            "MiB",
        );
        read_back(&service, &samples, "scheduled").await?;
    }
    setup.end(service, report)
}

type Named = (String, Histogram<u64>);

async fn at_rates(
    setup: &Setup,
    service: &Service,
    pending: u64,
    report: &mut Report,
) -> anyhow::Result<Vec<Named>> {
    let mut curves = Vec::new();
    for rate in &setup.rates {
        curves.push(at_rate(setup, service, (*rate, pending), report).await?);
    }
    Ok(curves)
}

async fn at_rate(
    setup: &Setup,
    service: &Service,
    (rate, pending): (u64, u64),
    report: &mut Report,
) -> anyhow::Result<Named> {
    let case = format!("{rate}/s, {pending} pending");
    let span = WARM_UP + Duration::from_secs(setup.seconds);
    let tasks = rate * span.as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let meter = Meter::start(service)?;
    let (loaded, seen) = tokio::join!(
        load::register(service, stream(rate, tasks), due),
        crew::work(service, tasks, span + STEADY_LEAD + PATIENCE)
    );
    let (loaded, seen) = (loaded?, seen?);
    let used = meter.stop(service, tasks)?;
    read_back(service, &loaded.registered, "succeeded").await?;
    let verdict = verdict(loaded.registered, seen.arrivals, first.after(WARM_UP))?;
    report.times(
        format!("{case}: registration"),
        &loaded.latency,
        Check::default(),
    );
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
    used.report(&case, report);
    let name = format!("steady-{rate}-{pending}");
    report.chart(verdict.by_due.chart(&name, &format!("Steady, {case}"), 1));
    Ok((case, verdict.lateness))
}

/// Registers the tasks that stay pending; returns some of them.
async fn fill(
    tasks: u64,
    service: &Service,
    report: &mut Report,
) -> anyhow::Result<Vec<Registered>> {
    if tasks == 0 {
        return Ok(Vec::new());
    }
    let first = service.time.now().after(30 * DAY);
    let day = DAY.as_secs() * 1000;
    let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % day));
    let plan = Plan {
        tasks,
        batch: 1000,
        connections: 8,
        interval: None,
        keep_every: (tasks / SAMPLES as u64).max(1),
    };
    let meter = Meter::start(service)?;
    let loaded = load::register(service, plan, due).await?;
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    report.rate(FILL, 0, rate, Check::default());
    report.times(
        format!("{FILL}: request"),
        &loaded.latency,
        Check::default(),
    );
    meter.stop(service, tasks)?.report(FILL, report);
    service.time.sleep(CALM).await;
    Ok(loaded.registered)
}
