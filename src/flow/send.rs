//! Hands due tasks to the queue: loads contents that are kept apart, builds records, publishes, and says of each how it went.
//!
//! Tasks that carry their contents go first, as one batch. Contents that are kept apart are read and handed over in parts of
//! bounded size, each within the node's byte budget ([`super::budget`]): whatever is due, and whoever sends it, a node holds
//! no more of them at once.
//!
//! It decides nothing: who calls it knows what a failure means for its entry. It remembers when anything was acknowledged
//! last, so that callers can tell a silent target from a silent queue.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use metrics::{Counter, Histogram};

use super::{TASK_EVENTS, context::Context, labels, pulse::Pulse, unclaimed::Demand};
use crate::{
    failpoint,
    flaw::{self, Flaw},
    limits,
    model::{
        ids::TaskId,
        task::{Content, Spec, Target},
        time::Millis,
    },
    queue::{
        PublishError, Record,
        message::{self, Outgoing, TimeTexts},
    },
    time_source::Moment,
};

/// A task to hand over.
#[derive(Debug, Clone)]
pub struct Sending {
    /// The task.
    pub id: TaskId,
    /// Generation that the claim must find.
    pub generation: u32,
    /// Attempt that the claim must find.
    pub expected_attempt: u32,
    /// When it was due: what lateness is measured from, and what never-early is checked against.
    pub start: Millis,
    /// The task.
    pub spec: Arc<Spec>,
    /// It goes out for the first time since it was registered, or moved: figures of firing are of these.
    pub first: bool,
}

/// Why a task was not handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// It is not due by this node's clock.
    Early,
    /// Its content, kept apart, is gone.
    NoContent,
    /// Its content could not be read now.
    StoreAway(String),
    /// The queue did not take it.
    Queue(PublishError),
}

/// The sender.
#[derive(Debug, Clone)]
pub struct Sender {
    ctx: Arc<Context>,
    pulse: Pulse,
    demand: Demand,
    acknowledged: Arc<Mutex<Option<Moment>>>,
}

impl Sender {
    /// Publishes through this queue.
    #[must_use]
    pub fn new(ctx: Arc<Context>, pulse: Pulse, demand: Demand) -> Self {
        Self {
            ctx,
            pulse,
            demand,
            acknowledged: Arc::default(),
        }
    }

    /// Tells whether the queue has acknowledged anything in the last `within`.
    #[must_use]
    pub fn acknowledged_within(&self, within: Duration) -> bool {
        let last = *self
            .acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| self.ctx.time.moment().since(last) <= within)
    }

    /// Publishes tasks; one result per task, in order. A batch without contents that are kept apart reaches the queue as one.
    pub async fn send(&self, batch: &[Sending]) -> Vec<Result<(), Unsent>> {
        let mut results = vec![Ok(()); batch.len()];
        let now = self.ctx.now();
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for ((index, sending), result) in batch.iter().enumerate().zip(&mut results) {
            // Never early: the last place that can hold it back on this side of the queue.
            if now < sending.start && !flaw::is(Flaw::PublishEarly) {
                *result = Err(Unsent::Early);
            } else if sending.spec.content().is_some() {
                small.push((index, sending));
            } else {
                large.push((index, sending));
            }
        }
        self.publish(&small, &Ok(HashMap::new()), &mut results)
            .await;
        for part in parts(&large) {
            // As it is read, and as the record that is made of it.
            let _room = self.ctx.contents.take(2 * bytes_of(part)).await;
            metrics::gauge!("tickwheel_contents_free_bytes").set(self.ctx.contents.free() as f64);
            let contents = self.contents(part).await;
            self.publish(part, &contents, &mut results).await;
        }
        results
    }

    /// Publishes tasks of a batch whose contents are at hand, and notes how each went at its index.
    async fn publish(
        &self,
        part: &[(usize, &Sending)],
        contents: &Result<HashMap<TaskId, Content>, String>,
        results: &mut [Result<(), Unsent>],
    ) {
        let now = self.ctx.now();
        let mut records = Vec::with_capacity(part.len());
        let mut published = Vec::with_capacity(part.len());
        let mut times = TimeTexts::default();
        for (index, sending) in part {
            match Self::record(sending, contents, now, &mut times) {
                Ok(record) => {
                    records.push(record);
                    published.push((*index, *sending));
                }
                Err(unsent) => set(results, *index, unsent),
            }
        }
        if records.is_empty() {
            return;
        }
        // Before: its claim may be answered before this is.
        self.expect_claims(&published);
        failpoint::pass("publishing");
        let answers = self.ctx.publisher.publish(records).await;
        failpoint::pass("published");
        let fired = self.ctx.now();
        let mut gauges = Gauges::new();
        let mut sent = Vec::with_capacity(published.len());
        let mut acknowledged = false;
        for ((index, sending), answer) in published.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    acknowledged = true;
                    gauges.observe(sending, fired);
                    if sending.first {
                        sent.push((sending.id, sending.spec.target.name(), sending.start));
                    }
                }
                Err(error) => {
                    self.demand.taken(sending.id);
                    set(results, index, Unsent::Queue(error));
                }
            }
        }
        gauges.count_callbacks();
        if !sent.is_empty() {
            self.pulse.fired(fired, sent.into_iter());
        }
        if acknowledged {
            let moment = self.ctx.time.moment();
            *self
                .acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(moment);
        }
    }

    /// Notes what waits for a worker from now on.
    fn expect_claims(&self, part: &[(usize, &Sending)]) {
        let tracked = part.iter().filter_map(|(_, sending)| {
            let callback = sending.spec.callback()?;
            Some((sending.id, callback, sending.start))
        });
        self.demand.publishing(tracked);
    }

    /// Reads the contents of tasks, which are kept apart.
    async fn contents(
        &self,
        part: &[(usize, &Sending)],
    ) -> Result<HashMap<TaskId, Content>, String> {
        let apart: Vec<TaskId> = part.iter().map(|(_, sending)| sending.id).collect();
        let read = self
            .ctx
            .store
            .bodies(&apart)
            .await
            .map_err(|error| error.to_string())?;
        Ok(apart
            .into_iter()
            .zip(read)
            .filter_map(|(id, body)| Some((id, body?)))
            .collect())
    }

    fn record(
        sending: &Sending,
        contents: &Result<HashMap<TaskId, Content>, String>,
        now: Millis,
        times: &mut TimeTexts,
    ) -> Result<Record, Unsent> {
        let Sending {
            id,
            generation,
            expected_attempt,
            start,
            spec,
            first: _,
        } = sending;
        let content = match spec.content() {
            Some(content) => content,
            None => contents
                .as_ref()
                .map_err(|reason| Unsent::StoreAway(reason.clone()))?
                .get(id)
                .ok_or(Unsent::NoContent)?,
        };
        match &spec.target {
            Target::Callback { name } => {
                let message = Outgoing {
                    id: *id,
                    generation: *generation,
                    expected_attempt: *expected_attempt,
                    start: *start,
                    published: now,
                    spec,
                    content,
                };
                Ok(message.to_record(name, times))
            }
            Target::Kafka { .. } => {
                message::user_record(*id, *start, spec, content, times).ok_or(Unsent::NoContent)
            }
        }
    }
}

