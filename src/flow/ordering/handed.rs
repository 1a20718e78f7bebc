//! The list of handed sequences tells the usher of a node which sequences have a task that may run now.
//!
//! It is a hint: a sequence that finds no room in it, or is lost with the node, waits for the look of its next task.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::ahead::Ahead;
use crate::{limits::SEQUENCES_HANDED_MAX, model::ordering::Sequence, time_source::Moment};

/// A sequence on the list.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Not before this, and in the order of the numbers.
    at: (Moment, u64),
    /// How often it was looked at for nothing.
    tries: u32,
}

#[derive(Debug, Default)]
struct List {
    wanted: HashMap<Sequence, Wanted>,
    order: BTreeMap<(Moment, u64), Sequence>,
    last: u64,
}

impl List {
    /// Tells whether there was room.
    fn put(&mut self, sequence: Sequence, at: Moment, tries: u32) -> bool {
        match self.wanted.get(&sequence) {
            Some(before) => drop(self.order.remove(&before.at)),
            None if self.wanted.len() >= SEQUENCES_HANDED_MAX => return false,
            None => {}
        }
        self.last += 1;
        let at = (at, self.last);
        self.order.insert(at, sequence.clone());
        self.wanted.insert(sequence, Wanted { at, tries });
        true
    }
}

/// The list. Nothing waits while it is held.
#[derive(Debug, Default)]
pub struct Handed {
    list: Mutex<List>,
    added: Notify,
    ahead: Ahead,
}

impl Handed {
    /// Returns the tasks that went out, where the queue is of this process.
    pub(in crate::flow) const fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// Adds a sequence that is to be looked at now.
    pub(in crate::flow) fn add(&self, sequence: Sequence, now: Moment) {
        self.put(sequence, now, 0);
    }

    /// Adds a sequence that is to be looked at once more, later. One that was added anew meanwhile stays as it is.
    pub(super) fn again(&self, sequence: Sequence, at: Moment, tries: u32) {
        if !self.lock().wanted.contains_key(&sequence) {
            self.put(sequence, at, tries);
        }
    }

    fn put(&self, sequence: Sequence, at: Moment, tries: u32) {
        if self.lock().put(sequence, at, tries) {
            self.added.notify_one();
        } else {
            metrics::counter!("tickwheel_turns_left_to_looks_total").increment(1);
        }
    }

    /// Takes up to `max` sequences whose time has come, with how often each was looked at for nothing. The first one that came
    /// is the first one that goes.
    pub(super) fn take(&self, now: Moment, max: usize) -> Vec<(Sequence, u32)> {
        let mut list = self.lock();
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(first) = list.order.first_entry().filter(|one| one.key().0 <= now) else {
                break;
            };
            let sequence = first.remove();
            let tries = list
                .wanted
                .remove(&sequence)
                .map_or(0, |wanted| wanted.tries);
            taken.push((sequence, tries));
        }
        taken
    }

    /// Returns when the next one comes.
    pub(super) fn next(&self) -> Option<Moment> {
        self.lock().order.keys().next().map(|(at, _)| *at)
    }

    /// Waits until one was added.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time_source::TimeSource;

    fn sequence(key: &str) -> Sequence {
        Sequence {
            callback: "mail".to_owned(),
            key: key.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sequence_is_there_once_and_comes_at_its_time() {
        let (list, now) = (Handed::default(), TimeSource::real().moment());
        let later = now.after(Duration::from_secs(1));
        list.add(sequence("a"), now);
        list.add(sequence("a"), now);
        list.again(sequence("a"), later, 3);
        list.again(sequence("b"), later, 3);
        assert_eq!(list.take(now, 9), [(sequence("a"), 0)]);
        assert_eq!((list.take(now, 9), list.next()), (Vec::new(), Some(later)));
        assert_eq!(list.take(later, 9), [(sequence("b"), 3)]);
        assert_eq!(list.next(), None);
        list.added().await;
    }
}
