//! What a term holds ahead of its time: due entries until their millisecond, looks a little longer.
//!
//! Looks lie at the ends of ticks, those of all wheels at once; so each wheel waits with its own for its phase in the tick
//! ([`Shape::phase_of`](crate::model::wheel::Shape::phase_of)). A wheel that is to be given away does not: what it was to do by
//! now it does, else the next owner would begin in front of it, and hand over once more what went out behind it.

use std::time::Duration;

use super::term::{Held, weight};
use crate::model::{due_queue::DueQueue, entry::Kind, time::Millis};

/// See the module.
#[derive(Debug)]
pub(super) struct Ahead {
    entries: DueQueue<Held>,
    looks: DueQueue<Held>,
    phase: Duration,
}

impl Ahead {
    /// Holds nothing yet; looks will wait for `phase` beyond their time.
    pub(super) fn new(phase: Duration) -> Self {
        Self {
            entries: DueQueue::default(),
            looks: DueQueue::default(),
            phase,
        }
    }

    /// Takes in what was read.
    pub(super) fn push(&mut self, held: Held) {
        let (due, bytes) = (held.entry.key.due, weight(&held.entry));
        let queue = if matches!(held.entry.kind, Kind::Look { .. }) {
            &mut self.looks
        } else {
            &mut self.entries
        };
        queue.push(due, bytes, held);
    }

    /// Takes back what is to be tried again at `at`, which is not before its time.
    pub(super) fn put_back(&mut self, held: Held, at: Millis) {
        let bytes = weight(&held.entry);
        self.entries.push(at, bytes, held);
    }

    /// Takes what is to be done at `now`, at most `max`; half of that are looks if there are as many, so that neither waits
    /// for all of the other.
    pub(super) fn pop_due(&mut self, now: Millis, max: usize) -> Vec<Held> {
        let looks_until = now.before(self.phase);
        let mut taken = self.looks.pop_due(looks_until, max / 2);
        taken.extend(self.entries.pop_due(now, max - taken.len()));
        taken.extend(self.looks.pop_due(looks_until, max - taken.len()));
        taken
    }

    /// Takes looks whose time is `until` or before, whatever the phase, at most `max`.
    pub(super) fn pop_looks(&mut self, until: Millis, max: usize) -> Vec<Held> {
        self.looks.pop_due(until, max)
    }

    /// Tells whether there are looks whose time is `until` or before.
    pub(super) fn has_looks(&self, until: Millis) -> bool {
        self.looks.next_due().is_some_and(|due| due <= until)
    }

    /// Returns when the next is to be done.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let look = self.looks.next_due().map(|due| due.after(self.phase));
        self.entries.next_due().into_iter().chain(look).min()
    }

    /// Returns how many there are.
    pub(super) const fn len(&self) -> usize {
        self.entries.len() + self.looks.len()
    }

    /// Returns about how many bytes they take.
    pub(super) const fn bytes(&self) -> u64 {
        self.entries.bytes() + self.looks.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        clock::Position, entry::Entry, fixtures, ids::TaskId, ledger::Ledger, wheel::WheelNumber,
    };

    fn held(due: i64, is_look: bool) -> Held {
        let due = Millis(due);
        let id = TaskId::new(due, WheelNumber::from_low_bits(1), 7);
        let spec = Arc::new(fixtures::spec());
        let entry = if is_look {
            Entry::look(id, 0, due, None, due, spec, 1)
        } else {
            Entry::due(id, 0, 0, due, spec, 1)
        };
        let mut ledger = Ledger::new(Position::behind(Millis(-1)));
        Held {
            number: ledger.note(Position { due, id }),
            entry,
            failing_since: None,
            timely: true,
            copy: None,
        }
    }

    fn dues(taken: &[Held]) -> Vec<i64> {
        taken.iter().map(|held| held.entry.key.due.0).collect()
    }

    #[test]
    fn looks_wait_for_their_phase_and_entries_for_nothing() {
        let mut ahead = Ahead::new(Duration::from_millis(100));
        ahead.push(held(1000, true));
        ahead.push(held(1010, false));
        assert_eq!((ahead.len(), ahead.next_due()), (2, Some(Millis(1010))));
        assert!(ahead.pop_due(Millis(1009), 9).is_empty());
        assert_eq!(dues(&ahead.pop_due(Millis(1099), 9)), [1010]);
        assert_eq!(ahead.next_due(), Some(Millis(1100)));
        assert_eq!(dues(&ahead.pop_due(Millis(1100), 9)), [1000]);
        assert_eq!((ahead.len(), ahead.bytes(), ahead.next_due()), (0, 0, None));
    }

    #[test]
    fn who_gives_its_wheel_away_takes_looks_at_once_and_none_that_is_to_come() {
        let mut ahead = Ahead::new(Duration::from_millis(900));
        ahead.push(held(1000, true));
        ahead.push(held(1000, false));
        ahead.push(held(2000, true));
        assert!(ahead.has_looks(Millis(1000)) && !ahead.has_looks(Millis(999)));
        assert_eq!(dues(&ahead.pop_looks(Millis(1999), 9)), [1000]);
        assert!(!ahead.has_looks(Millis(1999)));
        assert_eq!(ahead.len(), 2);
    }

    #[test]
    fn neither_waits_for_all_of_the_other() {
        let mut ahead = Ahead::new(Duration::ZERO);
        for due in 0..10 {
            ahead.push(held(due, false));
            ahead.push(held(100 + due, true));
        }
        let taken = ahead.pop_due(Millis(1000), 6);
        assert_eq!(dues(&taken), [100, 101, 102, 0, 1, 2]);
        assert_eq!(ahead.pop_due(Millis(1000), 100).len(), 14);
        ahead.put_back(held(5, true), Millis(2000));
        assert_eq!(ahead.next_due(), Some(Millis(2000)));
    }
}
