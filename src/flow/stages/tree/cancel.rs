//! The tree canceller cancels trees as a whole, for the tree reader of clients and for the checks that go on with it.
//!
//! ```text
//! look at the parent -> its record: cancelled -> its own run -> its children -> the same below each of them
//! ```
//!
//! The look is durable before the record says it, so a node that dies behind that leaves a parent that is looked at soon. Its
//! check goes on, level by level. A child is named by its row if its add came before the record was written; a later add is
//! refused, or finds a check that comes once more ([`crate::model::family`] has the rules).

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use crate::{
    flow::{
        base::{
            api::{CancelOutcome, Fault},
            context::Context,
            documents,
            rows::stored,
            tables::trees::{self, Cursor, Written},
        },
        life::cancel::Canceller,
    },
    limits::{CHILDREN_PAGE, FAMILY_RACES_MAX, RELEASES_IN_FLIGHT_MAX},
    model::{
        again,
        family::{self, Cancel},
        ids::TaskId,
        task::Spec,
    },
    schema::ChildRow,
    store::{self, Freshness},
};

/// The outcome of the write that cancels a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    /// It was written now.
    Now,
    /// It was there before.
    Before,
    /// The tree has ended otherwise.
    Late,
}

/// Some children that were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Where the next ones begin; none behind the last.
    pub(super) next: Option<Cursor>,
    /// Those of them whose own children are to be told.
    pub(super) parents: Vec<TaskId>,
    /// Those of these whose records say so from now on. The looks of the others come by.
    pub(super) marked: Vec<TaskId>,
    /// How many had not ended.
    pub(super) open: usize,
    /// How many were cancelled now.
    pub(super) cancelled: u64,
    /// Of how many the attempts were told to stop.
    pub(super) requested: u64,
}

/// The tree canceller. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct TreeCanceller {
    ctx: Arc<Context>,
    canceller: Canceller,
}

impl TreeCanceller {
    /// Cancels through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, canceller: Canceller) -> Self {
        Self { ctx, canceller }
    }

    /// Begins a cancel of the tree of a parent: what comes behind it goes on without the caller.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn begin(&self, parent: TaskId, spec: &Arc<Spec>) -> Result<Marked, Fault> {
        let row = stored::row(&self.ctx, parent).await?;
        if row.as_ref().is_none_or(|row| row.detail.tree.is_none()) {
            self.canceller.come_back(parent, row.as_ref(), spec).await?;
        }
        let marked = self.mark(parent).await?;
        if marked != Marked::Late {
            self.ctx.pokes.add(parent, self.ctx.time.moment());
        }
        Ok(marked)
    }

    /// Writes into the record of a parent that its tree is cancelled.
    async fn mark(&self, parent: TaskId) -> Result<Marked, Fault> {
        let now = self.ctx.now();
        for race in 0..FAMILY_RACES_MAX {
            let row = stored::row(&self.ctx, parent).await?;
            if let Some(row) = row.as_ref().filter(|row| row.detail.tree.is_some()) {
                let before = again::is_cancelled(row);
                return Ok(if before { Marked::Before } else { Marked::Late });
            }
            let there = match &row {
                Some(row) => trees::read_of(&self.ctx, row).await?,
                None => trees::read(&self.ctx, parent, Freshness::Serial).await?,
            };
            match family::cancel(there.tree, there.cancelled.is_some()) {
                Cancel::Late => return Ok(Marked::Late),
                // Of a write whose answer was lost.
                Cancel::Before if race > 0 && there.cancelled == Some(now) => {
                    return Ok(Marked::Now);
                }
                Cancel::Before => return Ok(Marked::Before),
                Cancel::Write => match trees::cancel(&self.ctx, parent, &there, now).await? {
                    Written::Done(_) => return Ok(Marked::Now),
                    Written::Lost => {}
                },
            }
        }
        Err(documents::raced(format_args!("the tree of {parent}")))
    }

    /// Cancels the own run of a parent whose tree is cancelled.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn own_run(&self, parent: TaskId) -> Result<(), Fault> {
        let told = self.canceller.cancel(&[parent]).await;
        told.into_iter().try_for_each(|told| told.map(drop))
    }

    /// Cancels children of a parent whose record says that its tree is cancelled, from a place on: one page, and at most so many.
    /// Those that undo something are passed over.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn children(
        &self,
        parent: TaskId,
        from: &Cursor,
        most: usize,
    ) -> Result<Told, Fault> {
        let page = trees::page(&self.ctx, parent, from, CHILDREN_PAGE.min(most)).await?;
        let mut told = Told {
            next: page.next,
            ..Told::default()
        };
        let open = page.rows.into_iter().filter_map(|(id, row)| match row {
            ChildRow::Added { spec, .. } if !spec.undoes() => Some((id, Arc::new(*spec))),
            ChildRow::Added { .. } | ChildRow::Ended { .. } => None,
        });
        let open: Vec<(TaskId, Arc<Spec>)> = open.collect();
        told.open = open.len();
        if open.is_empty() {
            return Ok(told);
        }
        let ids: Vec<TaskId> = open.iter().map(|(id, _)| *id).collect();
        let (mut parents, mut left) = (Vec::new(), Vec::new());
        for ((id, spec), row) in open
            .into_iter()
            .zip(stored::rows_each(&self.ctx, &ids).await)
        {
            let row = match row {
                Ok(row) => row,
                // Its look sets it aside. Its siblings are told all the same.
                Err(store::Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if row.as_ref().is_some_and(|row| row.detail.spec.is_parent()) {
                parents.push(id);
            }
            // Those that were told before are not told again: each check comes by.
            if row.is_none_or(|row| !row.state.is_terminal() && !row.cancel_requested) {
                left.push((id, spec));
            }
        }
        self.some(left, &mut told, &mut parents).await?;
        let marks = parents
            .into_iter()
            .map(|id| async move { (id, self.mark(id).await) });
        let mut marks = stream::iter(marks).buffered(RELEASES_IN_FLIGHT_MAX);
        while let Some((id, marked)) = marks.next().await {
            let marked = marked?;
            if marked != Marked::Late {
                told.parents.push(id);
            }
            if marked == Marked::Now {
                told.marked.push(id);
            }
        }
        Ok(told)
    }

    /// Cancels some children, and notes those that are parents by now.
    async fn some(
        &self,
        children: Vec<(TaskId, Arc<Spec>)>,
        told: &mut Told,
        parents: &mut Vec<TaskId>,
    ) -> Result<(), Fault> {
        if children.is_empty() {
            return Ok(());
        }
        let ids: Vec<TaskId> = children.iter().map(|(id, _)| *id).collect();
        let answers = self.canceller.cancel(&ids).await;
        let mut failed = None;
        for ((id, spec), answer) in children.into_iter().zip(answers) {
            let answer = match answer {
                Ok(answer) => answer,
                // The others are told first.
                Err(fault) => {
                    failed.get_or_insert(fault);
                    continue;
                }
            };
            let Some((outcome, view)) = answer else {
                // Its add is under way, or died: it never runs.
                told.cancelled += u64::from(self.canceller.unentered(id, &spec).await?);
                continue;
            };
            match outcome {
                CancelOutcome::Cancelled => told.cancelled += 1,
                CancelOutcome::CancelRequested => told.requested += 1,
                CancelOutcome::AlreadyCancelled | CancelOutcome::TooLate => {}
            }
            // It may have got its first child after the row above it was written.
            if view.spec.is_parent() && !parents.contains(&id) {
                parents.push(id);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
