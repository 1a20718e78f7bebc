//! This scenario measures the timeout pattern for the report: 99 in 100 tasks are cancelled long before they
//! are due.
//!
//! Beside the cancels runs a stream at a rate that is never cancelled: alone, then while cancels come as fast
//! as they are answered, then while they come at half that rate. The effect of the cancels on its lateness is
//! the ratio to the stream alone.

use std::time::Duration;

use hdrhistogram::Histogram;
use tickwheel::model::time::Millis;

use super::{
    cancel::{self, Cancelled},
    parts::{PATIENCE, STEADY_LEAD, WARM_UP, bulk, read_back, stream},
};
use crate::{
    chart::Chart,
    check::Check,
    embedded::{
        Setup,
        check::{Arrival, Registered},
        crew, load,
        meter::Meter,
        service::Service,
    },
    report::Report,
};

pub(super) const SINGLE: &str = "cancels, one a request";
pub(super) const BATCHED: &str = "cancels, many a request";
const CASE: &str = "cancel_heavy";
/// One in so many tasks is not cancelled.
const KEPT_OF: usize = 100;
/// Cancels a second that the service is assumed to reach at least, to know how long before the due time to
/// begin.
const RATE_MIN: u64 = 4000;
/// Time between the last task of a stream and the tasks that were not cancelled, so that they do not mix.
const GAP: Duration = Duration::from_secs(5);

/// All tasks that were registered and handed out, over all parts; they are judged together at the end.
#[derive(Default)]
struct Book {
    registered: Vec<Registered>,
    arrivals: Vec<Arrival>,
    cancelled: std::collections::HashSet<u128>,
}

/// A part of the measurement, with the due times of the stream that count.
struct Part {
    name: &'static str,
    from: Millis,
    to: Millis,
}

/// Runs the three parts.
pub(in crate::embedded) async fn cancel_heavy(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let mut book = Book::default();
    let span = Duration::from_secs(setup.seconds);
    let alone = Run {
        tasks: 0,
        rate: None,
        span,
    };
    let (alone, _) = part(setup, &service, ("alone", alone), &mut book).await?;
    let span_all = span.max(Duration::from_secs(setup.tasks / RATE_MIN));
    let flat_out = Run {
        tasks: setup.tasks,
        rate: None,
        span: span_all,
    };
    let meter = Meter::start(&service)?;
    let (all, cancels) = part(setup, &service, ("cancels flat out", flat_out), &mut book).await?;
    meter.stop(&service, setup.tasks)?.report(CASE, report);
    let done = cancels.cancelled.len();
    let rate = done as f64 / cancels.took.as_secs_f64();
    let case = if setup.cancel_batch == 1 {
        SINGLE
    } else {
        BATCHED
    };
    report.rate(case, round, rate, Check::default());
    let batch = setup.cancel_batch;
    report.figure(format!("{case}: of a request"), batch as f64, "tasks");
    tell(case, &cancels, report);
    book.cancelled.extend(cancels.cancelled);
    let half = Run {
        tasks: (rate / 2.0 * span.as_secs_f64()) as u64,
        rate: Some(rate / 2.0),
        span,
    };
    let (half, at_half) = part(
        setup,
        &service,
        ("cancels at half that rate", half),
        &mut book,
    )
    .await?;
    tell("cancels at half that rate", &at_half, report);
    book.cancelled.extend(at_half.cancelled);
    judge(setup, &service, book, &[alone, all, half], report).await?;
    setup.end(service, report)
}

fn tell(case: &str, cancels: &Cancelled, report: &mut Report) {
    report.times(
        format!("{case}: cancel"),
        &cancels.latency,
        Check::default(),
    );
    report.figure(
        format!("{case}: cancels that came too late"),
        cancels.not as f64,
        "tasks",
    );
}

/// How many tasks to cancel, how fast, and how long the stream beside them is measured at least.
struct Run {
    tasks: u64,
    rate: Option<f64>,
    span: Duration,
}

