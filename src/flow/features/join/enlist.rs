//! The enlister takes for the registration tasks on that wait for others, before anything else names them.
//!
//! It looks for the dependencies, and refuses a wait that cannot come to its end. Then it sets the marks, writes the rows of both
//! sides, and reads the rows of the dependencies: an end that came before its rows were there is noted here. A crash behind the
//! rows leaves them without a waiter; they end by themselves.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::marks;
use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        read::find::{Finder, Subject, is_hidden},
        rows::stored,
        tables::joins,
    },
    limits::{AFTER_LOOKED_FOR_AT_ONCE, JOINS_PAGE, WAITERS_ENLISTED_AT_ONCE},
    model::{
        family::Outcome,
        ids::TaskId,
        join::{self, Marks},
        task::Spec,
        time::Millis,
    },
};

/// The enlister. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Enlister {
    ctx: Arc<Context>,
    finder: Finder,
}

/// A task that is to wait.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct Waiter<'a> {
    /// The task.
    pub(in crate::flow) id: TaskId,
    /// Its spec, which has the rules.
    pub(in crate::flow) spec: &'a Spec,
    /// The tasks that it waits for.
    pub(in crate::flow) ids: &'a [TaskId],
}

/// The knowledge about dependencies.
struct Known {
    /// Each, and whether it is known.
    tasks: Vec<(TaskId, bool)>,
    marks: Marks,
}

impl Enlister {
    /// Enlists by this store.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, finder: Finder) -> Self {
        Self { ctx, finder }
    }

    /// Takes waiters on. Returns those that must not be registered, or of which nobody knows; repeating it is safe.
    pub(in crate::flow) async fn enlist(&self, waiters: &[Waiter<'_>]) -> HashMap<TaskId, Fault> {
        let mut refused = HashMap::new();
        for some in waiters.chunks(WAITERS_ENLISTED_AT_ONCE) {
            let enlisted = join_all(some.iter().map(|waiter| self.one(*waiter))).await;
            for (waiter, enlisted) in some.iter().zip(enlisted) {
                if let Err(fault) = enlisted {
                    refused.insert(waiter.id, fault);
                }
            }
        }
        refused
    }

    /// Removes the rows of a task that will never be registered.
    ///
    /// # Errors
    /// When some of them may have been left.
    pub(in crate::flow) async fn withdraw(
        &self,
        waiter: TaskId,
        ids: &[TaskId],
    ) -> Result<(), Fault> {
        joins::forget(&self.ctx, ids.iter().map(|id| (*id, waiter))).await?;
        joins::remove(&self.ctx, waiter, ids).await
    }

    async fn one(&self, waiter: Waiter<'_>) -> Result<(), Fault> {
        let known = match self.look_for(waiter).await {
            Ok(known) => known,
            // A repetition: its own row is the last write of a registration. Its dependencies may be forgotten by now.
            Err(Fault::Join(_)) if stored::row(&self.ctx, waiter.id).await?.is_some() => {
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        marks::set(&self.ctx, known.marks).await?;
        joins::put(&self.ctx, waiter.id, &known.tasks).await?;
        // Behind the rows: the end steps of a dependency that ends from now on read them.
        self.note_ended(waiter).await
    }

    /// Looks for the dependencies of a waiter, and checks each.
    async fn look_for(&self, waiter: Waiter<'_>) -> Result<Known, Fault> {
        let mut known = Known {
            tasks: Vec::with_capacity(waiter.ids.len()),
            marks: Marks::default(),
        };
        let now = self.ctx.now();
        let after = waiter.spec.after.as_deref();
        let deadline = after.and_then(|after| after.deadline);
        let unknown = Marks::of_unknown(deadline.unwrap_or(Millis::MAX));
        for ids in waiter.ids.chunks(AFTER_LOOKED_FOR_AT_ONCE) {
            for (id, subject) in ids.iter().zip(self.finder.subjects(ids).await) {
                // The retention of a hidden one has passed: it reads as unknown.
                let is_shown =
                    |found: &Subject| !found.row.as_ref().is_some_and(|row| is_hidden(row, now));
                let found = subject?.filter(is_shown);
                let spec = found.as_ref().map(|found| &*found.spec);
                let place = (known.tasks.len(), *id);
                join::check(waiter.spec, place, spec).map_err(Fault::Join)?;
                let mark = spec.and_then(Spec::callback).map(Marks::of);
                known.marks = known.marks.with(mark.unwrap_or(unknown));
                known.tasks.push((*id, found.is_some()));
            }
        }
        Ok(known)
    }

    /// Notes for a waiter which of its dependencies have ended. One that cannot be read is asked again by a check.
    async fn note_ended(&self, waiter: Waiter<'_>) -> Result<(), Fault> {
        for ids in waiter.ids.chunks(JOINS_PAGE) {
            let rows = stored::rows_each(&self.ctx, ids).await;
            let ended = ids.iter().zip(&rows).filter_map(|(id, row)| {
                let outcome = Outcome::of(row.as_ref().ok()?.as_ref()?)?;
                Some((*id, outcome))
            });
            joins::note(&self.ctx, waiter.id, &ended.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}
