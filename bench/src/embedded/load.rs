//! Registers tasks: flat out over some connections, or at a rate by a schedule that waits for nobody.

use std::{
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
    service::Service,
    wire,
};
use crate::generator::{histogram, micros};

/// What to register, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) tasks: u64,
    /// Tasks of a request; 1 is the call for a single task.
    pub(super) batch: u64,
    pub(super) connections: usize,
    /// Time between two requests; none sends as fast as answers come.
    pub(super) interval: Option<Duration>,
    /// Of so many tasks the id of one is kept: 1 where every one is checked.
    pub(super) keep_every: u64,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) registered: Vec<Registered>,
    /// Of every task, in microseconds: from the scheduled time at a rate, from the sending else.
    pub(super) latency: Histogram<u64>,
    pub(super) took: Duration,
}

/// When the task of an index is due.
pub(super) trait Due: Fn(u64) -> Millis + Send + Copy + 'static {}
impl<F: Fn(u64) -> Millis + Send + Copy + 'static> Due for F {}

/// Registers; the first failed request ends it.
pub(super) async fn register(
    service: &Service,
    plan: Plan,
    due: impl Due,
) -> anyhow::Result<Loaded> {
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = JoinSet::new();
    let connections = service.connections(plan.connections).await?;
    let begun = service.time.moment();
    for connection in connections {
        let (time, next) = (service.time.clone(), Arc::clone(&next));
        senders.spawn(send(connection, time, plan, begun, next, due));
    }
    let mut loaded = Loaded {
        registered: Vec::new(),
        latency: histogram()?,
        took: Duration::ZERO,
    };
    while let Some(ended) = senders.join_next().await {
        let (registered, latency) = ended??;
        loaded.registered.extend(registered);
        loaded.latency.add(latency)?;
    }
    loaded.took = service.time.moment().since(begun);
    Ok(loaded)
}

/// One connection: takes the next request as soon as it is free, and waits for that one's time.
async fn send(
    mut connection: Connection,
    time: TimeSource,
    plan: Plan,
    begun: Moment,
    next: Arc<AtomicU64>,
    due: impl Due,
) -> anyhow::Result<(Vec<Registered>, Histogram<u64>)> {
    let mut registered = Vec::new();
    let mut latency = histogram()?;
    loop {
        let request = next.fetch_add(1, Ordering::Relaxed);
        let first = request * plan.batch;
        let indexes = first..plan.tasks.min(first + plan.batch);
        if indexes.is_empty() {
            return Ok((registered, latency));
        }
        let (path, body) = if plan.batch == 1 {
            ("/v1/tasks", wire::task(due(first)))
        } else {
            (
                "/v1/tasks:batchCreate",
                wire::batch(indexes.clone().map(due)),
            )
        };
        let mut from = time.moment();
        if let Some(interval) = plan.interval {
            from = begun.after(interval.mul_f64(request as f64));
            time.sleep_until(from).await;
        }
        let answer = connection.post(path, body.as_bytes()).await?;
        let count = indexes.end - indexes.start;
        latency.saturating_record_n(micros(time.moment().since(from)), count);
        let mut answered = 0;
        for (index, id) in indexes.zip(wire::ids(answer)) {
            let (id, due) = (id?, due(index));
            ensure_start(id, due)?;
            answered += 1;
            if index % plan.keep_every == 0 {
                registered.push(Registered { id, due });
            }
        }
        ensure!(answered == count, "{answered} of {count} were registered");
    }
}
