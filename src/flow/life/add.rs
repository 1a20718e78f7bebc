//! The admission writes for the registration the rows of children, and asks the records of their parents whether they may come.
//!
//! A row is durable before the record is read, and the record is read before the entry is written. So a parent that ends its tree
//! has seen the row, or the add sees the end. A crash behind the row leaves a child that no entry stands for: the check of its
//! parent completes the add. A tree that is cancelled takes no child whose row was not there before. The parent itself is looked
//! for first, and made one if it has no children yet ([`super::adopt`]).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::adopt::{Adopter, Parent};
use crate::{
    flow::base::{api::Fault, context::Context, documents, rows::stored, tables::trees},
    limits::FAMILY_RACES_MAX,
    model::{
        family::{self, ADDED_WRITTEN, Add, Refusal},
        ids::TaskId,
        task::Spec,
    },
    schema::{ChildRow, encode_added},
    store::Freshness,
};

/// How old the start of a child is whose row is read before it is entered: its own row may be gone, and it must not run again.
const REPEATED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A child that is not entered.
#[derive(Debug)]
pub(in crate::flow) enum Outside {
    /// It was added before, and has ended.
    Was,
    /// It may not come, or nobody knows.
    Refused(Fault),
}

/// The admission of children. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Admission {
    ctx: Arc<Context>,
    adopter: Adopter,
}

