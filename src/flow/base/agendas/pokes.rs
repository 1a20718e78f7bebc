//! The list of pokes tells the tender of a node which parents have a child that has ended. Lists of the same kind tell of tasks
//! that wait for others (`flow::features::join`).
//!
//! It is a hint: a parent that finds no room in it, or is lost with the node, waits for its look. Pokes of one parent that come
//! within a moment are one.

use std::collections::{BTreeMap, HashMap};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{
    limits::{FAMILIES_POKED_MAX, FAMILY_PAUSE},
    model::ids::TaskId,
    time_source::Moment,
};

#[derive(Debug, Default)]
struct List {
    /// Each parent on the list: when it comes, and how often its check has failed.
    wanted: HashMap<TaskId, ((Moment, u64), u32)>,
    /// The same, each not before its time and in the order of the numbers.
    order: BTreeMap<(Moment, u64), TaskId>,
    last: u64,
}

/// The list. Nothing waits while it is held.
#[derive(Debug, Default)]
pub struct Pokes {
    list: Mutex<List>,
    added: Notify,
}

impl Pokes {
    /// Asks for a check of a parent, a moment after now.
    pub(in crate::flow) fn add(&self, parent: TaskId, now: Moment) {
        self.at(parent, now.after(FAMILY_PAUSE), 0);
    }

    /// Asks for a check of a parent at a time. One that is on the list already comes at the earlier of both times.
    pub(in crate::flow) fn at(&self, parent: TaskId, at: Moment, tries: u32) {
        let mut list = self.lock();
        let there = list.wanted.get(&parent).map(|(there, _)| *there);
        match there {
            Some(there) if there.0 <= at => return,
            Some(there) => drop(list.order.remove(&there)),
            None if list.wanted.len() >= FAMILIES_POKED_MAX => return,
            None => {}
        }
        list.last += 1;
        let at = (at, list.last);
        list.order.insert(at, parent);
        list.wanted.insert(parent, (at, tries));
        drop(list);
        self.added.notify_one();
    }

    /// Takes up to `max` parents whose time has come, with how often their checks have failed.
    pub(in crate::flow) fn take(&self, now: Moment, max: usize) -> Vec<(TaskId, u32)> {
        let mut list = self.lock();
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(first) = list.order.first_entry().filter(|one| one.key().0 <= now) else {
                break;
            };
            let parent = first.remove();
            let tries = list.wanted.remove(&parent).map_or(0, |(_, tries)| tries);
            taken.push((parent, tries));
        }
        taken
    }

    /// Returns when the next one comes.
    pub(in crate::flow) fn next(&self) -> Option<Moment> {
        self.lock().order.keys().next().map(|(at, _)| *at)
    }

    /// Waits until one was added.
    pub(in crate::flow) async fn added(&self) {
        self.added.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{model::fixtures, time_source::TimeSource};

    #[tokio::test(start_paused = true)]
    async fn pokes_of_one_parent_are_one_and_come_a_moment_later() {
        let (list, now) = (Pokes::default(), TimeSource::real().moment());
        let parent = fixtures::id();
        list.add(parent, now);
        list.add(parent, now.after(Duration::from_millis(50)));
        assert_eq!(list.take(now, 9), []);
        let then = now.after(FAMILY_PAUSE);
        assert_eq!(list.next(), Some(then));
        assert_eq!(list.take(then, 9), [(parent, 0)]);
        assert_eq!((list.take(then, 9), list.next()), (Vec::new(), None));
        // A check that is to come late does not hold up one that is asked for now.
        list.at(parent, then.after(Duration::from_secs(60)), 3);
        list.add(parent, now);
        list.at(parent, then.after(Duration::from_secs(60)), 3);
        assert_eq!(list.take(then, 9), [(parent, 0)]);
        assert_eq!(list.next(), None);
        list.added().await;
    }
}
