//! The workers: some poll, some settle, as those of the SDK do: nobody who could take tasks waits for a settle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tickwheel::time_source::{Moment, TimeSource};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinSet,
};

use super::{check::Arrival, http::Connection, service::Service, wire};

/// Connections that poll.
const POLLERS: usize = 8;
/// Connections that settle.
const SETTLERS: usize = 8;
/// Tasks of a poll, and of a settle.
const TASKS_MAX: usize = 1000;
/// Batches between a poller and its settler.
const BATCHES_MAX: usize = 4;
/// How long a poll waits; also how long after the last task one looks for duplicates.
const POLL_WAIT: &str = "1s";

/// What the workers saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) arrivals: Vec<Arrival>,
    /// When the last settle was acknowledged, in microseconds of the wall clock.
    pub(super) last_settled_us: i64,
    pub(super) settled: u64,
    pub(super) polls: u64,
    pub(super) settles: u64,
}

/// What the workers share.
#[derive(Debug, Default)]
struct Shared {
    taken: AtomicU64,
    settled: AtomicU64,
    settles: AtomicU64,
    last_settled_us: AtomicI64,
}

/// Polls and settles until `expected` tasks were taken and there is nothing more, or until `give_up`.
pub(super) async fn work(
    service: &Service,
    expected: u64,
    give_up: Duration,
) -> anyhow::Result<Seen> {
    let shared = Arc::new(Shared::default());
    let until = service.time.moment().after(give_up);
    let (mut pollers, mut settlers) = (JoinSet::new(), JoinSet::new());
    let mut queues = Vec::new();
    for number in 0..SETTLERS {
        let (sender, receiver) = channel(BATCHES_MAX);
        let connection = service.connect().await?;
        let (shared, time) = (Arc::clone(&shared), service.time.clone());
        settlers.spawn(settle(number, connection, receiver, shared, time));
        queues.push(sender);
    }
    for (number, queue) in queues.into_iter().cycle().take(POLLERS).enumerate() {
        let poller = Poller {
            number,
            connection: service.connect().await?,
            queue,
            shared: Arc::clone(&shared),
            time: service.time.clone(),
        };
        pollers.spawn(poller.run(expected, until));
    }
    let mut seen = Seen::default();
    while let Some(ended) = pollers.join_next().await {
        let (arrivals, polls) = ended??;
        seen.arrivals.extend(arrivals);
        seen.polls += polls;
    }
    while let Some(ended) = settlers.join_next().await {
        ended??;
    }
    seen.settled = shared.settled.load(Ordering::Relaxed);
    seen.settles = shared.settles.load(Ordering::Relaxed);
    seen.last_settled_us = shared.last_settled_us.load(Ordering::Relaxed);
    Ok(seen)
}

struct Poller {
    number: usize,
    connection: Connection,
    queue: Sender<Vec<wire::Attempt>>,
    shared: Arc<Shared>,
    time: TimeSource,
}

impl Poller {
    async fn run(mut self, expected: u64, until: Moment) -> anyhow::Result<(Vec<Arrival>, u64)> {
        let (mut arrivals, mut polls) = (Vec::new(), 0);
        let body = wire::poll(self.number, TASKS_MAX, POLL_WAIT);
        loop {
            let answer = self.connection.post("/v1/worker/poll", body.as_bytes());
            let answer = answer.await?;
            // Before anything is read of it: lateness ends here.
            let seen_us = self.time.stamp();
            polls += 1;
            let attempts: Vec<wire::Attempt> =
                wire::attempts(answer).collect::<anyhow::Result<_>>()?;
            if attempts.is_empty() {
                let all = self.shared.taken.load(Ordering::Relaxed) >= expected;
                if all || self.time.moment() >= until {
                    return Ok((arrivals, polls));
                }
                continue;
            }
            let count = attempts.len() as u64;
            self.shared.taken.fetch_add(count, Ordering::Relaxed);
            arrivals.extend(attempts.iter().map(|attempt| Arrival {
                id: attempt.id,
                seen_us,
            }));
            self.queue.send(attempts).await?;
        }
    }
}

/// Settles what has gathered, in one call.
async fn settle(
    number: usize,
    mut connection: Connection,
    mut queue: Receiver<Vec<wire::Attempt>>,
    shared: Arc<Shared>,
    time: TimeSource,
) -> anyhow::Result<()> {
    let mut body = String::new();
    while let Some(mut attempts) = queue.recv().await {
        while attempts.len() < TASKS_MAX
            && let Ok(more) = queue.try_recv()
        {
            attempts.extend(more);
        }
        for attempts in attempts.chunks(TASKS_MAX) {
            wire::settle(&mut body, number, attempts);
            let answer = connection.post("/v1/worker/settle", body.as_bytes());
            wire::all_settled(answer.await?, attempts.len())?;
            shared
                .last_settled_us
                .fetch_max(time.stamp(), Ordering::Relaxed);
            let count = attempts.len() as u64;
            shared.settled.fetch_add(count, Ordering::Relaxed);
            shared.settles.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
