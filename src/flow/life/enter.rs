//! The entering stage asks the parents of children that are registered, before it writes them, and writes the checks of tasks
//! before these. Tasks that wait for others are enlisted before all of that.
//!
//! Other tasks pass, and cost nothing. The order is content, rows of joins, row of the child, record of the parent, entry
//! ([`crate::flow::features::tree`], [`crate::flow::features::join`]). The entry of a task that waits for others is a look, and
//! comes before its row: a look that finds no row writes it.

use std::collections::HashMap;

use futures_util::future::join_all;

use super::{
    add::Outside,
    register::{Incoming, Registrar, set, unanswered},
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::{Fault, TaskView},
            levels,
            read::find,
        },
        features::{
            ends::actions,
            join::{enlist::Waiter, waiter::first_look},
        },
    },
    limits,
    model::{entry::Entry, ids::TaskId, task::Spec},
};

impl Registrar {
    /// Writes tasks that have their ids; one result per task, in order. No id is there twice. A task that is there
    /// already is written once more as it is. Children ask for their parents first.
    pub(in crate::flow) async fn enter(
        &self,
        incoming: Vec<Incoming>,
    ) -> Vec<Result<TaskView, Fault>> {
        let needed = |task: &Incoming| self.ctx.levels.needed(&task.spec);
        if incoming.iter().all(|task| needed(task).is_none()) {
            return self.enter_known(incoming).await;
        }
        let least = levels::least(&self.ctx).await;
        let mut known = Vec::with_capacity(incoming.len());
        let mut results = Vec::with_capacity(incoming.len());
        for task in incoming {
            results.push(match (needed(&task), &least) {
                (Some(_), Err(fault)) => Some(Err(fault.clone())),
                (Some((level, field)), Ok(least)) if level > *least => {
                    Some(Err(Fault::Upgrading { field }))
                }
                (Some(_), Ok(_)) | (None, _) => None,
            });
            if results.last().is_some_and(Option::is_none) {
                known.push(task);
            }
        }
        let mut entered = self.enter_known(known).await.into_iter();
        let mut next = || entered.next().unwrap_or_else(|| Err(unanswered()));
        let result = |result: Option<_>| result.unwrap_or_else(&mut next);
        results.into_iter().map(result).collect()
    }

