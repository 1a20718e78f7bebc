//! The sender hands due tasks to the queue for the stages that hold them. It loads contents that are kept
//! apart, builds the records, publishes them, and returns the result of each.
//!
//! Tasks that carry their contents go first, as one batch. Contents that are kept apart are read and handed over in parts of
//! bounded size, each within the node's byte budget ([`crate::flow::base::budget`]). So a node never holds more of them at once.
//!
//! The sender decides nothing: the policy says what a failure means ([`crate::model::undelivered`]). It remembers when
//! anything was acknowledged last, so that callers can tell a silent target from a silent queue.

use std::{collections::HashMap, num::NonZero, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use super::{
    gauges::Gauges,
    late_runs::{LateRuns, late_run},
    record,
    sending::{Sending, Unsent},
};
use crate::{
    failpoint,
    flaw::{self, Flaw},
    flow::{
        base::{
            agendas::ahead,
            api::Fault,
            context::Context,
            figures::{recent::RecentActivity, unclaimed::Demand},
            records::callbacks::Passage,
        },
        features::gate::gatekeeper::{Gatekeeper, Gates, Holding},
    },
    limits,
    model::{
        expiry,
        ids::TaskId,
        ordering::Sequence,
        target::Target,
        task::{Content, Spec},
        time::Millis,
        undelivered::PATIENCE,
    },
    queue::{PublishError, Record, message::TimeTexts},
    store,
    time_source::Moment,
};

/// Contents that are kept apart, as far as they could be read. One that is missing is gone.
type Contents = HashMap<TaskId, Result<Content, Unsent>>;

/// The last answers of the queue.
#[derive(Debug, Default, Clone, Copy)]
struct Answers {
    /// When it last acknowledged anything.
    acknowledged: Option<Moment>,
    /// It has left something unconfirmed since.
    unconfirmed: bool,
}

/// The sender.
#[derive(Debug, Clone)]
pub struct Sender {
    ctx: Arc<Context>,
    pulse: RecentActivity,
    demand: Demand,
    keeper: Gatekeeper,
    late_runs: LateRuns,
    answers: Arc<Mutex<Answers>>,
    /// The turns of larger batches, where the queue does its work on the cores of this process.
    turns: Option<Arc<Semaphore>>,
}

impl Sender {
    /// Publishes through this queue.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        pulse: RecentActivity,
        demand: Demand,
        keeper: Gatekeeper,
    ) -> Self {
        let turns = ctx.publisher.records_at_once().map(|_| {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            Arc::new(Semaphore::new((cores / 2).max(1)))
        });
        Self {
            ctx,
            pulse,
            demand,
            keeper,
            late_runs: LateRuns::default(),
            answers: Arc::default(),
            turns,
        }
    }

    /// Returns the keeper of the gates that tasks go out by.
    pub(in crate::flow) const fn gatekeeper(&self) -> &Gatekeeper {
        &self.keeper
    }

    /// Returns the questions about runs of schedules that would be late.
    pub(in crate::flow) const fn late_runs(&self) -> &LateRuns {
        &self.late_runs
    }

    /// Holds tasks that a gate has kept from going out; one result per task, in order.
    pub(in crate::flow) async fn hold(
        &self,
        gated: Vec<(Sending, Unsent)>,
    ) -> Vec<Result<(), Fault>> {
        let holding = |(sending, unsent): (Sending, Unsent)| Holding {
            dispatch: sending.dispatch,
            spec: sending.spec,
            gate: match unsent {
                Unsent::Gated(gate) => gate,
                _ => String::new(),
            },
        };
        let holdings: Vec<Holding> = gated.into_iter().map(holding).collect();
        self.keeper.hold(&holdings).await
    }

    /// Tells whether the queue has acknowledged anything in the last `within`.
    #[must_use]
    pub(in crate::flow) fn acknowledged_within(&self, within: Duration) -> bool {
        let last = self.acknowledged();
        last.is_some_and(|last| self.ctx.time.moment().since(last) <= within)
    }

    /// Returns when the queue last acknowledged anything.
    #[must_use]
    pub(in crate::flow) fn acknowledged(&self) -> Option<Moment> {
        self.answers().acknowledged
    }

    /// Tells whether the queue takes nothing at all: it has left something unconfirmed, and has acknowledged nothing since, nor
    /// within [`PATIENCE`]. A task that is tried meanwhile fails with the queue, and not alone.
    #[must_use]
    pub(in crate::flow) fn is_silent(&self) -> bool {
        self.answers().unconfirmed && !self.acknowledged_within(PATIENCE)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock()
    }

    /// Publishes tasks; one result per task, in order. A batch without contents that are kept apart reaches the queue as one.
    pub(in crate::flow) async fn send(&self, batch: &[Sending]) -> Vec<Result<(), Unsent>> {
        self.send_unless(batch, late_run).await
    }

    /// Publishes tasks that were held behind a gate, as [`Self::send`] does. Runs of schedules among them were not missed.
    pub(in crate::flow) async fn release(&self, batch: &[Sending]) -> Vec<Result<(), Unsent>> {
        self.send_unless(batch, |_, _| None).await
    }

    /// Publishes tasks. About those for which `late` names a schedule, that schedule is asked first.
    async fn send_unless(
        &self,
        batch: &[Sending],
        late: fn(&Sending, Millis) -> Option<&str>,
    ) -> Vec<Result<(), Unsent>> {
        let mut results = vec![Ok(()); batch.len()];
        let (now, gates) = (self.ctx.now(), self.keeper.gates());
        let (mut ready, mut undecided, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for ((index, sending), result) in batch.iter().enumerate().zip(&mut results) {
            self.expect_expiry(sending, now);
            // Never early: the last place that can hold it back on this side of the queue.
            if now < sending.dispatch.start && !flaw::is(Flaw::PublishEarly) {
                *result = Err(Unsent::Early);
            } else if let Some(unsent) = gated(&gates, &sending.spec) {
                *result = Err(unsent);
            } else if !self.goes_first(sending, now) {
                behind.push(sending);
            } else if let Some(schedule) = late(sending, now) {
                undecided.push((schedule, (index, sending)));
            } else {
                ready.push((index, sending));
            }
        }
        self.hand_over(ready, &mut results).await;
        if !undecided.is_empty() {
            let decided = self.decided_again(undecided, &mut results).await;
            self.hand_over(decided, &mut results).await;
        }
        for (sending, result) in batch.iter().zip(&results) {
            if result.is_err()
                && let Some(sequence) = Sequence::of(&sending.spec)
            {
                self.ctx
                    .turn_queue
                    .ahead()
                    .left(&sequence, sending.dispatch.id);
            }
        }
        self.count(&behind);
        results
    }

    /// Returns the runs that still go out after their schedules have decided on them again.
    async fn decided_again<'a>(
        &self,
        late: Vec<(&str, (usize, &'a Sending))>,
        results: &mut [Result<(), Unsent>],
    ) -> Vec<(usize, &'a Sending)> {
        let runs = late.iter().map(|(name, (_, run))| (*name, run.dispatch.id));
        let decided = self.late_runs.ask(&runs.collect::<Vec<_>>()).await;
        let mut going = Vec::with_capacity(late.len());
        for ((_, (index, sending)), unsent) in late.into_iter().zip(decided) {
            match unsent {
                Some(unsent) => set(results, index, unsent),
                None => going.push((index, sending)),
            }
        }
        going
    }

    /// Publishes those tasks of a batch that may go out, and notes how each went at its index.
    async fn hand_over(&self, ready: Vec<(usize, &Sending)>, results: &mut [Result<(), Unsent>]) {
        let is_small = |(_, sending): &(usize, &Sending)| {
            sending.spec.content().is_some() || self.leaves_content(&sending.spec)
        };
        let (small, large): (Vec<_>, Vec<_>) = ready.into_iter().partition(is_small);
        self.publish(&small, &HashMap::new(), results).await;
        for part in parts(&large) {
            // Twice: a content takes memory as it is read, and again as the record that is made of it.
            let _room = self.ctx.contents.take(2 * bytes_of(part)).await;
            metrics::gauge!("tickwheel_contents_free_bytes").set(self.ctx.contents.free() as f64);
            let contents = self.contents(part).await;
            self.publish(part, &contents, results).await;
        }
    }

    /// Notes that a task may expire before its next look: while it waits for a worker, for its turn or behind a gate. Behind an
    /// attempt its row alone says when.
    fn expect_expiry(&self, sending: &Sending, now: Millis) {
        let (dispatch, spec) = (&sending.dispatch, &sending.spec);
        let Some(at) = expiry::of(spec, dispatch.start).filter(|_| spec.target.is_tracked()) else {
            return;
        };
        let at = if dispatch.expected_attempt > 0 {
            now
        } else {
            at
        };
        if expiry::is_before_next_look(dispatch.id, at, now, self.ctx.shape()) {
            self.demand.expiries().note(dispatch.id, at, spec);
        }
    }

    /// Tells whether the message of a task goes out without its content, which is kept apart and read at the claim.
    fn leaves_content(&self, spec: &Spec) -> bool {
        spec.content().is_none() && spec.queue().is_some() && self.ctx.publisher.leaves_contents()
    }

    /// Tells whether a task goes out now: it is in no sequence, or no task before it went out that has not ended. A task behind
    /// such a one goes out at its turn, and counts as handed over.
    fn goes_first(&self, sending: &Sending, now: Millis) -> bool {
        let Some(sequence) = Sequence::of(&sending.spec).filter(|_| self.turns.is_some()) else {
            return true;
        };
        let dispatch = &sending.dispatch;
        let task = (dispatch.start, dispatch.id);
        let goes_first = self.ctx.turn_queue.ahead().goes_first(sequence, task);
        let is_new = dispatch.generation == 0 && dispatch.expected_attempt == 0 && sending.first;
        let is_fresh = now.since(dispatch.start) < ahead::FRESH;
        goes_first || !is_new || !is_fresh
    }

    /// Publishes tasks of a batch whose contents are at hand, and notes how each went at its index.
    async fn publish(
        &self,
        part: &[(usize, &Sending)],
        contents: &Contents,
        results: &mut [Result<(), Unsent>],
    ) {
        // Everybody else waits behind the batches that are ready to run, at each step of a claim and of its answer. So a flood
        // that fills the batches of all wheels has half of the cores.
        let _turn = match &self.turns {
            Some(turns) if part.len() > limits::PUBLISHED_WITHOUT_TURN => {
                turns.acquire().await.ok()
            }
            Some(_) | None => None,
        };
        let now = self.ctx.now();
        let mut records = Vec::with_capacity(part.len());
        let mut published = Vec::with_capacity(part.len());
        let mut times = TimeTexts::default();
        for (index, sending) in part {
            match self.record(sending, contents, now, &mut times) {
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
        // Before the publication, because a claim may be answered before this call is.
        self.expect_claims(&published);
        failpoint::pass("publishing");
        let answers = self.ctx.publisher.publish(records).await;
        failpoint::pass("published");
        self.note(published, answers, results);
    }

    /// Notes how the queue took each record, at the index of its task.
    fn note(
        &self,
        published: Vec<(usize, &Sending)>,
        answers: Vec<Result<(), PublishError>>,
        results: &mut [Result<(), Unsent>],
    ) {
        let (mut sent, mut unconfirmed) = (Vec::with_capacity(published.len()), false);
        for ((index, sending), answer) in published.into_iter().zip(answers) {
            match answer {
                Ok(()) => sent.push(sending),
                Err(error) => {
                    self.demand.taken(sending.dispatch.id);
                    unconfirmed |= matches!(error, PublishError::Unconfirmed(_));
                    set(results, index, Unsent::Queue(error));
                }
            }
        }
        self.count(&sent);
        if sent.is_empty() {
            self.answers().unconfirmed |= unconfirmed;
        } else {
            *self.answers() = Answers {
                acknowledged: Some(self.ctx.time.moment()),
                unconfirmed: false,
            };
        }
    }

    /// Counts tasks that were handed over.
    fn count(&self, handed_over: &[&Sending]) {
        let fired = self.ctx.now();
        let mut gauges = Gauges::new();
        for sending in handed_over {
            let task = (sending.dispatch.id, &*sending.spec);
            gauges.observe(task, sending.first, sending.due(), fired);
        }
        gauges.count_callbacks();
        let is_counted = |sending: &&&Sending| sending.first && !sending.dispatch.id.is_internal();
        let new = handed_over.iter().filter(is_counted).map(|sending| {
            let dispatch = &sending.dispatch;
            (dispatch.id, &sending.spec.target, sending.due())
        });
        let new: Vec<(TaskId, &Target, Millis)> = new.collect();
        if !new.is_empty() {
            self.pulse.fired(fired, new.into_iter());
        }
    }

    /// Notes what waits for a worker from now on.
    fn expect_claims(&self, part: &[(usize, &Sending)]) {
        let tracked = part.iter().filter_map(|(_, sending)| {
            let callback = sending.spec.callback()?;
            Some((sending.dispatch.id, callback, sending.dispatch.start))
        });
        self.demand.publishing(tracked);
    }

    /// Reads the contents of tasks, which are kept apart.
    async fn contents(&self, part: &[(usize, &Sending)]) -> Contents {
        let apart: Vec<TaskId> = part
            .iter()
            .map(|(_, sending)| sending.dispatch.id)
            .collect();
        let read = self.ctx.store.bodies_each(&apart).await;
        let found = |(id, read): (TaskId, Result<Option<Content>, store::Error>)| {
            let content = read.map_err(|error| unread(id, &error)).transpose()?;
            Some((id, content))
        };
        apart.into_iter().zip(read).filter_map(found).collect()
    }

    fn record(
        &self,
        sending: &Sending,
        contents: &Contents,
        now: Millis,
        times: &mut TimeTexts,
    ) -> Result<Record, Unsent> {
        let (dispatch, spec) = (&sending.dispatch, &sending.spec);
        if self.leaves_content(spec) {
            return Ok(record::message(dispatch, spec, None, now, times));
        }
        let content = match spec.content() {
            Some(content) => content,
            None => match contents.get(&dispatch.id) {
                Some(read) => read.as_ref().map_err(Clone::clone)?,
                None => return Err(Unsent::NoContent),
            },
        };
        Ok(record::record(dispatch, spec, content, now, times))
    }
}

/// Tells why a content could not be had.
fn unread(id: TaskId, error: &store::Error) -> Unsent {
    match error {
        store::Error::Corrupt { .. } => {
            tracing::error!(task = %id, %error, "the content of a due task is damaged");
            Unsent::DamagedContent(error.to_string())
        }
        _ => Unsent::StoreAway(error.to_string()),
    }
}

/// Returns why a gate keeps a task from going out; none when none does.
fn gated(gates: &Gates, spec: &Spec) -> Option<Unsent> {
    match gates.passage(spec) {
        Passage::Open => None,
        Passage::Held(gate) => Some(Unsent::Gated(gate)),
        Passage::Unknown => Some(Unsent::GateUnknown),
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
