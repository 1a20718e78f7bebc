//! The mixed scenario measures a service that registers, fires and cancels at a rate, for the report.
//!
//! Three in ten tasks are cancelled just before they are due.

use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use tokio::sync::mpsc::channel;

use super::{
    cancel::{self, CONNECTIONS, Cancelled},
    parts::{PATIENCE, STEADY_LEAD, WARM_UP, read_back, stream},
};
use crate::{
    chart::Chart,
    check::Check,
    embedded::{
        Setup,
        check::{Registered, Verdict},
        crew::{self, Shift},
        load,
        meter::Meter,
        wire::Form,
    },
    report::Report,
};

const CASE: &str = "mixed";
/// So many in ten tasks are cancelled.
const CANCELLED_OF_TEN: u128 = 3;

/// Tells whether a task is to be cancelled: by its random bits, so that neighbours differ.
fn is_chosen(task: &Registered) -> bool {
    task.id % 10 < CANCELLED_OF_TEN
}

/// Registers, fires and cancels at a rate.
pub(in crate::embedded) async fn mixed(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let (rate, span) = (setup.rate, WARM_UP + Duration::from_secs(setup.seconds));
    let tasks = rate * span.as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    // There is room for all chosen tasks, so that registrations never wait for cancels.
    let (queues, receivers): (Vec<_>, Vec<_>) =
        (0..CONNECTIONS).map(|_| channel(tasks as usize)).unzip();
    let told = move |task: Registered| {
        if is_chosen(&task) {
            let queue = (task.id / 10) as usize % CONNECTIONS;
            let queue = queues.get(queue).context("a connection")?;
            queue.try_send(task).context("a cancel found no room")?;
        }
        Ok(())
    };
    let shift = Shift::new(tasks, span + STEADY_LEAD + PATIENCE);
    let expected = std::sync::Arc::clone(&shift.expected);
    let meter = Meter::start(&service)?;
    let (loaded, cancelled, seen) = tokio::join!(
        load::register_as(&service, stream(rate, tasks), Form::USUAL, due, told),
        async {
            let cancelled = cancel::before_due(&service, receivers).await?;
            let rest = tasks - cancelled.cancelled.len() as u64;
            expected.store(rest, std::sync::atomic::Ordering::Relaxed);
            anyhow::Ok(cancelled)
        },
        crew::work_shift(service.address, service.time.clone(), shift)
    );
    let (loaded, cancelled, seen) = (loaded?, cancelled?, seen?);
    let used = meter.stop(&service, tasks)?;
    let gone: Vec<Registered> = loaded
        .registered
        .iter()
        .copied()
        .filter(|task| cancelled.cancelled.contains(&task.id))
        .collect();
    read_back(&service, &gone, "cancelled").await?;
    let case = format!("{CASE}, {rate}/s");
    let verdict = cancel::judge(
        &case,
        loaded.registered,
        seen.arrivals,
        &cancelled.cancelled,
        first.after(WARM_UP),
        report,
    )?;
    tell(&case, &loaded.latency, &cancelled, &verdict, report);
    used.report(&case, report);
    report.chart(Chart::percentiles(
        CASE,
        &format!("Mixed, {rate}/s, three in ten cancelled just before they are due"),
        &times(&loaded.latency, &cancelled, &verdict),
    ));
    setup.end(service, report)
}

/// The times of all three kinds of requests, by the names of the chart.
const fn times<'a>(
    registration: &'a Histogram<u64>,
    cancelled: &'a Cancelled,
    verdict: &'a Verdict,
) -> [(&'static str, &'a Histogram<u64>); 3] {
    [
        ("due to worker", &verdict.lateness),
        ("cancel", &cancelled.latency),
        ("registration", registration),
    ]
}

/// Reports the times of all three kinds of requests.
fn tell(
    case: &str,
    registration: &Histogram<u64>,
    cancelled: &Cancelled,
    verdict: &Verdict,
    report: &mut Report,
) {
    report.figure(
        format!("{case}: cancels that came too late"),
        cancelled.not as f64,
        "tasks",
    );
    report.times(
        format!("{case}: registration"),
        registration,
        Check::default(),
    );
    report.times(
        format!("{case}: cancel"),
        &cancelled.latency,
        Check::default(),
    );
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
}
