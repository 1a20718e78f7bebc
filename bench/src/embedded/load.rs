//! The load registers tasks for the scenarios: flat out over some connections, or at a rate by a schedule
//! that never waits.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use hdrhistogram::Histogram;
use tickwheel::{
    model::time::Millis,
    time_source::{Moment, TimeSource},
};
use tokio::task::JoinSet;

use super::{
    check::{Registered, ensure_start},
    http::Connection,
    http2,
    log::Log,
    service::{Host, Service},
    wire::{self, Form, Items},
};
use crate::generator::{histogram, micros};

pub(crate) const ONE: &str = "/v1/tasks";
pub(crate) const MANY: &str = "/v1/tasks:batchCreate";

/// The tasks to register, and the way to do it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) tasks: u64,
    /// Tasks of a request; 1 means the call for a single task.
    pub(crate) batch: u64,
    pub(crate) connections: usize,
    /// Time between two requests; none means as fast as answers come.
    pub(crate) interval: Option<Duration>,
    /// The id of one in so many tasks is kept; 1 where every task is checked.
    pub(crate) keep_every: u64,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(super) registered: Vec<Registered>,
    /// Of every task, in microseconds: from the scheduled time at a rate, otherwise from the sending.
    pub(super) latency: Histogram<u64>,
    pub(super) took: Duration,
}

impl Loaded {
    /// Returns a load that has sent nothing yet.
    pub(super) fn none() -> anyhow::Result<Self> {
        Ok(Self {
            registered: Vec::new(),
            latency: histogram()?,
            took: Duration::ZERO,
        })
    }
}

/// Tells when the task of an index is due.
pub(crate) trait Due: Fn(u64) -> Millis + Send + Copy + 'static {}
impl<F: Fn(u64) -> Millis + Send + Copy + 'static> Due for F {}

/// Gets every task as soon as it is acknowledged.
pub(super) trait Told:
    Fn(Registered) -> anyhow::Result<()> + Send + Clone + 'static
{
}
impl<F: Fn(Registered) -> anyhow::Result<()> + Send + Clone + 'static> Told for F {}

/// Registers; the first failed request ends it.
pub(crate) async fn register(
    service: &impl Host,
    plan: Plan,
    due: impl Due,
) -> anyhow::Result<Loaded> {
    register_as(service, plan, Form::USUAL, due, |_| Ok(())).await
}

/// Registers tasks of a given form, and reports each.
pub(super) async fn register_as(
    service: &impl Host,
    plan: Plan,
    items: impl Items,
    due: impl Due,
    told: impl Told,
) -> anyhow::Result<Loaded> {
    let connections = service.open(plan.connections).await?;
    let callers = connections.into_iter().map(Caller::Http1).collect();
    register_by(service.time(), callers, (plan, items), due, told).await
}

/// Registers over HTTP/2, each connection shared by as many callers as the plan has connections for each of these.
pub(super) async fn register_over_http2(
    service: &Service,
    connections: usize,
    plan: Plan,
    due: impl Due,
) -> anyhow::Result<Loaded> {
    let mut callers = Vec::with_capacity(plan.connections);
    for _ in 0..connections {
        let shared = service.callers(plan.connections / connections).await?;
        callers.extend(shared.into_iter().map(Caller::Http2));
    }
    register_by(&service.time, callers, (plan, Form::USUAL), due, |_| Ok(())).await
}

async fn register_by(
    time: &TimeSource,
    callers: Vec<Caller>,
    (plan, items): (Plan, impl Items),
    due: impl Due,
    told: impl Told,
) -> anyhow::Result<Loaded> {
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    let begun = time.moment();
    for caller in callers {
        let (time, next) = (time.clone(), Arc::clone(&next));
        let sender = Sender {
            caller,
            time,
            plan,
            items: items.clone(),
            begun,
            next,
        };
        senders.spawn(sender.run(due, told.clone()));
    }
    drop(told);
    let mut all = Log::default();
    let mut loaded = Loaded::none()?;
    while let Some(ended) = senders.join_next().await {
        let (registered, latency) = ended??;
        all.append(registered);
        loaded.latency.add(latency)?;
    }
    loaded.took = time.moment().since(begun);
    // Other callers may still be measuring.
    loaded.registered = tokio::task::spawn_blocking(|| all.into_vec()).await?;
    Ok(loaded)
}

/// A caller that sends requests one after the other.
enum Caller {
    Http1(Connection),
    Http2(http2::Caller),
}

impl Caller {
    async fn post(&mut self, path: &str, body: String) -> anyhow::Result<&[u8]> {
        match self {
            Self::Http1(connection) => connection.post(path, body.as_bytes()).await,
            Self::Http2(caller) => caller.post(path, body).await,
        }
    }
}

/// One caller: takes the next request as soon as it is free, and waits for that one's time.
struct Sender<I> {
    caller: Caller,
    time: TimeSource,
    plan: Plan,
    items: I,
    begun: Moment,
    next: Arc<AtomicU64>,
}

impl<I: Items> Sender<I> {
    async fn run(
        mut self,
        due: impl Due,
        told: impl Told,
    ) -> anyhow::Result<(Log<Registered>, Histogram<u64>)> {
        let (plan, mut registered, mut latency) = (self.plan, Log::default(), histogram()?);
        loop {
            let request = self.next.fetch_add(1, Ordering::Relaxed);
            let first = request * plan.batch;
            let indexes = first..plan.tasks.min(first + plan.batch);
            if indexes.is_empty() {
                return Ok((registered, latency));
            }
            let (path, body) = self.request(indexes.clone(), due);
            let mut from = self.time.moment();
            if let Some(interval) = plan.interval {
                from = self.begun.after(interval.mul_f64(request as f64));
                self.time.sleep_until(from).await;
            }
            let answer = self.caller.post(path, body).await?;
            let count = indexes.end - indexes.start;
            latency.saturating_record_n(micros(self.time.moment().since(from)), count);
            let mut answered = 0;
            for (index, id) in indexes.zip(wire::ids(answer)) {
                let (id, due) = (id?, due(index));
                ensure_start(id, due)?;
                answered += 1;
                let task = Registered { id, due, index };
                told(task)?;
                if index % plan.keep_every == 0 {
                    registered.push(task);
                }
            }
            ensure!(answered == count, "{answered} of {count} were registered");
        }
    }

    /// Returns path and body of the request that registers these.
    fn request(&self, indexes: Range<u64>, due: impl Due) -> (&'static str, String) {
        match self.plan.batch {
            1 => {
                let mut body = String::with_capacity(512);
                self.items
                    .push(&mut body, indexes.start, due(indexes.start));
                (ONE, body)
            }
            _ => (MANY, wire::batch_of(&self.items, indexes, due)),
        }
    }
}
