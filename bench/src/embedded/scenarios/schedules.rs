//! The schedules scenario measures for the report what many schedules cost that rest, and how late runs are when many fire at the
//! same second.
//!
//! Schedules are made by `schedules:import`, a thousand a request. Each of those that fire must run once at its time. A stream of
//! another callback runs alone, then beside them.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use memchr::memmem;
use serde_json::Value;
use tickwheel::{
    api::{text::InstantText, time::instant},
    model::time::{Millis, rfc3339},
};
use uuid::Uuid;

use super::{
    beside::{Part, soon, stream},
    idle::rest,
    parts::{CALM, PATIENCE, SAMPLES, STEADY_LEAD, WARM_UP},
};
use crate::{
    check::Check,
    embedded::{
        Setup,
        check::{Arrival, Registered, verdict},
        crew::{self, Reader, Shift},
        flat,
        http::Connection,
        meter::Meter,
        service::Host,
        wire,
    },
    generator::histogram,
    payload,
    report::Report,
};

/// Schedules of a request, and connections that send them.
const BATCH: u64 = 1000;
const CONNECTIONS: usize = 4;
/// The callback of all runs.
const CALLBACK: &str = "bench-runs";
/// Runs are decided on up to a minute ahead, so that the second at which all fire is beyond that when the last is made.
const AHEAD: Duration = Duration::from_secs(75);
/// The slowest creation that is waited for, schedules a second.
const CREATED_MIN: u64 = 1500;

/// Measures those that fire, then those that rest.
pub(in crate::embedded) async fn schedules(
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let sizes = &setup.sizes;
    report.note(format!(
        "schedules: {} fire at one second, {} rest",
        sizes.firing, sizes.resting
    ));
    if sizes.firing > 0 {
        let service = setup.start().await?;
        let span = Duration::from_secs(setup.seconds);
        firing(&service, sizes.firing, span, report).await?;
        setup.end(service, report)?;
    }
    if sizes.resting > 0 {
        resting(setup, sizes.resting, report).await?;
    }
    Ok(())
}

