//! The crew plays the workers for a measurement: some poll, some settle, as those of the SDK do.
//!
//! A poller that could take tasks never waits for a settle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use tickwheel::time_source::{Moment, TimeSource};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinSet,
};

use super::{
    check::Arrival,
    http::{Connection, Door},
    log::Log,
    service::Host,
    wire,
};

/// Connections that poll.
const POLLERS: usize = 8;
/// Connections that settle.
const SETTLERS: usize = 8;
/// Tasks of a poll, and of a settle.
const TASKS_MAX: usize = 1000;
/// Batches between a poller and its settler.
const BATCHES_MAX: usize = 4;
/// How long a poll waits; also how long the crew looks for duplicates after the last task.
const POLL_WAIT: &str = "1s";
/// Before a broken connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The observations of the workers.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) arrivals: Vec<Arrival>,
    /// When the last settle was acknowledged, in microseconds of the wall clock.
    pub(crate) last_settled_us: i64,
    pub(crate) settled: u64,
    pub(crate) polls: u64,
    pub(crate) settles: u64,
    /// Tasks that came in an attempt that was not their first.
    pub(crate) again: Vec<u128>,
    /// Reports that the service refused, of a crew that goes on.
    pub(crate) refused: u64,
    /// When the report of each task was sent; only of a shift that notes it.
    pub(crate) reports: Vec<Arrival>,
}

/// How fast a crew works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Connections that poll.
    pub(super) pollers: usize,
    /// Tasks of a poll.
    pub(crate) tasks_max: usize,
    /// How long a poller is busy with the tasks of a poll. A crew that pauses stops when its time is up,
    /// whatever is left.
    pub(crate) pause: Duration,
}

impl Pace {
    /// As fast as the service allows.
    const FULL: Self = Self {
        pollers: POLLERS,
        tasks_max: TASKS_MAX,
        pause: Duration::ZERO,
    };
}

/// The assignment of a crew.
#[derive(Debug, Clone)]
pub(crate) struct Shift {
    pub(crate) callback: &'static str,
    pub(crate) pace: Pace,
    /// It may stop when so many tasks are done and no more come. The number may be changed while it works.
    pub(crate) expected: Arc<AtomicU64>,
    pub(crate) give_up: Duration,
    /// Whether it goes on, on new connections, when connections break, as workers do when their service is
    /// restarted.
    pub(crate) goes_on: bool,
    /// How many have been taken so far.
    pub(crate) taken: Arc<AtomicU64>,
    /// Whether it notes when reports are sent.
    pub(crate) notes_reports: bool,
    /// Gets each answer that has tasks, with the time at which it had arrived, in microseconds of the wall clock.
    pub(crate) reader: Option<Reader>,
}

type Read = dyn Fn(&[u8], i64) -> anyhow::Result<()> + Send + Sync;

/// See [`Shift::reader`].
#[derive(Clone)]
pub(crate) struct Reader(pub(crate) Arc<Read>);

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Shift {
    pub(crate) fn new(expected: u64, give_up: Duration) -> Self {
        Self {
            callback: wire::CALLBACK,
            pace: Pace::FULL,
            expected: Arc::new(AtomicU64::new(expected)),
            give_up,
            goes_on: false,
            taken: Arc::default(),
            notes_reports: false,
            reader: None,
        }
    }
}

/// The state that the workers share.
#[derive(Debug)]
struct Shared {
    shift: Shift,
    door: Door,
    time: TimeSource,
    until: Moment,
    settled: AtomicU64,
    settles: AtomicU64,
    refused: AtomicU64,
    last_settled_us: AtomicI64,
}

impl Shared {
    /// Tells whether everything is done that was expected.
    ///
    /// For a crew that goes on, only settled tasks count: a task may have been handed out twice, but it is
    /// settled once.
    fn is_done(&self) -> bool {
        let done = if self.shift.goes_on {
            self.settled.load(Ordering::Relaxed)
        } else {
            self.shift.taken.load(Ordering::Relaxed)
        };
        done >= self.shift.expected.load(Ordering::Relaxed)
    }
}

/// Polls and settles until `expected` tasks were taken and there is nothing more, or until `give_up`.
pub(crate) async fn work(
    service: &impl Host,
    expected: u64,
    give_up: Duration,
) -> anyhow::Result<Seen> {
    let shift = Shift::new(expected, give_up);
    work_shift(service.door(), service.time().clone(), shift).await
}

/// Polls and settles as a shift asks.
pub(crate) async fn work_shift(
    door: impl Into<Door>,
    time: TimeSource,
    shift: Shift,
) -> anyhow::Result<Seen> {
    let shared = Arc::new(Shared {
        until: time.moment().after(shift.give_up),
        shift,
        door: door.into(),
        time,
        settled: AtomicU64::new(0),
        settles: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        last_settled_us: AtomicI64::new(0),
    });
    let (mut pollers, mut settlers) = (JoinSet::new(), JoinSet::new());
    let mut queues = Vec::new();
    let pace = shared.shift.pace;
    for number in 0..SETTLERS {
        let (sender, receiver) = channel(BATCHES_MAX);
        settlers.spawn(settle(number, receiver, Line::new(&shared)));
        queues.push(sender);
    }
    for (number, queue) in queues.into_iter().cycle().take(pace.pollers).enumerate() {
        pollers.spawn(poll(number, queue, Line::new(&shared)));
    }
    let (mut seen, mut arrivals, mut reports) = (Seen::default(), Log::default(), Log::default());
    while let Some(ended) = pollers.join_next().await {
        let polled = ended??;
        arrivals.append(polled.arrivals);
        seen.again.extend(polled.again);
        seen.polls += polled.polls;
    }
    while let Some(ended) = settlers.join_next().await {
        reports.append(ended??);
    }
    seen.reports = reports.into_vec();
    seen.arrivals = arrivals.into_vec();
    seen.settled = shared.settled.load(Ordering::Relaxed);
    seen.settles = shared.settles.load(Ordering::Relaxed);
    seen.refused = shared.refused.load(Ordering::Relaxed);
    seen.last_settled_us = shared.last_settled_us.load(Ordering::Relaxed);
    Ok(seen)
}

