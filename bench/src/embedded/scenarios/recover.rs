//! This scenario measures how soon all due tasks are handed out after `kill -9` in a burst, and whether all
//! are.
//!
//! The workers go on, as real ones do: they settle the tasks that they hold with the service that was started
//! anew. Tasks that were claimed for an answer that died with the process reached no worker. Such a task
//! comes again when its lease is over, which decides how long the last of them takes.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::ensure;
use tickwheel::model::time::Millis;

use super::parts::{PATIENCE, bulk, read_back};
use crate::{
    embedded::{
        Setup,
        check::{Arrival, Registered, verdict},
        crew::{self, Shift},
        load,
        meter::Meter,
        wire::{CALLBACK, Form},
    },
    report::Report,
};

const CASE: &str = "recover";
/// Leases of these tasks are short, so that a run does not wait for them for long.
const FORM: Form = Form {
    callback: CALLBACK,
    heartbeat_timeout: "10s",
    ..Form::USUAL
};
/// Time in which leases end and looks find that: a claim timeout and a lease.
const LEASES: Duration = Duration::from_secs(120);
/// The process is killed when one in so many tasks has been taken.
const KILLED_AT: u64 = 3;

/// Kills a service within a burst and starts it anew.
pub(in crate::embedded) async fn recover(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut service = setup.start().await?;
    let tasks = setup.tasks;
    let lead = Duration::from_secs(8 + tasks / 30_000);
    let first = service
        .time
        .now()
        .after(lead)
        .ceil_to_grid(Millis(0), Duration::from_secs(1));
    let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
    let loaded = load::register_as(&service, bulk(tasks), FORM, due, |_| Ok(())).await?;
    ensure!(service.time.now() < first, "not registered in time");
    let mut shift = Shift::new(tasks, lead + PATIENCE + LEASES);
    shift.goes_on = true;
    let taken = Arc::clone(&shift.taken);
    let working = tokio::spawn(crew::work_shift(
        service.address,
        service.time.clone(),
        shift,
    ));
    while taken.load(Ordering::Relaxed) < tasks / KILLED_AT && !working.is_finished() {
        service.time.sleep(Duration::from_millis(1)).await;
    }
    service.kill()?;
    let (killed_us, before) = (service.time.stamp(), taken.load(Ordering::Relaxed));
    let ready = service.start_again().await?;
    let meter = Meter::start(&service)?;
    let mut seen = working.await??;
    meter.stop(&service, tasks - before)?.report(CASE, report);
    read_back(&service, &loaded.registered, "succeeded").await?;
    report.figure(
        format!("{CASE}: handed out before the kill"),
        before as f64,
        "tasks",
    );
    report.figure(
        format!("{CASE}: ready again after"),
        ready.as_secs_f64(),
        "s",
    );
    report.figure(
        format!("{CASE}: reports that were refused"),
        seen.refused as f64,
        "reports",
    );
    let arrivals = std::mem::take(&mut seen.arrivals);
    judge(loaded.registered, arrivals, &seen.again, killed_us, report)?;
    setup.end(service, report)
}

/// Checks every task, and separates those that no worker had received from those whose first answer was lost.
fn judge(
    registered: Vec<Registered>,
    arrivals: Vec<Arrival>,
    again: &[u128],
    killed_us: i64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let again: HashSet<u128> = again.iter().copied().collect();
    let after = |us: i64| (us - killed_us) as f64 / 1e6;
    let firsts = arrivals
        .iter()
        .filter(|arrival| !again.contains(&arrival.id));
    let last = firsts
        .map(|arrival| arrival.seen_us)
        .max()
        .unwrap_or(killed_us);
    report.figure(
        format!("{CASE}: from kill to the last task that nobody had had"),
        after(last),
        "s",
    );
    let handed_out: HashSet<u128> = arrivals.iter().map(|arrival| arrival.id).collect();
    let twice = arrivals.len() - handed_out.len();
    let lost_answers = again.len() - twice.min(again.len());
    report.figure(
        format!("{CASE}: claimed for an answer that was lost"),
        lost_answers as f64,
        "tasks",
    );
    let verdict = verdict(registered, arrivals, Millis(0))?;
    report.figure(
        format!("{CASE}: from kill to the last task of all"),
        after(verdict.last_us),
        "s",
    );
    report.times(
        format!("{CASE}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
    report.chart(verdict.by_arrival.chart(
        CASE,
        "Killed within a burst: lateness by the second of delivery",
        1,
    ));
    Ok(())
}
