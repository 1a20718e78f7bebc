//! The near memory of a node holds tasks for registration when they are due sooner than the wheel can hand
//! them out.
//!
//! Each task has a durable record first: the look of a tracked task, the backup entry of a `kafka` target. So
//! the death of the node delays a task and loses none. The memory is bounded: above the cap a task is left to
//! its record.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    look_entries::look_soon,
    send::Sender,
    sending::{Sending, Unsent},
};
use crate::{
    flaw::{self, Flaw},
    flow::base::{
        context::{Context, Firing, Lane, Stepped},
        entries::{entry_writer::EntryWriter, leftovers::Leftovers},
        permits::catch_up::CatchUp,
    },
    limits,
    model::{
        due_queue::Size,
        entry::{DoneReason, Entry},
        lanes::{LaneKey, Lanes, has_its_share},
        time::Millis,
        undelivered::{self, Action, Reason, Stage, UNCONFIRMED_PATIENCE},
    },
};

/// A task that waits in memory.
#[derive(Debug, Clone)]
pub(in crate::flow) struct NearTask {
    /// The task to hand over.
    pub sending: Sending,
    /// The backup entry to mark when it was handed over; none for a tracked task, whose look decides by itself.
    pub backup: Option<Entry>,
    /// A due entry of it stands in the wheel, which is late: the task is counted there.
    pub stands: bool,
}

impl NearTask {
    /// A task whose look is its durable record.
    pub(in crate::flow) const fn with_look(sending: Sending) -> Self {
        Self {
            sending,
            backup: None,
            stands: false,
        }
    }

    /// Returns about how much memory it takes; a content that is kept apart takes none until it is read.
    fn weight(&self) -> u64 {
        (size_of::<Waiting>() + self.sending.spec.weight()) as u64
    }
}

/// A task in memory.
#[derive(Debug)]
struct Waiting {
    task: NearTask,
    /// When it can go out: at its start, or later if it came later. None if it was tried before.
    from: Option<Millis>,
    /// When its durable record stands in for it, if it does not go out until then.
    until: Millis,
}

/// The line of near tasks. Tasks whose contents are kept apart have a line of their own, and leave it by the bytes of these.
/// Callbacks and topics leave it in turns.
#[derive(Debug, Default)]
struct Line {
    small: Lanes<Waiting>,
    large: Lanes<Waiting>,
}

impl Line {
    const fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// About how much memory they take.
    const fn bytes(&self) -> u64 {
        self.small.bytes() + self.large.bytes()
    }

    /// Tells whether there is no room for a task: none at all, or its callback has its share of it.
    fn is_full_for(&self, task: &NearTask, tasks_max: usize) -> bool {
        let key = LaneKey::of(&task.sending.spec);
        let (small, large) = (self.small.held(key), self.large.held(key));
        let (tasks, bytes) = (small.0 + large.0, small.1 + large.1);
        self.len() >= tasks_max
            || self.bytes() + task.weight() > limits::NEAR_BYTES_MAX
            || has_its_share(tasks as u64, self.len() as u64, tasks_max as u64)
            || has_its_share(bytes, self.bytes(), limits::NEAR_BYTES_MAX)
    }

    fn push(&mut self, due: Millis, waiting: Waiting) {
        let spec = &waiting.task.sending.spec;
        let (key, weight) = (LaneKey::of(spec), waiting.task.weight());
        match spec.bytes_apart() {
            Some(taken) => {
                let size = Size {
                    held: weight,
                    taken,
                };
                self.large.push_sized(key, due, size, waiting);
            }
            None => self.small.push(key, due, weight, waiting),
        }
    }

    fn pop_due(&mut self, lane: Lane, now: Millis, max: usize) -> Vec<Waiting> {
        match lane {
            Lane::Small => self.small.pop_due(now, max),
            Lane::Looks => Vec::new(),
            Lane::Large => {
                let bytes_max = limits::CONTENTS_STEP_BYTES_MAX;
                self.large.pop_due_within(now, max, bytes_max)
            }
        }
    }

    fn next_due(&self, lane: Lane) -> Option<Millis> {
        match lane {
            Lane::Small => self.small.next_due(),
            Lane::Looks => None,
            Lane::Large => self.large.next_due(),
        }
    }
}

/// The memory wheel of near tasks of one node.
#[derive(Debug, Clone)]
pub struct Near {
    ctx: Arc<Context>,
    sender: Sender,
    entry_writer: EntryWriter,
    catch_up: Arc<CatchUp>,
    leftovers: Leftovers,
    waiting: Arc<Mutex<Line>>,
    earlier: Arc<Notify>,
}

