//! The reminder looks after sequences whose tasks have waited for long, and ends the registration of their first task if nothing
//! else comes to it ([`Finisher`] has the reasons).
//!
//! Tasks that wait tell of their sequence by their looks and claims. A first task that has a row has a look, so it is left to
//! that. This stage is apart from the usher, as it may have to search: turns that are passed on do not wait for it.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    leave, rows,
    turn::{First, Search, TurnKeeper},
};
use crate::{
    flow::{api::Fault, context::Context, tasks::unfinished::Finisher},
    limits::SEQUENCES_HELD_AT_ONCE,
    model::{
        ordering::{Bound, Holder, Sequence},
        time::Millis,
    },
};

/// The reminder of a node.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Reminder {
    ctx: Arc<Context>,
    turns: TurnKeeper,
    finisher: Finisher,
}

impl Reminder {
    /// Reminds through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        turns: TurnKeeper,
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
        let held = self.ctx.handed.held();
        while !stop.is_cancelled() {
            let batch = held.take(self.ctx.time.moment(), SEQUENCES_HELD_AT_ONCE);
            if !batch.is_empty() {
                let served = batch.iter().map(|(sequence, _)| self.serve(sequence));
                for fault in join_all(served).await.into_iter().filter_map(Result::err) {
                    tracing::debug!(%fault, "a sequence could not be looked after: its next look tells of it again");
                }
                continue;
            }
            let next = held.next();
            let until = async {
                match next {
                    Some(at) => self.ctx.time.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = held.added() => {}
                () = until => {}
            }
        }
    }

    async fn serve(&self, sequence: &Sequence) -> Result<(), Fault> {
        let turn = self.turns.read(sequence).await?.turn;
        if let Some(holder) = turn.holder {
            let row = self.turns.row(holder.id, holder.generation).await?;
            return match row {
                None => self.finish_holder(sequence, &holder).await,
                Some(_) => Ok(()),
            };
        }
        let search = Search {
            from: turn.from,
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
    /// was never made sure, so no client was told of it. A client that asks again gives it another place.
    async fn finish_holder(&self, sequence: &Sequence, holder: &Holder) -> Result<(), Fault> {
        if self.finisher.finish(&[holder.id], holder.since).await? > 0 || holder.generation > 0 {
            return Ok(());
        }
        let own = Bound::of(holder.id.first_start(), holder.id);
        let members = rows::members(&self.ctx, sequence, &own).await?.members;
        if members
            .iter()
            .any(|member| member.sure && member.rank.id == holder.id)
        {
            return Ok(());
        }
        tracing::debug!(task = %holder.id, "a turn was taken from a task that was never registered");
        leave::pass_on(&self.ctx, sequence, (holder.id, holder.generation)).await
    }
}
