//! The soak scenario runs half load for a long time, and tells developers whether a resource grows that
//! should not.
//!
//! Half of the service's rate is found first: as many tasks as a burst has, from the first registration to
//! the last settle, flat out. Memory, disk and lateness are measured in intervals. A line is fitted to the
//! second half of each; its rise over that half, compared with its mean there, says whether it is flat. Rows
//! of ended tasks are kept for days, so the disk is expected to grow with every task; the reported figure is
//! the space of a task.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use tickwheel::time_source::TimeSource;
use tokio::sync::Notify;

use super::parts::{PATIENCE, STEADY_LEAD, WARM_UP, bulk, drain, read_back, stream};
use crate::{
    chart::{Chart, Curve, Scale},
    check::Check,
    embedded::{
        Setup,
        check::{Verdict, verdict},
        crew, load,
        meter::Meter,
        service::{Probe, Service},
        timeline::Stretch,
    },
    report::Report,
};

const CASE: &str = "soak";
/// Intervals of a soak; in an hour they are minutes.
const INTERVALS: u64 = 60;
/// A value that rises by less than this share of its mean is flat.
const FLAT: f64 = 0.1;
/// Tasks a request of the trial, as many as the stream has, so that the work is the same.
const TRIAL_BATCH: u64 = super::parts::STEADY_BATCH;

/// A reading of the process at a moment, in seconds from the beginning.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: f64,
    resident_mib: f64,
    disk_mib: f64,
}

/// Runs half load for as long as asked.
pub(in crate::embedded) async fn soak(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let rate = match setup.soak_rate {
        Some(rate) => rate,
        None => (flat_out(setup, &service, report).await? / 2.0) as u64,
    }
    .max(1);
    report.figure(format!("{CASE}: half load"), rate as f64, "tasks/s");
    let span = WARM_UP + Duration::from_secs(setup.minutes * 60);
    let interval = Duration::from_secs((setup.minutes * 60 / INTERVALS).max(1));
    let tasks = rate * span.as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let (over, meter) = (Arc::new(Notify::new()), Meter::start(&service)?);
    let watching = watch(
        service.probe(),
        service.time.clone(),
        interval,
        Arc::clone(&over),
    );
    let watching = tokio::spawn(watching);
    let (loaded, seen) = tokio::join!(
        load::register(&service, stream(rate, tasks), due),
        crew::work(&service, tasks, span + STEADY_LEAD + PATIENCE)
    );
    over.notify_one();
    let (loaded, seen, samples) = (loaded?, seen?, watching.await??);
    let used = meter.stop(&service, tasks)?;
    read_back(&service, &loaded.registered, "succeeded").await?;
    let case = format!("{CASE}, {rate}/s, {} min", setup.minutes);
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
    tell(&case, &samples, &verdict, interval, tasks, report);
    setup.end(service, report)
}

/// Returns the service's tasks a second when they are registered, fired and settled as fast as possible.
async fn flat_out(setup: &Setup, service: &Service, report: &mut Report) -> anyhow::Result<f64> {
    let tasks = setup.tasks;
    let lead = Duration::from_secs(8 + tasks / 10_000);
    let first = service.time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
    let plan = load::Plan {
        batch: TRIAL_BATCH,
        ..bulk(tasks)
    };
    let loaded = load::register(service, plan, due).await?;
    ensure!(service.time.now() < first, "not registered in time");
    let registering = loaded.took.as_secs_f64();
    let (verdict, seen) = drain(service, loaded.registered, lead + PATIENCE).await?;
    let settling = (seen.last_settled_us - first.0 * 1000).max(1) as f64 / 1e6;
    let rate = tasks as f64 / (registering + settling);
    report.times(
        format!("{CASE}: trial, flat out"),
        &verdict.lateness,
        verdict.check,
    );
    report.figure(
        format!("{CASE}: registered, fired and settled flat out"),
        rate,
        "tasks/s",
    );
    Ok(rate)
}

/// Looks at the process once an interval until it is over.
async fn watch(
    probe: Probe,
    time: TimeSource,
    interval: Duration,
    over: Arc<Notify>,
) -> anyhow::Result<Vec<Sample>> {
    let (begun, mut samples) = (time.moment(), Vec::new());
    loop {
        let seen = probe.clone();
        let disk = tokio::task::spawn_blocking(move || seen.disk_bytes()).await?;
        samples.push(Sample {
            at: time.moment().since(begun).as_secs_f64(),
            resident_mib: probe.usage()?.resident_mib as f64,
            disk_mib: disk as f64 / 1024.0 / 1024.0,
        });
        let next = begun.after(interval * u32::try_from(samples.len())?);
        tokio::select! {
            () = time.sleep_until(next) => {}
            () = over.notified() => return Ok(samples),
        }
    }
}