    /// Refuses a task that needs a level which not every node of the cluster has. Others cost nothing.
    ///
    /// # Errors
    /// [`Fault::Upgrading`], or that the store is away.
    pub(super) async fn check_level(&self, spec: &Spec) -> Result<(), Fault> {
        match self.ctx.levels.needed(spec) {
            Some((level, field)) if level > levels::least(&self.ctx).await? => {
                Err(Fault::Upgrading { field })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes tasks of which every node of the cluster knows all features.
    async fn enter_known(&self, incoming: Vec<Incoming>) -> Vec<Result<TaskView, Fault>> {
        let is_plain = |task: &Incoming| task.spec.kin.is_none() && task.spec.after.is_none();
        if incoming.iter().all(is_plain) {
            return self.enter_admitted(incoming).await;
        }
        // Its future is several times as large, and would be moved for plain tasks, too.
        Box::pin(self.enter_related(incoming)).await
    }

    /// Writes tasks of which some have parents, or wait for others.
    async fn enter_related(&self, incoming: Vec<Incoming>) -> Vec<Result<TaskView, Fault>> {
        // A check that completes the add of a child finds its content there.
        let mut contents: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.put_bodies(&incoming, &mut contents).await;
        let there = incoming.iter().zip(&contents);
        let there = there.filter(|(_, fault)| fault.is_none());
        let there: Vec<&Incoming> = there.map(|(task, _)| task).collect();
        // Before the rows under parents: a check of those completes the add of a child.
        let refused = self.enlist_below(&there).await;
        let there = there.iter().filter(|task| !refused.contains_key(&task.id));
        let tasks = there.map(|task| (task.id, &*task.spec));
        let mut outside = self.admission.ask(tasks).await;
        let refused = refused.into_iter();
        outside.extend(refused.map(|(id, fault)| (id, Outside::Refused(fault))));
        let mut admitted = Vec::new();
        let mut results = Vec::with_capacity(incoming.len());
        for (task, content) in incoming.into_iter().zip(contents) {
            results.push(match (outside.remove(&task.id), content) {
                (Some(Outside::Refused(fault)), _) | (None, Some(fault)) => Some(Err(fault)),
                (Some(Outside::Was), _) => {
                    Some(Ok(find::unwritten_view(task.id, &task.spec, task.start)))
                }
                (None, None) => {
                    admitted.push(task);
                    None
                }
            });
        }
        let mut entered = self.enter_admitted(admitted).await.into_iter();
        let mut next = || entered.next().unwrap_or_else(|| Err(unanswered()));
        let result = |result: Option<_>| result.unwrap_or_else(&mut next);
        results.into_iter().map(result).collect()
    }

    /// Takes those on that wait for others, as [`Self::enlist`] does, behind a look at their parents. These are such before it is
    /// seen what their children wait for. So of two tasks that are to wait for each other's trees one finds that the other has
    /// children.
    async fn enlist_below(&self, tasks: &[&Incoming]) -> HashMap<TaskId, Fault> {
        let waits = |task: &&&Incoming| !task.after.is_empty() && !task.enlisted;
        let parents = tasks
            .iter()
            .filter(waits)
            .filter_map(|task| task.spec.parent());
        let orphaned = self.admission.adopt(parents.collect()).await;
        let (mut refused, mut others) = (HashMap::new(), Vec::with_capacity(tasks.len()));
        for task in tasks {
            let parent = task.spec.parent();
            match parent.and_then(|parent| orphaned.get(&parent)) {
                Some(fault) => drop(refused.insert(task.id, fault.clone())),
                None => others.push(*task),
            }
        }
        refused.extend(self.enlist(&others).await);
        refused
    }

    /// Takes those on that wait for others. Returns those that must not be entered.
    pub(super) async fn enlist(&self, tasks: &[&Incoming]) -> HashMap<TaskId, Fault> {
        let waits = tasks
            .iter()
            .filter(|task| !task.after.is_empty() && !task.enlisted);
        let waiters: Vec<Waiter<'_>> = waits
            .map(|task| Waiter {
                id: task.id,
                spec: &task.spec,
                ids: &task.after,
            })
            .collect();
        if waiters.is_empty() {
            return HashMap::new();
        }
        Box::pin(self.enlister.enlist(&waiters)).await
    }

    /// Removes the rows of a task that will never be registered: those of its wait, and that under its parent. Its dependencies
    /// and its parent may find them until then, and nothing stands for it.
    pub(super) async fn retract(&self, task: &Incoming) {
        if let Some(parent) = task.spec.parent() {
            let waits = task.spec.is_after_parent();
            if let Err(fault) = self.admission.take_back(parent, task.id, waits).await {
                tracing::debug!(task = %task.id, %fault, "the row of a child that was refused was left");
            }
        }
        if !task.after.is_empty()
            && let Err(fault) = self.enlister.withdraw(task.id, &task.after).await
        {
            tracing::debug!(task = %task.id, %fault, "the rows of a wait that never began were left");
        }
    }

    /// Writes the contents and rows of tasks that are to be entered behind their parents.
    pub(super) async fn announce_below(&self, incoming: &[Incoming]) -> Result<(), Fault> {
        if incoming.is_empty() {
            return Ok(());
        }
        let mut results: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.put_bodies(incoming, &mut results).await;
        if let Some(fault) = results.into_iter().flatten().next() {
            return Err(fault);
        }
        let tasks = incoming.iter().map(|task| (task.id, &*task.spec));
        self.admission.announce(tasks).await
    }

    /// Writes the rows of tasks that wait for the own runs of their parents, or for other tasks.
    pub(super) async fn wait(
        &self,
        incoming: &[Incoming],
        waiting: &[usize],
        results: &mut [Option<Fault>],
    ) {
        self.put_looks(incoming, waiting, results).await;
        let has_failed = |index: usize| results.get(index).is_some_and(Option::is_some);
        let tasks: Vec<(usize, &Incoming)> = waiting
            .iter()
            .filter(|index| !has_failed(**index))
            .filter_map(|index| Some((*index, incoming.get(*index)?)))
            .collect();
        for some in tasks.chunks(limits::ASKED_IN_FLIGHT_MAX) {
            let writes = some
                .iter()
                .map(|(_, task)| self.admission.wait(task.id, &task.spec));
            let written = join_all(writes).await;
            for ((index, task), written) in some.iter().zip(written) {
                match written {
                    Err(fault) => set(results, *index, fault),
                    Ok(()) if task.spec.after.is_some() => self.poke(task),
                    Ok(()) => {}
                }
            }
        }
    }

    /// Puts the first looks of tasks that wait for others.
    async fn put_looks(
        &self,
        incoming: &[Incoming],
        waiting: &[usize],
        results: &mut [Option<Fault>],
    ) {
        let look = |index: &usize| {
            let task = incoming.get(*index)?;
            task.spec.after.as_ref()?;
            Some((*index, first_look(&self.ctx, task.id, &task.spec)))
        };
        let (indices, looks): (Vec<usize>, Vec<Entry>) = waiting.iter().filter_map(look).unzip();
        if looks.is_empty() {
            return;
        }
        let placed = self.placer.place(looks).await;
        for (index, placed) in indices.into_iter().zip(placed) {
            if let Err(fault) = placed {
                set(results, index, fault);
            }
        }
    }

    /// Asks for the checks of a task that waits for others: an end may have come before its row was there, and nodes whose copies
    /// of the marks are old tell it of none.
    fn poke(&self, task: &Incoming) {
        let (joins, now) = (&self.ctx.joins, self.ctx.time.moment());
        joins.ended.add(task.id, now);
        let again = now.after(limits::JOIN_CHECKED_AGAIN);
        joins.asked.at(task.id, again, 0);
    }

    /// Writes the tasks that check others, before anything names these. A check whose task was not written finds none.
    pub(super) async fn enter_checks(&self, incoming: &[Incoming], results: &mut [Option<Fault>]) {
        let checks = incoming.iter().enumerate().flat_map(|(index, task)| {
            let checks = actions::check_tasks(task.id, &task.spec);
            checks.map(move |check| (index, Incoming::of_internal(check)))
        });
        let (indices, checks): (Vec<usize>, Vec<Incoming>) = checks.unzip();
        if checks.is_empty() {
            return;
        }
        let entered = Box::pin(self.enter(checks)).await;
        for (index, entered) in indices.into_iter().zip(entered) {
            if let Err(fault) = entered
                && !flaw::is(Flaw::CheckNotAwaited)
            {
                set(results, index, fault);
            }
        }
    }
}
