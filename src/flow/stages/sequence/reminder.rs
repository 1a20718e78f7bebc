//! The reminder looks after sequences whose tasks have waited for long, and ends the registration of their first task if nothing
//! else comes to it ([`Finisher`] has the reasons).
//!
//! Tasks that wait tell of their sequence by their looks and claims. A first task that has a row has a look, so it is left to
//! that. This stage is apart from the dispatcher, as it may have to search: turns that are passed on do not wait for it.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            panics,
            tables::sequences::{self, Read, Written},
        },
        features::sequence::{
            leave,
            turn::{First, Search, SequenceLock},
        },
        life::unfinished::Finisher,
    },
    limits::SEQUENCES_HELD_AT_ONCE,
    model::{
        entry,
        ordering::{Bound, Holder, Member, Sequence, Turn},
        time::Millis,
    },
};

/// The reminder of a node.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Reminder {
    ctx: Arc<Context>,
    turns: SequenceLock,
    finisher: Finisher,
}

impl Reminder {
    /// Reminds through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        turns: SequenceLock,
        finisher: Finisher,
    ) -> Self {
        Self {
            ctx,
            turns,
            finisher,
        }
    }

    /// Looks after what is on the list until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let held = self.ctx.turn_queue.held();
        while !stop.is_cancelled() {
            let batch = held.take(self.ctx.time.moment(), SEQUENCES_HELD_AT_ONCE);
            if !batch.is_empty() {
                let served = batch.iter();
                let served =
                    served.map(|(sequence, _)| panics::caught("held turn", self.serve(sequence)));
                for fault in join_all(served).await.into_iter().filter_map(Result::err) {
                    tracing::debug!(%fault, "a sequence could not be looked after: its next look tells of it again");
                }
                continue;
            }
            let next = held.next();
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = held.added() => {}
                () = until => {}
            }
        }
    }

    async fn serve(&self, sequence: &Sequence) -> Result<(), Fault> {
        let there = self.turns.read(sequence).await?;
        if let Some(holder) = there.turn.holder {
            let row = self.turns.row(holder.id, holder.generation).await?;
            return match row {
                None => self.finish_holder(sequence, &there, &holder).await,
                Some(_) => Ok(()),
            };
        }
        let search = Search {
            from: there.turn.from,
            until: Bound::at(Millis(self.ctx.now().0 + 1)),
            but: None,
            skips: leave::skips(&self.ctx, sequence).await?,
        };
        if let First::Member(member, None) = self.turns.first(sequence, search).await?.first {
            let written = Millis(member.rank.stamp / 1000);
            self.finisher.finish(&[member.rank.id], written).await?;
        }
        Ok(())
    }

    /// Ends the registration of a holder, or takes the turn from it when there is none to end: its entry is gone, and its place
    /// was never made sure, so no client was told of it.
    ///
    /// The turn is written in place of what was read before all this. A registration that comes meanwhile touches it, and so
    /// does a claim ([`SequenceLock::ask`]): nothing is taken then. One that comes later finds its place before the bound.
    async fn finish_holder(
        &self,
        sequence: &Sequence,
        there: &Read,
        holder: &Holder,
    ) -> Result<(), Fault> {
        let kept = self.ctx.settings.erase_delay;
        if !entry::is_left(holder.since, kept, self.ctx.now()) {
            return Ok(());
        }
        let is_known = self.finisher.finish(&[holder.id], holder.since).await? > 0;
        if is_known || holder.generation > 0 || self.may_be_sure(sequence, holder).await? {
            return Ok(());
        }
        let turn = Turn {
            holder: None,
            ..there.turn
        };
        if let Written::Done(_) = sequences::write(&self.ctx, sequence, there, turn).await? {
            tracing::debug!(task = %holder.id, "a turn was taken from a task that was never registered");
            let now = self.ctx.time.moment();
            self.ctx.turn_queue.add(sequence.clone(), now);
        }
        Ok(())
    }

    /// Tells whether the place of a holder was made sure, or has more rows than are read here.
    async fn may_be_sure(&self, sequence: &Sequence, holder: &Holder) -> Result<bool, Fault> {
        let own = Bound::of(holder.id.first_start(), holder.id);
        let page = sequences::members(&self.ctx, sequence, &own).await?;
        let is_own = |member: &Member| member.rank.id == holder.id;
        let mut members = page.members.iter();
        let ends_here = page.next.is_none() || !page.members.iter().all(is_own);
        // The place that cannot be understood may be its own.
        let is_sure = page.is_damaged || members.any(|member| is_own(member) && member.sure);
        Ok(!ends_here || is_sure)
    }
}
