//! The http scenario measures deliveries that the service itself makes, to hosts in this process, for the report.
//!
//! First the rate at which due tasks are delivered to one host and to many, then the lateness at a rate, then the same beside a
//! host that takes requests and answers none. In the end that host answers again, and must get all of its tasks.

use std::{ffi::OsString, sync::Arc, time::Duration};

use anyhow::ensure;
use hdrhistogram::Histogram;
use tickwheel::model::time::{Millis, rfc3339};

use super::{
    beside::soon,
    parts::{PATIENCE, STEADY_LEAD, WARM_UP, bulk, read_back, stream},
};
use crate::{
    embedded::{
        Setup,
        check::{Verdict, verdict},
        load::{self, Loaded, Plan},
        meter::Meter,
        receiver::Receiver,
        service::Service,
        wire::Items,
    },
    payload,
    report::Report,
};

/// Deliveries a second, and lateness in milliseconds, that are aimed at.
const RATE_AIM: f64 = 8000.0;
const LATENESS_AIM: f64 = 25.0;
/// Tasks of the dead host.
const DEAD_TASKS: u64 = 200;
/// How often it is looked whether all deliveries have come.
const LOOK: Duration = Duration::from_millis(20);
/// Nothing came for so long: the rest is lost.
const SILENCE: Duration = Duration::from_secs(60);

/// Measures all of it, with one service for each number of hosts.
pub(in crate::embedded) async fn http(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let sizes = &setup.sizes;
    report.note(format!(
        "http: {} deliveries to {:?} hosts, {}/s for {} s, {DEAD_TASKS} to a dead host",
        setup.tasks, sizes.hosts, sizes.http_rate, setup.seconds
    ));
    for hosts in &sizes.hosts {
        let service = start(setup).await?;
        flat_out(setup, &service, *hosts, report).await?;
        setup.end(service, report)?;
    }
    let service = start(setup).await?;
    let hosts = sizes.hosts.iter().max().copied().unwrap_or(1);
    let alone = at_rate(setup, &service, hosts, "alone", report).await?;
    let dead = Receiver::open(79, 1, &service.time).await?;
    dead.hold_still(true);
    let of_dead = register(&service, &dead, bulk(DEAD_TASKS), STEADY_LEAD).await?;
    let beside = at_rate(setup, &service, hosts, "beside a dead host", report).await?;
    ensure!(dead.count() > 0, "the dead host was not called");
    let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64;
    report.aimed(
        format!("http, round {round}: p99 beside a dead host"),
        p99(&beside) / p99(&alone).max(1.0),
        "times that alone",
        2.0,
    );
    dead.hold_still(false);
    let verdict = received(&service, &dead, of_dead).await?;
    report.times(
        "http: to the dead host, from due to when it answers again".to_owned(),
        &verdict.lateness,
        verdict.check,
    );
    setup.end(service, report)
}

async fn start(setup: &Setup) -> anyhow::Result<Service> {
    let extra = ["--http-allow", "127.0.0.0/8"].map(OsString::from);
    let directory = setup.fresh();
    let started = Service::start_with(&setup.program, &directory, &setup.time, extra.to_vec());
    Ok(started.await?.0)
}

/// Writes tasks for the hosts by turns. Their attempts end soon and come again soon, since a dead host may answer again.
fn items(receiver: &Receiver) -> impl Items + use<> {
    let urls: Arc<[String]> = receiver
        .addresses
        .iter()
        .map(|address| format!("http://{address}/"))
        .collect();
    move |body: &mut String, index: u64, start: Millis| {
        let at = index as usize % urls.len().max(1);
        let url = urls.get(at).map_or("", String::as_str);
        let (start, payload) = (rfc3339(start), payload::next());
        body.push_str(&format!(
            r#"{{"http":{{"url":"{url}","timeout":"2s"}},"start_time":"{start}","retry":{{"initial":"1s","factor":1,"max":"1s"}},"max_attempts":1000,"payload":{payload}}}"#
        ));
    }
}

/// Registers tasks that are due at one moment.
async fn register(
    service: &Service,
    receiver: &Receiver,
    plan: Plan,
    lead: Duration,
) -> anyhow::Result<Loaded> {
    let at = soon(&service.time, lead);
    let loaded = load::register_as(service, plan, items(receiver), move |_| at, |_| Ok(())).await?;
    ensure!(service.time.now() < at, "not registered in time");
    Ok(loaded)
}