fn tell(
    case: &str,
    samples: &[Sample],
    verdict: &Verdict,
    interval: Duration,
    tasks: u64,
    report: &mut Report,
) {
    let seconds = interval.as_secs() as i64;
    let stretches = verdict.by_due.stretches(seconds);
    let of_samples = |of: fn(&Sample) -> f64| -> Points {
        samples
            .iter()
            .map(|sample| (sample.at, of(sample)))
            .collect()
    };
    let late = |of: fn(&Stretch) -> f64| -> Points {
        let point = |stretch: &Stretch| (stretch.from as f64, of(stretch));
        stretches.iter().map(point).collect()
    };
    let memory = of_samples(|sample| sample.resident_mib);
    let disk = of_samples(|sample| sample.disk_mib);
    tell_trend(case, ("memory", "MiB"), &memory, report);
    tell_trend(
        case,
        ("p50 of lateness", "ms"),
        &late(|stretch| stretch.p50_ms),
        report,
    );
    tell_trend(
        case,
        ("p99 of lateness", "ms"),
        &late(|stretch| stretch.p99_ms),
        report,
    );
    tell_trend(case, ("disk", "MiB"), &disk, report);
    if let (Some(first), Some(last)) = (disk.first(), disk.last()) {
        let each = (last.1 - first.1) * 1024.0 * 1024.0 / tasks as f64;
        report.figure(
            format!("{case}: disk of a task that has ended"),
            each,
            "bytes",
        );
    }
    report.chart(
        verdict
            .by_due
            .chart(CASE, &format!("{case}: lateness"), seconds),
    );
    draw(case, [("memory", memory), ("disk", disk)], report);
}

fn draw(case: &str, of: [(&str, Points); 2], report: &mut Report) {
    for (name, points) in of {
        let (file, title) = (format!("{CASE}-{name}"), format!("{case}: {name}"));
        let name = name.to_owned();
        let unit = ("MiB", Scale::Linear);
        report.chart(Chart::over_time(
            &file,
            &title,
            unit,
            vec![Curve { name, points }],
        ));
    }
}

type Points = Vec<(f64, f64)>;

/// Reports whether a value is flat over the second half.
fn tell_trend(
    case: &str,
    (name, unit): (&str, &'static str),
    points: &[(f64, f64)],
    report: &mut Report,
) {
    let Some(trend) = trend(points) else {
        return;
    };
    report.figure(
        format!("{case}: {name}, mean of the second half"),
        trend.mean,
        unit,
    );
    let share = trend.rise / trend.mean.max(f64::MIN_POSITIVE);
    report.figure(format!("{case}: {name}, rise over it"), share * 100.0, "%");
    let verdict = if share < FLAT { "flat" } else { "not flat" };
    report.note(format!("{case}: {name} is {verdict}"));
}

/// The line through the second half of some points.
#[derive(Debug, PartialEq)]
struct Trend {
    mean: f64,
    /// The rise from the half's first point to its last, along the line.
    rise: f64,
}

fn trend(points: &[(f64, f64)]) -> Option<Trend> {
    let half = points.get(points.len() / 2..)?;
    let (first, last) = (half.first()?, half.last()?);
    let count = half.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| half.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = half.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let square: f64 = half.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = if square > 0.0 { both / square } else { 0.0 };
    Some(Trend {
        mean: mean_y,
        rise: slope * (last.0 - first.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_half_counts_and_noise_is_no_rise() {
        let of = |y: fn(i32) -> f64| (0..40).map(|x| (f64::from(x), y(x))).collect::<Vec<_>>();
        let flat = trend(&of(|x| {
            if x < 20 {
                f64::from(x)
            } else {
                100.0 + f64::from(x % 2)
            }
        }))
        .unwrap();
        assert!(
            (flat.mean - 100.5).abs() < 0.01 && flat.rise.abs() < 1.0,
            "{flat:?}"
        );
        let rising = trend(&of(|x| 10.0 + f64::from(x))).unwrap();
        assert!((rising.rise - 19.0).abs() < 1e-9, "{rising:?}");
        assert_eq!(trend(&[]), None);
    }

    #[test]
    fn one_point_has_no_rise() {
        assert_eq!(
            trend(&[(1.0, 5.0)]),
            Some(Trend {
                mean: 5.0,
                rise: 0.0
            })
        );
    }
}
