//! The runner consumes the queue for one callback: it receives, holds until due, claims in batches, and
//! starts tasks.
//!
//! ```text
//! receive --> hold until due --> ready --> claim (one call in flight) --> run (up to `concurrency` at once) --> report
//!    |                                       |
//!    '-- at most `concurrency` wait here     '-- answered: handled, its offset may be committed
//! ```
//!
//! A message is handled once its claim is answered, not when its callback is done, so a slow callback holds
//! up nothing. After a crash before the answer, the message comes again. After a crash behind it, the task's
//! look finds the task. While the server is away the messages wait, the membership of the group is kept
//! alive, and the claim is repeated.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    attempt::Attempt,
    claims::{Round, Verdict, claim, judge},
    intake::{Intake, Waiting},
    job::{Job, Raw},
    retry::{Retry, is_worth_repeating},
    run::Tools,
    server::Server,
};
use crate::{
    client,
    limits::{BATCH_ITEMS_MAX, BATCH_REQUEST_BYTES_MAX},
    queue::{self, Consumer, Delivery, message::TaskMessage},
    time_source::TimeSource,
};

/// How long one receive waits; it bounds only how long a silent queue stays unnoticed.
const RECEIVE_WAIT: Duration = Duration::from_secs(1);

/// Least time between two receives that only keep the membership alive.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// The bytes of messages that one claim carries: as base64, with their envelopes, they fit into a request.
const CLAIM_BYTES_MAX: usize = BATCH_REQUEST_BYTES_MAX / 2;

/// Consumes the queue for one callback.
pub(super) struct Runner {
    pub(super) callback: String,
    pub(super) worker: String,
    pub(super) consumer: Box<dyn Consumer>,
    pub(super) server: Arc<dyn Server>,
    pub(super) tools: Arc<Tools>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) concurrency: usize,
    pub(super) time: TimeSource,
    pub(super) stop: CancellationToken,
    pub(super) running: TaskTracker,
    pub(super) progress: Progress,
}

/// The state of the runner.
#[derive(Default)]
pub(super) struct Progress {
    intake: Intake,
    claiming: Option<BoxFuture<'static, Round>>,
    claims: Retry,
    receives: Retry,
    /// Claims to make one by one, after a batch was refused.
    alone: usize,
    undecodable: u64,
}

enum Event {
    Stop,
    Claimed(Round),
    Received(Result<Vec<Delivery>, queue::Error>),
    /// A message is due, a slot is free, or a wait is over: look again.
    Look,
}

impl Runner {
    /// Consumes until it is told to stop. Messages without a claim are then left to others.
    pub(super) async fn run(mut self) {
        loop {
            self.begin_claim();
            match self.next_event().await {
                Event::Stop => break,
                Event::Claimed(round) => self.claimed(round, false).await,
                Event::Received(received) => self.received(received),
                Event::Look => {}
            }
        }
        if let Some(claiming) = self.progress.claiming.take() {
            let round = claiming.await;
            self.claimed(round, true).await;
        }
        self.consumer.close().await;
    }

    async fn next_event(&mut self) -> Event {
        let room = self.room();
        let waits_for_slot = self.progress.claiming.is_none()
            && self.progress.intake.ready() > 0
            && self.slots.available_permits() == 0;
        let Self {
            consumer,
            time,
            stop,
            slots,
            progress,
            ..
        } = self;
        let now = time.moment();
        let claim_again = (progress.claiming.is_none() && progress.intake.ready() > 0)
            .then(|| progress.claims.waits_until(now))
            .flatten();
        let receive_again = progress.receives.waits_until(now);
        let due = progress.intake.next_due();
        tokio::select! {
            biased;
            () = stop.cancelled() => Event::Stop,
            round = in_flight(&mut progress.claiming) => Event::Claimed(round),
            () = async {
                match due {
                    Some(due) => time.sleep_until_wall(due).await,
                    None => pending().await,
                }
            } => Event::Look,
            () = async {
                match claim_again {
                    Some(at) => time.sleep_until(at).await,
                    None => pending().await,
                }
            } => Event::Look,
            _slot = slots.acquire(), if waits_for_slot => Event::Look,
            received = async {
                if let Some(at) = receive_again {
                    time.sleep_until(at).await;
                }
                receive(consumer.as_mut(), room, time).await
            } => Event::Received(received),
        }
    }

    /// Returns how many more messages may wait here: as many as can run, so that a freed slot has the next
    /// message at hand.
    fn room(&self) -> usize {
        self.concurrency
            .saturating_sub(self.progress.intake.waiting())
            .min(BATCH_ITEMS_MAX)
    }

    fn received(&mut self, received: Result<Vec<Delivery>, queue::Error>) {
        let deliveries = match received {
            Ok(deliveries) => deliveries,
            Err(error) => {
                self.progress.receives.failed(None, &self.time);
                if self.progress.receives.failures() == 1 {
                    tracing::warn!(callback = self.callback, %error, "cannot receive: trying again");
                }
                return;
            }
        };
        self.progress.receives.succeeded();
        for delivery in deliveries {
            let read = TaskMessage::read(&delivery);
            let origin = (delivery.topic, delivery.partition, delivery.offset);
            match read {
                Ok(message) if message.spec.callback() == Some(&self.callback) => {
                    let waiting = Waiting {
                        origin,
                        value: delivery.value,
                        due: message.dispatch.start,
                        message,
                        failures: 0,
                    };
                    self.progress.intake.add(waiting, self.time.now());
                }
                Ok(message) => {
                    let reason = format!("it is of callback {:?}", message.spec.callback());
                    self.undecodable(origin, &reason);
                }
                Err(error) => self.undecodable(origin, &error.to_string()),
            }
        }
    }

