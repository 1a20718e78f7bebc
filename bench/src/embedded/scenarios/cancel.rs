//! The cancels send cancel requests for scenarios: at their times by a schedule, or as fast as answers come.
//!
//! Every answer is kept, so that it can be compared with the tasks that were handed out.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;
use tickwheel::{model::time::Millis, time_source::TimeSource};
use tokio::{sync::mpsc::Receiver, task::JoinSet};
use uuid::Uuid;

use crate::{
    embedded::{
        check::{Arrival, Registered, Verdict, verdict},
        http::Connection,
        service::Service,
        wire,
    },
    generator::{histogram, micros},
    report::Report,
};

/// Connections that cancel.
pub(super) const CONNECTIONS: usize = 64;
/// Connections that cancel many tasks a request.
const CONNECTIONS_OF_MANY: usize = 16;
const MANY: &str = "/v1/tasks:batchCancel";

/// The answers to cancels.
#[derive(Debug)]
pub(super) struct Cancelled {
    /// Tasks whose cancel was acknowledged; they must never be handed out.
    pub(super) cancelled: HashSet<u128>,
    /// Tasks whose cancel came too late, or that were running; they must be handed out.
    pub(super) not: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) took: Duration,
}

impl Cancelled {
    fn nothing() -> anyhow::Result<Self> {
        Ok(Self {
            cancelled: HashSet::new(),
            not: 0,
            latency: histogram()?,
            took: Duration::ZERO,
        })
    }

    /// Cancels many tasks with one call and keeps the answers.
    async fn many(&mut self, connection: &mut Connection, ids: &[u128]) -> anyhow::Result<()> {
        let answer = connection.post(MANY, wire::cancels(ids).as_bytes()).await?;
        let mut answered = 0;
        for (id, outcome) in ids.iter().zip(wire::outcomes(answer)) {
            self.take(*id, outcome)?;
            answered += 1;
        }
        ensure!(
            answered == ids.len(),
            "{answered} of {} cancels were answered: {}",
            ids.len(),
            wire::beginning(answer)
        );
        Ok(())
    }

    /// Cancels a task and keeps the answer.
    async fn one(&mut self, connection: &mut Connection, id: u128) -> anyhow::Result<()> {
        let path = format!("/v1/tasks/{}/cancel", Uuid::from_u128(id));
        let answer = connection.post(&path, b"").await?;
        self.take(id, wire::outcome(answer))
    }

    fn take(&mut self, id: u128, outcome: &str) -> anyhow::Result<()> {
        match outcome {
            "cancelled" => ensure!(self.cancelled.insert(id), "cancelled twice"),
            "too_late" | "cancel_requested" => self.not += 1,
            other => bail!("a cancel was answered `{other}`"),
        }
        Ok(())
    }

    fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.cancelled.extend(other.cancelled);
        self.not += other.not;
        Ok(self.latency.add(other.latency)?)
    }
}

/// Returns how long before it is due a connection cancels its tasks: from just before to almost a second.
pub(super) fn lead(connection: usize) -> Duration {
    Duration::from_millis(10 + 15 * connection as u64)
}

/// Cancels the tasks that it gets, each connection so long before they are due. Latency counts from the
/// scheduled time.
pub(super) async fn before_due(
    service: &Service,
    queues: Vec<Receiver<Registered>>,
) -> anyhow::Result<Cancelled> {
    let mut callers = JoinSet::new();
    for (number, mut queue) in queues.into_iter().enumerate() {
        let (mut connection, time) = (service.connect().await?, service.time.clone());
        callers.spawn(async move {
            let mut cancelled = Cancelled::nothing()?;
            while let Some(task) = queue.recv().await {
                let at = task.due.before(lead(number));
                time.sleep_until_wall(at).await;
                cancelled.one(&mut connection, task.id).await?;
                let late_us = time.stamp() - at.0 * 1000;
                let late_us = u64::try_from(late_us).unwrap_or(0);
                cancelled.latency.saturating_record(late_us);
            }
            anyhow::Ok(cancelled)
        });
    }
    gather(callers).await
}

/// Cancels all of these, so many a request, at a rate of tasks by a schedule or as fast as answers come.
pub(super) async fn all(
    service: &Service,
    tasks: Vec<u128>,
    batch: usize,
    rate: Option<f64>,
) -> anyhow::Result<Cancelled> {
    let (tasks, next) = (Arc::new(tasks), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    let connections = if batch == 1 {
        CONNECTIONS
    } else {
        CONNECTIONS_OF_MANY
    };
    let connections = service.connections(connections).await?;
    let begun = service.time.moment();
    for mut connection in connections {
        let (tasks, next) = (Arc::clone(&tasks), Arc::clone(&next));
        let time: TimeSource = service.time.clone();
        callers.spawn(async move {
            let mut cancelled = Cancelled::nothing()?;
            loop {
                let index = next.fetch_add(batch as u64, Ordering::Relaxed);
                let rest = tasks.get(index as usize..).unwrap_or_default();
                let ids = rest.get(..batch).unwrap_or(rest);
                if ids.is_empty() {
                    return anyhow::Ok(cancelled);
                }
                let mut from = time.moment();
                if let Some(rate) = rate {
                    from = begun.after(Duration::from_secs_f64(index as f64 / rate));
                    time.sleep_until(from).await;
                }
                match (ids, batch) {
                    ([id], 1) => cancelled.one(&mut connection, *id).await?,
                    _ => cancelled.many(&mut connection, ids).await?,
                }
                let took = micros(time.moment().since(from));
                cancelled
                    .latency
                    .saturating_record_n(took, ids.len() as u64);
            }
        });
    }
    let mut cancelled = gather(callers).await?;
    cancelled.took = service.time.moment().since(begun);
    Ok(cancelled)
}

async fn gather(mut callers: JoinSet<anyhow::Result<Cancelled>>) -> anyhow::Result<Cancelled> {
    let mut all = Cancelled::nothing()?;
    while let Some(ended) = callers.join_next().await {
        all.add(ended??)?;
    }
    Ok(all)
}

/// Compares the tasks that were handed out with those that were registered and those that were cancelled.
///
/// A task whose cancel was acknowledged is a stranger: if it was handed out it counts as early, and the run fails.
pub(super) fn judge(
    case: &str,
    mut registered: Vec<Registered>,
    arrivals: Vec<Arrival>,
    cancelled: &HashSet<u128>,
    counted: Millis,
    report: &mut Report,
) -> anyhow::Result<Verdict> {
    let mut handed_out: HashMap<u128, u32> = HashMap::new();
    for arrival in &arrivals {
        if cancelled.contains(&arrival.id) {
            *handed_out.entry(arrival.id).or_default() += 1;
        }
    }
    report.figure(
        format!("{case}: cancelled"),
        cancelled.len() as f64,
        "tasks",
    );
    report.figure(
        format!("{case}: cancelled and handed out"),
        handed_out.len() as f64,
        "tasks",
    );
    registered.retain(|task| !cancelled.contains(&task.id));
    verdict(registered, arrivals, counted)
}
