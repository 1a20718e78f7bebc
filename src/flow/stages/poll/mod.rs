//! The poll stage hands due tasks, already claimed, to workers that ask for them.
//!
//! ```text
//! queue --> feed (one per polled callback) --> hub (buffers, waiting polls) --> claim --> handout --> answer
//!                                                ^                                |          |
//!                                                '------ put back: store away ----'          '-- dropped: released
//! ```
//!
//! A poll waits until a task of one of its callbacks is due, and is woken at once. Polls are served in the
//! order of their arrival, and ready tasks are spread over all that wait. Claims of polls that come together
//! share conditional writes.
//!
//! Crash points: a task may be claimed and not handed over. A dropped connection then releases it at once
//! ([`ClaimBatch`]), and a node that dies leaves it to the task's look. If a task was handed over and lost
//! behind our socket, the worker's missing heartbeat reveals it.

mod apart;
mod buffer;
mod claim_batch;
mod feed;
mod hub;
mod line;
pub(in crate::flow) mod survivor;

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

pub use self::claim_batch::ClaimBatch;
use self::{buffer::Item, feed::Feed, hub::Hub};
use crate::{
    flow::{
        base::{
            api::{ClaimAnswer, ClaimRequest, Fault},
            budget::Portion,
            context::Context,
        },
        features::limit::limiter::Limiter,
        life::{claim::Claimer, claim_room::Memory, settle::Settler},
    },
    limits,
    model::time::Millis,
    queue::Subscriptions,
    time_source::Moment,
};

/// Asks for tasks to run.
#[derive(Debug, Clone)]
pub struct PollRequest {
    /// The worker that asks.
    pub worker: String,
    /// Of which callbacks.
    pub callbacks: Vec<String>,
    /// How many at most.
    pub max: usize,
    /// How long to wait for the first.
    pub wait: Duration,
    /// The version of its program, for people.
    pub version: Option<String>,
}

/// Why a poll was refused: it is answered neither with tasks nor with an empty list.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The node does not consume the queue for workers.
    #[error(
        "this node does not have the role `controller`, which answers polls: poll a node that has it"
    )]
    NoRole,
    /// A limit of the node.
    #[error("{0}")]
    TooMany(String),
    /// The node is stopping.
    #[error("this node is stopping: poll another one")]
    Stopping,
    /// Messages could not be received or claimed, because a part of the service is away.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The poll stage of a node.
pub(super) struct Poller {
    ctx: Arc<Context>,
    subscriptions: Arc<dyn Subscriptions>,
    hub: Arc<Hub>,
    claimer: Claimer,
    settler: Settler,
    tasks: TaskTracker,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("hub", &self.hub)
            .finish_non_exhaustive()
    }
}

/// The outcome of a batch.
struct Claimed {
    handout: ClaimBatch,
    fault: Option<Fault>,
}

impl Poller {
    /// Polls through these. The queue is not consumed before the first poll.
    #[must_use]
    pub(super) fn new(
        ctx: Arc<Context>,
        subscriptions: Arc<dyn Subscriptions>,
        claimer: Claimer,
        settler: Settler,
        limiter: Limiter,
    ) -> Arc<Self> {
        let hub = Hub::new(ctx.settings.poll_feeds_max, ctx.time.clone(), limiter);
        Arc::new(Self {
            hub: Arc::new(hub),
            subscriptions,
            claimer,
            settler,
            tasks: TaskTracker::new(),
            ctx,
        })
    }

