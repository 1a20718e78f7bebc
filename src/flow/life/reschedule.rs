//! The reschedule stage moves and redrives tasks by id for clients, atomic against firing: the answer says
//! who won. ([`super::cancel`] cancels.)
//!
//! The linearisation point of a tracked task is the conditional write of its row. The new entry is written
//! first, then the row. A crash in between, or a lost race, leaves an entry whose claim is refused. A node
//! that pauses between the two writes may write the row when the new entry has already come up and was
//! refused. So the clock is read after the row is written, and if that slot is closed by then, a look is
//! written further on. The answer is sent after that.
//!
//! A dead task has no look ahead. Its redrive gives its content back its unbounded life, then writes a look
//! of the new generation, then the row. A crash in between leaves a dead task. The look waits for the row for
//! a while ([`crate::model::restart`]).
//!
//! Tasks of `kafka` targets have no row: the mark on the old entry decides. A mark that finds its slot closed
//! cannot tell whether the old entry was read before. Then the old start stands: a copy of the old entry is
//! put further on, the new entry is withdrawn, and the answer is too late. The record goes out once, or twice
//! if the reader came first. It is never lost.

use std::sync::Arc;

use super::{
    door::{Applied, Basis, By, Door, settle_debts},
    near::{Near, NearTask},
    put::Put,
    restart_kind::{RestartKind, Wanted, stage_of, waiting},
    sending::Sending,
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        TASK_EVENTS,
        base::{
            api::{Fault, RescheduleOutcome, TaskView, View, VisibleState},
            context::Context,
            entries::{
                entry_writer::{EntryWriter, Placed},
                leftovers::Leftovers,
                near_record::near_record,
                watermarks::Watermarks,
            },
            read::find::{Finder, is_told_by, view_of_row},
            rows::run_to_completion::{caller_waits, run_to_completion},
        },
        features::{
            key::keys::Keys,
            sequence::{leave, place},
        },
    },
    limits,
    model::{
        dispatch::Dispatch,
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        state::{self, Refusal, TaskRow},
        task::Spec,
        time::{Millis, Tick},
    },
};

/// A precondition on the task as it reads (`If-Match`).
pub type Condition = Box<dyn Fn(&TaskView) -> bool + Send + Sync>;

/// The rescheduler of tasks.
#[derive(Debug, Clone)]
pub struct Rescheduler {
    pub(super) ctx: Arc<Context>,
    pub(super) watermarks: Watermarks,
    pub(super) entry_writer: EntryWriter,
    near: Near,
    pub(super) door: Door,
    pub(super) keys: Keys,
    finder: Finder,
    leftovers: Leftovers,
}

