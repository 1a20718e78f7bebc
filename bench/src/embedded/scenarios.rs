//! The scenarios: what is registered, when it is due, what is measured.

use std::{path::Path, time::Duration};

use anyhow::{bail, ensure};
use tickwheel::model::time::Millis;
use uuid::Uuid;

use super::{
    Setup,
    check::{Registered, Verdict, verdict},
    crew::{self, Seen},
    load::{self, Loaded, Plan},
    meter::Meter,
    service::Service,
    wire,
};
use crate::{
    generator::{histogram, micros},
    report::{Check, Report},
};

pub(super) const FLOOR: &str = "GET /livez, as many connections";
pub(super) const SINGLE: &str = "registered, one a request";
pub(super) const BATCHED: &str = "registered, 100 a request";
pub(super) const BURST: &str = "burst, claimed and settled";
pub(super) const FILL: &str = "pending, 1000 a request";

/// Connections that register at a rate: a stall of a second holds up as many requests.
const STEADY_CONNECTIONS: usize = 256;
/// Connections that register many tasks a request.
const BATCH_CONNECTIONS: usize = 16;
/// Tasks that are read back at the end.
const SAMPLES: usize = 1000;
/// How long is waited for tasks that do not come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tasks of a request at a rate.
const STEADY_BATCH: u64 = 25;
/// Tasks at a rate are registered so long before they are due: they pass through the wheel.
const STEADY_LEAD: Duration = Duration::from_secs(6);
/// What is due in the first seconds is checked and not measured: nothing is warm.
const WARM_UP: Duration = Duration::from_secs(5);
/// Between a fill and what is measured after it: compactions end.
const CALM: Duration = Duration::from_secs(10);
/// Before a service counts as idle: what it erases and compacts behind a load is over.
const REST: Duration = Duration::from_secs(40);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Registration one by one and in batches of 100, beside the least that a request can cost.
pub(super) async fn register(setup: &Setup, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    floor(setup, &service, round, report).await?;
    for (case, batch, tasks, connections) in [
        (SINGLE, 1, setup.tasks, setup.connections),
        (BATCHED, 100, setup.tasks * 5, BATCH_CONNECTIONS),
    ] {
        // Due when the last has long been registered, even at a fifth of the aim.
        let lead = Duration::from_secs(5 + tasks / (8_000 * batch.min(4)));
        let first = service.time.now().after(lead);
        let due = move |index: u64| first.after(Duration::from_millis(index % 3000));
        let plan = Plan {
            tasks,
            batch,
            connections,
            interval: None,
            keep_every: 1,
        };
        let meter = Meter::start(&service)?;
        let loaded = load::register(&service, plan, due).await?;
        let used = meter.stop(&service, tasks)?;
        ensure!(service.time.now() < first, "not registered in time");
        let (rate, latency) = (tasks as f64 / loaded.took.as_secs_f64(), loaded.latency);
        let (verdict, _) = drain(&service, loaded.registered, lead + PATIENCE).await?;
        report.rate(case, round, rate, verdict.check);
        report.times(format!("{case}: request"), &latency, Check::default());
        used.report(case, report);
    }
    setup.end(service, report)
}

/// What a request costs that does nothing: client, kernel, HTTP.
async fn floor(
    setup: &Setup,
    service: &Service,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    let each = setup.tasks / setup.connections as u64;
    let connections = service.connections(setup.connections).await?;
    let (meter, begun) = (Meter::start(service)?, service.time.moment());
    let mut latency = histogram()?;
    for mut connection in connections {
        let time = service.time.clone();
        callers.spawn(async move {
            let mut latency = histogram()?;
            for _ in 0..each {
                let begun = time.moment();
                connection.get("/livez").await?;
                latency.saturating_record(micros(time.moment().since(begun)));
            }
            anyhow::Ok(latency)
        });
    }
    while let Some(ended) = callers.join_next().await {
        latency.add(ended??)?;
    }
    let sent = each * setup.connections as u64;
    let rate = sent as f64 / service.time.moment().since(begun).as_secs_f64();
    report.rate(FLOOR, round, rate, Check::default());
    report.times(format!("{FLOOR}: request"), &latency, Check::default());
    meter.stop(service, sent)?.report(FLOOR, report);
    Ok(())
}

