//! The rows that tasks rest on are written before them: nothing finds a task of which these are not durable.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::super::incoming::Incoming;
use super::{Entrance, set};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{api::Fault, rows::stored},
        features::{
            ends::actions,
            sequence::place::{self, Announced, Newcomer},
        },
    },
    model::{ids::TaskId, ordering::Sequence, task::Content},
};

/// The time of a check must have passed for so long before its row is looked for: those of new tasks lie ahead.
const CHECK_NEW_FOR: Duration = Duration::from_secs(1);

impl Entrance {
    /// Contents that are kept apart are durable before any entry names them.
    pub(in crate::flow::life) async fn put_bodies(
        &self,
        incoming: &[Incoming],
        results: &mut [Option<Fault>],
    ) {
        let mut by_time: BTreeMap<i64, Vec<(usize, TaskId, Arc<Content>)>> = BTreeMap::new();
        for (index, task) in incoming.iter().enumerate() {
            if let Some(content) = &task.content {
                let bodies = by_time.entry(task.content_written).or_default();
                bodies.push((index, task.id, Arc::clone(content)));
            }
        }
        for (written, bodies) in by_time {
            let (places, bodies): (Vec<usize>, Vec<_>) = bodies
                .into_iter()
                .map(|(index, id, content)| (index, (id, content)))
                .unzip();
            let put = self.ctx.store.put_bodies(&bodies, written, None).await;
            for (index, result) in places.into_iter().zip(put) {
                if let Err(error) = result {
                    set(results, index, error.into());
                }
            }
        }
    }

    /// Announces the places of tasks of sequences, before anything names these tasks.
    pub(super) async fn announce(
        &self,
        incoming: &[Incoming],
        results: &mut [Option<Fault>],
    ) -> Vec<(usize, Announced)> {
        let newcomers = incoming.iter().zip(results.iter()).enumerate();
        let newcomers = newcomers.filter_map(|(index, (task, fault))| {
            // One that waits for others gets its place when it is released.
            let has_place = fault.is_none() && !task.spec.awaits();
            let sequence = Sequence::of(&task.spec).filter(|_| has_place)?;
            let newcomer = Newcomer {
                sequence,
                id: task.id,
                generation: 0,
                start: task.start,
            };
            Some((index, newcomer))
        });
        let (indices, newcomers): (Vec<usize>, Vec<Newcomer>) = newcomers.unzip();
        let announced = place::announce(&self.ctx, newcomers).await;
        let announced = indices.into_iter().zip(announced);
        let places = announced.filter_map(|(index, place)| match place {
            Ok(place) => Some((index, place)),
            Err(fault) => {
                set(results, index, fault);
                None
            }
        });
        places.collect()
    }

    /// Makes the places sure of tasks that were written.
    pub(super) async fn confirm(
        &self,
        places: Vec<(usize, Announced)>,
        results: &mut [Option<Fault>],
    ) {
        let written = places.into_iter().filter(|(index, _)| {
            // The place of another is a ghost, unless it was written all the same.
            results.get(*index).is_some_and(Option::is_none)
        });
        let (indices, places): (Vec<usize>, Vec<Announced>) = written.unzip();
        let confirmed = place::confirm(&self.ctx, places).await;
        for (index, confirmed) in indices.into_iter().zip(confirmed) {
            if let Err(fault) = confirmed {
                set(results, index, fault);
            }
        }
    }

    /// Writes the tasks that check others, before anything names these. A check whose task was not written finds none.
    pub(super) async fn enter_checks(&self, incoming: &[Incoming], results: &mut [Option<Fault>]) {
        let checks = incoming.iter().enumerate().flat_map(|(index, task)| {
            let checks = actions::check_tasks(task.id, &task.spec);
            checks.map(move |check| (index, Incoming::of_internal(check)))
        });
        let mut checks: Vec<(usize, Incoming)> = checks.collect();
        if checks.is_empty() {
            return;
        }
        self.forget_known(&mut checks, results).await;
        let (indices, checks): (Vec<usize>, Vec<Incoming>) = checks.into_iter().unzip();
        let entered = Box::pin(self.enter(checks)).await;
        for (index, entered) in indices.into_iter().zip(entered) {
            if let Err(fault) = entered
                && !flaw::is(Flaw::CheckNotAwaited)
            {
                set(results, index, fault);
            }
        }
    }

    /// Leaves out the checks that have rows: those of a task that is entered once more may have been done long ago.
    async fn forget_known(
        &self,
        checks: &mut Vec<(usize, Incoming)>,
        results: &mut [Option<Fault>],
    ) {
        let before = self.ctx.now().before(CHECK_NEW_FOR);
        let is_old = |task: &Incoming| task.start < before;
        let old = checks.iter().filter(|(_, task)| is_old(task));
        let ids: Vec<TaskId> = old.map(|(_, task)| task.id).collect();
        let mut rows = stored::rows_each(&self.ctx, &ids).await.into_iter();
        checks.retain(|(index, task)| {
            if !is_old(task) {
                return true;
            }
            match rows.next() {
                Some(Ok(row)) => row.is_none(),
                Some(Err(error)) => {
                    set(results, *index, error.into());
                    false
                }
                None => true,
            }
        });
    }
}
