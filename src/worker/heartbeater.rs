//! The heartbeater sends the heartbeats of all running attempts for the worker, and acts on the answers.
//!
//! It has its own thread and runtime: callbacks that block the runtime of the worker must not cost it the
//! leases. Tests in virtual time run it as a task of their own instead ([`Place`]).

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::to_raw_value;
use tokio::sync::Notify;

use super::{
    attempt::{Attempt, Key},
    schedule::{Batch, Schedule, Sent},
    server::Server,
};
use crate::{
    api::worker::{
        HeartbeatItem, HeartbeatRequest, HeartbeatResponse, HeartbeatResult, HeartbeatStatus,
    },
    client,
    time_source::{Moment, TimeSource},
};

/// Heartbeat calls in flight for tasks of one cycle length. One call that hangs must not hold up the next
/// ones. Calls for tasks with long timeouts, which may hang longer, must not hold up those with short ones.
/// The number of cycle lengths is bounded by their rounding to three bits.
const CALLS_IN_FLIGHT_MAX: usize = 4;

/// Longest time that one server may take for a heartbeat call.
const CALL_LIMIT_MAX: Duration = Duration::from_secs(5);

/// Pause after the server asked for patience without saying how much.
const THROTTLED_PAUSE: Duration = Duration::from_millis(500);

/// Where heartbeats are sent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A thread of their own.
    OwnThread,
    /// The runtime that runs the worker, for tests in virtual time.
    SameRuntime,
}

/// Adds and removes attempts; the heart beats until [`Heartbeater::stop`].
#[derive(Debug)]
pub(super) struct Heartbeater {
    shared: Arc<Shared>,
    beating: Mutex<Option<Beating>>,
}

#[derive(Debug)]
enum Beating {
    Thread(std::thread::JoinHandle<()>),
    Task(tokio::task::JoinHandle<()>),
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    schedule: Schedule,
    attempts: HashMap<Key, Arc<Attempt>>,
    stopped: bool,
}

