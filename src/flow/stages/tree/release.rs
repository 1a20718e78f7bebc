//! The releaser lets children go that wait for the own run of their parent, for the completer: they start, or end with it.
//!
//! It reads the rows of those that wait ([`crate::model::family::WAITING`]) after the run has ended. An add that comes meanwhile
//! pokes the parent behind its rows. After a crash the next check does the rest: the look of the parent asks for it.

use std::sync::Arc;

use futures_util::future::join_all;

use super::reopen::Opener;
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::Context,
            rows::stored,
            tables::trees::{self, Cursor},
        },
        life::{cancel::Canceller, reschedule::Rescheduler},
    },
    limits::{CHILDREN_PAGE, RELEASES_IN_FLIGHT_MAX},
    model::{
        family::{self, WAITING},
        ids::TaskId,
        kin::Runs,
        row::{State, TaskRow},
        task::Spec,
    },
    schema::ChildRow,
    store::Freshness,
};

/// The releaser. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Releaser {
    ctx: Arc<Context>,
    rescheduler: Rescheduler,
    canceller: Canceller,
    opener: Opener,
}

impl Releaser {
    /// Releases through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        rescheduler: Rescheduler,
        canceller: Canceller,
        opener: Opener,
    ) -> Self {
        Self {
            ctx,
            rescheduler,
            canceller,
            opener,
        }
    }

    /// Releases all children that wait for the own run of this parent, which has ended.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn all(&self, parent: &TaskRow) -> Result<(), Fault> {
        if flaw::is(Flaw::WaitingLeft) {
            return Ok(());
        }
        let mut from = Some(Cursor {
            bucket: WAITING,
            after: None,
        });
        while let Some(at) = from {
            let page = trees::page(&self.ctx, parent.id, &at, CHILDREN_PAGE).await?;
            from = page.next;
            if page.rows.is_empty() {
                continue;
            }
            if self.is_over(parent.id).await? {
                // Their adds are refused, or were released by the check that has ended the tree.
                return Ok(());
            }
            let Some(parent) = self.over(parent.id).await? else {
                return Ok(());
            };
            let (mut seen, mut waiting) = (Vec::new(), Vec::new());
            for (id, row) in page.rows {
                match row {
                    ChildRow::Added { spec, opened, .. } => {
                        seen.push((id, opened.round));
                        waiting.push((id, Arc::new(*spec)));
                    }
                    ChildRow::Ended { round, .. } => seen.push((id, round)),
                }
            }
            for some in waiting.chunks(RELEASES_IN_FLIGHT_MAX) {
                self.some(&parent, some).await?;
            }
            trees::remove_waiting(&self.ctx, parent.id, &seen).await?;
        }
        Ok(())
    }

    /// Reads the parent of children that were read before, and wait; none when its own run goes on again. A child that waits once
    /// more does so behind the begin of that run.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn over(&self, parent: TaskId) -> Result<Option<TaskRow>, Fault> {
        let row = stored::row(&self.ctx, parent).await?;
        Ok(row.filter(|row| row.state.is_terminal()))
    }

    /// Tells whether the tree of a parent has ended. Read behind the rows of children that wait, it says whether their adds can
    /// still be refused: one that is being closed is opened again, as their adds do.
    async fn is_over(&self, parent: TaskId) -> Result<bool, Fault> {
        let there = trees::read(&self.ctx, parent, Freshness::Serial).await?;
        let there = trees::reopened(&self.ctx, parent, there).await?;
        Ok(family::add(there.tree) == family::Add::Over)
    }

    /// Releases children of this parent, whose own run has ended.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn some(
        &self,
        parent: &TaskRow,
        children: &[(TaskId, Arc<Spec>)],
    ) -> Result<(), Fault> {
        let releases = children
            .iter()
            .map(|(id, spec)| self.one(parent, *id, spec));
        // All of them come to their ends: what was cancelled is seen to behind.
        let released = join_all(releases).await;
        if parent.state != State::Succeeded {
            self.let_wait(parent.id, children).await?;
        }
        released.into_iter().collect()
    }

    async fn one(&self, parent: &TaskRow, id: TaskId, spec: &Arc<Spec>) -> Result<(), Fault> {
        if parent.state != State::Succeeded {
            return Box::pin(self.canceller.parent_failed(id, spec)).await;
        }
        let end = parent.detail.end_time.unwrap_or_else(|| self.ctx.now());
        let start = id.first_start().max(end);
        Box::pin(self.rescheduler.release(id, spec, start)).await
    }

    /// Lets children wait again that were cancelled with a run of their parent, if it runs once more or has succeeded by now:
    /// they may have waited for that run. A node that dies in between leaves them cancelled; a retry lets them wait then.
    async fn let_wait(
        &self,
        parent: TaskId,
        children: &[(TaskId, Arc<Spec>)],
    ) -> Result<(), Fault> {
        let Some(row) = stored::row(&self.ctx, parent).await? else {
            return Ok(());
        };
        if row.state.is_terminal() && row.state != State::Succeeded {
            return Ok(());
        }
        for (id, _) in children {
            Box::pin(self.opener.again(*id, Runs::Failed, None)).await?;
        }
        Ok(())
    }
}