/// Makes schedules; `times` are the fields that say when they fire.
async fn import(
    service: &impl Host,
    count: u64,
    times: &str,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let request = |number: u64| {
        let names = number * BATCH..count.min((number + 1) * BATCH);
        let schedule = |name: u64| {
            let payload = payload::of(name);
            format!(
                r#"{{"name":"s-{name}","schedule":{{{times},"task":{{"callback":"{CALLBACK}","heartbeat_timeout":"10m","payload":{payload}}}}}}}"#
            )
        };
        let schedules: Vec<String> = names.map(schedule).collect();
        let body = format!(r#"{{"schedules":[{}]}}"#, schedules.join(","));
        ("/v1/schedules:import".to_owned(), body)
    };
    let mut created = 0;
    let meter = Meter::start(service)?;
    let sent = flat::post(
        service,
        CONNECTIONS,
        count.div_ceil(BATCH),
        request,
        |_, answer| {
            created += memmem::find_iter(answer, br#""outcome":"created""#).count() as u64;
            Ok(())
        },
    )
    .await?;
    let case = format!("{case}: created, {BATCH} a request");
    meter.stop(service, count)?.report(&case, report);
    ensure!(
        created == count,
        "{created} of {count} schedules were created"
    );
    report.figure(case.clone(), sent.rate(count), "schedules/s");
    report.times(format!("{case}: request"), &sent.latency, Check::default());
    Ok(())
}

/// Measures what schedules cost whose time is far away.
async fn resting(setup: &Setup, count: u64, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    service.time.sleep(CALM).await;
    let (before, empty) = (service.usage()?, service.disk_bytes());
    let case = format!("{count} schedules that rest");
    import(&service, count, r#""cron":"H H 29 2 *""#, &case, report).await?;
    service.time.sleep(CALM * 2).await;
    rest(setup, &service, &case, report).await?;
    let resident = service
        .usage()?
        .resident_mib
        .saturating_sub(before.resident_mib);
    report.figure(format!("{case}: more memory"), resident as f64, "MiB");
    let grown = service.disk_bytes().saturating_sub(empty) as f64 / count as f64;
    report.figure(format!("{case}: disk"), grown, "bytes each");
    setup.end(service, report)
}

/// The runs that workers have got: number of the schedule, id of the task, time of arrival.
type Runs = Arc<Mutex<Vec<(u64, u128, i64)>>>;

/// Measures schedules that all fire at one second, and a stream beside them.
pub(crate) async fn firing(
    service: &impl Host,
    count: u64,
    span: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let at = soon(service.time(), STEADY_LEAD + WARM_UP);
    let alone = Part::of("alone", stream(service, at, span).await?, at, report)?;
    let case = format!("{count} schedules that fire at once");
    let at = soon(
        service.time(),
        AHEAD + Duration::from_secs(count / CREATED_MIN),
    );
    let times = format!(
        r#""every":"240h","start_time":"{}","overlap":"allow""#,
        rfc3339(at)
    );
    import(service, count, &times, &case, report).await?;
    let begins = at.before(STEADY_LEAD + WARM_UP);
    ensure!(
        service.time().now() < begins,
        "{count} schedules were not made in time: creation is the bottleneck"
    );
    // Runs are decided on and registered in the minute before.
    let meter = Meter::start(service)?;
    service.time().sleep_until_wall(begins).await;
    let (runs, taken) = (Runs::default(), Arc::new(AtomicU64::new(0)));
    let mut shift = Shift::new(count, STEADY_LEAD + WARM_UP + span + PATIENCE);
    (shift.callback, shift.reader) = (CALLBACK, Some(reader(&runs)));
    shift.taken = Arc::clone(&taken);
    let (beside, seen) = tokio::join!(
        stream(service, at, span),
        crew::work_shift(service.door(), service.time().clone(), shift)
    );
    let (beside, seen) = (beside?, seen?);
    meter.stop(service, count)?.report(&case, report);
    let beside = Part::of("beside schedules that fire", beside, at, report)?;
    beside.compare(&alone, "schedules", 1, report);
    ensure!(
        seen.settled == taken.load(Ordering::Relaxed),
        "some were not settled"
    );
    let runs = std::mem::take(&mut *runs.lock().unwrap_or_else(PoisonError::into_inner));
    published(service, &runs, at, &case, report).await?;
    checked(&runs, count, at, &case, report)
}

/// Checks that each schedule ran once, and reports how late workers got the runs.
fn checked(
    runs: &[(u64, u128, i64)],
    count: u64,
    at: Millis,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let came: HashSet<u64> = runs.iter().map(|(number, _, _)| *number).collect();
    report.figure(format!("{case}: came"), came.len() as f64, "schedules");
    let arrivals = runs.iter().map(|(number, _, seen_us)| Arrival {
        id: u128::from(*number),
        seen_us: *seen_us,
    });
    let wanted = (0..count).map(|number| Registered {
        id: u128::from(number),
        due: at,
        index: number,
    });
    let verdict = verdict(wanted.collect(), arrivals.collect(), Millis(0))?;
    let last = (verdict.last_us - at.0 * 1000).max(1) as f64 / 1e6;
    report.figure(
        format!("{case}: taken by workers"),
        count as f64 / last,
        "tasks/s",
    );
    report.times(
        format!("{case}: planned to worker"),
        &verdict.lateness,
        verdict.check,
    );
    Ok(())
}

/// Reads the schedules of handed out tasks, and notes them.
fn reader(runs: &Runs) -> Reader {
    let runs = Arc::clone(runs);
    Reader(Arc::new(move |answer, seen_us| {
        let attempts: Vec<wire::Attempt> = wire::attempts(answer).collect::<anyhow::Result<_>>()?;
        let names: Vec<u64> = schedules_of(answer).collect::<anyhow::Result<_>>()?;
        ensure!(names.len() == attempts.len(), "a run without its schedule");
        let found = names.into_iter().zip(attempts);
        let found = found.map(|(name, attempt)| (name, attempt.id, seen_us));
        runs.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(found);
        Ok(())
    }))
}

/// Returns the numbers of the schedules in an answer to a poll.
fn schedules_of(answer: &[u8]) -> impl Iterator<Item = anyhow::Result<u64>> + '_ {
    const NAME: &[u8] = br#""schedule":"s-"#;
    memmem::find_iter(answer, NAME).map(|at| {
        let rest = answer.get(at + NAME.len()..).unwrap_or_default();
        let digits = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
        Ok(std::str::from_utf8(digits)?.parse()?)
    })
}

/// Reports how late some of the runs were handed to the queue.
async fn published(
    service: &impl Host,
    runs: &[(u64, u128, i64)],
    at: Millis,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(service.door()).await?;
    let mut lateness = histogram()?;
    for (_, id, _) in runs.iter().step_by((runs.len() / SAMPLES).max(1)) {
        let path = format!("/v1/tasks/{}", Uuid::from_u128(*id));
        let read: Value = serde_json::from_slice(connection.get(&path).await?)?;
        let fired = read.get("fire_time").and_then(Value::as_str);
        let fired = InstantText(fired.context("a run that was not fired")?.to_owned());
        let fired = instant(&fired).map_err(anyhow::Error::msg)?;
        lateness.saturating_record(u64::try_from((fired.0 - at.0) * 1000).unwrap_or(0));
    }
    let worst = lateness.max() as f64 / 1e6;
    report.times(
        format!("{case}: planned to fired, a sample"),
        &lateness,
        Check::default(),
    );
    report.aimed(
        format!("{case}: planned to fired, the latest"),
        worst,
        "s",
        1.0,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_found_in_an_answer() {
        let answer = br#"{"tasks":[{"id":"x","schedule":"s-12","y":1},{"schedule":"s-0"}]}"#;
        let found: Vec<u64> = schedules_of(answer).map(Result::unwrap).collect();
        assert_eq!(found, [12, 0]);
        assert!(schedules_of(br#""schedule":"s-x""#).any(|found| found.is_err()));
    }
}
