//! The entering stage asks the parents of children that are registered, before it writes them, and writes the checks of tasks
//! before these.
//!
//! Tasks outside of trees pass, and cost nothing. The order is content, row of the child, record of the parent, entry
//! ([`crate::flow::family`]).

use futures_util::future::join_all;

use super::register::{Incoming, Registrar, set, unanswered};
use crate::{
    flaw::{self, Flaw},
    flow::{
        api::{Fault, TaskView},
        family::add::Outside,
        internal::actions,
        query::find,
    },
    limits,
    model::level::{self, Level},
};

impl Registrar {
    /// Writes tasks that have their ids; one result per task, in order. No id is there twice. A task that is there
    /// already is written once more as it is. Children ask for their parents first.
    pub(in crate::flow) async fn enter(
        &self,
        incoming: Vec<Incoming>,
    ) -> Vec<Result<TaskView, Fault>> {
        let needs = |task: &Incoming| level::needed(&task.spec).0 > Level::FIRST;
        if !incoming.iter().any(needs) {
            return self.enter_known(incoming).await;
        }
        let least = self.ctx.levels.least(&self.ctx).await;
        let mut known = Vec::with_capacity(incoming.len());
        let mut results = Vec::with_capacity(incoming.len());
        for task in incoming {
            let (needed, field) = level::needed(&task.spec);
            results.push(match &least {
                _ if needed == Level::FIRST => None,
                Err(fault) => Some(Err(fault.clone())),
                Ok(least) if needed > *least => Some(Err(Fault::Upgrading { field })),
                Ok(_) => None,
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

    /// Writes tasks of which every node of the cluster knows all features.
    async fn enter_known(&self, incoming: Vec<Incoming>) -> Vec<Result<TaskView, Fault>> {
        if incoming.iter().all(|task| task.spec.kin.is_none()) {
            return self.enter_admitted(incoming).await;
        }
        // A check that completes the add of a child finds its content there.
        let mut contents: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.put_bodies(&incoming, &mut contents).await;
        let is_there = incoming
            .iter()
            .zip(&contents)
            .filter(|(_, fault)| fault.is_none());
        let tasks = is_there.map(|(task, _)| (task.id, &*task.spec));
        let mut outside = self.admission.ask(tasks).await;
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

    /// Writes the contents and rows of tasks that are to be entered behind their parents.
    pub(super) async fn announce_below(&self, incoming: &[Incoming]) -> Result<(), Fault> {
        let mut results: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.put_bodies(incoming, &mut results).await;
        if let Some(fault) = results.into_iter().flatten().next() {
            return Err(fault);
        }
        let tasks = incoming.iter().map(|task| (task.id, &*task.spec));
        self.admission.announce(tasks).await
    }

    /// Writes the rows of tasks that wait for the own runs of their parents.
    pub(super) async fn wait(
        &self,
        incoming: &[Incoming],
        waiting: &[usize],
        results: &mut [Option<Fault>],
    ) {
        let tasks: Vec<(usize, &Incoming)> = waiting
            .iter()
            .filter_map(|index| Some((*index, incoming.get(*index)?)))
            .collect();
        for some in tasks.chunks(limits::ASKED_IN_FLIGHT_MAX) {
            let writes = some
                .iter()
                .map(|(_, task)| self.admission.wait(task.id, &task.spec));
            let written = join_all(writes).await;
            for ((index, _), written) in some.iter().zip(written) {
                if let Err(fault) = written {
                    set(results, *index, fault);
                }
            }
        }
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
