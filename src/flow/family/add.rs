//! The admission writes for the registration the rows of children, and asks the records of their parents whether they may come.
//!
//! A row is durable before the record is read, and the record is read before the entry is written. So a parent that ends its tree
//! has seen the row, or the add sees the end. A crash behind the row leaves a child that no entry stands for: the check of its
//! parent completes the add. The parent itself is looked for first, and made one if it has no children yet ([`super::adopt`]).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::{adopt::Adopter, rows};
use crate::{
    flow::{
        api::Fault,
        context::Context,
        tasks::transition::{Moved, Mover},
    },
    model::{
        family::{self, ADDED_WRITTEN, Add, Refusal},
        ids::TaskId,
        row::TaskRow,
        state::{self, Event},
        task::Spec,
    },
    schema::{ChildRow, encode_added},
    store::{Freshness, index::IndexRemoval},
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
    mover: Mover,
    adopter: Adopter,
}

impl Admission {
    /// Admits by this store.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, mover: Mover, adopter: Adopter) -> Self {
        Self {
            ctx,
            mover,
            adopter,
        }
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
        rows::put(&self.ctx, rows).await?;
        rows::put_waiting(&self.ctx, waiting).await
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
        let has_ended = self.adopter.parent(parent).await?;
        let mut rows = Vec::with_capacity(children.len());
        for (id, spec) in children {
            match self.row(spec) {
                Ok(row) => rows.push((parent, *id, row, ADDED_WRITTEN)),
                Err(fault) => drop(outside.insert(*id, Outside::Refused(fault))),
            }
        }
        let ids: Vec<TaskId> = rows.iter().map(|(_, id, ..)| *id).collect();
        let waits: Vec<TaskId> = children
            .iter()
            .filter(|(_, spec)| spec.is_after_parent())
            .map(|(id, _)| *id)
            .collect();
        let waiting = rows.iter().filter(|(_, id, ..)| waits.contains(id));
        let waiting: Vec<_> = waiting.cloned().collect();
        rows::put(&self.ctx, rows).await?;
        // Behind the rows of children: a releaser that sees one of these, and then an open tree, knows that it cannot end.
        rows::put_waiting(&self.ctx, waiting).await?;
        let there = rows::read(&self.ctx, parent, Freshness::Serial).await?;
        let there = rows::reopened(&self.ctx, parent, there).await?;
        // Its record may be gone before its row.
        let is_over = match there.round {
            0 => has_ended || family::add(there.tree) == Add::Over,
            // The row may not have followed: then nothing may run below it yet.
            round => {
                family::add(there.tree) == Add::Over || !self.has_followed(parent, round).await?
            }
        };
        let old = self.ctx.now().before(REPEATED_AFTER);
        for id in ids {
            if !is_over && id.first_start() >= old {
                continue;
            }
            let row = rows::child(&self.ctx, parent, id).await?;
            if matches!(row, Some(ChildRow::Ended { .. })) {
                outside.insert(id, Outside::Was);
            } else if is_over {
                // Before the answer: the tree may be opened again, and a refused child must not be found there then.
                self.take_back(parent, id, waits.contains(&id)).await?;
                let refused = Fault::Family(Refusal::Ended(parent));
                outside.insert(id, Outside::Refused(refused));
            }
        }
        if !waits.is_empty() && !is_over {
            // Behind their rows: the own run may have ended before these were there.
            let row = self.mover.row(parent).await?;
            if row.is_some_and(|row| row.state.is_terminal()) {
                self.ctx.pokes.add(parent, self.ctx.time.moment());
            }
        }
        Ok(())
    }

    /// Writes the row of a task that waits for the own run of its parent. One that was released before stays so.
    ///
    /// # Errors
    /// When it may not be durable.
    pub(in crate::flow) async fn wait(&self, id: TaskId, spec: &Arc<Spec>) -> Result<(), Fault> {
        let decide = |row: Option<&TaskRow>, now, nonce| {
            state::next(id, row, spec, Event::Await, now, nonce)
        };
        let moved = self.mover.apply(id, None, false, decide).await?;
        match moved {
            Moved::To(_) | Moved::Refused(_, Some(_)) => Ok(()),
            Moved::Refused(_, None) => Err(rows::raced(id)),
        }
    }

    /// Removes the row of a child that was refused. The end of one that was added after all is later.
    pub(in crate::flow) async fn take_back(
        &self,
        parent: TaskId,
        child: TaskId,
        waits: bool,
    ) -> Result<(), Fault> {
        if waits {
            rows::remove_waiting(&self.ctx, parent, &[(child, 0)]).await?;
        }
        let place = rows::place(parent, child)?;
        let written = ADDED_WRITTEN + 1;
        let removal = [IndexRemoval { place, written }];
        let removed = self.ctx.store.remove_index(&removal).await;
        removed.into_iter().try_for_each(|result| Ok(result?))
    }

    /// Tells whether the row of a parent, whose record says that its tree goes on in this round, says so, too.
    async fn has_followed(&self, parent: TaskId, round: u32) -> Result<bool, Fault> {
        let row = self.mover.row(parent).await?;
        Ok(row.is_some_and(|row| row.detail.rounds.round >= round && row.detail.tree.is_none()))
    }
}
