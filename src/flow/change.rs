//! Reschedules by id, atomic against firing: the answer says who won. ([`super::cancel`] cancels.)
//!
//! Tracked tasks: the linearisation point is the conditional write of the task's row. The new entry is written first, then
//! the row; a crash in between, or a lost race, leaves an entry whose claim is refused.

use std::sync::Arc;

use super::{
    TASK_EVENTS,
    api::{Fault, RescheduleOutcome, TaskView},
    context::Context,
    find::{Finder, is_told_by, view_of_row},
    hand::Hands,
    near::{Near, NearTask},
    place::{Placed, Placer},
    register::near_record,
    send::Sending,
    service::View,
    swap::{Moved, Mover},
};
use crate::{
    limits,
    model::{
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        state::{self, Event, Refusal, State, TaskRow},
        task::Spec,
        time::Millis,
    },
};

/// A precondition on the task as it reads (`If-Match`).
pub type Condition = Box<dyn Fn(&TaskView) -> bool + Send + Sync>;

/// The changer of tasks.
#[derive(Debug, Clone)]
pub struct Changer {
    ctx: Arc<Context>,
    hands: Hands,
    placer: Placer,
    near: Near,
    mover: Mover,
    finder: Finder,
}

impl Changer {
    /// Changes through these.
    #[must_use]
    pub const fn new(
        ctx: Arc<Context>,
        hands: Hands,
        placer: Placer,
        near: Near,
        mover: Mover,
        finder: Finder,
    ) -> Self {
        Self {
            ctx,
            hands,
            placer,
            near,
            mover,
            finder,
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
        for _ in 0..limits::RACES_MAX {
            let subject = self.finder.subjects(&[id]).await.pop();
            let Some(subject) = subject.unwrap_or(Ok(None))? else {
                return Ok(None);
            };
            let view = match subject.row.as_ref().filter(|row| is_told_by(row)) {
                Some(row) => view_of_row(row.clone(), None, self.ctx.now()),
                None => match self.finder.get(id, View::Basic).await? {
                    Some(view) => view,
                    None => return Ok(None),
                },
            };
            if condition.as_ref().is_some_and(|holds| !holds(&view)) {
                return Ok(Some((RescheduleOutcome::Mismatch, view)));
            }
            let moved = match subject.entry {
                Some(entry) if !subject.spec.target.is_tracked() => {
                    Some(self.move_published(&entry, start, view).await?)
                }
                _ => {
                    self.move_tracked(id, subject.row, &subject.spec, start)
                        .await?
                }
            };
            if let Some(answer) = moved {
                let due_in_ms = start.0 - self.ctx.now().0;
                tracing::debug!(target: TASK_EVENTS, task = %id, outcome = ?answer.0, due_in_ms, "reschedule");
                return Ok(Some(answer));
            }
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: std::time::Duration::from_secs(1),
        })
    }

    /// Moves a tracked task; none when it was changed by somebody else meanwhile: look again.
    async fn move_tracked(
        &self,
        id: TaskId,
        row: Option<TaskRow>,
        spec: &Arc<Spec>,
        start: Millis,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let planned = row
            .as_ref()
            .map_or((0, 0), |row| (row.generation, row.attempt));
        let movable = row
            .as_ref()
            .is_none_or(|row| matches!(row.state, State::New | State::Retrying));
        if !movable {
            let view = row.map(|row| view_of_row(row, None, self.ctx.now()));
            return Ok(view.map(|view| (RescheduleOutcome::TooLate, view)));
        }
        let (generation, attempt) = (planned.0 + 1, planned.1);
        let near = self
            .put_entry(id, generation, attempt, start, spec)
            .await?
            .is_some();
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let unchanged = row.map_or((0, 0), |row| (row.generation, row.attempt)) == planned;
            if !unchanged {
                return Err(Refusal::Stale);
            }
            state::next(id, row, spec, Event::Reschedule { start }, now, nonce)
        };
        let now = self.ctx.now();
        match self.mover.apply(id, row, true, decide).await? {
            Moved::To(row) => {
                if near || self.hands.will_be_late(id.wheel(), start) {
                    self.hold(id, generation, attempt, start, spec, None);
                }
                Ok(Some((
                    RescheduleOutcome::Rescheduled,
                    view_of_row(*row, None, now),
                )))
            }
            Moved::Refused(Refusal::Stale | Refusal::Held { .. } | Refusal::Early { .. }, _)
            | Moved::Refused(_, None) => Ok(None),
            Moved::Refused(Refusal::Running | Refusal::Ended { .. }, Some(row)) => Ok(Some((
                RescheduleOutcome::TooLate,
                view_of_row(*row, None, now),
            ))),
        }
    }

    /// Writes the entry of a new start; for a near one its durable record, which is returned.
    async fn put_entry(
        &self,
        id: TaskId,
        generation: u32,
        attempt: u32,
        start: Millis,
        spec: &Arc<Spec>,
    ) -> Result<Option<Entry>, Fault> {
        let mut opened = self.hands.closing(id.wheel());
        if self.ctx.tick().tick_of(start) > opened {
            let stamp = self.ctx.time.stamp();
            let entry = Entry::due(id, generation, attempt, start, Arc::clone(spec), stamp)
                .first_of_generation();
            let written = self.placer.write(std::slice::from_ref(&entry)).await;
            match written.into_iter().next() {
                Some(Ok(Placed::Open)) | None => return Ok(None),
                Some(Ok(Placed::Closed(closed))) => {
                    opened = closed;
                    // Nobody erases what its slot's reader has not seen.
                    let moved = DoneReason::Moved { to: start };
                    let mark = entry.marked_done(moved, self.ctx.now(), self.ctx.time.stamp());
                    for marked in self.placer.mark(vec![mark]).await {
                        marked?;
                    }
                }
                Some(Err(fault)) => return Err(fault),
            }
        }
        let record = near_record(&self.ctx, id, generation, attempt, start, spec, opened);
        match self.placer.place(vec![record]).await.into_iter().next() {
            Some(placed) => placed.map(Some),
            None => Ok(None),
        }
    }

    fn hold(
        &self,
        id: TaskId,
        generation: u32,
        expected_attempt: u32,
        start: Millis,
        spec: &Arc<Spec>,
        backup: Option<Entry>,
    ) {
        let sending = Sending {
            id,
            generation,
            expected_attempt,
            start,
            spec: Arc::clone(spec),
        };
        if !self.near.hold(NearTask { sending, backup }) {
            tracing::debug!(task = %id, "no room for a near task: left to its durable record");
        }
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
        if !waiting || tick <= self.hands.opened(id.wheel()).await? {
            return Ok((RescheduleOutcome::TooLate, view));
        }
        let record = self
            .put_entry(id, generation, 0, start, &entry.spec)
            .await?;
        let to = record.as_ref().map_or(start, |record| record.key.due);
        let mark = entry.marked_done(
            DoneReason::Moved { to },
            self.ctx.now(),
            self.ctx.time.stamp(),
        );
        for written in self.placer.write(&[mark]).await {
            written?;
        }
        if record.is_some() {
            self.hold(id, generation, 0, start, &entry.spec, record);
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
}
