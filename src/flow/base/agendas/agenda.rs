//! An agenda lists what a stage is to do, at once or at a time, each thing once.
//!
//! It is a hint: a thing that finds no room, or is lost with the node, is done by a look later.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{
    limits::{FAMILIES_POKED_MAX, FAMILY_PAUSE},
    model::ids::TaskId,
    time_source::Moment,
};

/// Not before this moment, and in the order of the numbers.
type Place = (Moment, u64);

#[derive(Debug)]
struct List<T> {
    /// Each thing on the list, with how often it was tried for nothing.
    wanted: HashMap<T, (Place, u32)>,
    order: BTreeMap<Place, T>,
    last: u64,
}

/// An agenda. Nothing waits while it is held.
#[derive(Debug)]
pub struct Agenda<T> {
    list: Mutex<List<T>>,
    max: usize,
    added: Notify,
}

impl<T: Clone + Eq + Hash> Agenda<T> {
    /// With room for so many things.
    pub(in crate::flow) fn new(max: usize) -> Self {
        let list = List {
            wanted: HashMap::new(),
            order: BTreeMap::new(),
            last: 0,
        };
        Self {
            list: Mutex::new(list),
            max,
            added: Notify::new(),
        }
    }

    /// Adds a thing for a time. One that is there already comes at the earlier of both times. False where there is no room.
    pub(in crate::flow) fn at(&self, thing: T, at: Moment, tries: u32) -> bool {
        let mut list = self.lock();
        let there = list.wanted.get(&thing).map(|(there, _)| *there);
        match there {
            Some(there) if there.0 <= at => return true,
            Some(there) => drop(list.order.remove(&there)),
            None if list.wanted.len() >= self.max => return false,
            None => {}
        }
        list.last += 1;
        let place = (at, list.last);
        list.order.insert(place, thing.clone());
        list.wanted.insert(thing, (place, tries));
        drop(list);
        self.added.notify_one();
        true
    }

    /// Tells whether a thing is there.
    pub(in crate::flow) fn has(&self, thing: &T) -> bool {
        self.lock().wanted.contains_key(thing)
    }

    /// Takes up to `max` things whose time has come, with how often each was tried. The first that came is the first that goes.
    pub(in crate::flow) fn take(&self, now: Moment, max: usize) -> Vec<(T, u32)> {
        let mut list = self.lock();
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(first) = list.order.first_entry().filter(|one| one.key().0 <= now) else {
                break;
            };
            let thing = first.remove();
            let tries = list.wanted.remove(&thing).map_or(0, |(_, tries)| tries);
            taken.push((thing, tries));
        }
        taken
    }

    /// Returns when the next one comes.
    pub(in crate::flow) fn next(&self) -> Option<Moment> {
        self.lock().order.keys().next().map(|(at, _)| *at)
    }

    /// Waits until one was added. Cancel-safe.
    pub(in crate::flow) async fn added(&self) {
        self.added.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, List<T>> {
        self.list.lock()
    }
}

/// Of tasks that are to be checked: parents whose trees may have ended, and tasks that wait for others.
impl Default for Agenda<TaskId> {
    fn default() -> Self {
        Self::new(FAMILIES_POKED_MAX)
    }
}

impl Agenda<TaskId> {
    /// Asks for a check of a task a moment after now: what comes within that moment is one check.
    pub(in crate::flow) fn add(&self, task: TaskId, now: Moment) {
        self.at(task, now.after(FAMILY_PAUSE), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{model::fixtures, time_source::TimeSource};

    #[tokio::test(start_paused = true)]
    async fn checks_of_one_task_are_one_and_come_a_moment_later() {
        let (list, now) = (Agenda::default(), TimeSource::real().moment());
        let parent = fixtures::id();
        list.add(parent, now);
        list.add(parent, now.after(Duration::from_millis(50)));
        assert_eq!(list.take(now, 9), []);
        let then = now.after(FAMILY_PAUSE);
        assert_eq!(list.next(), Some(then));
        assert_eq!(list.take(then, 9), [(parent, 0)]);
        assert_eq!((list.take(then, 9), list.next()), (Vec::new(), None));
        list.at(parent, then.after(Duration::from_secs(60)), 3);
        list.add(parent, now);
        list.at(parent, then.after(Duration::from_secs(60)), 3);
        assert_eq!(list.take(then, 9), [(parent, 0)]);
        assert_eq!(list.next(), None);
        list.added().await;
    }

    #[test]
    fn things_go_in_the_order_of_their_times_and_there_are_so_many_of_them() {
        let (list, now) = (Agenda::new(3), TimeSource::real().moment());
        let later = now.after(Duration::from_secs(1));
        assert!(list.at("b", later, 2) && list.at("a", now, 0) && list.at("c", later, 0));
        assert!(!list.at("d", now, 0), "there is no room");
        assert!(list.at("b", later, 0) && list.has(&"b"));
        assert_eq!(list.take(later, 2), [("a", 0), ("b", 2)]);
        assert!(list.at("d", now, 0) && !list.has(&"b"));
        assert_eq!(list.take(later, 9), [("d", 0), ("c", 0)]);
    }
}
