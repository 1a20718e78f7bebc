//! The look stage examines tasks for the wheels when their looks have come up, and does what each task needs.
//!
//! This order prevents the loss of a task: it reads the rows, publishes, and then writes the successors (durable). Until then
//! the look itself stands, and is repeated after a crash: at worst it publishes once more. A look that the queue does not take
//! waits where it is. A look whose task is terminal pays its debts and is dropped. Every other look has a successor.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    held_back::{hold_behind, hold_gated, hold_queued},
    republish::{Republisher, Sent},
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::Context,
            entries::entry_writer::EntryWriter,
            figures::unclaimed::Demand,
            permits::read_permits::ReadPermits,
            read::find::Finder,
            rows::{beats, stored},
        },
        features::{join::waiter::awaits, key::keys::Keys, sequence::turn::SequenceLock},
        life::{
            door::{Applied, Basis, By, Door, keep_redriven, settle_debts},
            enter::Entrance,
            look_entries::look_at_tree,
            replaced,
            send::Sender,
            sending::{Sending, Unsent},
            undelivered as set_aside,
        },
    },
    model::{
        decision::{self, Decision, Known},
        entry::{Entry, Kind},
        expiry::{self, Expiring},
        ids::TaskId,
        look::Grid,
        state::{self, Event, Refusal, State, TaskRow},
        time::Millis,
        undelivered::{self, Action, Reason, Stage},
    },
    store::{self, Heartbeat},
};

/// The examiner of tasks.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Looker {
    ctx: Arc<Context>,
    entry_writer: EntryWriter,
    entrance: Entrance,
    sender: Sender,
    republisher: Republisher,
    door: Door,
    keys: Keys,
    turns: Arc<ReadPermits>,
    sequence_lock: SequenceLock,
    demand: Demand,
}

/// A look that is not done and has to come again.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Undone {
    /// Why.
    pub(in crate::flow) fault: Fault,
    /// When it has published its task, if it has: it need not do so again while the message waits.
    pub(in crate::flow) published: Option<Millis>,
}

impl From<Fault> for Undone {
    fn from(fault: Fault) -> Self {
        let published = None;
        Self { fault, published }
    }
}

/// Rows and heartbeats of some tasks, as read.
#[derive(Debug)]
pub(in crate::flow) struct TasksRead {
    /// Their rows, in order; none for a task that has none, or whose row could not be read.
    pub(in crate::flow) rows: Vec<Option<TaskRow>>,
    /// The last signs of life of those that run.
    pub(in crate::flow) heartbeats: HashMap<TaskId, Heartbeat>,
    /// The tasks whose rows could not be read.
    pub(in crate::flow) unreadable: HashMap<TaskId, store::Error>,
}

