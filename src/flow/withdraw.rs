//! Cancels tasks that nobody claims (`kafka` targets): what is in the slot decides whether they go out, a row who won.
//!
//! Overwriting the entry stops the publication if the slot was still open afterwards: every later reader of the slot sees
//! the mark. If the slot closed meanwhile, nobody knows whether it was read before, and the task is kept: a copy goes further
//! on, since lost is worse than twice. Two who cancel one task can see its slot open and closed, in either order, and one mark
//! hides the other; so neither answers before a row of the task says which it is. The row is written on condition that there
//! is none: [`State::Cancelled`] is only written by one who saw its mark in an open slot, [`State::Succeeded`] only by one who
//! puts the copy further on, and each obeys the row it finds.
//!
//! Crash points: a mark without a row is a cancel that nobody was told of; whoever meets it goes on from there. A row that
//! keeps the task without its copy is met as such a mark as well, and the copy is put then.

use std::sync::Arc;

use super::{
    api::{CancelOutcome, Fault},
    context::Context,
    hand::Hands,
    place::{Placed, Placer},
    swap::{Moved, Mover},
};
use crate::model::{
    entry::{DoneReason, Entry, Kind},
    state::{self, Event, Refusal, State, TaskRow},
    time::Millis,
};

/// Who cancels tasks that have no attempts.
#[derive(Debug, Clone)]
pub(super) struct Withdrawer {
    ctx: Arc<Context>,
    hands: Hands,
    placer: Placer,
    mover: Mover,
}

/// Who has decided.
enum Who {
    This,
    Another,
}

impl Withdrawer {
    pub(super) const fn new(ctx: Arc<Context>, hands: Hands, placer: Placer, mover: Mover) -> Self {
        Self {
            ctx,
            hands,
            placer,
            mover,
        }
    }

    /// Cancels the task that has this entry and this row.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn cancel(
        &self,
        entry: &Entry,
        row: Option<&TaskRow>,
    ) -> Result<CancelOutcome, Fault> {
        if row.is_some_and(|row| row.state == State::Cancelled) {
            return Ok(CancelOutcome::AlreadyCancelled);
        }
        let first = match entry.kind {
            Kind::Due { .. } => true,
            Kind::Done {
                reason: DoneReason::Cancelled,
                ..
            } => false,
            Kind::Done { .. } | Kind::Look { .. } => return Ok(CancelOutcome::TooLate),
        };
        // The backup of a near task may be published from memory at any moment, a copy further on where it lay before.
        let (wheel, tick) = (entry.key.wheel(), self.ctx.tick().tick_of(entry.key.due));
        if first && (entry.is_moved() || tick <= self.hands.opened(wheel).await?) {
            return Ok(CancelOutcome::TooLate);
        }
        // A mark that is found may lie on too few replicas yet, so it is written again.
        let mark = entry.marked_done(DoneReason::Cancelled, self.ctx.now(), self.ctx.time.stamp());
        let event = match self.placer.write(&[mark]).await.into_iter().next() {
            Some(Ok(Placed::Open)) => Event::Cancel,
            Some(Ok(Placed::Closed(_))) | None => Event::Kept,
            Some(Err(fault)) => return Err(fault),
        };
        match self.decide(entry, event).await? {
            (State::Cancelled, Who::This) => Ok(CancelOutcome::Cancelled),
            (State::Cancelled, Who::Another) => Ok(CancelOutcome::AlreadyCancelled),
            _ => {
                self.keep(entry).await?;
                Ok(CancelOutcome::TooLate)
            }
        }
    }

    /// Writes the row unless there is one; returns the state that it is in, and who put it there.
    async fn decide(&self, entry: &Entry, event: Event) -> Result<(State, Who), Fault> {
        let (id, spec) = (entry.key.id, &entry.spec);
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let mut made = state::next(id, row, spec, event.clone(), now, nonce)?;
            made.row.generation = entry.key.generation;
            made.row.detail.start = entry.start;
            Ok(made)
        };
        match self.mover.apply(id, None, true, decide).await? {
            Moved::To(row) => Ok((row.state, Who::This)),
            Moved::Refused(Refusal::Ended { state }, _) => Ok((state, Who::Another)),
            Moved::Refused(refusal, _) => Err(Fault::Unknown {
                reason: format!("task {id} has a row that no such task has: {refusal:?}"),
            }),
        }
    }

    /// Puts the task further on. Its first place is marked as moved by that, so whoever cancels it next finds it decided.
    async fn keep(&self, entry: &Entry) -> Result<(), Fault> {
        let copy = entry.due_again(self.ctx.time.stamp());
        for placed in self.placer.place(vec![copy]).await {
            placed?;
        }
        Ok(())
    }
}
