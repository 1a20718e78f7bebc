//! The load registers tasks for all peers, flat out or by a schedule that never waits, and drives their
//! consumers.

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

use super::{Consumer, Lanes, Manner, Peer, Producer, Settled, Task};
use crate::{
    embedded::check::{Arrival, Registered},
    generator::{histogram, micros},
};

/// The tasks to register, and the way to do it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) tasks: u64,
    /// The first id; the next ones follow.
    pub(super) first_id: u64,
    pub(super) manner: Manner,
    pub(super) lanes: Lanes,
    /// Due times are rounded up to multiples of this.
    pub(super) grid: Duration,
    /// Time between two chunks; none means as fast as answers come.
    pub(super) interval: Option<Duration>,
}

/// The result of a load.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) registered: Vec<Registered>,
    /// Of chunks, in microseconds: from the scheduled time at a rate, otherwise from the sending.
    pub(super) latency: Histogram<u64>,
    pub(super) took: Duration,
    /// Tasks that were acknowledged after they were due.
    pub(super) behind: u64,
}

impl Loaded {
    pub(super) fn per_second(&self) -> f64 {
        self.registered.len() as f64 / self.took.as_secs_f64()
    }
}

/// Tells when the task of an index is due.
pub(super) trait Due: Fn(u64) -> Millis + Send + Copy + 'static {}
impl<F: Fn(u64) -> Millis + Send + Copy + 'static> Due for F {}

/// Opens producers.
pub(super) async fn producers(
    peer: &mut dyn Peer,
    count: usize,
) -> anyhow::Result<Vec<Box<dyn Producer>>> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        open.push(peer.producer().await?);
    }
    Ok(open)
}

/// Registers; the first failed request ends it.
pub(super) async fn register(
    producers: Vec<Box<dyn Producer>>,
    time: &TimeSource,
    plan: Plan,
    due: impl Due,
) -> anyhow::Result<Loaded> {
    let next = Arc::new(AtomicU64::new(0));
    let mut lanes = JoinSet::new();
    let begun = time.moment();
    for producer in producers {
        let lane = Lane {
            producer,
            time: time.clone(),
            plan,
            begun,
            next: Arc::clone(&next),
        };
        lanes.spawn(lane.run(due));
    }
    let mut loaded = Loaded {
        registered: Vec::new(),
        latency: histogram()?,
        took: Duration::ZERO,
        behind: 0,
    };
    while let Some(ended) = lanes.join_next().await {
        let part = ended??;
        loaded.registered.extend(part.registered);
        loaded.latency.add(part.latency)?;
        loaded.behind += part.behind;
    }
    loaded.took = time.moment().since(begun);
    Ok(loaded)
}

/// One producer: it takes the next chunk as soon as it is free, and waits for the time of that chunk.
struct Lane {
    producer: Box<dyn Producer>,
    time: TimeSource,
    plan: Plan,
    begun: Moment,
    next: Arc<AtomicU64>,
}

impl Lane {
    async fn run(mut self, due: impl Due) -> anyhow::Result<Loaded> {
        let plan = self.plan;
        let mut part = Loaded {
            registered: Vec::new(),
            latency: histogram()?,
            took: Duration::ZERO,
            behind: 0,
        };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let first = number * plan.lanes.chunk as u64;
            let indexes = first..plan.tasks.min(first + plan.lanes.chunk as u64);
            if indexes.is_empty() {
                return Ok(part);
            }
            let mut from = self.time.moment();
            if let Some(interval) = plan.interval {
                from = self.begun.after(interval.mul_f64(number as f64));
                self.time.sleep_until(from).await;
            }
            let task = |index| Task {
                id: plan.first_id + index,
                due: due(index).ceil_to_grid(Millis(0), plan.grid),
            };
            let mut tasks: Vec<Task> = indexes.map(task).collect();
            self.producer.register(&mut tasks, plan.manner).await?;
            let took = micros(self.time.moment().since(from));
            part.latency.saturating_record(took);
            let now = self.time.now();
            part.behind += tasks.iter().filter(|task| task.due <= now).count() as u64;
            part.registered.extend(tasks.iter().map(|task| Registered {
                id: u128::from(task.id),
                due: task.due,
                index: task.id - plan.first_id,
            }));
        }
    }
}

/// The tasks that came out.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) settled: Settled,
}

/// The time limits of waiting for tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) tasks: u64,
    /// Time from now until the last one is due.
    pub(super) due: Duration,
    /// After so long without any task, missing ones are lost.
    pub(super) quiet: Duration,
    /// How long after the last due time a task may come, before the peer is reported as unable to hold that
    /// many.
    pub(super) late: Duration,
}

/// Takes and acknowledges until all tasks were taken and no more come, or until none has come for long. A
/// peer that still delivers long after the last due time is an error.
pub(super) async fn work(
    consumers: Vec<Box<dyn Consumer>>,
    time: &TimeSource,
    wait: Wait,
) -> anyhow::Result<Seen> {
    let progress = Arc::new(Progress {
        wait,
        begun: time.moment(),
        taken: AtomicU64::new(0),
        last_us: AtomicU64::new(0),
    });
    let mut running = JoinSet::new();
    for consumer in consumers {
        running.spawn(take(consumer, time.clone(), Arc::clone(&progress)));
    }
    let mut seen = Seen::default();
    while let Some(ended) = running.join_next().await {
        let part = ended??;
        seen.arrivals.extend(part.arrivals);
        seen.settled.add(part.settled);
    }
    Ok(seen)
}

/// The common progress of all consumers.
struct Progress {
    wait: Wait,
    begun: Moment,
    taken: AtomicU64,
    /// When the last tasks came, from the beginning.
    last_us: AtomicU64,
}

impl Progress {
    /// Counts new tasks. Tells whether to go on.
    fn goes_on(&self, count: u64, now: Moment) -> anyhow::Result<bool> {
        let Wait {
            tasks,
            due,
            quiet,
            late,
        } = self.wait;
        let passed = now.since(self.begun);
        let taken = self.taken.fetch_add(count, Ordering::Relaxed) + count;
        if count > 0 {
            self.last_us.fetch_max(micros(passed), Ordering::Relaxed);
            ensure!(
                passed < due + late,
                "only {taken} of {tasks} had come {late:?} after the last was due"
            );
            return Ok(true);
        }
        let last = Duration::from_micros(self.last_us.load(Ordering::Relaxed));
        Ok(taken < tasks && passed < due.max(last) + quiet)
    }
}

async fn take(
    mut consumer: Box<dyn Consumer>,
    time: TimeSource,
    progress: Arc<Progress>,
) -> anyhow::Result<Seen> {
    let mut arrivals = Vec::new();
    loop {
        let before = arrivals.len();
        consumer.take(&mut arrivals).await?;
        let count = (arrivals.len() - before) as u64;
        if !progress.goes_on(count, time.moment())? {
            let settled = consumer.end().await?;
            return Ok(Seen { arrivals, settled });
        }
    }
}
