//! The record of retries counts for operators the tasks of a callback that wait for their next attempt.
//!
//! A node knows those whose report it has taken. It forgets them when their time has come, as they are ready then, and with the
//! process. Memory is bounded: beyond [`limits::RETRIES_TOLD_MAX`] tasks are not counted.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    limits,
    model::{ids::TaskId, time::Millis},
};

#[derive(Debug, Default)]
struct Known {
    callbacks: HashMap<Arc<str>, usize>,
    tasks: HashMap<TaskId, (Arc<str>, Millis)>,
    order: BTreeSet<(Millis, TaskId)>,
}

impl Known {
    fn forget(&mut self, id: TaskId) {
        let Some((callback, due)) = self.tasks.remove(&id) else {
            return;
        };
        self.order.remove(&(due, id));
        if let Some(count) = self.callbacks.get_mut(&callback) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.callbacks.remove(&callback);
            }
        }
    }

    fn expire(&mut self, now: Millis) {
        while let Some((_, id)) = self.order.first().copied().filter(|(due, _)| *due <= now) {
            self.forget(id);
        }
    }
}

/// The record. Cheap to clone; clones are the same record.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct Retrying(Arc<Mutex<Known>>);

impl Retrying {
    /// Notes that a task of a callback waits until `due`.
    pub(in crate::flow) fn note(&self, id: TaskId, callback: &str, due: Millis, now: Millis) {
        let mut known = self.lock();
        known.expire(now);
        known.forget(id);
        if due <= now || known.tasks.len() >= limits::RETRIES_TOLD_MAX {
            return;
        }
        let kept = known.callbacks.get_key_value(callback);
        let name: Arc<str> = kept.map_or_else(|| Arc::from(callback), |(name, _)| Arc::clone(name));
        *known.callbacks.entry(Arc::clone(&name)).or_default() += 1;
        known.tasks.insert(id, (name, due));
        known.order.insert((due, id));
    }

    /// Notes that a task does not wait any more.
    pub(in crate::flow) fn forget(&self, id: TaskId) {
        self.lock().forget(id);
    }

    /// Returns how many tasks of a callback wait.
    pub(in crate::flow) fn of(&self, callback: &str, now: Millis) -> usize {
        let mut known = self.lock();
        known.expire(now);
        known.callbacks.get(callback).copied().unwrap_or_default()
    }

    /// Returns how many tasks of each callback wait.
    pub(in crate::flow) fn all(&self, now: Millis) -> Vec<(Arc<str>, usize)> {
        let mut known = self.lock();
        known.expire(now);
        let counts = known.callbacks.iter();
        counts
            .map(|(name, tasks)| (Arc::clone(name), *tasks))
            .collect()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Known> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::from_low_bits(0), number)
    }

    #[test]
    fn a_task_counts_until_its_time_has_come_or_it_is_forgotten() {
        let (retrying, now) = (Retrying::default(), Millis(1_000));
        retrying.note(id(1), "mail", Millis(2_000), now);
        retrying.note(id(2), "mail", Millis(3_000), now);
        retrying.note(id(2), "mail", Millis(4_000), now);
        retrying.note(id(3), "work", Millis(2_000), now);
        retrying.note(id(4), "work", now, now);
        assert_eq!((retrying.of("mail", now), retrying.of("work", now)), (2, 1));
        let mut all = retrying.all(now);
        all.sort();
        assert_eq!(all, [(Arc::from("mail"), 2), (Arc::from("work"), 1)]);
        assert_eq!(retrying.of("mail", Millis(2_000)), 1);
        retrying.forget(id(2));
        assert_eq!(retrying.of("mail", Millis(2_000)), 0);
        let known = retrying.lock();
        assert!(known.tasks.is_empty() && known.callbacks.is_empty() && known.order.is_empty());
    }
}
