//! The memory of expiries tells a node which of the tasks that it has handed over may expire before their next looks.
//!
//! It is a hint. A task that finds no room, or is lost with the node, is ended by its look. A node that learns of a claim, a
//! cancel or a move forgets the task; one that does not finds out when the time has come. The nearest tasks have the room.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{
    limits::{EXPIRIES_BYTES_MAX, EXPIRIES_MAX},
    model::{ids::TaskId, task::Spec, time::Millis},
};

/// A task that may expire.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Expiring {
    pub(in crate::flow) id: TaskId,
    /// The task, for one that has no row.
    pub(in crate::flow) spec: Arc<Spec>,
}

#[derive(Debug, Default)]
struct Known {
    tasks: HashMap<TaskId, (Millis, Arc<Spec>)>,
    order: BTreeSet<(Millis, TaskId)>,
    bytes: u64,
}

impl Known {
    /// Tells whether it is now the first.
    fn note(
        &mut self,
        id: TaskId,
        at: Millis,
        spec: &Arc<Spec>,
        (tasks_max, bytes_max): (usize, u64),
    ) -> bool {
        self.forget(id);
        let bytes = weight(spec);
        while self.tasks.len() >= tasks_max || self.bytes + bytes > bytes_max {
            match self.order.last().copied() {
                Some((last, other)) if last > at => self.forget(other),
                Some(_) | None => return false,
            }
        }
        let first = self.order.first().is_none_or(|(next, _)| at < *next);
        self.tasks.insert(id, (at, Arc::clone(spec)));
        self.order.insert((at, id));
        self.bytes += bytes;
        first
    }

    fn forget(&mut self, id: TaskId) {
        if let Some((at, spec)) = self.tasks.remove(&id) {
            self.order.remove(&(at, id));
            self.bytes -= weight(&spec);
        }
    }

    fn take(&mut self, now: Millis, max: usize) -> Vec<Expiring> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((_, id)) = self.order.first().copied().filter(|(at, _)| *at <= now)
        {
            let spec = self.tasks.get(&id).map(|(_, spec)| Arc::clone(spec));
            self.forget(id);
            taken.extend(spec.map(|spec| Expiring { id, spec }));
        }
        taken
    }
}

/// Returns about how much memory a task takes here.
fn weight(spec: &Spec) -> u64 {
    (2 * size_of::<(Millis, TaskId, Arc<Spec>)>() + spec.weight()) as u64
}

/// The memory. Cheap to clone; clones are the same memory.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct Expiries {
    known: Arc<Mutex<Known>>,
    earlier: Arc<Notify>,
}

impl Expiries {
    /// Notes that a task expires at `at` unless a worker takes it. The last note of a task counts.
    pub(in crate::flow) fn note(&self, id: TaskId, at: Millis, spec: &Arc<Spec>) {
        let bounds = (EXPIRIES_MAX, EXPIRIES_BYTES_MAX);
        if self.lock().note(id, at, spec, bounds) {
            self.earlier.notify_one();
        }
    }

    /// Notes that a task does not wait any more.
    pub(in crate::flow) fn forget(&self, id: TaskId) {
        self.lock().forget(id);
    }

    /// Takes up to `max` tasks whose time has come.
    pub(in crate::flow) fn take(&self, now: Millis, max: usize) -> Vec<Expiring> {
        self.lock().take(now, max)
    }

    /// Returns when the next one comes.
    pub(in crate::flow) fn next(&self) -> Option<Millis> {
        self.lock().order.first().map(|(at, _)| *at)
    }

    /// Waits until one was noted that comes before all others.
    pub(in crate::flow) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, wheel::WheelNumber};

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::from_low_bits(0), number)
    }

    fn ids(taken: &[Expiring]) -> Vec<TaskId> {
        taken.iter().map(|one| one.id).collect()
    }

    #[test]
    fn tasks_come_in_the_order_of_their_times_and_the_last_note_counts() {
        let (mut known, spec) = (Known::default(), Arc::new(fixtures::spec()));
        let mut note = |number, at| known.note(id(number), Millis(at), &spec, (9, u64::MAX));
        assert!(note(1, 300));
        assert!(note(2, 200));
        assert!(!note(3, 250));
        assert!(!note(2, 400));
        known.forget(id(3));
        assert_eq!(ids(&known.take(Millis(299), 9)), []);
        assert_eq!(ids(&known.take(Millis(400), 1)), [id(1)]);
        assert_eq!(ids(&known.take(Millis(400), 9)), [id(2)]);
        assert!(known.tasks.is_empty() && known.order.is_empty() && known.bytes == 0);
    }

    #[test]
    fn the_nearest_have_the_room_by_number_and_by_bytes() {
        let (small, large) = (Arc::new(fixtures::spec()), Arc::new(fixtures::laden()));
        let by_number = (2, u64::MAX);
        let by_bytes = (9, weight(&large) + weight(&small));
        for bounds in [by_number, by_bytes] {
            let mut known = Known::default();
            known.note(id(1), Millis(100), &small, bounds);
            known.note(id(2), Millis(200), &large, bounds);
            known.note(id(3), Millis(300), &small, bounds);
            assert_eq!(known.tasks.len(), 2);
            known.note(id(4), Millis(150), &small, bounds);
            assert!(known.bytes <= bounds.1);
            assert_eq!(ids(&known.take(Millis(999), 9)), [id(1), id(4)]);
        }
    }
}
