//! The reminder looks after sequences whose tasks have waited for long, and ends the registration of their first task if nothing
//! else comes to it ([`Finisher`] has the reasons).
//!
//! Tasks that wait tell of their sequence by their looks and claims. A first task that has a row has a look, so it is left to
//! that. This stage is apart from the usher, as it may have to search: turns that are passed on do not wait for it.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    leave,
    turn::{First, Search, TurnKeeper},
};
use crate::{
    flow::{api::Fault, context::Context, tasks::unfinished::Finisher},
    limits::SEQUENCES_HELD_AT_ONCE,
    model::{
        ids::TaskId,
        ordering::{Bound, Sequence},
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
        if let Some(id) = self.first_without_row(sequence).await? {
            self.finisher.finish(&[id]).await?;
        }
        Ok(())
    }

    /// Returns the task that the others of a sequence wait for, if it has no row.
    async fn first_without_row(&self, sequence: &Sequence) -> Result<Option<TaskId>, Fault> {
        let turn = self.turns.read(sequence).await?.turn;
        if let Some(holder) = turn.holder {
            let row = self.turns.row(holder.id, holder.generation).await?;
            return Ok(row.is_none().then_some(holder.id));
        }
        let search = Search {
            from: turn.from,
            until: Bound::at(Millis(self.ctx.now().0 + 1)),
            but: None,
            skips: leave::skips(&self.ctx, sequence).await?,
        };
        Ok(match self.turns.first(sequence, search).await?.first {
            First::Member(member, None) => Some(member.rank.id),
            First::Member(_, Some(_)) | First::Open(_) | First::None => None,
        })
    }
}
