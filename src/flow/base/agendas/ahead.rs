//! The list of tasks ahead tells the sender of a node which tasks of sequences need not go out when they are due.
//!
//! A task behind another one that went out would be claimed for nothing: the claim finds that it is not its turn, and the
//! dispatcher publishes it when its turn has come. Where many tasks of a sequence are due together, that is half of all the work.
//! So such a task waits for its turn without going out first.
//!
//! The list serves a queue of this process only, because there every end comes by this node: an end first removes its task here,
//! then looks for the next task that is due and hands that to the dispatcher. A task that is left out because of the list was
//! due before that look, so it is found. On a cluster the end may come by another node, which does not know the list.
//!
//! It is a hint, and lost with the node. A task that was left out in error waits for a look that comes behind [`FRESH`]: the
//! first one, or the second one where its claim timeout is below ten seconds.

use std::{collections::HashMap, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    limits::SEQUENCES_AHEAD_MAX,
    model::{ids::TaskId, ordering::Sequence, time::Millis},
};

/// A task is left out for so long behind its start. Looks that come later always go out. The first look comes half a step behind
/// the start at the earliest, which is 2.5 s for the shortest claim timeout, and the next one at least a step later.
pub(in crate::flow) const FRESH: Duration = Duration::from_secs(5);

/// The first task of each sequence that went out and has not ended.
#[derive(Debug, Default)]
pub(in crate::flow) struct Ahead(Mutex<HashMap<Sequence, (Millis, TaskId)>>);

impl Ahead {
    /// Notes a task that goes out, unless one before it did. Tells whether it is the first one. Where there is no room to
    /// note it, it counts as the first one.
    pub(in crate::flow) fn goes_first(&self, sequence: Sequence, task: (Millis, TaskId)) -> bool {
        let mut ahead = self.lock();
        let is_full = ahead.len() >= SEQUENCES_AHEAD_MAX;
        match ahead.get_mut(&sequence) {
            Some(first) if *first < task => return false,
            Some(first) => *first = task,
            None if is_full => {}
            None => drop(ahead.insert(sequence, task)),
        }
        true
    }

    /// Forgets a task that has ended, was moved, or did not go out. The next one of its sequence is the first one.
    pub(in crate::flow) fn left(&self, sequence: &Sequence, id: TaskId) {
        let mut ahead = self.lock();
        if ahead.get(sequence).is_some_and(|(_, first)| *first == id) {
            ahead.remove(sequence);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Sequence, (Millis, TaskId)>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    fn sequence(key: usize) -> Sequence {
        Sequence {
            callback: "mail".to_owned(),
            key: key.to_string(),
        }
    }

    fn task(start: i64) -> (Millis, TaskId) {
        let wheel = WheelNumber::from_low_bits(0);
        (Millis(start), TaskId::new(Millis(start), wheel, 7))
    }

    #[test]
    fn the_first_of_a_sequence_goes_until_it_has_left() {
        let ahead = Ahead::default();
        assert!(ahead.goes_first(sequence(1), task(20)));
        assert!(ahead.goes_first(sequence(1), task(20)), "again");
        assert!(!ahead.goes_first(sequence(1), task(30)));
        assert!(ahead.goes_first(sequence(2), task(30)), "another sequence");
        // One before it does not know of it.
        assert!(ahead.goes_first(sequence(1), task(10)));
        ahead.left(&sequence(1), task(20).1);
        assert!(!ahead.goes_first(sequence(1), task(20)));
        ahead.left(&sequence(1), task(10).1);
        assert!(ahead.goes_first(sequence(1), task(30)));
    }

    #[test]
    fn beyond_its_bound_every_task_goes() {
        let ahead = Ahead::default();
        for key in 0..SEQUENCES_AHEAD_MAX {
            assert!(ahead.goes_first(sequence(key), task(1)));
        }
        let beyond = sequence(SEQUENCES_AHEAD_MAX);
        assert!(ahead.goes_first(beyond.clone(), task(1)));
        assert!(ahead.goes_first(beyond, task(2)));
        assert!(!ahead.goes_first(sequence(0), task(2)));
    }
}
