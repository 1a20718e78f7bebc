//! The lists of sequences tell the stages of a node which sequences have a task that may run now, and which ones have waited for
//! long.
//!
//! They are hints: a sequence that finds no room in one, or is lost with the node, waits for the look of its next task.

use std::collections::{BTreeMap, HashMap};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::ahead::Ahead;
use crate::{
    limits::{SEQUENCES_HANDED_MAX, SEQUENCES_HELD_MAX},
    model::ordering::Sequence,
    time_source::Moment,
};

/// A sequence on a list.
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
    fn put(&mut self, sequence: Sequence, at: Moment, tries: u32, max: usize) -> bool {
        match self.wanted.get(&sequence) {
            Some(before) => drop(self.order.remove(&before.at)),
            None if self.wanted.len() >= max => return false,
            None => {}
        }
        self.last += 1;
        let at = (at, self.last);
        self.order.insert(at, sequence.clone());
        self.wanted.insert(sequence, Wanted { at, tries });
        true
    }
}

/// A list of sequences. Nothing waits while it is held.
#[derive(Debug, Default)]
pub(in crate::flow) struct Listed {
    list: Mutex<List>,
    added: Notify,
}

impl Listed {
    /// Tells whether there was room.
    fn put(&self, sequence: Sequence, at: Moment, tries: u32, max: usize) -> bool {
        let put = self.lock().put(sequence, at, tries, max);
        if put {
            self.added.notify_one();
        }
        put
    }

    fn has(&self, sequence: &Sequence) -> bool {
        self.lock().wanted.contains_key(sequence)
    }

    /// Takes up to `max` sequences whose time has come, with how often each was looked at for nothing. The first one that came
    /// is the first one that goes.
    pub(in crate::flow) fn take(&self, now: Moment, max: usize) -> Vec<(Sequence, u32)> {
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

/// The lists of a node.
#[derive(Debug, Default)]
pub struct Handed {
    passed: Listed,
    held: Listed,
    ahead: Ahead,
}

impl Handed {
    /// Returns the tasks that went out, where the queue is of this process.
    pub(in crate::flow) const fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// Returns the sequences whose turn was passed on, for the usher.
    pub(in crate::flow) const fn passed(&self) -> &Listed {
        &self.passed
    }

    /// Returns the sequences whose tasks have waited for long, for the reminder.
    pub(in crate::flow) const fn held(&self) -> &Listed {
        &self.held
    }

    /// Adds a sequence that is to be looked at now.
    pub(in crate::flow) fn add(&self, sequence: Sequence, now: Moment) {
        self.put(sequence, now, 0);
    }

    /// Adds a sequence that is to be looked at once more, later. One that was added anew meanwhile stays as it is.
    pub(in crate::flow) fn again(&self, sequence: Sequence, at: Moment, tries: u32) {
        if !self.passed.has(&sequence) {
            self.put(sequence, at, tries);
        }
    }

    /// Adds a sequence whose tasks have waited for long. One that is there stays as it is, and the next look brings one again
    /// for which there is no room.
    pub(in crate::flow) fn remind(&self, sequence: Sequence, at: Moment) {
        if !self.held.has(&sequence) {
            self.held.put(sequence, at, 0, SEQUENCES_HELD_MAX);
        }
    }

    fn put(&self, sequence: Sequence, at: Moment, tries: u32) {
        if !self.passed.put(sequence, at, tries, SEQUENCES_HANDED_MAX) {
            metrics::counter!("tickwheel_turns_left_to_looks_total").increment(1);
        }
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
        assert_eq!(list.passed().take(now, 9), [(sequence("a"), 0)]);
        assert_eq!(
            (list.passed().take(now, 9), list.passed().next()),
            (Vec::new(), Some(later))
        );
        assert_eq!(list.passed().take(later, 9), [(sequence("b"), 3)]);
        assert_eq!(list.passed().next(), None);
        list.passed().added().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reminder_is_there_once_beside_a_turn_and_has_a_bound() {
        let (list, now) = (Handed::default(), TimeSource::real().moment());
        let later = now.after(Duration::from_secs(1));
        list.remind(sequence("a"), later);
        list.remind(sequence("a"), now);
        list.add(sequence("a"), now);
        assert_eq!(list.passed().take(now, 9), [(sequence("a"), 0)]);
        assert_eq!(list.held().take(now, 9), []);
        assert_eq!(list.held().take(later, 9), [(sequence("a"), 0)]);
        for number in 0..=SEQUENCES_HELD_MAX {
            list.remind(sequence(&number.to_string()), now);
        }
        let taken = list.held().take(now, usize::MAX);
        assert_eq!(taken.len(), SEQUENCES_HELD_MAX);
    }
}