impl Near {
    /// Holds nothing yet.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        sender: Sender,
        entry_writer: EntryWriter,
        catch_up: Arc<CatchUp>,
        leftovers: Leftovers,
    ) -> Self {
        Self {
            ctx,
            sender,
            entry_writer,
            catch_up,
            leftovers,
            waiting: Arc::default(),
            earlier: Arc::default(),
        }
    }

    /// Takes a task whose durable record is written, if there is room.
    ///
    /// # Errors
    /// The remedy for a task that there is no room for.
    pub(in crate::flow) fn hold(&self, task: NearTask) -> Result<(), Action> {
        let start = task.sending.dispatch.start;
        let from = start.max(self.ctx.now());
        let until = match &task.backup {
            Some(entry) => entry.key.due,
            None => from.after(UNCONFIRMED_PATIENCE),
        };
        let wakes = {
            let mut waiting = self.waiting.lock();
            if waiting.is_full_for(&task, self.ctx.settings.near_tasks_max) {
                metrics::counter!("tickwheel_near_refused_total").increment(1);
                let stage = Stage::Near {
                    record_comes: false,
                    never_published: task.sending.first,
                };
                let class = task.sending.spec.target.class();
                return Err(undelivered::action(Reason::NoRoom, stage, class));
            }
            let lane = Lane::of(&task.sending.spec);
            let wakes = waiting.next_due(lane).is_none_or(|next| start < next);
            let from = Some(from);
            waiting.push(start, Waiting { task, from, until });
            wakes
        };
        if wakes {
            self.earlier.notify_one();
        }
        Ok(())
    }

    /// Takes a task as [`Self::hold`] does, and leaves it to its durable record where there is no room.
    pub(in crate::flow) fn hold_or_leave(&self, task: NearTask) {
        let id = task.sending.dispatch.id;
        if let Err(action) = self.hold(task) {
            tracing::debug!(task = %id, ?action, "no room for a near task");
        }
    }

    /// Returns how many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns when the next task is due; none when nothing waits.
    pub(in crate::flow) fn next(&self) -> Option<Millis> {
        let waiting = self.waiting.lock();
        Lane::ALL
            .into_iter()
            .filter_map(|lane| waiting.next_due(lane))
            .min()
    }

    /// Takes what is due of a lane, at most one batch.
    fn take(&self, lane: Lane, max: usize) -> Vec<Waiting> {
        let now = self.ctx.now();
        let mut waiting = self.waiting.lock();
        waiting.pop_due(lane, now, max)
    }

    /// Takes one batch of each lane of what is due and starts handing it over; says whether more is due and may be taken.
    fn step(&self, firing: &mut Firing) -> Stepped {
        let fire = |batch| {
            let near = self.clone();
            async move { near.fire(batch).await }
        };
        firing.hand_over(|lane, max| self.take(lane, max), fire)
    }

    /// Hands out when each task that waits here for its first start is due, with its callback, unless it is counted elsewhere.
    pub(in crate::flow) fn each(&self, mut take: impl FnMut(Millis, Option<&str>)) {
        let waiting = self.waiting.lock();
        for Waiting { task, .. } in waiting.small.iter().chain(waiting.large.iter()) {
            if task.sending.first && !task.stands {
                take(task.sending.dispatch.start, task.sending.spec.callback());
            }
        }
    }

    /// Leaves out tasks that were cancelled or moved since they came.
    fn without_passed(&self, batch: Vec<Waiting>) -> Vec<Waiting> {
        let version = |waiting: &Waiting| {
            let sending = &waiting.task.sending;
            (
                sending.dispatch.id,
                sending.dispatch.generation,
                sending.dispatch.expected_attempt,
            )
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
        let (mut marks, mut left, mut gated) = (Vec::new(), Vec::new(), Vec::new());
        for (waiting, result) in batch.into_iter().zip(results) {
            let Waiting { task, until, .. } = waiting;
            match result {
                Ok(()) => {
                    if task.stands {
                        // When its wheel comes to its entry, it has gone out.
                        let version = (
                            task.sending.dispatch.generation,
                            task.sending.dispatch.expected_attempt,
                        );
                        let until = self.ctx.now().after(limits::BEHIND_HELD_MAX);
                        self.leftovers
                            .pass(task.sending.dispatch.id, version, until);
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
                Err(unsent @ Unsent::Gated(_)) => gated.push((task, until, unsent)),
                Err(unsent) => left.extend(self.again(task, until, &unsent)),
            }
        }
        left.extend(self.hold_gated(gated).await);
        self.entry_writer.mark(marks).await;
        if !left.is_empty() && !flaw::is(Flaw::UnsentTakenForSent) {
            // A look that cannot be put is left to the durable record of its task.
            self.entry_writer.place(left).await;
        }
    }

    /// Holds tasks behind gates that are not open, as the policy says. One whose row cannot be written is tried again as if it
    /// could not be told whether its gate is open. Returns looks to put.
    async fn hold_gated(&self, gated: Vec<(NearTask, Millis, Unsent)>) -> Vec<Entry> {
        let sendings = gated
            .iter()
            .map(|(task, _, unsent)| (task.sending.clone(), unsent.clone()));
        let held = self.sender.hold(sendings.collect()).await;
        let failed = gated
            .into_iter()
            .zip(held)
            .filter(|(_, held)| held.is_err());
        failed
            .filter_map(|((task, until, _), _)| self.again(task, until, &Unsent::GateUnknown))
            .collect()
    }

    /// Tells whether one more task of no size can wait.
    pub(in crate::flow) fn has_room(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.len() < self.ctx.settings.near_tasks_max && waiting.bytes() < limits::NEAR_BYTES_MAX
    }

    /// Tries again until the durable record takes over. The record of a tracked task takes the task for
    /// published, so this returns a look that does not. While the queue takes nothing at all, a tracked task stays here.
    fn again(&self, task: NearTask, until: Millis, unsent: &Unsent) -> Option<Entry> {
        let now = self.ctx.now();
        let next = now.after(limits::STEP_PAUSE);
        let until = match &task.backup {
            None if self.sender.is_silent() => until.max(now.after(UNCONFIRMED_PATIENCE)),
            None | Some(_) => until,
        };
        let stage = Stage::Near {
            record_comes: next >= until,
            never_published: task.sending.first,
        };
        let class = task.sending.spec.target.class();
        let action = undelivered::action(unsent.reason(), stage, class);
        if action == Action::RetryHere {
            let mut waiting = self.waiting.lock();
            let from = None;
            waiting.push(next, Waiting { task, from, until });
            return None;
        }
        tracing::debug!(task = %task.sending.dispatch.id, ?unsent, "left a near task to its durable record");
        (action == Action::LookSoon).then(|| look_soon(&self.ctx, &task.sending, None))
    }

    /// Returns when the next of what there is a place for is due.
    fn next_due(&self, firing: &Firing) -> Option<Millis> {
        let waiting = self.waiting.lock();
        firing.next_due(|lane| waiting.next_due(lane))
    }

    /// Hands over what is due, until `stop`; then goes on until nothing waits or `drain` has passed.
    pub async fn run(self, stop: CancellationToken, drain: Duration) {
        let mut firing = Firing::new(self.ctx.publisher.records_at_once());
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
            let next = self.next_due(&firing);
            tokio::select! {
                biased;
                Some(fired) = firing.ended() => if let Err(error) = fired {
                    tracing::error!(%error, "a batch of near tasks failed; they come again by their looks");
                },
                () = async { self.ctx.time.sleep_until_wall(next.unwrap_or(Millis::MAX)).await }, if next.is_some() => {}
                () = self.earlier.notified() => {}
                () = stop.cancelled(), if deadline.is_none() => {}
                () = self.ctx.time.sleep(limits::STEP_PAUSE), if deadline.is_some() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        dispatch::Dispatch,
        fixtures,
        task::{Body, Content, Spec},
    };

    /// Returns how many tasks like this one fit, and how many bytes they take.
    fn fill(spec: Spec) -> (usize, u64) {
        let task = NearTask {
            sending: Sending {
                dispatch: Dispatch::first(fixtures::id(), fixtures::START),
                spec: Arc::new(spec),
                first: true,
                opened: None,
            },
            backup: None,
            stands: false,
        };
        let mut line = Line::default();
        while !line.is_full_for(&task, limits::NEAR_TASKS_MAX) {
            let waiting = Waiting {
                task: task.clone(),
                from: None,
                until: fixtures::START,
            };
            line.push(fixtures::START, waiting);
        }
        (line.len(), line.bytes())
    }

    /// One callback has three quarters of the room.
    #[test]
    fn tasks_fill_their_share_by_all_that_they_own() {
        let share = limits::NEAR_BYTES_MAX / 4 * 3;
        let most = share as usize / fixtures::LADEN_BYTES + 1;
        for body in [fixtures::spec().body, Body::Apart { bytes: 2000 }] {
            let (tasks, bytes) = fill(Spec {
                body,
                ..fixtures::laden()
            });
            assert!(tasks <= most, "{tasks} tasks fit");
            assert!(bytes >= share && bytes <= limits::NEAR_BYTES_MAX, "{bytes}");
        }
    }

    #[test]
    fn plain_tasks_are_bounded_by_their_number_first() {
        let content = Content {
            payload: vec![7; 64].into(),
            ..Content::default()
        };
        let (tasks, _) = fill(Spec {
            body: Body::Inline(content),
            ..fixtures::spec()
        });
        assert_eq!(tasks, limits::NEAR_TASKS_MAX / 4 * 3);
    }
}
