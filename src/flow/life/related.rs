//! Related tasks are entered by the registrar: children ask their parents before they are written, and tasks that wait for others
//! are enlisted before that.
//!
//! Other tasks pass, and cost nothing. The order is content, rows of joins, row of the child, record of the parent, entry
//! ([`crate::flow::features::tree`], [`crate::flow::features::join`]).

use std::collections::HashMap;

use super::{add::Outside, enter::unanswered, incoming::Incoming, register::Registrar};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView},
            levels,
            read::find,
        },
        features::join::enlist::Waiter,
    },
    model::{ids::TaskId, task::Spec},
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
            return self.entrance.enter(incoming).await;
        }
        // Its future is several times as large, and would be moved for plain tasks, too.
        Box::pin(self.enter_related(incoming)).await
    }

    /// Writes tasks of which some have parents, or wait for others.
    async fn enter_related(&self, incoming: Vec<Incoming>) -> Vec<Result<TaskView, Fault>> {
        // A check that completes the add of a child finds its content there.
        let mut contents: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.entrance.put_bodies(&incoming, &mut contents).await;
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
                    // Its content is durable by now.
                    admitted.push(Incoming {
                        content: None,
                        ..task
                    });
                    None
                }
            });
        }
        let mut entered = self.entrance.enter(admitted).await.into_iter();
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
        self.entrance.put_bodies(incoming, &mut results).await;
        if let Some(fault) = results.into_iter().flatten().next() {
            return Err(fault);
        }
        let tasks = incoming.iter().map(|task| (task.id, &*task.spec));
        self.admission.announce(tasks).await
    }
}