impl Heartbeater {
    /// Starts the heart.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(super) fn start(
        place: Place,
        worker: String,
        server: Arc<dyn Server>,
        time: TimeSource,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let beat = Beat {
            shared: Arc::clone(&shared),
            worker,
            server,
            time,
        };
        let beating = match place {
            Place::SameRuntime => Beating::Task(tokio::spawn(beat.run())),
            Place::OwnThread => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                let thread = std::thread::Builder::new().name("tickwheel-heartbeat".to_owned());
                Beating::Thread(thread.spawn(move || runtime.block_on(beat.run()))?)
            }
        };
        Ok(Self {
            shared,
            beating: Mutex::new(Some(beating)),
        })
    }

    /// Keeps an attempt alive from now on.
    pub(super) fn add(&self, attempt: &Arc<Attempt>, now: Moment) {
        let mut state = self.shared.lock();
        let (key, timeout) = (attempt.key, attempt.heartbeat_timeout());
        state.schedule.add(key, timeout, now);
        state.attempts.insert(key, Arc::clone(attempt));
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Lets go of an attempt.
    pub(super) fn remove(&self, key: Key) {
        let mut state = self.shared.lock();
        state.schedule.remove(key);
        state.attempts.remove(&key);
    }

    /// Stops the heart and waits for its end.
    pub(super) async fn stop(&self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        let beating = self.beating.lock().take();
        let ended = match beating {
            Some(Beating::Task(task)) => task.await.is_ok(),
            Some(Beating::Thread(thread)) => {
                let joined = tokio::task::spawn_blocking(move || thread.join().is_ok());
                joined.await.unwrap_or(false)
            }
            None => true,
        };
        if !ended {
            tracing::error!("the heartbeats ended with a panic");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Attempts whose heartbeats are due, and their cycle, which is also the time that one server may take for
/// them.
type Due = (Vec<Arc<Attempt>>, Duration);

/// Calls in flight by cycle.
type InFlight = BTreeMap<Duration, usize>;

/// A heartbeat call and its answer.
struct Beaten {
    attempts: Vec<Arc<Attempt>>,
    cycle: Duration,
    sent: Moment,
    answer: Result<HeartbeatResponse, client::Error>,
}

struct Beat {
    shared: Arc<Shared>,
    worker: String,
    server: Arc<dyn Server>,
    time: TimeSource,
}

impl Beat {
    async fn run(self) {
        let mut calls: FuturesUnordered<BoxFuture<'_, Beaten>> = FuturesUnordered::new();
        let mut in_flight = InFlight::new();
        loop {
            let (batches, next) = self.due(&mut in_flight);
            for (attempts, cycle) in batches {
                calls.push(Box::pin(self.call(attempts, cycle)));
            }
            if self.shared.lock().stopped {
                return;
            }
            let wake = async {
                match next {
                    Some(next) => self.time.sleep_until(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some(beaten) = calls.next() => {
                    in_flight
                        .entry(beaten.cycle)
                        .and_modify(|calls| *calls = calls.saturating_sub(1));
                    self.react(beaten);
                }
                () = wake => {}
                () = self.shared.changed.notified() => {}
            }
        }
    }

    /// Returns the batches that are due and have room, which count as in flight from now on, and when the
    /// next one with room is due.
    fn due(&self, in_flight: &mut InFlight) -> (Vec<Due>, Option<Moment>) {
        let now = self.time.moment();
        let mut state = self.shared.lock();
        let State {
            schedule, attempts, ..
        } = &mut *state;
        let has_room = |in_flight: &InFlight, cycle: Duration| {
            in_flight
                .get(&cycle)
                .is_none_or(|calls| *calls < CALLS_IN_FLIGHT_MAX)
        };
        let mut due: Vec<Batch> = Vec::new();
        while let Some(batch) = schedule.take(now, |cycle| has_room(in_flight, cycle)) {
            *in_flight.entry(batch.limit).or_default() += 1;
            due.push(batch);
        }
        in_flight.retain(|_, calls| *calls > 0);
        let next = schedule.next(|cycle| has_room(in_flight, cycle));
        let batches = due.into_iter().map(|batch| {
            let known = batch
                .keys
                .iter()
                .filter_map(|key| attempts.get(key).cloned());
            (known.collect(), batch.limit)
        });
        (batches.collect(), next)
    }

    async fn call(&self, attempts: Vec<Arc<Attempt>>, cycle: Duration) -> Beaten {
        let sent = self.time.moment();
        let tasks = attempts.iter().map(|attempt| HeartbeatItem {
            id: attempt.key.id.to_string(),
            attempt: attempt.key.attempt,
            progress: attempt.progress().and_then(|note| to_raw_value(&note).ok()),
        });
        let request = HeartbeatRequest {
            worker: self.worker.clone(),
            tasks: tasks.collect(),
        };
        let answer = self
            .server
            .heartbeat(&request, cycle.min(CALL_LIMIT_MAX))
            .await;
        Beaten {
            attempts,
            cycle,
            sent,
            answer,
        }
    }

    fn react(&self, beaten: Beaten) {
        let now = self.time.moment();
        let mut state = self.shared.lock();
        match beaten.answer {
            Ok(answer) if answer.results.len() == beaten.attempts.len() => {
                for (attempt, result) in beaten.attempts.iter().zip(&answer.results) {
                    state.answered(attempt, result, beaten.sent, now);
                }
            }
            Ok(answer) => {
                let (sent, got) = (beaten.attempts.len(), answer.results.len());
                tracing::warn!(sent, got, "heartbeats were not answered one by one");
                state.all(&beaten.attempts, Sent::Failed);
            }
            Err(error @ client::Error::Unavailable { .. }) => {
                tracing::debug!(%error, "heartbeats were throttled");
                let pause = error.retry_after().unwrap_or(THROTTLED_PAUSE);
                state.throttled(&beaten.attempts, pause, now);
            }
            Err(error) => {
                tracing::debug!(%error, "heartbeats failed");
                state.all(&beaten.attempts, Sent::Failed);
            }
        }
    }
}

impl State {
    fn answered(
        &mut self,
        attempt: &Arc<Attempt>,
        result: &HeartbeatResult,
        sent: Moment,
        now: Moment,
    ) {
        let how = match result.status {
            HeartbeatStatus::Ok => Sent::Recorded,
            HeartbeatStatus::CancelRequested => {
                attempt.cancelled.cancel();
                Sent::Recorded
            }
            HeartbeatStatus::Lost => {
                attempt.lost.cancel();
                self.schedule.remove(attempt.key);
                self.attempts.remove(&attempt.key);
                return;
            }
            HeartbeatStatus::Error => match &result.error {
                Some(problem) if problem.retryable => Sent::Throttled,
                _ => Sent::Failed,
            },
        };
        match how {
            Sent::Recorded => attempt.extend(sent, now),
            Sent::Throttled => self
                .schedule
                .pause(now.after(patience(attempt, THROTTLED_PAUSE))),
            Sent::Failed => {}
        }
        self.schedule.answered(attempt.key, how);
    }

    fn all(&mut self, attempts: &[Arc<Attempt>], how: Sent) {
        // All are put to the front one by one, so the last goes first and the first is at the front again.
        for attempt in attempts.iter().rev() {
            self.schedule.answered(attempt.key, how);
        }
    }

    fn throttled(&mut self, attempts: &[Arc<Attempt>], asked: Duration, now: Moment) {
        self.all(attempts, Sent::Throttled);
        let pauses = attempts.iter().map(|attempt| patience(attempt, asked));
        if let Some(pause) = pauses.min() {
            self.schedule.pause(now.after(pause));
        }
    }
}

/// Limits the pause that the server asks for: beyond a tenth of the heartbeat timeout it would endanger the
/// lease.
fn patience(attempt: &Attempt, asked: Duration) -> Duration {
    asked.min(attempt.heartbeat_timeout() / 10)
}

#[cfg(test)]
#[path = "heartbeater_tests.rs"]
mod tests;
