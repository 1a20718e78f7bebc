//! The finisher ends registrations for stages that wait for their tasks: for the reminder of sequences, the checker of joins and
//! the completer of trees.
//!
//! A registration that got no answer may leave an entry in a slot that its wheel has passed, and no row. No wheel comes to such
//! a task. Its client was told nothing, and may never ask again. Others may have been told that they wait for it: a sequence
//! gives it its turn, a task names it as one to wait for, a tree holds a place for it. So it is entered once more, as its
//! client would do.
//!
//! A task to which something still comes has an entry that is younger, or a look ahead. Entering such a task as well is safe:
//! a claim makes one attempt of any number of messages. A record has no claim, and is left as it is.

use std::sync::Arc;

use super::{existence::ExistenceCheck, incoming::Incoming, register::Registrar};
use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        read::find::{Finder, Registered},
    },
    model::{
        entry::{self, Kind},
        holder::Holder,
        ids::TaskId,
        time::Millis,
    },
    store::Freshness,
};

/// The judgement of a task without a row of which something was found.
enum Found {
    /// Something comes to it.
    Stands,
    /// Nothing does, and it is to be entered.
    Left(Incoming),
}

/// The finisher. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Finisher {
    ctx: Arc<Context>,
    /// It is apart from those of clients and claims, whose searches must not wait for these.
    finder: Finder,
    standing: ExistenceCheck,
    registrar: Registrar,
}

impl Finisher {
    /// Finishes through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        finder: Finder,
        standing: ExistenceCheck,
        registrar: Registrar,
    ) -> Self {
        Self {
            ctx,
            finder,
            standing,
            registrar,
        }
    }

    /// Enters those of these tasks, which had no rows when they were read, to which nothing comes any more. An entry was found
    /// of each of them once, at about `then`. Returns how many there are of which anything is known. Repeating it is safe.
    ///
    /// # Errors
    /// When that cannot be told of one of them, or one was not entered. The others may have been.
    pub(in crate::flow) async fn finish(
        &self,
        ids: &[TaskId],
        then: Millis,
    ) -> Result<usize, Fault> {
        let (mut known, mut left, mut failed) = (0, Vec::new(), None);
        for (id, found) in ids.iter().zip(self.finder.registered_all(ids).await) {
            match self.left(*id, found, then).await {
                Ok(None) => {}
                Ok(Some(Found::Stands)) => known += 1,
                Ok(Some(Found::Left(task))) => {
                    known += 1;
                    left.push(task);
                }
                // The others are entered all the same.
                Err(fault) => failed = Some(fault),
            }
        }
        if !left.is_empty() {
            let ids: Vec<TaskId> = left.iter().map(|task| task.id).collect();
            tracing::debug!(
                ?ids,
                "tasks whose registration was not finished are entered"
            );
            metrics::counter!("tickwheel_registrations_finished_total").increment(ids.len() as u64);
            let entered = self.registrar.entrance().enter(left).await;
            failed = entered.into_iter().find_map(Result::err).or(failed);
        }
        failed.map_or(Ok(known), Err)
    }

    /// Judges a task by what was found of it.
    async fn left(
        &self,
        id: TaskId,
        found: Result<Option<Registered>, Fault>,
        then: Millis,
    ) -> Result<Option<Found>, Fault> {
        // A look that was written long behind the start is found by its own time only.
        let found = match found? {
            Some(found) => Some(found),
            None => self.finder.registered_then(id, then).await?,
        };
        let Some(found) = found else { return Ok(None) };
        if !self.may_be_left(&found).await? || self.standing.has_look(id).await? {
            return Ok(Some(Found::Stands));
        }
        Ok(Some(Found::Left(Incoming::of_holder(Holder {
            id,
            generation: 0,
            spec: found.spec,
        }))))
    }

    /// Tells whether the wheel has come by an entry long ago, by the clock and by its hand: it may catch up with an outage.
    async fn may_be_left(&self, found: &Registered) -> Result<bool, Fault> {
        let Registered { spec, entry } = found;
        let (due, kept) = (entry.key.due, self.ctx.settings.erase_delay);
        let acts = !matches!(entry.kind, Kind::Done { .. });
        if !acts || !spec.target.is_tracked() || !entry::is_left(due, kept, self.ctx.now()) {
            return Ok(false);
        }
        let wheel = entry.key.wheel();
        let clock = self.ctx.store.clock(wheel, Freshness::Quorum).await?;
        Ok(entry::is_left(due, kept, clock.fired.due))
    }
}
