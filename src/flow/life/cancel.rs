//! The cancel stage cancels tasks by id for clients, one or many at a time. Each cancel is atomic against
//! firing, and its answer says who won.
//!
//! The linearisation point of a tracked task is the conditional write of its row. A cancel that is applied
//! there is final: no claim can be applied after it, whatever is in the queue.
//!
//! `kafka` tasks have no row until they are cancelled (`withdraw.rs`).
//!
//! A single cancel is a batch of one. A batch saves round trips: rows are read together, and so are entries.
//! Its conditional writes go to the door at once, which groups them, and its marks are one write. Each task
//! has an outcome of its own, so the fault of one does not affect another.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{
    future::join_all,
    stream::{self, StreamExt as _},
};

use super::{
    door::{Applied, Basis, By, Door, Owing, settle_debts},
    look_entries::{look_at_parent, look_at_tree},
    withdraw::Withdrawer,
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        TASK_EVENTS,
        base::{
            api::{CancelOutcome, Fault, TaskView, View},
            context::Context,
            entries::{entry_writer::EntryWriter, leftovers::Leftovers, watermarks::Watermarks},
            read::find::{Finder, Subject, unwritten_view, view_of_row},
            rows::run_to_completion::{caller_waits, run_to_completion},
        },
        features::limit::deadlines::Deadlines,
    },
    limits,
    model::{
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        state::{self, Event, Refusal, State, TaskRow},
        task::Spec,
        time::Millis,
    },
};

/// The answer to a cancel: who won, and the task after it; none when there is no such task. An error means
/// that the store is away; repeating the cancel is safe.
pub type Answer = Result<Option<(CancelOutcome, TaskView)>, Fault>;

/// The canceller.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Canceller {
    ctx: Arc<Context>,
    entry_writer: EntryWriter,
    door: Door,
    finder: Finder,
    withdrawer: Withdrawer,
    deadlines: Deadlines,
    leftovers: Leftovers,
}

/// A tracked task that this cancel has ended.
struct Ended {
    owing: Owing,
    /// Its entry, where that is known.
    entry: Option<Entry>,
    /// It waited for its start, not for another attempt.
    first: bool,
}

