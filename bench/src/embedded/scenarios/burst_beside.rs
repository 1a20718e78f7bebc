//! These scenarios measure for the report how a burst of one callback affects a stream of another.
//!
//! The stream has a low rate and runs alone, then beside many tasks of a second callback that are due at one
//! moment and whose workers are slow. It is counted from the moment of the burst on, for as long in both
//! parts. Its first seconds are reported apart, because the burst goes out in them. The tasks that the slow
//! workers have left are taken at the end, so every task is checked.
//!
//! In `isolation` the burst has low priority and its workers sleep for a second at each task.

use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use tickwheel::model::time::Millis;

use super::parts::{CALM, PATIENCE, STEADY_CONNECTIONS, STEADY_LEAD, WARM_UP, bulk, read_back};
use crate::{
    check::Check,
    embedded::{
        Setup,
        check::{Verdict, verdict},
        crew::{self, Pace, Shift},
        load::{self, Loaded, Plan},
        meter::Meter,
        service::Service,
        wire::Form,
    },
    report::Report,
};

/// The burst beside the stream.
struct Burst {
    case: &'static str,
    /// Its tasks, for each of `--tasks`.
    times: u64,
    form: Form,
    pace: Pace,
}

const BESIDE: Burst = Burst {
    case: "burst_beside",
    times: 2,
    form: Form {
        callback: "bench-flood",
        ..Form::USUAL
    },
    // Together they take at most 800 tasks a second.
    pace: Pace {
        pollers: 4,
        tasks_max: 20,
        pause: Duration::from_millis(100),
    },
};
const ISOLATION: Burst = Burst {
    case: "isolation",
    times: 5,
    form: Form {
        priority: "low",
        ..BESIDE.form
    },
    // Sixteen workers that sleep for a second at each task.
    pace: Pace {
        pollers: 16,
        tasks_max: 1,
        pause: Duration::from_secs(1),
    },
};
/// Tasks of the stream in a second.
const RATE: u64 = 200;
/// Tasks of a request of the stream.
const BATCH: u64 = 5;
/// How long the burst goes out, at most: the stream of these seconds is reported apart.
const OUTBURST: Duration = Duration::from_secs(5);

/// Measures the stream alone, then beside a burst whose workers are slow.
pub(in crate::embedded) async fn burst_beside(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    measure(&BESIDE, setup, round, report).await
}

/// Measures the stream alone, then beside much of low priority whose workers sleep.
pub(in crate::embedded) async fn isolation(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    measure(&ISOLATION, setup, round, report).await
}

async fn measure(
    burst: &Burst,
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let span = Duration::from_secs(setup.seconds);
    let at = soon(&service, STEADY_LEAD + WARM_UP);
    let alone = stream(&service, at, span).await?;
    let alone = Part::of("alone", alone, at, report)?;

    let (tasks, form) = (burst.times * setup.tasks, burst.form);
    let at = soon(&service, Duration::from_secs(tasks / 20_000) + 2 * CALM);
    let flood =
        load::register_as(&service, bulk(tasks), Some(form), move |_| at, |_| Ok(())).await?;
    let begins = at.before(STEADY_LEAD + WARM_UP);
    ensure!(service.time.now() < begins, "not registered in time");
    service.time.sleep_until_wall(begins).await;
    let mut slow = Shift::new(u64::MAX, STEADY_LEAD + WARM_UP + span);
    (slow.callback, slow.pace) = (form.callback, burst.pace);
    let meter = Meter::start(&service)?;
    let (beside, taken) = tokio::join!(
        stream(&service, at, span),
        crew::work_shift(service.address, service.time.clone(), slow)
    );
    let (beside, mut taken) = (beside?, taken?);
    meter.stop(&service, tasks)?.report(burst.case, report);
    let beside = Part::of("beside a burst", beside, at, report)?;
    beside.compare(&alone, burst.case, round, report);

    let left = tasks.saturating_sub(taken.arrivals.len() as u64);
    let mut rest = Shift::new(left, PATIENCE);
    rest.callback = form.callback;
    let rest = crew::work_shift(service.address, service.time.clone(), rest).await?;
    read_back(&service, &flood.registered, "succeeded").await?;
    taken.arrivals.extend(rest.arrivals);
    let flood = verdict(flood.registered, taken.arrivals, Millis(0))?;
    let case = format!("{}: the burst itself: due to worker", burst.case);
    report.times(case, &flood.lateness, flood.check);
    setup.end(service, report)
}

/// Returns a whole second that is at least so far away.
fn soon(service: &Service, lead: Duration) -> Millis {
    let second = Duration::from_secs(1);
    service
        .time
        .now()
        .after(lead)
        .ceil_to_grid(Millis(0), second)
}

/// Registers and takes the stream, from a warm-up before `at` until `span` after it.
async fn stream(service: &Service, at: Millis, span: Duration) -> anyhow::Result<Verdict> {
    let first = at.before(WARM_UP);
    let tasks = RATE * (WARM_UP + span).as_secs();
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / RATE));
    let plan = Plan {
        tasks,
        batch: BATCH,
        connections: STEADY_CONNECTIONS,
        interval: Some(Duration::from_secs(BATCH).div_f64(RATE as f64)),
        keep_every: 1,
    };
    let shift = Shift::new(tasks, STEADY_LEAD + WARM_UP + span + PATIENCE);
    let (loaded, seen) = tokio::join!(
        load::register(service, plan, due),
        crew::work_shift(service.address, service.time.clone(), shift)
    );
    let Loaded { registered, .. } = loaded?;
    read_back(service, &registered, "succeeded").await?;
    verdict(registered, seen?.arrivals, at)
}

/// The lateness of the stream in one part: of all counted tasks, and of the first seconds.
struct Part {
    all: Histogram<u64>,
    first: Histogram<u64>,
}

impl Part {
    fn of(name: &str, verdict: Verdict, at: Millis, report: &mut Report) -> anyhow::Result<Self> {
        // The second in which a stretch begins does not belong to it.
        let before = at.before(Duration::from_millis(1));
        let first = verdict.by_due.between(before, at.after(OUTBURST))?;
        let case = format!("{RATE}/s {name}: due to worker");
        report.times(case, &verdict.lateness, verdict.check);
        let seconds = OUTBURST.as_secs();
        let case = format!("{RATE}/s {name}, the first {seconds} s: due to worker");
        report.times(case, &first, Check::default());
        Ok(Self {
            all: verdict.lateness,
            first,
        })
    }

    /// Says how many times as late the stream was here as there.
    fn compare(&self, alone: &Self, scenario: &str, round: u32, report: &mut Report) {
        let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64;
        let of = [
            ("", &self.all, &alone.all),
            (" of the first seconds", &self.first, &alone.first),
        ];
        for (which, with, without) in of {
            let case = format!("{scenario}, round {round}: p99{which}");
            report.figure(case, p99(with) / p99(without).max(1.0), "times that alone");
        }
    }
}
