//! The overload scenario offers a service ten times the registrations that it sustains, for the measurement
//! of its limits.
//!
//! The offer follows a schedule that no answer slows. First comes the rate that is sustained, flat out over a
//! few connections; then half of it, for a latency to compare with. Then ten times the rate is offered over
//! many connections, while tasks that were registered before fire, are claimed and settled. Requests that the
//! client cannot send are counted, since it shares the cores with the service. Latency counts from the
//! sending, since a request that was never sent has none. Every accepted task is checked at the end.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use tickwheel::{
    model::time::Millis,
    time_source::{Moment, TimeSource},
};
use tokio::task::JoinSet;

use super::{
    Setup,
    check::{Arrival, Registered, ensure_start, verdict},
    crew,
    http::Connection,
    load::{self, Plan},
    service::{Host, Service},
    wire,
};
use crate::{
    check::Check,
    generator::{histogram, micros},
    report::Report,
};

const SUSTAINED: &str = "overload: sustained, one a request";

/// How many times the sustained rate is offered.
const TIMES: f64 = 10.0;
/// Connections of the offer; a service without overload has a few dozen.
const CONNECTIONS: usize = 1024;
/// The share of the sustained rate that fires, is claimed and settled meanwhile.
const BASE_SHARE: u64 = 20;
/// How much longer accepted requests may take than at half of the sustained rate.
const P99_TIMES: f64 = 5.0;
/// The memory that a service may take under any load: see `tests/abuse`.
const MEMORY_MIB: u64 = 512;
/// Longest time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(500);
/// Time between a registration and the first due time.
const LEAD: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

/// An offer: requests at a rate for a time.
#[derive(Clone)]
struct Offer {
    rate: f64,
    span: Duration,
    begun: Moment,
    /// When the tasks are due: after the offer, spread, so that they can be handed out in time.
    due: Millis,
    spread_ms: u64,
    next: Arc<AtomicU64>,
    time: TimeSource,
}

/// The result of an offer.
struct Offered {
    registered: Vec<Registered>,
    accepted: Histogram<u64>,
    refusals: Histogram<u64>,
}

fn p99_ms(of: &Histogram<u64>) -> f64 {
    of.value_at_quantile(0.99) as f64 / 1000.0
}

/// The scenario.
pub(super) async fn overload(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    let sustained = sustained(setup, &service, report).await?;
    let span = Duration::from_secs(setup.seconds);
    let half = offered(&service, sustained / 2.0, span, 64).await?;
    let base_p99 = p99_ms(&half.accepted);
    tell(report, "overload: half of it", &half);
    let case = "overload: half of it, due to worker";
    finish(&service, half, Vec::new(), case, report).await?;

    let base = base_load(&service, sustained as u64 / BASE_SHARE, span).await?;
    let (watch, stop) = (service.time.clone(), AtomicBool::new(false));
    let peak = async {
        let mut peak = 0;
        while !stop.load(Ordering::Relaxed) {
            peak = peak.max(service.usage()?.resident_mib);
            watch.sleep(LOOK).await;
        }
        anyhow::Ok(peak)
    };
    let offering = async {
        let offered = offered(&service, sustained * TIMES, span, CONNECTIONS).await;
        stop.store(true, Ordering::Relaxed);
        offered
    };
    let count = base.len() as u64;
    let working = crew::work(&service, count, span + LEAD + PATIENCE);
    let (storm, peak, seen) = tokio::join!(offering, peak, working);
    let (storm, peak, seen) = (storm?, peak?, seen?);
    // Workers that are behind may have got tasks that were accepted meanwhile.
    let others: HashSet<u128> = base.iter().map(|task| task.id).collect();
    let (of_base, early_hands) = seen
        .arrivals
        .into_iter()
        .partition::<Vec<Arrival>, _>(|arrival| others.contains(&arrival.id));
    let base = verdict(base, of_base, Millis(0))?;
    let case = "overload: ten times it, others: due to worker";
    report.times(case.to_owned(), &base.lateness, base.check);
    tell(report, "overload: ten times it", &storm);
    let p99 = p99_ms(&storm.accepted);
    let wanted = (sustained * TIMES * span.as_secs_f64()) as u64;
    let refused = storm.refusals.len();
    let accepted = storm.registered.len() as u64;
    let unsent = wanted.saturating_sub(accepted + refused);
    report.note(format!(
        "overload: {wanted} were to be offered in {span:?}, {unsent} of them the client could not send; {accepted} accepted \
         ({:.0}/s, {:.2} of what is sustained), {refused} refused; p99 of the accepted {p99:.1} ms, {:.1} times that at \
         half the rate (aim {P99_TIMES}); {peak} MiB resident at most (bound {MEMORY_MIB})",
        accepted as f64 / span.as_secs_f64(),
        accepted as f64 / span.as_secs_f64() / sustained,
        p99 / base_p99,
    ));
    ensure!(refused > 0, "nothing was refused: it was not overloaded");
    ensure!(peak < MEMORY_MIB, "{peak} MiB resident");
    let case = "overload: ten times it, due to worker";
    finish(&service, storm, early_hands, case, report).await?;
    setup.end(service, report)
}