/// Cuts tasks whose contents are kept apart into parts of at most [`limits::CONTENTS_STEP_BYTES_MAX`] bytes, or of one task.
fn parts<'a, 'b>(mut rest: &'a [(usize, &'b Sending)]) -> Vec<&'a [(usize, &'b Sending)]> {
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, sending): &&(usize, &Sending)| {
            bytes += sending.spec.bytes_apart().unwrap_or(0);
            bytes <= limits::CONTENTS_STEP_BYTES_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
    }
    parts
}

fn bytes_of(part: &[(usize, &Sending)]) -> u64 {
    let bytes = part.iter().map(|(_, sending)| sending.spec.bytes_apart());
    bytes.flatten().sum()
}

fn set(results: &mut [Result<(), Unsent>], index: usize, unsent: Unsent) {
    if let Some(result) = results.get_mut(index) {
        *result = Err(unsent);
    }
}

/// What is counted of each; looked up once a batch.
struct Gauges<'a> {
    callback: Counter,
    kafka: Counter,
    lag: Histogram,
    lag_again: Histogram,
    /// Of the batch.
    callbacks: HashMap<&'a str, u64>,
}

impl<'a> Gauges<'a> {
    fn new() -> Self {
        let fired = |target| metrics::counter!("tickwheel_tasks_fired_total", "target" => target);
        Self {
            callback: fired("callback"),
            kafka: fired("kafka"),
            lag: metrics::histogram!("tickwheel_fire_lag_seconds"),
            lag_again: metrics::histogram!("tickwheel_refire_lag_seconds"),
            callbacks: HashMap::new(),
        }
    }

    fn observe(&mut self, sending: &'a Sending, fired: Millis) {
        let late_ms = fired.0 - sending.start.0;
        if !sending.first {
            tracing::debug!(target: TASK_EVENTS, task = %sending.id, to = sending.spec.target.name(), late_ms, "published again");
            return self
                .lag_again
                .record(fired.since(sending.start).as_secs_f64());
        }
        tracing::debug!(target: TASK_EVENTS, task = %sending.id, to = sending.spec.target.name(), late_ms, "fired");
        match sending.spec.target {
            Target::Callback { .. } => self.callback.increment(1),
            Target::Kafka { .. } => self.kafka.increment(1),
        }
        if let Some(callback) = sending.spec.callback() {
            *self.callbacks.entry(callback).or_default() += 1;
        }
        self.lag.record(fired.since(sending.start).as_secs_f64());
    }

    fn count_callbacks(self) {
        for (callback, tasks) in self.callbacks {
            let callback = labels::label(callback);
            metrics::counter!("tickwheel_callback_fired_total", "callback" => callback)
                .increment(tasks);
        }
    }
}
