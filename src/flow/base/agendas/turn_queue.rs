//! The lists of sequences tell the stages of a node which sequences have a task that may run now, and which ones have waited for
//! long.
//!
//! They are hints: a sequence that finds no room in one, or is lost with the node, waits for the look of its next task.

use super::{agenda::Agenda, ahead::Ahead};
use crate::{
    limits::{SEQUENCES_HANDED_MAX, SEQUENCES_HELD_MAX},
    model::ordering::Sequence,
    time_source::Moment,
};

/// The lists of a node.
#[derive(Debug)]
pub struct TurnQueue {
    passed: Agenda<Sequence>,
    held: Agenda<Sequence>,
    ahead: Ahead,
}

impl Default for TurnQueue {
    fn default() -> Self {
        Self {
            passed: Agenda::new(SEQUENCES_HANDED_MAX),
            held: Agenda::new(SEQUENCES_HELD_MAX),
            ahead: Ahead::default(),
        }
    }
}

impl TurnQueue {
    /// Returns the tasks that went out, where the queue is of this process.
    pub(in crate::flow) const fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// Returns the sequences whose turn was passed on, for the dispatcher.
    pub(in crate::flow) const fn passed(&self) -> &Agenda<Sequence> {
        &self.passed
    }

    /// Returns the sequences whose tasks have waited for long, for the reminder.
    pub(in crate::flow) const fn held(&self) -> &Agenda<Sequence> {
        &self.held
    }

    /// Adds a sequence that is to be looked at now.
    pub(in crate::flow) fn add(&self, sequence: Sequence, now: Moment) {
        self.again(sequence, now, 0);
    }

    /// Adds a sequence that is to be looked at once more, later. One that is to be looked at before stays as it is.
    pub(in crate::flow) fn again(&self, sequence: Sequence, at: Moment, tries: u32) {
        if !self.passed.at(sequence, at, tries) {
            metrics::counter!("tickwheel_turns_left_to_looks_total").increment(1);
        }
    }

    /// Adds a sequence whose tasks have waited for long. One that is there stays as it is, and the next look brings one again
    /// for which there is no room.
    pub(in crate::flow) fn remind(&self, sequence: Sequence, at: Moment) {
        if !self.held.has(&sequence) {
            self.held.at(sequence, at, 0);
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
        let (list, now) = (TurnQueue::default(), TimeSource::real().moment());
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
        let (list, now) = (TurnQueue::default(), TimeSource::real().moment());
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
