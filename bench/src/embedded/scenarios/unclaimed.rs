//! This scenario measures for the report how soon tasks that waited for a worker are handed out behind a time in which no process
//! ran.
//!
//! A minute and a half is not waited for: the clocks are set ahead ([`Ahead`]). The looks of all tasks have come up then. The
//! workers begin when the service is ready.

use std::time::Duration;

use anyhow::ensure;
use tickwheel::model::time::Millis;

use super::parts::{Ahead, PATIENCE, bulk, read_back};
use crate::{
    embedded::{
        Setup,
        check::verdict,
        crew::{self, Shift},
        load,
        meter::Meter,
    },
    report::Report,
};

const CASE: &str = "unclaimed";
/// How long no process runs.
const OFF: Duration = Duration::from_secs(90);
/// How long the tasks are due before the kill: time to hand all of them to the queue.
const DUE: Duration = Duration::from_secs(5);

/// Kills a service whose tasks nobody takes, and starts it later.
pub(in crate::embedded) async fn unclaimed(
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut ahead = Ahead::start(setup).await?;
    let (time, service) = (ahead.time.clone(), &ahead.service);
    let tasks = setup.tasks;
    let lead = Duration::from_secs(8 + tasks / 30_000);
    let first = time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
    let loaded = load::register(service, bulk(tasks), due).await?;
    ensure!(time.now() < first, "not registered in time");
    let fired = first.after(DUE + Duration::from_secs(tasks / 30_000));
    time.sleep_until_wall(fired).await;
    ahead.is_off_for(OFF)?;

    let mut service = ahead.service;
    let ready = service.start_again().await?;
    let ready_us = time.stamp();
    let meter = Meter::start(&service)?;
    let mut shift = Shift::new(tasks, PATIENCE * 10);
    shift.goes_on = true;
    let seen = crew::work_shift(service.address, time.clone(), shift).await?;
    meter.stop(&service, tasks)?.report(CASE, report);
    read_back(&service, &loaded.registered, "succeeded").await?;
    report.figure(format!("{CASE}: ready after"), ready.as_secs_f64(), "s");
    let verdict = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    let last = (verdict.last_us - ready_us) as f64 / 1e6;
    report.figure(format!("{CASE}: from ready to the last task"), last, "s");
    report.rate(CASE, 1, tasks as f64 / last, verdict.check);
    let title = "Tasks that waited for a worker while no process ran, by the second of delivery";
    report.chart(verdict.by_arrival.chart(CASE, title, 1));
    setup.end(service, report)
}