/// Many tasks that are due in the same second: from that second to the last settle.
pub(super) async fn burst(setup: &Setup, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let lead = Duration::from_secs(8 + setup.tasks / 30_000);
    let first = service
        .time
        .now()
        .after(lead)
        .ceil_to_grid(Millis(0), Duration::from_secs(1));
    let due = move |index: u64| first.after(Duration::from_millis(index % 1000));
    let plan = Plan {
        tasks: setup.tasks,
        batch: 500,
        connections: BATCH_CONNECTIONS,
        interval: None,
        keep_every: 1,
    };
    let Loaded { registered, .. } = load::register(&service, plan, due).await?;
    ensure!(service.time.now() < first, "not registered in time");
    service
        .time
        .sleep_until_wall(first.before(Duration::from_millis(300)))
        .await;
    let meter = Meter::start(&service)?;
    let (verdict, seen) = drain(&service, registered, PATIENCE + lead).await?;
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

/// Takes and settles everything that was registered, checks every task and reads some back.
async fn drain(
    service: &Service,
    registered: Vec<Registered>,
    give_up: Duration,
) -> anyhow::Result<(Verdict, Seen)> {
    let mut seen = crew::work(service, registered.len() as u64, give_up).await?;
    ensure!(
        seen.settled == seen.arrivals.len() as u64,
        "some were not settled"
    );
    read_back(service, &registered, "succeeded").await?;
    let arrivals = std::mem::take(&mut seen.arrivals);
    Ok((verdict(registered, arrivals, Millis(0))?, seen))
}

/// Lateness at a rate, with nothing else pending and then with much; what much costs; how it is opened again.
pub(super) async fn steady(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let mut service = setup.start().await?;
    at_rate(setup, &service, 0, report).await?;
    if setup.pending > 0 {
        let pending = fill(setup, &service, report).await?;
        at_rate(setup, &service, setup.pending, report).await?;
        service.time.sleep(REST).await;
        rest(setup, &service, report).await?;
        let took;
        (service, took) = service.kill_and_restart().await?;
        report.note(format!(
            "killed with {} pending: ready again after {took:.2?}, {} MiB resident",
            setup.pending,
            service.usage()?.resident_mib
        ));
        read_back(&service, &pending, "scheduled").await?;
    }
    setup.end(service, report)
}

async fn at_rate(
    setup: &Setup,
    service: &Service,
    pending: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let case = format!("{}/s, {pending} pending", setup.rate);
    let span = WARM_UP + Duration::from_secs(setup.seconds);
    let tasks = setup.rate * span.as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let rate = setup.rate;
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let plan = Plan {
        tasks,
        batch: STEADY_BATCH,
        connections: STEADY_CONNECTIONS,
        interval: Some(Duration::from_secs(STEADY_BATCH).div_f64(rate as f64)),
        keep_every: 1,
    };
    let meter = Meter::start(service)?;
    let (loaded, seen) = tokio::join!(
        load::register(service, plan, due),
        crew::work(service, tasks, span + STEADY_LEAD + PATIENCE)
    );
    let (loaded, seen) = (loaded?, seen?);
    let used = meter.stop(service, tasks)?;
    read_back(service, &loaded.registered, "succeeded").await?;
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
    Ok(())
}

/// Registers what stays pending; returns some of it.
async fn fill(
    setup: &Setup,
    service: &Service,
    report: &mut Report,
) -> anyhow::Result<Vec<Registered>> {
    let first = service.time.now().after(30 * DAY);
    let (tasks, disk) = (setup.pending, service.disk_bytes());
    let day = DAY.as_secs() * 1000;
    let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % day));
    let plan = Plan {
        tasks,
        batch: 1000,
        connections: 8,
        interval: None,
        keep_every: (tasks / SAMPLES as u64).max(1),
    };
    let meter = Meter::start(service)?;
    let loaded = load::register(service, plan, due).await?;
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    report.rate(FILL, 0, rate, Check::default());
    report.times(
        format!("{FILL}: request"),
        &loaded.latency,
        Check::default(),
    );
    meter.stop(service, tasks)?.report(FILL, report);
    service.time.sleep(CALM).await;
    let grown = service.disk_bytes().saturating_sub(disk);
    report.note(format!(
        "{tasks} pending: {} bytes of disk each",
        grown / tasks
    ));
    Ok(loaded.registered)
}

/// What a service costs that has nothing to do.
pub(super) async fn idle(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    service.time.sleep(CALM).await;
    rest(setup, &service, report).await?;
    setup.end(service, report)
}

async fn rest(setup: &Setup, service: &Service, report: &mut Report) -> anyhow::Result<()> {
    let span = Duration::from_secs(setup.seconds);
    for (polled, text) in [(false, "nobody polls"), (true, "one poll waits")] {
        let meter = Meter::start(service)?;
        let mut connection = service.connect().await?;
        let body = wire::poll(0, 1, &format!("{}s", setup.seconds.min(60)));
        if polled {
            let answer = connection.post("/v1/worker/poll", body.as_bytes()).await?;
            ensure!(
                wire::attempts(answer).next().is_none(),
                "a task came out early"
            );
        } else {
            service.time.sleep(span).await;
        }
        meter
            .stop(service, 0)?
            .report(&format!("idle, {text}"), report);
    }
    Ok(())
}

/// Reads some tasks back: they must be in this state.
async fn read_back(
    service: &Service,
    registered: &[Registered],
    wanted: &str,
) -> anyhow::Result<()> {
    let mut connection = service.connect().await?;
    let step = (registered.len() / SAMPLES).max(1);
    for task in registered.iter().step_by(step) {
        let path = format!("/v1/tasks/{}", Uuid::from_u128(task.id));
        let answer = connection.get(&path).await?;
        if wire::state(answer) != wanted {
            bail!("not {wanted}: {}", String::from_utf8_lossy(answer));
        }
    }
    Ok(())
}

/// Removes a directory of ours.
pub(super) fn remove(directory: &Path) -> anyhow::Result<()> {
    Ok(std::fs::remove_dir_all(directory)?)
}