/// A connection that is opened when it is needed, and opened again, if the shift goes on, when it breaks.
struct Line {
    connection: Option<Connection>,
    shared: Arc<Shared>,
}

impl Line {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            connection: None,
            shared: Arc::clone(shared),
        }
    }

    /// Posts until there is an answer; none when the time is up. Returns when the answer had arrived, and its
    /// body.
    async fn post(&mut self, path: &str, body: &[u8]) -> anyhow::Result<Option<(i64, Vec<u8>)>> {
        loop {
            match self.try_post(path, body).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if !self.shared.shift.goes_on => return Err(error),
                Err(_) if self.shared.time.moment() >= self.shared.until => return Ok(None),
                Err(_) => {
                    self.connection = None;
                    self.shared.time.sleep(RECONNECT_PAUSE).await;
                }
            }
        }
    }

    async fn try_post(&mut self, path: &str, body: &[u8]) -> anyhow::Result<(i64, Vec<u8>)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.shared.door.clone()).await?,
        };
        let answer = connection.post(path, body).await?;
        // Before any other work with the answer: lateness ends here.
        let seen_us = self.shared.time.stamp();
        let answer = answer.to_vec();
        self.connection = Some(connection);
        Ok((seen_us, answer))
    }
}

/// The observations of a poller.
#[derive(Debug, Default)]
struct Polled {
    arrivals: Log<Arrival>,
    again: Vec<u128>,
    polls: u64,
}

async fn poll(
    number: usize,
    queue: Sender<Vec<wire::Attempt>>,
    mut line: Line,
) -> anyhow::Result<Polled> {
    let (shared, mut polled) = (Arc::clone(&line.shared), Polled::default());
    let pace = shared.shift.pace;
    let body = wire::poll_for(shared.shift.callback, number, pace.tasks_max, POLL_WAIT);
    loop {
        if !pace.pause.is_zero() && shared.time.moment() >= shared.until {
            return Ok(polled);
        }
        let answer = line.post("/v1/worker/poll", body.as_bytes()).await?;
        let Some((seen_us, answer)) = answer else {
            return Ok(polled);
        };
        polled.polls += 1;
        let attempts: Vec<wire::Attempt> =
            wire::attempts(&answer).collect::<anyhow::Result<_>>()?;
        if attempts.is_empty() {
            if shared.is_done() || shared.time.moment() >= shared.until {
                return Ok(polled);
            }
            continue;
        }
        if let Some(Reader(read)) = &shared.shift.reader {
            read(&answer, seen_us)?;
        }
        let count = attempts.len() as u64;
        shared.shift.taken.fetch_add(count, Ordering::Relaxed);
        let again = attempts.iter().filter(|attempt| attempt.number > 1);
        polled.again.extend(again.map(|attempt| attempt.id));
        polled
            .arrivals
            .extend(attempts.iter().map(|attempt| Arrival {
                id: attempt.id,
                seen_us,
            }));
        queue.send(attempts).await?;
        if !pace.pause.is_zero() {
            shared.time.sleep(pace.pause).await;
        }
    }
}

/// Settles the gathered attempts in one call.
async fn settle(
    number: usize,
    mut queue: Receiver<Vec<wire::Attempt>>,
    mut line: Line,
) -> anyhow::Result<Log<Arrival>> {
    let (shared, mut body) = (Arc::clone(&line.shared), String::new());
    let mut reports = Log::default();
    while let Some(mut attempts) = queue.recv().await {
        while attempts.len() < TASKS_MAX
            && let Ok(more) = queue.try_recv()
        {
            attempts.extend(more);
        }
        for attempts in attempts.chunks(TASKS_MAX) {
            wire::settle(&mut body, number, attempts);
            if shared.shift.notes_reports {
                let seen_us = shared.time.stamp();
                let ids = attempts.iter().map(|attempt| attempt.id);
                reports.extend(ids.map(|id| Arrival { id, seen_us }));
            }
            let answer = line.post("/v1/worker/settle", body.as_bytes()).await?;
            let (settled_us, answer) = answer.context("not settled in time")?;
            if !shared.shift.goes_on {
                wire::all_settled(&answer, attempts.len())?;
            }
            shared
                .last_settled_us
                .fetch_max(settled_us, Ordering::Relaxed);
            let count = wire::settled(&answer) as u64;
            let refused = attempts.len() as u64 - count;
            shared.settled.fetch_add(count, Ordering::Relaxed);
            shared.refused.fetch_add(refused, Ordering::Relaxed);
            shared.settles.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(reports)
}