/// Runs the stream, and the cancels beside it from the moment from which it counts.
async fn part(
    setup: &Setup,
    service: &Service,
    (name, run): (&'static str, Run),
    book: &mut Book,
) -> anyhow::Result<(Part, Cancelled)> {
    let (rate, span) = (setup.rate, WARM_UP + run.span);
    // The registration of the tasks to cancel must not fall into the measured time.
    let lead = STEADY_LEAD + span + GAP + Duration::from_secs(run.tasks / 20_000);
    let last = service.time.now().after(lead);
    let later = move |index: u64| last.after(Duration::from_millis(index % 3000));
    let doomed = load::register(service, bulk(run.tasks), later)
        .await?
        .registered;
    let chosen = doomed.iter().enumerate();
    let chosen = chosen.filter(|(index, _)| index % KEPT_OF != 0);
    let chosen: Vec<u128> = chosen.map(|(_, task)| task.id).collect();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let from = first.after(WARM_UP);
    let tasks = rate * span.as_secs();
    let (loaded, cancels, seen) = tokio::join!(
        load::register(service, stream(rate, tasks), due),
        async {
            service.time.sleep_until_wall(from).await;
            cancel::all(service, chosen, setup.cancel_batch, run.rate).await
        },
        crew::work(service, tasks, span + STEADY_LEAD + PATIENCE)
    );
    let (loaded, cancels, seen) = (loaded?, cancels?, seen?);
    // The tasks that were not cancelled are still to come.
    let kept = doomed.len() - cancels.cancelled.len();
    let rest = (kept + loaded.registered.len()).saturating_sub(seen.arrivals.len());
    let late = crew::work(service, rest as u64, lead + PATIENCE).await?;
    book.registered.extend(doomed);
    book.registered.extend(loaded.registered);
    book.arrivals.extend(seen.arrivals);
    book.arrivals.extend(late.arrivals);
    let end = first.after(span);
    let to = if run.tasks == 0 {
        end
    } else {
        end.min(from.after(cancels.took))
    };
    Ok((Part { name, from, to }, cancels))
}

/// Checks everything and compares the stream's parts.
async fn judge(
    setup: &Setup,
    service: &Service,
    book: Book,
    parts: &[Part],
    report: &mut Report,
) -> anyhow::Result<()> {
    let gone: Vec<Registered> = book
        .registered
        .iter()
        .copied()
        .filter(|task| book.cancelled.contains(&task.id))
        .collect();
    read_back(service, &gone, "cancelled").await?;
    let verdict = cancel::judge(
        CASE,
        book.registered,
        book.arrivals,
        &book.cancelled,
        Millis(0),
        report,
    )?;
    let mut curves: Vec<(&str, Histogram<u64>)> = Vec::new();
    for part in parts {
        let lateness = verdict.by_due.between(part.from, part.to)?;
        if lateness.is_empty() {
            report.note(format!(
                "{CASE}: {} was over too soon for a lateness",
                part.name
            ));
            continue;
        }
        report.times(
            format!("{}/s, {}: due to worker", setup.rate, part.name),
            &lateness,
            Check::default(),
        );
        curves.push((part.name, lateness));
    }
    report.times(
        format!("{CASE}, all of it"),
        &verdict.lateness,
        verdict.check,
    );
    compare(setup.rate, &curves, report);
    Ok(())
}

/// Says how many times as late the stream was with cancels as without.
fn compare(rate: u64, curves: &[(&str, Histogram<u64>)], report: &mut Report) {
    let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64;
    if let Some((_, alone)) = curves.first() {
        for (name, with) in curves.iter().skip(1) {
            let case = format!("{CASE}: p99 of the stream, {name}");
            report.figure(case, p99(with) / p99(alone).max(1.0), "times that alone");
        }
    }
    let of: Vec<(&str, &Histogram<u64>)> = curves.iter().map(|(name, of)| (*name, of)).collect();
    let title = format!("A stream of {rate}/s, with and without cancels beside it");
    report.chart(Chart::percentiles(CASE, &title, &of));
}
