//! The register of end waits wakes the requests of a node that wait for the end of a task, when this node writes that end.
//!
//! It is a hint: an end that another node writes, or a wait that finds no room, is found by the next read of the waiting
//! request (`await_end`). A wait leaves the register when it is dropped, also by a caller that is
//! cancelled.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, futures::Notified};

use crate::{limits::END_WAITS_MAX, model::ids::TaskId};

#[derive(Debug, Default)]
struct Awaited {
    waits: usize,
    ended: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Register {
    tasks: HashMap<TaskId, Awaited>,
    /// All waits, of all tasks.
    waits: usize,
}

/// The register. Cheap to clone; clones are the same register. Nothing waits while it is held.
#[derive(Debug, Clone, Default)]
pub struct EndWaits(Arc<Mutex<Register>>);

/// A wait for the end of a task.
#[derive(Debug)]
pub(in crate::flow) struct EndWait {
    of: EndWaits,
    id: TaskId,
    /// None where there was no room.
    ended: Option<Arc<Notify>>,
    never: Notify,
}

impl EndWaits {
    /// Adds a wait for the end of a task. Beyond [`END_WAITS_MAX`] it is never woken.
    pub(in crate::flow) fn add(&self, id: TaskId) -> EndWait {
        let mut register = self.lock();
        let ended = (register.waits < END_WAITS_MAX).then(|| {
            register.waits += 1;
            let awaited = register.tasks.entry(id).or_default();
            awaited.waits += 1;
            Arc::clone(&awaited.ended)
        });
        EndWait {
            of: self.clone(),
            id,
            ended,
            never: Notify::new(),
        }
    }

    /// Wakes all that wait for the ends of these tasks.
    pub(in crate::flow) fn wake(&self, ended: impl Iterator<Item = TaskId>) {
        let register = self.lock();
        if register.tasks.is_empty() {
            return;
        }
        for awaited in ended.filter_map(|id| register.tasks.get(&id)) {
            awaited.ended.notify_waiters();
        }
    }

    /// Returns how many wait.
    pub(in crate::flow) fn len(&self) -> usize {
        self.lock().waits
    }

    fn lock(&self) -> MutexGuard<'_, Register> {
        self.0.lock()
    }
}

impl EndWait {
    /// Returns what completes with the next end that is written from this call on, also one before it is polled. So a caller that
    /// makes it before it reads the task misses no end.
    pub(in crate::flow) fn next(&self) -> Notified<'_> {
        self.ended.as_deref().unwrap_or(&self.never).notified()
    }
}

impl Drop for EndWait {
    fn drop(&mut self) {
        if self.ended.is_none() {
            return;
        }
        let mut register = self.of.lock();
        register.waits = register.waits.saturating_sub(1);
        if let Some(awaited) = register.tasks.get_mut(&self.id) {
            awaited.waits = awaited.waits.saturating_sub(1);
            if awaited.waits == 0 {
                register.tasks.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::{time::Millis, wheel::WheelNumber};

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::from_low_bits(0), number)
    }

    #[test]
    fn an_end_wakes_all_that_wait_for_its_task_and_nobody_else() {
        let waits = EndWaits::default();
        let (first, second, other) = (waits.add(id(1)), waits.add(id(1)), waits.add(id(2)));
        let next = [first.next(), second.next(), other.next()];
        // Written before anybody waits.
        waits.wake([id(1), id(3)].into_iter());
        let woken = next.map(|next| next.now_or_never().is_some());
        assert_eq!(woken, [true, true, false]);
        assert_eq!(first.next().now_or_never(), None, "an end is told once");
    }

    #[test]
    fn a_wait_that_is_dropped_leaves_nothing_and_there_is_room_for_so_many() {
        let waits = EndWaits::default();
        let most: Vec<EndWait> = (0..END_WAITS_MAX as u64)
            .map(|number| waits.add(id(number / 2)))
            .collect();
        let late = waits.add(id(0));
        let next = late.next();
        waits.wake([id(0)].into_iter());
        assert_eq!(next.now_or_never(), None);
        assert_eq!(waits.len(), END_WAITS_MAX);
        drop(late);
        assert_eq!(waits.len(), END_WAITS_MAX);
        drop(most);
        assert_eq!(waits.len(), 0);
        assert!(waits.lock().tasks.is_empty());
    }
}
