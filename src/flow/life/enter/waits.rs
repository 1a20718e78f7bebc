//! Tasks that wait for their parent, or for others, have a row instead of an entry. The look of one that waits for others comes
//! before it: a look that finds no row writes it.

use futures_util::future::join_all;

use super::super::incoming::Incoming;
use super::{Entrance, set};
use crate::{
    flow::{
        base::{api::Fault, documents},
        features::join::waiter::first_look,
    },
    limits,
    model::entry::Entry,
};

impl Entrance {
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
                .map(|(_, task)| self.door.wait(task.id, &task.spec));
            let written = join_all(writes).await;
            for ((index, task), written) in some.iter().zip(written) {
                match written {
                    Err(fault) => set(results, *index, fault),
                    Ok(false) => set(results, *index, raced(task)),
                    Ok(true) if task.spec.after.is_some() => self.poke(task),
                    Ok(true) => {}
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
        let placed = self.entry_writer.place(looks).await;
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
}

fn raced(task: &Incoming) -> Fault {
    documents::raced(format_args!("the tree of {}", task.id))
}
