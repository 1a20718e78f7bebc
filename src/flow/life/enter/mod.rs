//! The entrance: the one way in which a task comes to be. Clients, keys, parents, schedules and follow-ups enter tasks here, and
//! so do the looks and checks that repair what a request has left unwritten.
//!
//! A task that is due behind everything closed gets a due entry in its slot: one plain write and one shared
//! read. A task that is due sooner is "near". It first gets its durable record, a look (tracked) or a backup
//! entry (`kafka` target), and then waits in this node's memory. A crash before the acknowledgement may leave
//! a task that fires though no client was told its id. A crash after the acknowledgement loses nothing.
//!
//! The rows that a task rests on come first (`rests`): its checks, its content, the rows of its labels, its place in a sequence.
//! One that waits for others has a look for an entry, and a row (`waits`). A repetition writes the same once more.

mod near;
mod rests;
mod waits;

use std::sync::Arc;

use super::{
    door::Door,
    incoming::Incoming,
    near::{Near, NearTask},
    sending::Sending,
    topics::Topics,
};
use crate::{
    flow::{
        TASK_EVENTS,
        base::{
            api::{Fault, TaskView, Waits},
            context::Context,
            entries::{
                entry_writer::{EntryWriter, Placed},
                watermarks::Watermarks,
            },
            read::find,
        },
        features::lists::label_rows,
    },
    limits,
    model::{dispatch::Dispatch, entry::Entry, time::Tick},
};

/// The entrance. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Entrance {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    entry_writer: EntryWriter,
    near: Near,
    topics: Topics,
    door: Door,
}

impl Entrance {
    /// Enters tasks through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        entry_writer: EntryWriter,
        near: Near,
        door: Door,
    ) -> Self {
        let topics = Topics::new(Arc::clone(&ctx));
        Self {
            ctx,
            watermarks,
            entry_writer,
            near,
            topics,
            door,
        }
    }

    /// Writes tasks that have their ids; one result per task, in order. No id is there twice. A task that is there already is
    /// written once more as it is. The parents of children among them have admitted them, and those that wait are enlisted.
    pub(in crate::flow) async fn enter(
        &self,
        incoming: Vec<Incoming>,
    ) -> Vec<Result<TaskView, Fault>> {
        let mut results: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.enter_checks(&incoming, &mut results).await;
        self.put_bodies(&incoming, &mut results).await;
        let tasks = incoming.iter().map(|task| (task.id, &*task.spec));
        for (index, fault) in label_rows::put(&self.ctx, tasks).await {
            set(&mut results, index, fault);
        }
        let places = self.announce(&incoming, &mut results).await;

        let mut near: Vec<(usize, Tick)> = Vec::new();
        let mut far: Vec<(usize, Entry)> = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        for (index, task) in incoming.iter().enumerate() {
            if results.get(index).is_some_and(Option::is_some) {
                continue;
            }
            if task.spec.awaits() {
                waiting.push(index);
                continue;
            }
            let opened = self.watermarks.closing(task.id.wheel());
            if self.ctx.tick().tick_of(task.start) > opened && !self.goes_around(task) {
                far.push((index, self.due_entry(task)));
            } else {
                near.push((index, opened));
            }
        }
        if !far.is_empty() {
            let entries: Vec<Entry> = far.iter().map(|(_, entry)| entry.clone()).collect();
            for ((index, entry), placed) in
                far.into_iter().zip(self.entry_writer.write(&entries).await)
            {
                match self.follow_up(&entry, placed).await {
                    Ok(None) => {}
                    Ok(Some(opened)) => near.push((index, opened)),
                    Err(fault) => set(&mut results, index, fault),
                }
            }
        }
        self.register_near(&incoming, near, &mut results).await;
        if !waiting.is_empty() {
            Box::pin(self.wait(&incoming, &waiting, &mut results)).await;
        }
        self.confirm(places, &mut results).await;
        incoming
            .into_iter()
            .zip(results)
            .map(|(task, fault)| self.answer(&task, fault))
            .collect()
    }

    /// Enters a task that an earlier call may have left unwritten.
    ///
    /// # Errors
    /// When it may not be durable; repeating it is safe.
    pub(in crate::flow) async fn enter_one(&self, task: Incoming) -> Result<(), Fault> {
        let entered = Box::pin(self.enter(vec![task])).await.pop();
        entered.unwrap_or_else(|| Err(unanswered())).map(drop)
    }

    /// Sees to an entry that was written: returns up to where its wheel is closed if the task is near from now on.
    async fn follow_up(
        &self,
        entry: &Entry,
        placed: Result<Placed, Fault>,
    ) -> Result<Option<Tick>, Fault> {
        let wheel = entry.key.wheel();
        match placed? {
            // It may or may not be seen where it is: the copy is a duplicate.
            Placed::Closed(opened) => {
                self.withdraw(entry).await?;
                Ok(Some(opened))
            }
            Placed::Open if !self.watermarks.will_be_late(wheel, entry.start) => Ok(None),
            // Its entry stands. A later publication by the wheel is refused by the claim.
            Placed::Open if entry.spec.target.is_tracked() => {
                let dispatch = Dispatch::first(entry.key.id, entry.start);
                self.near.hold_or_leave(NearTask {
                    sending: Sending::new(dispatch, Arc::clone(&entry.spec), true),
                    backup: None,
                    stands: true,
                });
                Ok(None)
            }
            Placed::Open => Ok(None),
        }
    }

    /// Tells whether a record goes around its wheel, which is late. Records are not claimed, so a record must not
    /// be in two places. It cannot be cancelled on this way, so only a record that is due at once takes it.
    fn goes_around(&self, task: &Incoming) -> bool {
        !task.spec.target.is_tracked()
            && task.start < self.ctx.now().after(limits::BEHIND_MIN)
            && self.watermarks.will_be_late(task.id.wheel(), task.start)
    }

    fn due_entry(&self, task: &Incoming) -> Entry {
        let stamp = self.ctx.time.stamp();
        let entry = task.dispatch().entry(Arc::clone(&task.spec), stamp);
        entry.first_of_generation()
    }

    fn answer(&self, task: &Incoming, fault: Option<Fault>) -> Result<TaskView, Fault> {
        match fault {
            Some(fault) => Err(fault),
            None => {
                self.topics.expect(&task.spec);
                // The clock is read only if anybody listens.
                tracing::debug!(
                    target: TASK_EVENTS, task = %task.id, to = task.spec.target.name(),
                    due_in_ms = task.start.0 - self.ctx.now().0, "registered"
                );
                metrics::counter!("tickwheel_tasks_registered_total", "target" => task.spec.target.kind())
                    .increment(1);
                let view = find::unwritten_view(task.id, &task.spec, task.start);
                let waits = (!task.after.is_empty()).then(|| Waits::new(task.after.clone()));
                Ok(TaskView { waits, ..view })
            }
        }
    }
}

/// Every task that was entered has its result, so this never happens.
pub(super) fn unanswered() -> Fault {
    Fault::Unknown {
        reason: "the write of the task gave no answer".to_owned(),
    }
}

pub(super) fn set(results: &mut [Option<Fault>], index: usize, fault: Fault) {
    if let Some(result) = results.get_mut(index) {
        *result = Some(fault);
    }
}