impl Looker {
    /// Examines through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        (entry_writer, entrance): (EntryWriter, Entrance),
        (sender, republisher): (Sender, Republisher),
        door: Door,
        turns: Arc<ReadPermits>,
        demand: Demand,
    ) -> Self {
        let finder = Finder::new(Arc::clone(&ctx));
        Self {
            keys: Keys::new(Arc::clone(&ctx)),
            sequence_lock: SequenceLock::new(Arc::clone(&ctx), finder),
            ctx,
            entry_writer,
            entrance,
            sender,
            republisher,
            door,
            turns,
            demand,
        }
    }

    /// Examines a batch of looks; one result per look, in order. An error means that the look is not done.
    pub(in crate::flow) async fn look(&self, looks: &[&Entry]) -> Vec<Result<(), Undone>> {
        let tasks: Vec<(TaskId, u32)> = looks.iter().map(|look| of_generation(look)).collect();
        let turn = self.turns.look().await;
        // Taken before the reads: a heartbeat that comes after them must not find its lease ended at this time.
        let now = self.ctx.now();
        let known = match self.known(&tasks).await {
            Ok(known) => known,
            Err(fault) => return looks.iter().map(|_| Err(fault.clone().into())).collect(),
        };
        // Writes of many wheels share a sync.
        drop(turn);
        if !known.unreadable.is_empty() {
            return self.look_at_others(looks, known.unreadable).await;
        }
        let decide = |(look, row): (&&Entry, &Option<TaskRow>)| {
            let heartbeat = known.heartbeats.get(&look.key.id).map(|beat| beat.at);
            let heartbeat = self.ctx.sign_of_life(heartbeat);
            self.decide(look, row.as_ref(), heartbeat, now)
        };
        let mut decisions: Vec<Decision> = looks.iter().zip(&known.rows).map(decide).collect();
        let gates = self.sender.gatekeeper().gates();
        let grid = |look: &Entry| Grid::of(look.key.id, self.ctx.shape());
        let gated = hold_gated(&gates, grid, looks, &mut decisions, &known.rows, now);
        let behind = hold_behind(&self.sequence_lock, grid, looks, &mut decisions, now).await;
        // A task that is to be published waits for a worker, also while the message before is still in the queue.
        self.note_demand(looks, &decisions, &known.rows, now);
        // They wait for their gates or turns, and for no worker.
        self.note_held(&gated, behind);
        self.note_expiries(looks, &decisions, &known.rows, now);
        hold_queued(&self.ctx, looks, &mut decisions).await;
        keep_redriven(&self.ctx, &known.rows).await;
        let tasks = looks.iter().zip(&decisions).zip(&known.rows);
        self.keys.keep_all(tasks, now).await;
        let sent = self
            .republisher
            .publish(looks, &decisions, &known.rows)
            .await;
        let mut results = self.put_successors(looks, &decisions, sent, now).await;
        // Behind the successors, which stand for tasks whose rows cannot be written now.
        self.sender.hold(gated).await;
        let ends = looks.iter().zip(&decisions).zip(known.rows);
        let ends = ends.map(|((look, decision), row)| self.end_one(look, decision, row, now));
        for (result, ended) in results.iter_mut().zip(join_all(ends).await) {
            // A look whose successor was not written has to come again, whatever else was done.
            if let (Ok(()), Some(ended)) = (&result, ended) {
                *result = ended.map_err(Undone::from);
            }
        }
        results
    }

    /// Does what a decision asks for beside successors and publications, if anything.
    async fn end_one(
        &self,
        look: &Entry,
        decision: &Decision,
        row: Option<TaskRow>,
        now: Millis,
    ) -> Option<Result<(), Fault>> {
        metrics::counter!("tickwheel_looks_total", "decision" => decision.name()).increment(1);
        if goes_on_as_parent(look, row.as_ref()) {
            // Its tree may have been cancelled by a call that died.
            self.ctx.pokes.add(look.key.id, self.ctx.time.moment());
        }
        match (decision, row) {
            (Decision::End { event }, row) => Some(self.end(look, row, event.clone(), now).await),
            (Decision::EndSteps, Some(row)) => {
                let ended = replaced::end_steps(&self.ctx, &self.keys, &self.entrance, &row).await;
                Some(self.given_up(look, &row, now, ended).await)
            }
            (Decision::LookAgain { .. }, row) if awaits(look, row.as_ref()) => {
                Some(self.ask(look, row.as_ref()).await)
            }
            // The steps of its own run are repeated for a while, and its tree is checked.
            (Decision::LookAgain { .. }, Some(row)) if row.waits_for_children() => {
                let due = look.key.due;
                Some(Box::pin(settle_debts(&self.ctx, &row, By::Look(due))).await)
            }
            (Decision::EndSteps, None)
            | (Decision::Drop | Decision::Publish(_) | Decision::LookAgain { .. }, _) => None,
        }
    }

    /// Asks for the check of a waiter whose look has come up. One that has no row gets it: its registration ended before.
    async fn ask(&self, look: &Entry, row: Option<&TaskRow>) -> Result<(), Fault> {
        let id = look.key.id;
        if row.is_none() {
            self.door.wait(id, &look.spec).await?;
        }
        self.ctx.joins.asked.add(id, self.ctx.time.moment());
        Ok(())
    }

    /// Sets the look of a task aside whose end steps still fail shortly before its row expires: a later look would find a task
    /// that has never run.
    async fn given_up(
        &self,
        look: &Entry,
        row: &TaskRow,
        now: Millis,
        ended: Result<(), Fault>,
    ) -> Result<(), Fault> {
        match ended {
            Err(fault) if state::is_last_look(row, self.ctx.store.expired_by(now)) => {
                set_aside::end_steps(&self.ctx, look, &fault).await
            }
            ended => ended,
        }
    }

    fn decide(
        &self,
        look: &Entry,
        row: Option<&TaskRow>,
        heartbeat: Option<Millis>,
        now: Millis,
    ) -> Decision {
        let retrying = row.is_some_and(|row| row.state == State::Retrying);
        if flaw::is(Flaw::LookDroppedAtUnclaimed) && row.is_none()
            || flaw::is(Flaw::LookDroppedAtRetrying) && retrying
        {
            return Decision::Drop;
        }
        decision::decide(look, Known { row, heartbeat }, now, self.ctx.shape())
    }

    /// Reads the rows of tasks, none for those that have none or whose rows cannot be read.
    pub(in crate::flow) async fn rows(&self, ids: &[TaskId]) -> Vec<Option<TaskRow>> {
        let rows = stored::rows_each(&self.ctx, ids).await;
        rows.into_iter().map(Result::unwrap_or_default).collect()
    }

    /// Examines the tasks whose rows were read. Looks of corrupt rows are set aside, other failures are tried again.
    async fn look_at_others(
        &self,
        looks: &[&Entry],
        unreadable: HashMap<TaskId, store::Error>,
    ) -> Vec<Result<(), Undone>> {
        let is_readable = |look: &&&Entry| !unreadable.contains_key(&look.key.id);
        let others: Vec<&Entry> = looks.iter().filter(is_readable).copied().collect();
        let mut others = Box::pin(self.look(&others)).await.into_iter();
        let mut results = Vec::with_capacity(looks.len());
        for look in looks {
            results.push(match unreadable.get(&look.key.id) {
                None => others.next().unwrap_or(Ok(())),
                Some(error) => match row_action(error, Stage::Look, look) {
                    Action::SetAside => {
                        let aside = set_aside::unreadable_row(&self.ctx, look, error).await;
                        aside.map_err(Undone::from)
                    }
                    // Looked at again until it can be read, or a node comes that understands it.
                    Action::RetryHere
                    | Action::LeaveToLook
                    | Action::LookSoon
                    | Action::FurtherOn
                    | Action::Hold => Err(Fault::from(error.clone()).into()),
                },
            });
        }
        results
    }

    /// Reads the rows of tasks that have entries of these generations, and the heartbeats of those that run.
    pub(in crate::flow) async fn known(&self, tasks: &[(TaskId, u32)]) -> Result<TasksRead, Fault> {
        let mut unreadable = HashMap::new();
        let rows = stored::rows_of_generations(&self.ctx, tasks).await;
        let mut note = |((id, _), row): (&(TaskId, u32), Result<_, store::Error>)| {
            row.unwrap_or_else(|error| {
                unreadable.insert(*id, error);
                None
            })
        };
        let rows: Vec<Option<TaskRow>> = tasks.iter().zip(rows).map(&mut note).collect();
        let running: Vec<(TaskId, u32)> = rows
            .iter()
            .flatten()
            .filter(|row| row.state == State::Claimed)
            .map(|row| (row.id, row.attempt))
            .collect();
        let heartbeats = if running.is_empty() {
            HashMap::new()
        } else {
            beats::read(&self.ctx, &running).await?
        };
        Ok(TasksRead {
            rows,
            heartbeats,
            unreadable,
        })
    }

    /// Writes the successors of a batch, as one batch.
    async fn put_successors(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        sent: Vec<Sent>,
        now: Millis,
    ) -> Vec<Result<(), Undone>> {
        let (mut results, mut places, mut successors) = (Vec::new(), Vec::new(), Vec::new());
        for (index, ((look, decision), sent)) in looks.iter().zip(decisions).zip(sent).enumerate() {
            let went_out = matches!(sent, Sent::Out);
            let (successor, result) = match sent {
                Sent::Out | Sent::NotAsked => (self.successor(look, decision, now), Ok(())),
                Sent::Later(later) => (Some(*later), Ok(())),
                Sent::Waits(fault) => (None, Err(fault.into())),
            };
            results.push(result);
            if let Some(successor) = successor {
                places.push((index, went_out.then_some(now)));
                successors.push(successor);
            }
        }
        if successors.is_empty() || flaw::is(Flaw::LookWithoutSuccessor) {
            return results;
        }
        let placed = self.entry_writer.place(successors).await;
        for ((index, published), placed) in places.into_iter().zip(placed) {
            if let (Some(result), Err(fault)) = (results.get_mut(index), placed) {
                *result = Err(Undone { fault, published });
            }
        }
        results
    }

    fn successor(&self, look: &Entry, decision: &Decision, now: Millis) -> Option<Entry> {
        let Kind::Look { published, .. } = look.kind else {
            return None;
        };
        let (at, generation, published, start) = match decision {
            Decision::LookAgain { at, generation } => (*at, *generation, published, look.start),
            Decision::Publish(publish) => (
                publish.look_at?,
                publish.generation,
                Some(now),
                publish.start,
            ),
            Decision::Drop | Decision::End { .. } | Decision::EndSteps => return None,
        };
        let stamp = self.ctx.time.stamp();
        Some(Entry::look(
            look.key.id,
            generation,
            at,
            published,
            start,
            Arc::clone(&look.spec),
            stamp,
        ))
    }

    /// Puts looks at tasks whose publication has failed, as far as they can be put.
    pub(in crate::flow) async fn come_back(&self, looks: Vec<Entry>) {
        self.republisher.come_back(looks).await;
    }

    fn note_demand(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        rows: &[Option<TaskRow>],
        now: Millis,
    ) {
        for ((look, decision), row) in looks.iter().zip(decisions).zip(rows) {
            self.note_one(look, decision, row.as_ref(), now);
        }
    }

    fn note_held(&self, gated: &[(Sending, Unsent)], behind: Vec<TaskId>) {
        let held = gated.iter().map(|(sending, _)| sending.dispatch.id);
        held.chain(behind).for_each(|id| self.demand.taken(id));
    }

    /// Notes which tasks may expire before their next looks.
    fn note_expiries(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        rows: &[Option<TaskRow>],
        now: Millis,
    ) {
        for ((look, decision), row) in looks.iter().zip(decisions).zip(rows) {
            let next = match decision {
                Decision::Publish(publish) => publish.look_at,
                Decision::LookAgain { at, .. } => Some(*at),
                Decision::Drop | Decision::End { .. } | Decision::EndSteps => None,
            };
            let (id, spec) = (look.key.id, &look.spec);
            let expiring = match row {
                Some(row) => expiry::by_row(row, now),
                None => expiry::without_row(id, spec, now),
            };
            if let (Some(next), Expiring::At(at)) = (next, expiring)
                && at < next
            {
                self.demand.expiries().note(id, at, spec);
            }
        }
    }

    /// Notes whether the task waits for a worker.
    fn note_one(&self, look: &Entry, decision: &Decision, row: Option<&TaskRow>, now: Millis) {
        let id = look.key.id;
        let due = row.map_or_else(|| id.first_start(), |row| row.next);
        let again = match decision {
            Decision::Drop => return,
            Decision::Publish(publish) => publish.look_at,
            Decision::LookAgain { at, .. } => Some(*at),
            Decision::End { .. } | Decision::EndSteps => None,
        };
        let lost = matches!(decision, Decision::Publish(_));
        let waits = due <= now && (lost || row.is_none_or(waits_for_worker)) && !awaits(look, row);
        match (look.spec.callback(), again) {
            (Some(callback), Some(again)) if waits => {
                self.demand.waits(id, callback, due, again);
            }
            _ => self.demand.taken(id),
        }
    }

    /// Moves a task to its end, as of `noted`: the time before what the event says of it was read.
    async fn end(
        &self,
        look: &Entry,
        row: Option<TaskRow>,
        event: Event,
        noted: Millis,
    ) -> Result<(), Fault> {
        let (id, spec) = (look.key.id, Arc::clone(&look.spec));
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            state::next(id, row, &spec, event.clone(), now.min(noted), nonce)
        };
        match self.door.apply(id, Basis::guessed(row), decide).await? {
            Applied::To(owing) => {
                let row = owing.row();
                if row.waits_for_children() {
                    // This look has no successor. Another one finds out that the task has ended.
                    let look = look_at_tree(&self.ctx, row);
                    for placed in self.entry_writer.place(vec![look]).await {
                        placed?;
                    }
                }
                replaced::enter_next(&self.keys, &self.entrance, row).await?;
                owing.pay(&self.ctx).await.1
            }
            Applied::Refused(Refusal::Ended { .. }, Some(row)) => {
                replaced::end_steps(&self.ctx, &self.keys, &self.entrance, &row).await
            }
            // The task moved on since it was read: look again at once, with its new row.
            Applied::Refused(refusal, _) => Err(Fault::Unavailable {
                reason: format!("task {id} moved on while it was looked at: {refusal:?}"),
                retry_after: crate::limits::STEP_PAUSE,
            }),
        }
    }
}

/// Returns the task of a look, with the generation that it was written for.
pub(in crate::flow) const fn of_generation(look: &Entry) -> (TaskId, u32) {
    (look.key.id, look.key.generation)
}

/// Decides what to do with a task whose row could not be read.
pub(in crate::flow) fn row_action(error: &store::Error, stage: Stage, look: &Entry) -> Action {
    let reason = match error {
        store::Error::Corrupt { .. } => Reason::RowUnreadable,
        _ => Reason::RowAway,
    };
    undelivered::action(reason, stage, look.spec.target.class())
}

/// Tells whether the own run of a task that may have children has not ended.
fn goes_on_as_parent(look: &Entry, row: Option<&TaskRow>) -> bool {
    let spec = row.map_or(&look.spec, |row| &row.detail.spec);
    spec.is_parent() && row.is_none_or(|row| !row.state.is_terminal())
}

/// A redrive that is under way has a look at a task that is dead as yet.
const fn waits_for_worker(row: &TaskRow) -> bool {
    matches!(row.state, State::New | State::Retrying)
}
