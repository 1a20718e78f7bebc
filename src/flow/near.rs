//! Tasks that are due sooner than the wheel can hand them out wait in the memory of the node that took them.
//!
//! Each has a durable record first: the look of a tracked task, the backup entry of a `kafka` target. So the death of the
//! node delays it and loses nothing, and the memory is bounded: above the cap a task is left to its record.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    catch_up::CatchUp,
    context::{self, Context, Stepped},
    leftovers::Leftovers,
    place::Placer,
    send::{Sender, Sending, Unsent},
};
use crate::{
    limits,
    model::{
        due_queue::DueQueue,
        entry::{DoneReason, Entry},
        look::NEAR_GRACE,
        task::Body,
        time::Millis,
    },
    queue::PublishError,
};

/// A task that waits in memory.
#[derive(Debug, Clone)]
pub struct NearTask {
    /// What to hand over.
    pub sending: Sending,
    /// The backup entry to mark when it was handed over; none for a tracked task, whose look decides by itself.
    pub backup: Option<Entry>,
    /// A due entry of it stands in the wheel, which is late: the task is counted there.
    pub stands: bool,
}

/// A task in memory, and when it can go out: at its start, or later if it came later; none if that was tried before.
#[derive(Debug)]
struct Waiting {
    task: NearTask,
    from: Option<Millis>,
}

/// The memory wheel of near tasks of one node.
#[derive(Debug, Clone)]
pub struct Near {
    ctx: Arc<Context>,
    sender: Sender,
    placer: Placer,
    catch_up: Arc<CatchUp>,
    leftovers: Leftovers,
    waiting: Arc<Mutex<DueQueue<Waiting>>>,
    earlier: Arc<Notify>,
}

impl Near {
    /// Holds nothing yet.
    #[must_use]
    pub(super) fn new(
        ctx: Arc<Context>,
        sender: Sender,
        placer: Placer,
        catch_up: Arc<CatchUp>,
        leftovers: Leftovers,
    ) -> Self {
        Self {
            ctx,
            sender,
            placer,
            catch_up,
            leftovers,
            waiting: Arc::default(),
            earlier: Arc::default(),
        }
    }

