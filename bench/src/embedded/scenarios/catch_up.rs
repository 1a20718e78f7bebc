//! This scenario measures for the report how fast the tasks of a missed hour come out, and how late new tasks
//! are meanwhile.
//!
//! The hour is not waited for. Tasks are registered with starts over the next hour, the service is killed,
//! and it is started anew with a wall clock an hour ahead (the program's own option for drills). This
//! harness's clock is set ahead with it. The service cannot distinguish that from an hour without power: it
//! has every tick of the hour to read.

use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use tickwheel::model::time::Millis;

use super::parts::{Ahead, PATIENCE, bulk, read_back};
use crate::{
    chart::Chart,
    check::Check,
    embedded::{
        Setup,
        check::verdict,
        crew::{self, Seen, Shift},
        load::{self, Loaded, Plan},
        meter::Meter,
        service::Service,
        wire::Form,
    },
    report::Report,
};

const CASE: &str = "catch_up";
pub(super) const CAUGHT_UP: &str = "caught up, from the start";
const HOUR: Duration = Duration::from_secs(3600);
/// New tasks have a callback of their own, so that the service is measured and not the queue of workers that
/// are behind.
const NEAR: Form = Form {
    callback: "bench-near",
    ..Form::USUAL
};
/// New tasks are due so long after their registration is due.
const NEAR_LEAD: Duration = Duration::from_millis(1500);
const NEAR_BATCH: u64 = 5;

/// Misses an hour and catches up.
pub(in crate::embedded) async fn catch_up(
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut ahead = Ahead::start(setup).await?;
    let (time, service) = (ahead.time.clone(), &ahead.service);
    let missed = setup.missed;
    let lead = Duration::from_secs(10 + missed / 20_000);
    let first = time.now().after(lead);
    let hour_ms = HOUR.as_millis() as u64;
    let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % hour_ms));
    let loaded = load::register(service, bulk(missed), due).await?;
    ensure!(time.now() < first, "not registered in time");
    ahead.is_off_for(HOUR + lead)?;
    let mut service = ahead.service;

    let begun_us = time.stamp();
    let mut shift = Shift::new(missed, PATIENCE * 10);
    shift.goes_on = true;
    let working = tokio::spawn(crew::work_shift(service.address, time.clone(), shift));
    let ready = service.start_again().await?;
    let meter = Meter::start(&service)?;
    let (near, seen) = tokio::join!(near(setup, &service), working);
    let (near, seen) = (near?, seen??);
    meter.stop(&service, missed)?.report(CASE, report);
    read_back(&service, &loaded.registered, "succeeded").await?;
    report.figure(format!("{CASE}: ready after"), ready.as_secs_f64(), "s");
    judge(loaded, seen, near, begun_us, report)?;
    setup.end(service, report)
}

/// Registers new tasks at a rate and takes them.
async fn near(setup: &Setup, service: &Service) -> anyhow::Result<(Loaded, Seen)> {
    let span = Duration::from_secs(setup.seconds);
    let (rate, tasks) = (setup.near_rate, setup.near_rate * setup.seconds);
    let plan = Plan {
        tasks,
        batch: NEAR_BATCH,
        connections: 64,
        interval: Some(Duration::from_secs(NEAR_BATCH).div_f64(rate as f64)),
        keep_every: 1,
    };
    let first = service.time.now().after(NEAR_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let mut shift = Shift::new(tasks, span + PATIENCE);
    shift.callback = NEAR.callback;
    let (loaded, seen) = tokio::join!(
        load::register_as(service, plan, NEAR, due, |_| Ok(())),
        crew::work_shift(service.address, service.time.clone(), shift)
    );
    Ok((loaded?, seen?))
}

/// Checks every task of the hour, and the new ones.
fn judge(
    missed: Loaded,
    seen: Seen,
    new: (Loaded, Seen),
    begun_us: i64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let tasks = missed.registered.len() as f64;
    let missed = verdict(missed.registered, seen.arrivals, Millis(0))?;
    let took = (missed.last_us - begun_us).max(1) as f64 / 1e6;
    report.figure(
        format!("{CASE}: from start to the last task of the hour"),
        took,
        "s",
    );
    report.rate(CAUGHT_UP, 1, tasks / took, missed.check);
    let title = "Tasks of the missed hour, by the second of delivery";
    report.chart(missed.by_arrival.chart("catch_up-missed", title, 1));
    judge_new(new, Millis(missed.last_us.div_euclid(1000)), report)
}

/// Separates new tasks that were due while the hour came out from those after it.
fn judge_new(
    (loaded, seen): (Loaded, Seen),
    drained: Millis,
    report: &mut Report,
) -> anyhow::Result<()> {
    let new = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    report.times(
        format!("{CASE}: new tasks: registration"),
        &loaded.latency,
        Check::default(),
    );
    report.times(
        format!("{CASE}: new tasks: due to worker"),
        &new.lateness,
        new.check,
    );
    let meanwhile = new.by_due.between(Millis(0), drained)?;
    let after = new.by_due.between(drained, Millis::MAX)?;
    let parts: [(&str, &Histogram<u64>); 2] = [
        ("while the hour comes out", &meanwhile),
        ("after it", &after),
    ];
    for (name, lateness) in &parts {
        let case = format!("{CASE}: new tasks {name}: due to worker");
        report.times(case, lateness, Check::default());
    }
    let title = "New tasks beside the catching up of an hour";
    report.chart(Chart::percentiles(
        CASE,
        &format!("{title}: due to worker"),
        &parts,
    ));
    report.chart(new.by_due.chart("catch_up-new", title, 1));
    Ok(())
}
