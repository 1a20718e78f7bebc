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
use tickwheel::model::time::Millis;

use super::{
    beside::{Part, soon, stream},
    parts::{CALM, PATIENCE, STEADY_LEAD, WARM_UP, bulk, read_back},
};
use crate::{
    embedded::{
        Setup,
        check::verdict,
        crew::{self, Pace, Shift},
        load,
        meter::Meter,
        service::Host,
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
    let size = Size {
        tasks: burst.times * setup.tasks,
        span: Duration::from_secs(setup.seconds),
        registered_a_second: 20_000,
    };
    beside(&service, burst, size, round, report).await?;
    setup.end(service, report)
}

/// Measures `isolation` on a service that is there.
pub(crate) async fn isolated(
    host: &impl Host,
    size: Size,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    beside(host, &ISOLATION, size, round, report).await
}

/// The size of a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) tasks: u64,
    /// How long the stream is counted.
    pub(crate) span: Duration,
    /// How fast the burst is registered at the least.
    pub(crate) registered_a_second: u64,
}

async fn beside(
    host: &impl Host,
    burst: &Burst,
    Size {
        tasks,
        span,
        registered_a_second,
    }: Size,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let time = host.time();
    let at = soon(time, STEADY_LEAD + WARM_UP);
    let alone = stream(host, at, span).await?;
    let alone = Part::of("alone", alone, at, report)?;

    let form = burst.form;
    let registering = Duration::from_secs(tasks / registered_a_second);
    let at = soon(time, registering + 2 * CALM);
    let flood = load::register_as(host, bulk(tasks), form, move |_| at, |_| Ok(())).await?;
    let begins = at.before(STEADY_LEAD + WARM_UP);
    ensure!(time.now() < begins, "not registered in time");
    time.sleep_until_wall(begins).await;
    let mut slow = Shift::new(u64::MAX, STEADY_LEAD + WARM_UP + span);
    (slow.callback, slow.pace) = (form.callback, burst.pace);
    let meter = Meter::start(host)?;
    let (beside, taken) = tokio::join!(
        stream(host, at, span),
        crew::work_shift(host.door(), time.clone(), slow)
    );
    let (beside, mut taken) = (beside?, taken?);
    meter.stop(host, tasks)?.report(burst.case, report);
    let beside = Part::of("beside a burst", beside, at, report)?;
    beside.compare(&alone, burst.case, round, report);

    let left = tasks.saturating_sub(taken.arrivals.len() as u64);
    let mut rest = Shift::new(left, PATIENCE + 2 * registering);
    rest.callback = form.callback;
    let rest = crew::work_shift(host.door(), time.clone(), rest).await?;
    read_back(host, &flood.registered, "succeeded").await?;
    taken.arrivals.extend(rest.arrivals);
    let flood = verdict(flood.registered, taken.arrivals, Millis(0))?;
    let case = format!("{}: the burst itself: due to worker", burst.case);
    report.times(case, &flood.lateness, flood.check);
    Ok(())
}