    /// Sets a record aside that is not a message, so that it does not stop its partition.
    fn undecodable(&mut self, origin: (String, i32, i64), reason: &str) {
        let (topic, partition, offset) = &origin;
        self.progress.undecodable += 1;
        if self.progress.undecodable == 1 {
            tracing::error!(
                callback = self.callback,
                topic,
                partition,
                offset,
                reason,
                "skipped a message that is not a task; further ones are only counted"
            );
        }
        let callback = self.callback.clone();
        metrics::counter!("tickwheel_worker_undecodable_total", "callback" => callback)
            .increment(1);
        self.consumer.handled(&[origin]);
    }

    /// Sends a claim for the ready messages that have a slot, unless one is in flight.
    fn begin_claim(&mut self) {
        let progress = &mut self.progress;
        progress.intake.promote(self.time.now());
        let waits = progress.claims.waits_until(self.time.moment()).is_some();
        if waits || progress.claiming.is_some() {
            return;
        }
        let most = if progress.alone > 0 {
            1
        } else {
            BATCH_ITEMS_MAX
        };
        let free = self.slots.available_permits().min(most);
        let count = progress.intake.ready().min(free);
        let permits = u32::try_from(count).unwrap_or(u32::MAX);
        let (1.., Ok(mut slots)) = (
            permits,
            Arc::clone(&self.slots).try_acquire_many_owned(permits),
        ) else {
            return;
        };
        let batch = progress.intake.take(count, CLAIM_BYTES_MAX);
        // Slots of messages that were too large for this claim.
        drop(slots.split(count - batch.len()));
        let (server, worker) = (Arc::clone(&self.server), self.worker.clone());
        progress.alone = progress.alone.saturating_sub(1);
        progress.claiming = Some(Box::pin(claim(
            server,
            worker,
            batch,
            slots,
            self.time.clone(),
        )));
    }

    /// Acts on the answers to a claim. When the worker is stopping, claimed tasks are given back unstarted.
    async fn claimed(&mut self, round: Round, stopping: bool) {
        let Round {
            batch,
            mut slots,
            lease_start,
            answer,
        } = round;
        let results = match answer {
            Ok(answer) if answer.results.len() == batch.len() => answer.results,
            Ok(answer) => {
                let (sent, got) = (batch.len(), answer.results.len());
                tracing::warn!(
                    sent,
                    got,
                    "claims were not answered one by one: trying again"
                );
                return self.again(batch, None);
            }
            Err(error) => return self.not_claimed(batch, &error),
        };
        let (mut again, mut handled) = (Vec::new(), Vec::new());
        for (mut waiting, result) in batch.into_iter().zip(results) {
            let slot = slots.split(1);
            match judge(&waiting, result, lease_start, self.time.now()) {
                Verdict::Run(attempt, job) => {
                    handled.push(waiting.origin);
                    match slot {
                        Some(slot) if !stopping => self.start(attempt, *job, slot),
                        _ => {
                            self.tools.heart.add(&attempt, self.time.moment());
                            self.tools.give_back(attempt).await;
                        }
                    }
                }
                Verdict::Forget(why) => {
                    tracing::debug!(callback = self.callback, id = %waiting.message.dispatch.id, why, "forgot a message");
                    handled.push(waiting.origin);
                }
                Verdict::Hold(until) => {
                    waiting.due = until;
                    self.progress.intake.add(waiting, self.time.now());
                }
                Verdict::Again => {
                    waiting.failures += 1;
                    again.push(waiting);
                }
            }
        }
        self.consumer.handled(&handled);
        if again.is_empty() {
            self.progress.claims.succeeded();
        } else {
            self.again(again, None);
        }
    }

    fn start(&self, attempt: Arc<Attempt>, job: Job<Raw>, slot: tokio::sync::OwnedSemaphorePermit) {
        self.tools.heart.add(&attempt, self.time.moment());
        let run = Arc::clone(&self.tools).run(attempt, job, slot);
        self.running.spawn(run);
    }

    /// Acts on a claim that failed as a whole.
    fn not_claimed(&mut self, batch: Vec<Waiting>, error: &client::Error) {
        if is_worth_repeating(error) {
            if self.progress.claims.failures() == 0 {
                tracing::warn!(callback = self.callback, %error, "cannot claim: trying again");
            }
            return self.again(batch, error.retry_after());
        }
        if batch.len() > 1 {
            tracing::warn!(callback = self.callback, %error, "the server refuses a batch of claims: sending them one by one");
            self.progress.alone = batch.len();
            return self.progress.intake.put_back(batch, self.time.now());
        }
        for waiting in batch {
            tracing::error!(callback = self.callback, id = %waiting.message.dispatch.id, %error, "the server refuses a claim: skipped the message");
            self.consumer.handled(&[waiting.origin]);
        }
    }

    fn again(&mut self, batch: Vec<Waiting>, asked: Option<Duration>) {
        self.progress.intake.put_back(batch, self.time.now());
        self.progress.claims.failed(asked, &self.time);
    }
}

/// Waits for the claim in flight; for ever when there is none. Cancel-safe.
async fn in_flight(claiming: &mut Option<BoxFuture<'static, Round>>) -> Round {
    let Some(call) = claiming else {
        return pending().await;
    };
    let round = call.await;
    *claiming = None;
    round
}

/// Receives up to `room` messages; with none it keeps the membership alive. Cancel-safe, as the consumer is.
async fn receive(
    consumer: &mut dyn Consumer,
    room: usize,
    time: &TimeSource,
) -> Result<Vec<Delivery>, queue::Error> {
    if room > 0 {
        return consumer.receive(room, RECEIVE_WAIT).await;
    }
    let next = time.moment().after(KEEP_ALIVE);
    let received = consumer.receive(0, KEEP_ALIVE).await;
    time.sleep_until(next).await;
    received
}