/// Returns the registrations a second that are reached flat out.
async fn sustained(setup: &Setup, service: &Service, report: &mut Report) -> anyhow::Result<f64> {
    let lead = Duration::from_secs(10 + setup.tasks / 4_000);
    let first = service.time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index % 3000));
    let plan = Plan {
        tasks: setup.tasks,
        batch: 1,
        connections: setup.connections,
        interval: None,
        keep_every: 1,
    };
    let loaded = load::register(service, plan, due).await?;
    let rate = setup.tasks as f64 / loaded.took.as_secs_f64();
    let seen = crew::work(service, setup.tasks, lead + PATIENCE).await?;
    let verdict = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    report.rate(SUSTAINED, 1, rate, verdict.check);
    Ok(rate)
}

/// Registers the tasks that fire during the overload.
async fn base_load(
    service: &Service,
    rate: u64,
    span: Duration,
) -> anyhow::Result<Vec<Registered>> {
    let (rate, first) = (rate.max(1), service.time.now().after(LEAD));
    let plan = Plan {
        tasks: rate * span.as_secs(),
        batch: 100,
        connections: 4,
        interval: None,
        keep_every: 1,
    };
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    Ok(load::register(service, plan, due).await?.registered)
}

/// Offers registrations at a rate.
async fn offered(
    service: &Service,
    rate: f64,
    span: Duration,
    connections: usize,
) -> anyhow::Result<Offered> {
    let connections = service.connections(connections).await?;
    // At most at the rate at which workers take them, so that no task is late because of the drain.
    let offer = Offer {
        rate,
        span,
        begun: service.time.moment(),
        due: service.time.now().after(span + LEAD * 3),
        spread_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1) * 2,
        next: Arc::default(),
        time: service.time.clone(),
    };
    // One for all connections: a histogram takes more memory than a connection.
    let all = Arc::new(Mutex::new(Offered {
        registered: Vec::new(),
        accepted: histogram()?,
        refusals: histogram()?,
    }));
    let mut senders = JoinSet::new();
    for connection in connections {
        senders.spawn(send(connection, offer.clone(), Arc::clone(&all)));
    }
    while let Some(ended) = senders.join_next().await {
        ended??;
    }
    let all = Arc::into_inner(all).context("a sender is left")?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// One connection: it takes the next request of the schedule and waits for its time; when it is late, it
/// sends at once.
async fn send(
    mut connection: Connection,
    offer: Offer,
    all: Arc<Mutex<Offered>>,
) -> anyhow::Result<()> {
    let end = offer.begun.after(offer.span);
    loop {
        let index = offer.next.fetch_add(1, Ordering::Relaxed);
        let at = offer
            .begun
            .after(Duration::from_secs_f64(index as f64 / offer.rate));
        if at >= end || offer.time.moment() >= end {
            return Ok(());
        }
        offer.time.sleep_until(at).await;
        let due = offer.due.after(Duration::from_millis(
            index.wrapping_mul(7919) % offer.spread_ms,
        ));
        let body = wire::task(due);
        let from = offer.time.moment();
        let answer = connection.offer("/v1/tasks", body.as_bytes()).await?;
        let took = micros(offer.time.moment().since(from));
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.status {
            201 => {
                let id = wire::ids(answer.body).next().context("an id")??;
                ensure_start(id, due)?;
                all.registered.push(Registered { id, due, index });
                all.accepted.saturating_record(took);
            }
            429 | 503 if answer.has_retry_after => all.refusals.saturating_record(took),
            other => bail!("status {other}: {}", String::from_utf8_lossy(answer.body)),
        }
    }
}

fn tell(report: &mut Report, case: &str, offered: &Offered) {
    for (what, of) in [
        ("accepted", &offered.accepted),
        ("refused", &offered.refusals),
    ] {
        if !of.is_empty() {
            report.times(format!("{case}: {what}"), of, Check::default());
        }
    }
}

/// Takes and settles everything that was accepted, and checks it.
async fn finish(
    service: &Service,
    offered: Offered,
    mut arrivals: Vec<Arrival>,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let count = offered.registered.len().saturating_sub(arrivals.len());
    let seen = crew::work(service, count as u64, PATIENCE * 10).await?;
    arrivals.extend(seen.arrivals);
    let verdict = verdict(offered.registered, arrivals, Millis(0))?;
    report.times(case.to_owned(), &verdict.lateness, verdict.check);
    Ok(())
}