    /// Takes a task whose durable record is written; tells whether there was room.
    pub fn hold(&self, task: NearTask) -> bool {
        let start = task.sending.start;
        let from = Some(start.max(self.ctx.now()));
        let bytes = match &task.sending.spec.body {
            Body::Inline(content) => content.payload.len() as u64 + 512,
            Body::Apart { .. } => 512,
        };
        let wakes = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let full = waiting.len() >= self.ctx.settings.near_tasks_max
                || waiting.bytes() + bytes > limits::NEAR_BYTES_MAX;
            if full {
                return false;
            }
            let wakes = waiting.next_due().is_none_or(|next| start < next);
            waiting.push(start, bytes, Waiting { task, from });
            wakes
        };
        if wakes {
            self.earlier.notify_one();
        }
        true
    }

    /// Returns how many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes what is due, at most one batch.
    fn take(&self) -> Vec<Waiting> {
        let now = self.ctx.now();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_due(now, limits::STEP_ENTRIES_MAX)
    }

    /// Takes one batch of what is due and starts handing it over; says whether more is due and may be taken.
    fn step(&self, firing: &mut JoinSet<()>) -> Stepped {
        let near = self.clone();
        context::hand_over(
            firing,
            || self.take(),
            |batch| async move { near.fire(batch).await },
        )
    }

    /// Hands out when each task that waits here for its first start is due, unless it is counted elsewhere.
    pub(super) fn each(&self, mut take: impl FnMut(Millis)) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for Waiting { task, .. } in waiting.iter() {
            if task.sending.first && !task.stands {
                take(task.sending.start);
            }
        }
    }

    /// Leaves out tasks that were cancelled or moved since they came.
    fn without_passed(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        let version = |waiting: &Waiting| {
            let sending = &waiting.task.sending;
            (sending.id, sending.generation, sending.expected_attempt)
        };
        let passed = self.leftovers.are_stale(batch.iter().map(version));
        let kept = batch.into_iter().zip(passed);
        kept.filter_map(|(waiting, passed)| (!passed).then_some(waiting))
            .collect()
    }

    async fn fire(&self, batch: Vec<Waiting>) {
        let batch = self.without_passed(batch);
        let sendings = batch.iter().map(|waiting| waiting.task.sending.clone());
        let sendings: Vec<Sending> = sendings.collect();
        let first = batch.iter().filter(|waiting| waiting.from.is_some());
        let handing = self.catch_up.handing(first.count());
        let results = self.sender.send(&sendings).await;
        let now = self.ctx.now();
        let in_order = batch.iter().zip(&results);
        let came = in_order.filter(|(_, result)| result.is_ok());
        handing.acknowledged(came.filter_map(|(waiting, _)| Some(now.since(waiting.from?))));
        let mut marks = Vec::new();
        for (Waiting { task, .. }, result) in batch.into_iter().zip(results) {
            match result {
                Ok(()) => {
                    if task.stands {
                        // When its wheel comes to its entry, it has gone out.
                        let version = (task.sending.generation, task.sending.expected_attempt);
                        let until = self.ctx.now().after(limits::BEHIND_HELD_MAX);
                        self.leftovers.pass(task.sending.id, version, until);
                    }
                    let mark = |entry: Entry| {
                        entry.marked_done(
                            DoneReason::Published,
                            self.ctx.now(),
                            self.ctx.time.stamp(),
                        )
                    };
                    marks.extend(task.backup.map(mark));
                }
                Err(unsent) => self.again(task, &unsent),
            }
        }
        self.placer.mark(marks).await;
    }

    /// Tries again until the durable record takes over.
    fn again(&self, task: NearTask, unsent: &Unsent) {
        let hopeless = match unsent {
            Unsent::NoContent
            | Unsent::Queue(PublishError::Refused(_) | PublishError::NoSuchTopic(_)) => true,
            Unsent::Early | Unsent::StoreAway(_) | Unsent::Queue(PublishError::Unconfirmed(_)) => {
                false
            }
        };
        let record = task
            .backup
            .as_ref()
            .map_or_else(|| task.sending.start.after(NEAR_GRACE), |e| e.key.due);
        let next = self.ctx.now().after(limits::STEP_PAUSE);
        if hopeless || next >= record {
            tracing::debug!(task = %task.sending.id, ?unsent, "left a near task to its durable record");
            return;
        }
        let bytes = 512;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(next, bytes, Waiting { task, from: None });
    }

    fn next_due(&self) -> Option<Millis> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next_due()
    }

    /// Hands over what is due, until `stop`; then goes on until nothing waits or `drain` has passed.
    pub async fn run(self, stop: CancellationToken, drain: Duration) {
        let mut firing = JoinSet::new();
        let mut deadline = None;
        loop {
            metrics::gauge!("tickwheel_near_tasks").set(self.len() as f64);
            while self.step(&mut firing) == Stepped::More {}
            if stop.is_cancelled() {
                let end = *deadline.get_or_insert_with(|| self.ctx.time.moment().after(drain));
                if (self.is_empty() && firing.is_empty()) || self.ctx.time.moment() >= end {
                    return;
                }
            }
            let full = firing.len() >= limits::PUBLISHES_IN_FLIGHT_MAX;
            let next = self.next_due().filter(|_| !full);
            tokio::select! {
                biased;
                Some(_) = firing.join_next() => {}
                () = async { self.ctx.time.sleep_until_wall(next.unwrap_or(Millis::MAX)).await }, if next.is_some() => {}
                () = self.earlier.notified() => {}
                () = stop.cancelled(), if deadline.is_none() => {}
                () = self.ctx.time.sleep(limits::STEP_PAUSE), if deadline.is_some() => {}
            }
        }
    }
}