impl Rescheduler {
    /// Changes through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        entry_writer: EntryWriter,
        near: Near,
        door: Door,
        finder: Finder,
        leftovers: Leftovers,
    ) -> Self {
        Self {
            keys: Keys::new(Arc::clone(&ctx)),
            ctx,
            watermarks,
            entry_writer,
            near,
            door,
            finder,
            leftovers,
        }
    }

    /// Moves the start; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn reschedule(
        &self,
        id: TaskId,
        start: Millis,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let start = start.max(self.ctx.now());
        self.restart(id, Wanted::Moved(start), condition).await
    }

    /// Starts a task now: one that waits is moved, one that is dead is redriven; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn run(
        &self,
        id: TaskId,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let wanted = Wanted::Run(self.ctx.now());
        self.restart(id, wanted, condition).await
    }

    /// Starts a task now if it is dead; too late if it is not, none when there is no such task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn redrive(
        &self,
        id: TaskId,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let wanted = Wanted::Redriven(self.ctx.now());
        self.restart(id, wanted, None).await
    }

    /// It runs to its end even if its caller is cancelled: a new start that is near goes out from memory, behind the row.
    async fn restart(
        &self,
        id: TaskId,
        wanted: Wanted,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let rescheduler = self.clone();
        run_to_completion(async move { rescheduler.restart_all(id, wanted, condition).await })
            .await?
    }

    async fn restart_all(
        &self,
        id: TaskId,
        wanted: Wanted,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let start = wanted.start();
        for _ in 0..limits::RACES_MAX {
            let subject = self.finder.subjects(&[id]).await.pop();
            caller_waits()?;
            let Some(subject) = subject.unwrap_or(Ok(None))? else {
                return Ok(None);
            };
            let view = match subject.row.as_ref().filter(|row| is_told_by(row)) {
                Some(row) => self.finder.shown(row.clone()).await,
                None => match self.finder.get(id, View::Basic).await? {
                    Some(view) => view,
                    None => return Ok(None),
                },
            };
            if condition.as_ref().is_some_and(|holds| !holds(&view)) {
                return Ok(Some((RescheduleOutcome::Mismatch, view)));
            }
            let is_row = subject.row.is_some() && subject.spec.target.is_tracked();
            // A task that reads as expired is not moved, though its row may not say so yet.
            let is_over = view.state == VisibleState::Expired;
            if is_over || matches!(wanted, Wanted::Redriven(_)) && !is_row {
                return Ok(Some((RescheduleOutcome::TooLate, view)));
            }
            let moved = match subject.entry {
                Some(entry) if !subject.spec.target.is_tracked() => {
                    Some(self.move_published(&entry, start, view).await?)
                }
                _ => {
                    self.move_tracked(id, subject.row, &subject.spec, wanted)
                        .await?
                }
            };
            if let Some(answer) = moved {
                let due_in_ms = start.0 - self.ctx.now().0;
                tracing::debug!(target: TASK_EVENTS, task = %id, outcome = ?answer.0, due_in_ms, run = matches!(wanted, Wanted::Run(_)), "reschedule");
                return Ok(Some(answer));
            }
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: std::time::Duration::from_secs(1),
        })
    }

    /// Moves a tracked task; none when it was changed by somebody else meanwhile, or its client is gone and may have asked for
    /// another start: look again.
    pub(super) async fn move_tracked(
        &self,
        id: TaskId,
        row: Option<TaskRow>,
        spec: &Arc<Spec>,
        wanted: Wanted,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let start = wanted.start();
        let planned = stage_of(row.as_ref());
        let Some(way) = RestartKind::of(row.as_ref(), wanted, self.ctx.now()) else {
            return Ok(self.without_way(row, wanted).await);
        };
        // Without its content there is nothing to run.
        let Some(told) = self.prepared(row.as_ref(), way).await? else {
            return Ok(self.too_late(row).await);
        };
        let dispatch = Dispatch {
            id,
            generation: planned.0 + 1,
            expected_attempt: planned.1,
            start,
        };
        if !self.keeps_key(row.as_ref(), spec, way, dispatch).await? {
            return Ok(self.too_late(row).await);
        }
        let old = waiting(id, row.as_ref(), spec, self.ctx.time.stamp());
        let before = row.as_ref().map(|row| row.detail.start);
        let place = place::announce_one(&self.ctx, spec, dispatch).await?;
        let put = self.put_entry(dispatch, spec).await?;
        let place = place::open_still(&self.ctx, place).await?;
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            if stage_of(row) != planned || caller_waits().is_err() {
                return Err(Refusal::Stale);
            }
            state::next(id, row, spec, way.event(start), now, nonce)
        };
        let now = self.ctx.now();
        let basis = Basis::read(row).told(told);
        match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => {
                let row = owing.pay_or_leave(&self.ctx).await;
                let moved = self.follow_up(way, dispatch, &old, &put).await;
                place::confirm_one(&self.ctx, place).await?;
                leave::moved(&self.ctx, dispatch, spec, before).await;
                moved?;
                self.withdraw_letter(way, &row).await;
                let view = view_of_row(*row, None, now);
                Ok(Some((RescheduleOutcome::Rescheduled, view)))
            }
            Applied::Refused(refusal, row) => {
                if !matches!(put, Put::Near(_)) {
                    self.take_back(dispatch, spec, row.as_deref()).await;
                }
                place::withdraw(&self.ctx, place).await;
                let too_late = matches!(refusal, Refusal::Running | Refusal::Ended { .. });
                let row = row.filter(|_| too_late).map(|row| *row);
                Ok(self.too_late(row).await)
            }
        }
    }

    /// Sees to the record of the key before the row is written. False when the key names another task that is live.
    async fn keeps_key(
        &self,
        row: Option<&TaskRow>,
        spec: &Arc<Spec>,
        way: RestartKind,
        dispatch: Dispatch,
    ) -> Result<bool, Fault> {
        let (id, start) = (dispatch.id, dispatch.start);
        if way == RestartKind::Move || way == RestartKind::Release {
            return self.keys.keep(id, spec, start).await.map(|()| true);
        }
        let taken = self
            .keys
            .take_back(id, spec, dispatch.generation, start)
            .await;
        if let (Ok(false) | Err(_), Some(row)) = (&taken, row)
            && let Err(fault) = settle_debts(&self.ctx, row, By::Again).await
        {
            tracing::debug!(task = %id, %fault, "the content of a task that stays dead has no end");
        }
        taken
    }

    /// Finishes the change of a task whose row has its new start: its old entry is retired, and a near start
    /// goes out from here.
    async fn follow_up(
        &self,
        way: RestartKind,
        dispatch: Dispatch,
        old: &Entry,
        put: &Put,
    ) -> Result<(), Fault> {
        let came_up = self.look_again(dispatch, put).await?;
        match way {
            RestartKind::Move => {
                let to = dispatch.start;
                let mark = self.leftovers.retire(old, DoneReason::Moved { to });
                self.entry_writer.mark(mark.into_iter().collect()).await;
            }
            // No entry of a dead task waits.
            RestartKind::Redrive => {
                metrics::counter!("tickwheel_tasks_redriven_total").increment(1)
            }
            // It had no entry but looks.
            RestartKind::Release => {}
            RestartKind::Again(_) => {
                metrics::counter!("tickwheel_tree_tasks_retried_total").increment(1)
            }
        }
        let near = matches!(put, Put::Near(_));
        let wheel = dispatch.id.wheel();
        if near || came_up || self.watermarks.will_be_late(wheel, dispatch.start) {
            self.near.hold_or_leave(NearTask {
                sending: Sending::new(dispatch, Arc::clone(&put.entry().spec), true),
                backup: None,
                stands: !near,
            });
        }
        Ok(())
    }

    async fn too_late(&self, row: Option<TaskRow>) -> Option<(RescheduleOutcome, TaskView)> {
        let view = self.finder.shown(row?).await;
        Some((RescheduleOutcome::TooLate, view))
    }

    /// Answers a caller whose wish the row does not allow.
    async fn without_way(
        &self,
        row: Option<TaskRow>,
        wanted: Wanted,
    ) -> Option<(RescheduleOutcome, TaskView)> {
        let is_of_tree = |row: &TaskRow| RestartKind::is_of_tree(row, wanted, self.ctx.now());
        let of_tree = row.as_ref().is_some_and(is_of_tree);
        let (outcome, view) = self.too_late(row).await?;
        let outcome = if of_tree {
            RescheduleOutcome::InTree
        } else {
            outcome
        };
        Some((outcome, view))
    }

    /// Writes a look further on when what was put for a new start may have been read before the row named that start.
    /// Its claim was refused then, and nothing else would come back to the task. Tells whether that was so.
    pub(super) async fn look_again(&self, dispatch: Dispatch, put: &Put) -> Result<bool, Fault> {
        let entry = put.entry();
        let opened = self.watermarks.opened(dispatch.id.wheel()).await?;
        if self.ctx.tick().tick_of(entry.key.due) > opened {
            return Ok(false);
        }
        // The record of a tracked task is a look: it reads the row, and names no attempt.
        let look = near_record(&self.ctx, dispatch, &entry.spec, opened);
        for placed in self.entry_writer.place(vec![look]).await {
            placed?;
        }
        Ok(true)
    }

    /// Withdraws the entry of a refused move, unless the move that was made instead rests on it, as it may if the client is gone.
    async fn take_back(&self, dispatch: Dispatch, spec: &Arc<Spec>, row: Option<&TaskRow>) {
        let known = row.filter(|_| caller_waits().is_ok());
        let Some(row) = known else { return };
        if (row.generation, row.next) == (dispatch.generation, dispatch.start) {
            return;
        }
        // The winner's publications have the same generation: a note about a closed slot would hold them back.
        if self.ctx.tick().tick_of(dispatch.start) <= self.watermarks.guess(dispatch.id.wheel()) {
            return;
        }
        let (spec, stamp) = (Arc::clone(spec), self.ctx.time.stamp());
        let entry = dispatch.entry(spec, stamp).first_of_generation();
        let mark = self
            .leftovers
            .drop(&entry, DoneReason::Moved { to: row.next });
        self.entry_writer.mark(mark.into_iter().collect()).await;
    }

    /// Writes the entry of a new start, or the durable record of a near one.
    async fn put_entry(&self, dispatch: Dispatch, spec: &Arc<Spec>) -> Result<Put, Fault> {
        let start = dispatch.start;
        let mut opened = self.watermarks.closing(dispatch.id.wheel());
        if self.ctx.tick().tick_of(start) > opened {
            let (spec, stamp) = (Arc::clone(spec), self.ctx.time.stamp());
            let entry = dispatch.entry(spec, stamp).first_of_generation();
            let written = self.entry_writer.write(std::slice::from_ref(&entry)).await;
            match written.into_iter().next() {
                Some(Ok(Placed::Open)) | None => return Ok(Put::Slot(entry)),
                Some(Ok(Placed::Closed(closed))) => {
                    opened = closed;
                    // The eraser keeps every entry that its slot's reader has not seen.
                    let moved = DoneReason::Moved { to: start };
                    let mark = entry.marked_done(moved, self.ctx.now(), self.ctx.time.stamp());
                    for marked in self.entry_writer.mark(vec![mark]).await {
                        marked?;
                    }
                }
                Some(Err(fault)) => return Err(fault),
            }
        }
        let record = near_record(&self.ctx, dispatch, spec, opened);
        if dispatch.expected_attempt > 0 && flaw::is(Flaw::RedriveWithoutLook) {
            return Ok(Put::Near(record));
        }
        let placed = self.entry_writer.place(vec![record.clone()]).await;
        placed
            .into_iter()
            .next()
            .unwrap_or(Ok(record))
            .map(Put::Near)
    }

    /// Moves a `kafka` task: the new entry first, then the mark that withdraws the old one.
    async fn move_published(
        &self,
        entry: &Entry,
        start: Millis,
        view: TaskView,
    ) -> Result<(RescheduleOutcome, TaskView), Fault> {
        let (id, generation) = (entry.key.id, entry.key.generation + 1);
        let tick = self.ctx.tick().tick_of(entry.key.due);
        let waiting = matches!(entry.kind, Kind::Due { .. }) && !entry.is_moved();
        let closing = self.watermarks.opened(id.wheel()).await?;
        if !waiting || tick <= closing.max(self.watermarks.closing(id.wheel())) {
            return Ok((RescheduleOutcome::TooLate, view));
        }
        caller_waits()?;
        let dispatch = Dispatch {
            id,
            generation,
            expected_attempt: 0,
            start,
        };
        let put = self.put_entry(dispatch, &entry.spec).await?;
        let to = put.entry().key.due;
        let moved = DoneReason::Moved { to };
        let mark = entry.marked_done(moved, self.ctx.now(), self.ctx.time.stamp());
        for written in self.entry_writer.write(&[mark]).await {
            if let Placed::Closed(opened) = written? {
                self.stay(entry, put.entry(), opened).await?;
                return Ok((RescheduleOutcome::TooLate, view));
            }
        }
        self.entry_writer.gone(entry);
        if let Put::Near(record) = put {
            self.near.hold_or_leave(NearTask {
                sending: Sending::new(dispatch, Arc::clone(&entry.spec), true),
                backup: Some(record),
                stands: false,
            });
        }
        Ok((
            RescheduleOutcome::Rescheduled,
            TaskView {
                start,
                effective_start: start,
                generation,
                ..view
            },
        ))
    }

    /// Lets a record go out at its old start, whether its reader saw the mark or not: a copy of the old entry further on,
    /// then a mark on the new one. A crash in between leaves both: the record goes out twice.
    async fn stay(&self, old: &Entry, new: &Entry, opened: Tick) -> Result<(), Fault> {
        let chance = self.ctx.time.random();
        let copy = old.due_again(self.ctx.time.stamp());
        let copy = copy.moved_behind(opened, self.ctx.shape(), chance);
        for placed in self.entry_writer.place(vec![copy]).await {
            let to = placed?.key.due;
            let moved = DoneReason::Moved { to };
            let mark = new.marked_done(moved, self.ctx.now(), self.ctx.time.stamp());
            for marked in self.entry_writer.write(&[mark]).await {
                marked?;
            }
        }
        Ok(())
    }
}