/// Waits until all tasks have come, or none comes any more, and checks them.
async fn received(
    service: &Service,
    receiver: &Receiver,
    loaded: Loaded,
) -> anyhow::Result<Verdict> {
    let (wanted, time) = (loaded.registered.len(), &service.time);
    let (mut arrivals, mut last) = (receiver.take(), time.moment());
    while arrivals.len() < wanted && time.moment().since(last) < SILENCE {
        time.sleep(LOOK).await;
        let more = receiver.take();
        if !more.is_empty() {
            last = time.moment();
        }
        arrivals.extend(more);
    }
    // Ends are written behind the answers; a delivery that comes twice comes meanwhile.
    time.sleep(Duration::from_secs(2)).await;
    arrivals.extend(receiver.take());
    read_back(service, &loaded.registered, "succeeded").await?;
    verdict(loaded.registered, arrivals, Millis(0))
}

/// Measures how fast tasks that are due at one moment are delivered.
async fn flat_out(
    setup: &Setup,
    service: &Service,
    hosts: u8,
    report: &mut Report,
) -> anyhow::Result<()> {
    let receiver = Receiver::open(78, hosts, &service.time).await?;
    let lead = Duration::from_secs(6 + setup.tasks / 10_000);
    let loaded = register(service, &receiver, bulk(setup.tasks), lead).await?;
    let due = loaded.registered.first().map_or(Millis(0), |task| task.due);
    service.time.sleep_until_wall(due).await;
    let meter = Meter::start(service)?;
    let verdict = received(service, &receiver, loaded).await?;
    let case = format!("http: to {hosts} hosts");
    meter.stop(service, setup.tasks)?.report(&case, report);
    let took = (verdict.last_us - due.0 * 1000).max(1) as f64 / 1e6;
    let rate = verdict.lateness.len() as f64 / took;
    report.aimed(format!("{case}: delivered"), rate, "tasks/s", RATE_AIM);
    report.times(
        format!("{case}: due to received"),
        &verdict.lateness,
        verdict.check,
    );
    told(&receiver, report);
    Ok(())
}

/// Measures the lateness of deliveries at a rate.
async fn at_rate(
    setup: &Setup,
    service: &Service,
    hosts: u8,
    name: &str,
    report: &mut Report,
) -> anyhow::Result<Histogram<u64>> {
    let rate = setup.sizes.http_rate;
    let receiver = Receiver::open(78, hosts, &service.time).await?;
    let tasks = rate * (WARM_UP + Duration::from_secs(setup.seconds)).as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let plan = stream(rate, tasks);
    let loaded = load::register_as(service, plan, items(&receiver), due, |_| Ok(())).await?;
    let (wanted, last) = (
        tasks,
        first.after(Duration::from_secs(tasks / rate) + PATIENCE),
    );
    while receiver.count() < wanted && service.time.now() < last {
        service.time.sleep(LOOK).await;
    }
    service.time.sleep(Duration::from_secs(2)).await;
    read_back(service, &loaded.registered, "succeeded").await?;
    let verdict = verdict(loaded.registered, receiver.take(), first.after(WARM_UP))?;
    let case = format!("http: {rate}/s to {hosts} hosts {name}: due to received");
    let p99 = verdict.lateness.value_at_quantile(0.99) as f64 / 1000.0;
    report.times(case.clone(), &verdict.lateness, verdict.check);
    report.aimed(format!("{case}, p99"), p99, "ms", LATENESS_AIM);
    told(&receiver, report);
    Ok(verdict.lateness)
}

/// Reports payloads that did not arrive as they were registered.
fn told(receiver: &Receiver, report: &mut Report) {
    let changed = receiver.changed();
    if changed > 0 {
        report.fault(format!("http: {changed} payloads came changed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_go_to_the_hosts_by_turns() {
        let time = tickwheel::time_source::TimeSource::real();
        let receiver = Receiver::open(76, 2, &time).await.unwrap();
        let urls = [0, 1, 2].map(|index| {
            let mut body = String::new();
            items(&receiver).push(&mut body, index, Millis(0));
            let task: serde_json::Value = serde_json::from_str(&body).unwrap();
            task["http"]["url"].as_str().unwrap().to_owned()
        });
        assert_eq!(urls[0], urls[2]);
        assert_ne!(urls[0], urls[1]);
    }
}