impl Canceller {
    /// Cancels through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        entry_writer: EntryWriter,
        door: Door,
        finder: Finder,
        deadlines: Deadlines,
        leftovers: Leftovers,
    ) -> Self {
        let withdrawer = Withdrawer::new(
            Arc::clone(&ctx),
            watermarks,
            entry_writer.clone(),
            door.clone(),
        );
        Self {
            ctx,
            entry_writer,
            door,
            finder,
            withdrawer,
            deadlines,
            leftovers,
        }
    }

    /// Cancels; one answer per id, in order. An id that comes again is answered as if it had been cancelled a second time.
    ///
    /// It runs to its end even if its caller is cancelled: a broken connection must not separate the write of a row from the
    /// end steps that the row asks for, since the next look may be far.
    pub(in crate::flow) async fn cancel(&self, ids: &[TaskId]) -> Vec<Answer> {
        let (canceller, all) = (self.clone(), ids.to_vec());
        let cancelled = run_to_completion(async move { canceller.cancel_all(&all).await }).await;
        cancelled.unwrap_or_else(|fault| vec![Err(fault); ids.len()])
    }

    async fn cancel_all(&self, ids: &[TaskId]) -> Vec<Answer> {
        let mut places: HashMap<TaskId, usize> = HashMap::with_capacity(ids.len());
        let mut once = Vec::with_capacity(ids.len());
        for id in ids {
            places.entry(*id).or_insert_with(|| {
                once.push(*id);
                once.len() - 1
            });
        }
        let mut answers = self.cancel_distinct(&once).await;
        if once.len() == ids.len() {
            return answers;
        }
        let answer = |id| {
            let place = places.get(id).and_then(|place| answers.get_mut(*place));
            place.map_or(Ok(None), |answer| {
                let first = answer.clone();
                if let Ok(Some((outcome @ CancelOutcome::Cancelled, _))) = answer {
                    *outcome = CancelOutcome::AlreadyCancelled;
                }
                first
            })
        };
        ids.iter().map(answer).collect()
    }

    async fn cancel_distinct(&self, ids: &[TaskId]) -> Vec<Answer> {
        let (mut tracked, mut published) = (Vec::new(), Vec::new());
        let mut answers = Vec::with_capacity(ids.len());
        for (place, (id, subject)) in ids.iter().zip(self.finder.subjects(ids).await).enumerate() {
            answers.push(subject.map(|subject| {
                match subject? {
                    Subject {
                        row,
                        spec,
                        entry: Some(entry),
                    } if !spec.target.is_tracked() => published.push((place, (entry, row))),
                    subject => tracked.push((place, (*id, subject))),
                }
                None
            }));
        }
        let (tracked_places, tracked): (Vec<usize>, Vec<_>) = tracked.into_iter().unzip();
        let (published_places, published): (Vec<usize>, Vec<_>) = published.into_iter().unzip();
        let (tracked, published) = tokio::join!(
            self.cancel_tracked(tracked),
            self.cancel_published(&published)
        );
        let places = tracked_places.into_iter().chain(published_places);
        for (place, answer) in places.zip(tracked.into_iter().chain(published)) {
            if let Ok((outcome, view)) = &answer {
                tracing::debug!(target: TASK_EVENTS, task = %view.id, ?outcome, "cancel");
            }
            if let Some(at) = answers.get_mut(place) {
                *at = answer.map(Some);
            }
        }
        answers
    }

    async fn cancel_tracked(
        &self,
        tasks: Vec<(TaskId, Subject)>,
    ) -> Vec<Result<(CancelOutcome, TaskView), Fault>> {
        let moves = tasks.into_iter().map(|(id, subject)| self.end(id, subject));
        let mut answers = Vec::with_capacity(moves.len());
        let mut ended = Vec::with_capacity(moves.len());
        for moved in join_all(moves).await {
            answers.push(moved.map(|(outcome, view, its)| {
                ended.extend(its);
                (outcome, view)
            }));
        }
        // Each may have a content in hand.
        let marks: Vec<Option<Entry>> = stream::iter(ended)
            .map(|ended| async move {
                let Ended {
                    owing,
                    entry,
                    first,
                } = ended;
                // The look that follows the entry of a task repeats debts that were not paid.
                let row = self.pay(owing).await.ok()?;
                self.mark(&row, entry, first)
            })
            .buffer_unordered(limits::END_STEPS_IN_FLIGHT_MAX)
            .collect()
            .await;
        // Spares the scanner publications that nobody could claim; nothing depends on it.
        let marks = marks.into_iter().flatten();
        self.entry_writer.mark(marks.collect()).await;
        answers
    }

    /// Pays what an end owes, and has the task looked at, whether that fails or not, if its tree goes on.
    async fn pay(&self, owing: Owing) -> Result<Box<TaskRow>, Fault> {
        let (row, paid) = owing.pay(&self.ctx).await;
        if let Err(fault) = &paid {
            tracing::debug!(task = %row.id, %fault, "its debts were left to the look");
        }
        paid.and(self.keep_looking(&row).await)?;
        Ok(row)
    }

    /// Puts a look at a task that has ended before it had one, and whose tree goes on.
    async fn keep_looking(&self, row: &TaskRow) -> Result<(), Fault> {
        if !row.waits_for_children() {
            return Ok(());
        }
        let placed = self
            .entry_writer
            .place(vec![look_at_tree(&self.ctx, row)])
            .await;
        placed.into_iter().try_for_each(|placed| placed.map(drop))
    }

    /// Puts a look at a task whose tree is about to be cancelled: what this call leaves is found by it.
    ///
    /// # Errors
    /// When it may not be durable; repeating it is safe.
    pub(in crate::flow) async fn come_back(
        &self,
        id: TaskId,
        row: Option<&TaskRow>,
        spec: &Arc<Spec>,
    ) -> Result<(), Fault> {
        let look = look_at_parent(&self.ctx, id, row, spec);
        let placed = self.entry_writer.place(vec![look]).await;
        placed.into_iter().try_for_each(|placed| placed.map(drop))
    }

    /// Ends a task that waits for the own run of its parent, which did not succeed. One that waits no more stays as it is.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn parent_failed(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
    ) -> Result<(), Fault> {
        self.waited_in_vain(id, spec, Event::ParentFailed).await
    }

    /// Ends a task that waits for others: it fails, or is cancelled, with this error. One that waits no more stays as it is.
    ///
    /// # Errors
    /// As of [`Self::parent_failed`].
    pub(in crate::flow) async fn wait_over(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        fails: bool,
        error: String,
    ) -> Result<(), Fault> {
        let over = Event::WaitOver { fails, error };
        self.waited_in_vain(id, spec, over).await
    }

    /// Cancels a child that nothing stands for but its row under its parent. False when it is there by now, or was.
    ///
    /// # Errors
    /// As of [`Self::parent_failed`].
    pub(in crate::flow) async fn unentered(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
    ) -> Result<bool, Fault> {
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| match row {
            None => state::next(id, None, spec, Event::Cancel, now, nonce),
            Some(_) => Err(Refusal::Stale),
        };
        let basis = Basis::guessed(None);
        let Applied::To(owing) = self.door.apply(id, basis, decide).await? else {
            return Ok(false);
        };
        self.pay(owing).await?;
        Ok(true)
    }

    async fn waited_in_vain(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        event: Event,
    ) -> Result<(), Fault> {
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            state::next(id, row, spec, event.clone(), now, nonce)
        };
        let basis = Basis::guessed(None);
        match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => self.pay(owing).await.map(drop),
            Applied::Refused(_, Some(row)) if row.state.is_terminal() => {
                settle_debts(&self.ctx, &row, By::Again).await?;
                self.keep_looking(&row).await
            }
            Applied::Refused(..) => Ok(()),
        }
    }

    /// Does what follows for a task that was replaced, when the other one is durable, or that was withdrawn. `first` says that it
    /// waited for its start.
    pub(in crate::flow) async fn replaced(&self, owing: Owing, first: bool) {
        if owing.row().state != State::Cancelled {
            self.deadlines.watch(owing.row(), None);
            owing.pay_or_leave(&self.ctx).await;
            return;
        }
        // Where it fails, the look that follows its entry pays.
        if let Ok(row) = self.pay(owing).await {
            let mark = self.mark(&row, None, first);
            self.entry_writer.mark(mark.into_iter().collect()).await;
        }
    }

    /// Writes the row of a cancelled task.
    async fn end(
        &self,
        id: TaskId,
        subject: Subject,
    ) -> Result<(CancelOutcome, TaskView, Option<Ended>), Fault> {
        let Subject { row, spec, entry } = subject;
        let first = AtomicBool::new(false);
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let is_new = row.is_none_or(|row| row.state == State::New);
            first.store(is_new, Ordering::Relaxed);
            if caller_waits().is_err() {
                return Err(Refusal::Stale);
            }
            state::next(id, row, &spec, Event::Cancel, now, nonce)
        };
        if flaw::is(Flaw::CancelNotWritten) {
            let view = unwritten_view(id, &spec, id.first_start());
            return Ok((CancelOutcome::Cancelled, view, None));
        }
        match self.door.apply(id, Basis::read(row), decide).await? {
            Applied::To(owing) if owing.row().state == State::Cancelled => {
                let view = view_of_row(owing.row().clone(), None, self.ctx.now());
                let ended = Ended {
                    owing,
                    entry,
                    first: first.load(Ordering::Relaxed),
                };
                Ok((CancelOutcome::Cancelled, view, Some(ended)))
            }
            Applied::To(owing) => {
                let row = owing.pay_or_leave(&self.ctx).await;
                // Its worker may be gone already: then nobody is told, and it ends at once.
                self.deadlines.watch(&row, None);
                let view = self.finder.shown(*row).await;
                Ok((CancelOutcome::CancelRequested, view, None))
            }
            Applied::Refused(refusal, row) => {
                let outcome = why_not(&refusal);
                if let (CancelOutcome::AlreadyCancelled, Some(row)) = (outcome, &row) {
                    // The cancel before may have died in between, and the next look may be far.
                    settle_debts(&self.ctx, row, By::Again).await?;
                }
                let view = match row {
                    Some(row) => self.finder.shown(*row).await,
                    None => unwritten_view(id, &spec, id.first_start()),
                };
                Ok((outcome, view, None))
            }
        }
    }

    /// Returns the mark of a task whose entry is still ahead.
    fn mark(&self, row: &TaskRow, entry: Option<Entry>, first: bool) -> Option<Entry> {
        if row.generation == 0 && row.detail.spec.awaits() {
            // It waited for others, and had no entry at its start.
            return None;
        }
        let at_start = || {
            let spec = Arc::clone(&row.detail.spec);
            let stamp = self.ctx.time.stamp();
            let entry = Entry::due(row.id, row.generation, row.attempt, row.next, spec, stamp);
            if first {
                entry.first_of_generation()
            } else {
                entry
            }
        };
        let found = entry.filter(|entry| matches!(entry.kind, Kind::Due { .. }));
        let entry = found.unwrap_or_else(at_start);
        self.leftovers.retire(&entry, DoneReason::Cancelled)
    }

    async fn cancel_published(
        &self,
        tasks: &[(Entry, Option<TaskRow>)],
    ) -> Vec<Result<(CancelOutcome, TaskView), Fault>> {
        let told = self.withdrawer.cancel(tasks).await;
        let views = tasks.iter().zip(told).map(|((entry, _), told)| async move {
            let id = entry.key.id;
            let view = match told? {
                (outcome, Some(row)) => {
                    return Ok((outcome, view_of_row(row, None, self.ctx.now())));
                }
                (outcome, None) => (outcome, self.finder.get(id, View::Basic).await?),
            };
            let (outcome, view) = view;
            let view = view.unwrap_or_else(|| unwritten_view(id, &entry.spec, entry.start));
            Ok((outcome, view))
        });
        join_all(views).await
    }
}

/// Says who won when a cancel was refused.
const fn why_not(refusal: &Refusal) -> CancelOutcome {
    match refusal {
        Refusal::Running => CancelOutcome::CancelRequested,
        Refusal::Ended {
            state: State::Cancelled,
        } => CancelOutcome::AlreadyCancelled,
        Refusal::Ended { .. }
        | Refusal::Stale
        | Refusal::Held { .. }
        | Refusal::Early { .. }
        | Refusal::HasTree => CancelOutcome::TooLate,
    }
}