    /// Waits for tasks and claims them; none when there was none in time, or the node stops. Dropping the future, or the
    /// handout, gives everything back.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) async fn poll(
        self: &Arc<Self>,
        request: PollRequest,
    ) -> Result<ClaimBatch, Refusal> {
        let time = &self.ctx.time;
        let begun = time.moment();
        // A poll that does not want to wait shall also find what lies ready in the queue.
        let until = begun.after(request.wait.max(limits::POLL_WAIT_MIN));
        let (mut place, mut fault) = (None, None);
        loop {
            let joined = self.hub.join(place, &request);
            let (mut ticket, made) = match joined {
                Ok(joined) => joined,
                // It has waited already, and is answered like those that still wait.
                Err(Refusal::Stopping) if place.is_some() => return Ok(self.nothing()),
                Err(refusal) => return Err(refusal),
            };
            place = Some(ticket.place);
            for (callback, signal) in made {
                self.feed(callback, signal);
            }
            let left = until.since(time.moment());
            let Some(batch) = time.within(left, ticket.batch()).await else {
                drop(ticket);
                return self.in_vain(&request.callbacks, fault);
            };
            drop(ticket);
            if batch.is_empty() {
                return Ok(self.nothing());
            }
            match self.claimed(request.worker.clone(), batch, begun).await {
                Some(claimed) if !claimed.handout.is_empty() => return Ok(claimed.handout),
                Some(claimed) => fault = claimed.fault.or(fault),
                None => fault = Some(stopping()),
            }
        }
    }

    /// Answers the polls of a worker that wait with nothing, of those whose callbacks are all covered; those whose tasks are
    /// being claimed are answered with them.
    pub(super) fn dismiss(&self, worker: &str, covers: impl Fn(&str) -> bool) {
        self.hub.dismiss(worker, covers);
    }

    /// Tells whether a poll waits for tasks of a callback.
    pub(super) fn is_polled(&self, callback: &str) -> bool {
        self.hub.is_polled(callback)
    }

    /// Tells whether tasks are being claimed for polls.
    pub(super) fn is_claiming(&self) -> bool {
        self.hub.is_claiming()
    }

    /// Returns when the first message may be claimed that polls have to wait for.
    pub(super) fn next_held(&self) -> Option<Millis> {
        self.hub.next_held()
    }

    /// Answers every poll that waits with nothing, and lets the feeds close. Claims under way are answered still.
    pub(super) fn leave(&self) {
        self.hub.stop();
    }

    /// Waits until claims, releases and feeds have ended.
    pub(super) async fn stopped(&self) {
        self.hub.stop();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn feed(&self, callback: String, signal: Arc<tokio::sync::Notify>) {
        let feed = Feed {
            callback,
            signal,
            hub: Arc::clone(&self.hub),
            subscriptions: Arc::clone(&self.subscriptions),
            time: self.ctx.time.clone(),
        };
        let (hub, callback) = (Arc::clone(&self.hub), feed.callback.clone());
        let running = tokio::spawn(feed.run());
        self.tasks.spawn(async move {
            if let Err(error) = running.await {
                tracing::error!(callback, %error, "a feed failed; the next poll begins it anew");
                hub.forget(&callback);
            }
        });
    }

    fn nothing(self: &Arc<Self>) -> ClaimBatch {
        ClaimBatch::new(Arc::clone(self), Vec::new(), Duration::ZERO, None)
    }

    /// Answers a poll whose time is up.
    fn in_vain(
        self: &Arc<Self>,
        callbacks: &[String],
        fault: Option<Fault>,
    ) -> Result<ClaimBatch, Refusal> {
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        match self.hub.problem(callbacks) {
            None => Ok(self.nothing()),
            Some(reason) => Err(Refusal::Fault(Fault::Unavailable {
                reason,
                retry_after: limits::POLL_PAUSE,
            })),
        }
    }

    /// Claims a batch, to its end even if no poll waits for it any more: then the handout is dropped, and releases it.
    async fn claimed(
        self: &Arc<Self>,
        worker: String,
        batch: Vec<Item>,
        begun: Moment,
    ) -> Option<Claimed> {
        let (sender, receiver) = oneshot::channel();
        let poller = Arc::clone(self);
        self.tasks.spawn(async move {
            let claimed = poller.claim(&worker, batch, begun).await;
            drop(sender.send(claimed));
        });
        receiver.await.ok()
    }

    /// Takes the bytes of the contents that a batch reads, for all of it at once: claims that each held a part and waited for
    /// more would wait for each other.
    async fn room(&self, batch: &[Item]) -> Option<Portion> {
        let left = batch.iter().filter_map(|item| item.spec.bytes_apart());
        match left.sum() {
            0 => None,
            bytes => Some(self.ctx.contents.take(bytes).await),
        }
    }

    async fn claim(self: Arc<Self>, worker: &str, batch: Vec<Item>, begun: Moment) -> Claimed {
        let requests = batch.iter().map(|item| ClaimRequest {
            id: item.dispatch.id,
            generation: item.dispatch.generation,
            expected_attempt: item.dispatch.expected_attempt,
            spec: Some(Arc::clone(&item.spec)),
            published: Some(item.published),
            // It came with the message, unless it was left in the store.
            with_content: item.spec.content().is_none(),
            // The limits of the queue's name were asked, or those of its own callback where callbacks share the queue.
            admitted: item.permit.is_some() || item.spec.queue() == item.spec.callback(),
        });
        let room = self.room(&batch).await;
        let waited = self.ctx.time.moment().since(begun);
        let requests = requests.collect();
        let memory = Memory::of_caller();
        let answers = self.claimer.claim(worker, requests, &memory).await;
        let (mut tasks, mut done, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let mut fault = None;
        for (mut item, answer) in batch.into_iter().zip(answers) {
            match answer {
                ClaimAnswer::Claimed(mut task) => {
                    task.content = task.content.or_else(|| item.spec.content().cloned());
                    if let Some(permit) = item.permit.take() {
                        permit.spend();
                    }
                    tasks.push((*task, item.dispatch.start));
                    done.push(item);
                }
                ClaimAnswer::Stale
                | ClaimAnswer::Held
                | ClaimAnswer::Gated
                | ClaimAnswer::Behind => done.push(item),
                // Its own entry or look publishes it again by then. Many held messages would leave no room for others.
                ClaimAnswer::Early { not_before }
                    if not_before.since(self.ctx.now()) > limits::EARLY_HELD_MAX =>
                {
                    done.push(item);
                }
                ClaimAnswer::Early { not_before } | ClaimAnswer::Limited { not_before } => {
                    item.not_before = not_before;
                    again.push(item);
                }
                ClaimAnswer::Fault(found) => {
                    // If it was claimed in spite of this, the next claim is answered `held`.
                    item.not_before = self.ctx.now().after(limits::POLL_PAUSE);
                    again.push(item);
                    fault = Some(found);
                }
            }
        }
        self.hub.handled(done);
        self.hub.put_back(again);
        Claimed {
            handout: ClaimBatch::new(self, tasks, waited, room),
            fault,
        }
    }
}

fn stopping() -> Fault {
    Fault::Unknown {
        reason: "the node is stopping".to_owned(),
    }
}