impl Admission {
    /// Admits by this store.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, adopter: Adopter) -> Self {
        Self { ctx, adopter }
    }

    /// Makes parents of these tasks, before it is looked for what children of theirs are to wait for. Returns those that cannot
    /// be.
    pub(in crate::flow) async fn adopt(&self, parents: BTreeSet<TaskId>) -> HashMap<TaskId, Fault> {
        let mut refused = HashMap::new();
        for parent in parents {
            if let Err(fault) = self.adopter.parent(parent).await {
                refused.insert(parent, fault);
            }
        }
        refused
    }

    /// Asks for the children among tasks that are about to be entered. Returns those that must not be; others cost nothing.
    pub(in crate::flow) async fn ask<'a>(
        &self,
        tasks: impl Iterator<Item = (TaskId, &'a Spec)>,
    ) -> HashMap<TaskId, Outside> {
        let mut families: BTreeMap<TaskId, Vec<(TaskId, &Spec)>> = BTreeMap::new();
        for (id, spec) in tasks {
            if let Some(parent) = spec.parent() {
                families.entry(parent).or_default().push((id, spec));
            }
        }
        let mut outside = HashMap::new();
        for (parent, children) in families {
            if let Err(fault) = self.add(parent, &children, &mut outside).await {
                for (id, _) in children {
                    let refused = || Outside::Refused(fault.clone());
                    outside.entry(id).or_insert_with(refused);
                }
            }
        }
        outside
    }

    /// Writes the rows of tasks that are registered with their parents, before anything names these. Returns the faults.
    pub(in crate::flow) async fn announce<'a>(
        &self,
        tasks: impl Iterator<Item = (TaskId, &'a Spec)>,
    ) -> Result<(), Fault> {
        let (mut rows, mut waiting) = (Vec::new(), Vec::new());
        for (id, spec) in tasks {
            if let Some(parent) = spec.parent() {
                let row = (parent, id, self.row(spec)?, ADDED_WRITTEN);
                waiting.extend(spec.is_after_parent().then(|| row.clone()));
                rows.push(row);
            }
        }
        trees::put(&self.ctx, rows).await?;
        trees::put_waiting(&self.ctx, waiting).await
    }

    fn row(&self, spec: &Spec) -> Result<Bytes, Fault> {
        let row = encode_added(spec, self.ctx.now());
        row.map_err(|bytes| Fault::Family(Refusal::TooLarge(bytes)))
    }

    async fn add(
        &self,
        parent: TaskId,
        children: &[(TaskId, &Spec)],
        outside: &mut HashMap<TaskId, Outside>,
    ) -> Result<(), Fault> {
        let known = self.adopter.parent(parent).await?;
        let is_cancelled = trees::is_cancelled(&self.ctx, parent).await?;
        let mut added = Vec::with_capacity(children.len());
        for (id, spec) in children {
            if !family::takes(is_cancelled, spec.undoes())
                && !self.was_added(parent, *id, outside).await?
            {
                continue;
            }
            match self.row(spec) {
                Ok(row) => added.push((*id, row, spec.is_after_parent())),
                Err(fault) => drop(outside.insert(*id, Outside::Refused(fault))),
            }
        }
        let (round, is_over) = self.put(parent, known, &added).await?;
        let old = self.ctx.now().before(REPEATED_AFTER);
        for (id, _, waits) in &added {
            if !is_over && id.first_start() >= old {
                continue;
            }
            let row = trees::child(&self.ctx, parent, *id).await?;
            if matches!(row, Some(ChildRow::Ended { .. })) {
                outside.insert(*id, Outside::Was);
            } else if is_over {
                // Before the answer: the tree may be opened again, and a refused child must not be found there then.
                trees::take_back(&self.ctx, parent, *id, (round, *waits)).await?;
                let refused = Fault::Family(Refusal::Ended(parent));
                outside.insert(*id, Outside::Refused(refused));
            }
        }
        if !is_over && added.iter().any(|(_, _, waits)| *waits) {
            // Behind their rows: the own run may have ended before these were there.
            let row = stored::row(&self.ctx, parent).await?;
            if row.is_some_and(|row| row.state.is_terminal()) {
                self.ctx.pokes.add(parent, self.ctx.time.moment());
            }
        }
        Ok(())
    }

    /// Tells whether a child that comes to a tree that is cancelled was added before, and goes on. Others are not entered, and no
    /// row of theirs is written.
    async fn was_added(
        &self,
        parent: TaskId,
        id: TaskId,
        outside: &mut HashMap<TaskId, Outside>,
    ) -> Result<bool, Fault> {
        let not_entered = match trees::child(&self.ctx, parent, id).await? {
            Some(ChildRow::Added { .. }) => return Ok(true),
            Some(ChildRow::Ended { .. }) => Outside::Was,
            None => Outside::Refused(Fault::Family(Refusal::Cancelled(parent))),
        };
        outside.insert(id, not_entered);
        Ok(false)
    }

    /// Writes the rows of children that are added, each with whether it waits for its parent. Returns the round in which they
    /// were written, which the row of the parent has begun, and whether the tree has ended. A refusal of a round before
    /// removes a row for good against all adds of that round.
    async fn put(
        &self,
        parent: TaskId,
        mut known: Parent,
        added: &[(TaskId, Bytes, bool)],
    ) -> Result<(u32, bool), Fault> {
        for _ in 0..FAMILY_RACES_MAX {
            let written = family::added_written(known.round);
            let row = |(id, row, _): &(TaskId, Bytes, bool)| (parent, *id, row.clone(), written);
            trees::put(&self.ctx, added.iter().map(row).collect()).await?;
            // Behind the rows of children: a releaser that sees one of these, and then an open tree, knows that it cannot end.
            let waiting = added.iter().filter(|(_, _, waits)| *waits);
            trees::put_waiting(&self.ctx, waiting.map(row).collect()).await?;
            let there = trees::read(&self.ctx, parent, Freshness::Serial).await?;
            let there = trees::reopened(&self.ctx, parent, there).await?;
            if there.cancelled.is_some() {
                // It came before the cancel, whose check may have passed by, or it undoes something.
                self.ctx.pokes.add(parent, self.ctx.time.moment());
            }
            if there.round <= known.round {
                // Its record may be gone before its row.
                let is_over = known.has_ended || family::add(there.tree) == Add::Over;
                return Ok((known.round, is_over));
            }
            let row = stored::row(&self.ctx, parent).await?;
            let now = Parent::of(row.as_ref());
            if now.round <= known.round {
                // The row has not followed the record: nothing may run below it yet.
                return Ok((known.round, true));
            }
            known = now;
        }
        Err(documents::raced(format_args!("the tree of {parent}")))
    }

    /// Removes the rows of a child that will never be registered, below a parent that was about to be.
    pub(in crate::flow) async fn take_back(
        &self,
        parent: TaskId,
        child: TaskId,
        waits: bool,
    ) -> Result<(), Fault> {
        trees::take_back(&self.ctx, parent, child, (0, waits)).await
    }
}
