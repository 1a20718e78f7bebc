//! The stream is the steady load for scenarios that disturb it: two hundred tasks a second of one callback, taken at once.
//!
//! It is counted from a moment on. Its first seconds are reported apart, because a burst goes out in them.

use std::time::Duration;

use hdrhistogram::Histogram;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::parts::{PATIENCE, STEADY_CONNECTIONS, STEADY_LEAD, WARM_UP, read_back};
use crate::{
    check::Check,
    embedded::{
        check::{Verdict, verdict},
        crew::{self, Shift},
        load::{self, Loaded, Plan},
        service::Host,
    },
    report::Report,
};

/// Tasks of the stream in a second.
const RATE: u64 = 200;
/// Tasks of a request of the stream.
const BATCH: u64 = 5;
/// How long the burst goes out, at most: the stream of these seconds is reported apart.
const OUTBURST: Duration = Duration::from_secs(5);

/// Returns a whole second that is at least so far away.
pub(in crate::embedded) fn soon(time: &TimeSource, lead: Duration) -> Millis {
    let second = Duration::from_secs(1);
    time.now().after(lead).ceil_to_grid(Millis(0), second)
}

/// Registers and takes the stream, from a warm-up before `at` until `span` after it.
pub(in crate::embedded) async fn stream(
    service: &impl Host,
    at: Millis,
    span: Duration,
) -> anyhow::Result<Verdict> {
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
        crew::work_shift(service.door(), service.time().clone(), shift)
    );
    let Loaded { registered, .. } = loaded?;
    read_back(service, &registered, "succeeded").await?;
    verdict(registered, seen?.arrivals, at)
}

/// The lateness of the stream in one part: of all counted tasks, and of the first seconds.
#[derive(Debug)]
pub(in crate::embedded) struct Part {
    all: Histogram<u64>,
    first: Histogram<u64>,
}

impl Part {
    pub(in crate::embedded) fn of(
        name: &str,
        verdict: Verdict,
        at: Millis,
        report: &mut Report,
    ) -> anyhow::Result<Self> {
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
    pub(in crate::embedded) fn compare(
        &self,
        alone: &Self,
        scenario: &str,
        round: u32,
        report: &mut Report,
    ) {
        let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64;
        let of = [
            ("", &self.all, &alone.all),
            (" of the first seconds", &self.first, &alone.first),
        ];
        for (which, with, without) in of {
            let case = format!("{scenario}, round {round}: p99{which}");
            let times = p99(with) / p99(without).max(1.0);
            report.aimed(case, times, "times that alone", 2.0);
        }
    }
}
