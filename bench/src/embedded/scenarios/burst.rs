//! The burst scenario measures many tasks that are due at once for comparison with the raw store.
//!
//! The raw store reads, claims and settles as many.

use std::time::Duration;

use anyhow::ensure;
use tickwheel::model::time::Millis;

use super::{
    parts::{PATIENCE, bulk, drain},
    raw,
};
use crate::{
    check::Check,
    embedded::{Setup, load, meter::Meter},
    report::Report,
};

pub(super) const BURST: &str = "burst, claimed and settled";

/// Measures many tasks that are due in the same second, from that second to the last settle.
pub(in crate::embedded) async fn burst(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    raw::drain(setup, round, report).await?;
    let service = setup.start().await?;
    let lead = Duration::from_secs(8 + setup.tasks / 30_000);
    let first = service
        .time
        .now()
        .after(lead)
        .ceil_to_grid(Millis(0), Duration::from_secs(1));
    let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
    let loaded = load::register(&service, bulk(setup.tasks), due).await?;
    ensure!(service.time.now() < first, "not registered in time");
    service
        .time
        .sleep_until_wall(first.before(Duration::from_millis(300)))
        .await;
    let meter = Meter::start(&service)?;
    let (verdict, seen) = drain(&service, loaded.registered, PATIENCE + lead).await?;
    let took_us = (seen.last_settled_us - first.0 * 1000).max(1);
    let rate = seen.settled as f64 * 1e6 / took_us as f64;
    report.rate(BURST, round, rate, verdict.check);
    report.times(
        format!("{BURST}: due to worker"),
        &verdict.lateness,
        Check::default(),
    );
    let (polls, settles) = (seen.polls, seen.settles);
    report.note(format!("{BURST}: {polls} polls, {settles} settles"));
    meter.stop(&service, setup.tasks)?.report(BURST, report);
    setup.end(service, report)
}
