//! The intake holds messages for the runner from their receipt to their claim.
//!
//! A message is held until it is due and is ready then; urgent messages are ready first.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::{
    model::{task::Priority, time::Millis},
    queue::message::TaskMessage,
};

/// Where a message came from: topic, partition, offset.
pub(super) type Origin = (String, i32, i64);

/// A message that waits for its claim.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) origin: Origin,
    /// The record's value as it came.
    pub(super) value: Bytes,
    pub(super) message: TaskMessage,
    /// It must not be claimed before this time.
    pub(super) due: Millis,
    /// How often a claim of it failed on the side of the service.
    pub(super) failures: u32,
}

/// The messages that wait. The receiver limits their number.
#[derive(Debug, Default)]
pub(super) struct Intake {
    held: BTreeMap<(Millis, u64), Waiting>,
    ready: [VecDeque<Waiting>; Priority::ALL.len()],
    added: u64,
}

impl Intake {
    /// Adds a message.
    pub(super) fn add(&mut self, waiting: Waiting) {
        self.added += 1;
        self.held.insert((waiting.due, self.added), waiting);
    }

    /// Makes due messages ready.
    pub(super) fn promote(&mut self, now: Millis) {
        while let Some(first) = self.held.first_entry() {
            if first.key().0 > now {
                return;
            }
            let waiting = first.remove();
            self.queue(&waiting).push_back(waiting);
        }
    }

    /// Takes up to `max` ready messages.
    pub(super) fn take(&mut self, max: usize) -> Vec<Waiting> {
        let mut taken = Vec::new();
        for queue in &mut self.ready {
            let count = queue.len().min(max - taken.len());
            taken.extend(queue.drain(..count));
        }
        taken
    }

    /// Puts messages back before all others of their priority, in their order.
    pub(super) fn put_back(&mut self, messages: Vec<Waiting>) {
        for waiting in messages.into_iter().rev() {
            self.queue(&waiting).push_front(waiting);
        }
    }

    /// Returns when the next held message is due.
    pub(super) fn next_due(&self) -> Option<Millis> {
        self.held.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns how many messages wait.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.ready()
    }

    /// Returns how many messages are ready.
    pub(super) fn ready(&self) -> usize {
        self.ready.iter().map(VecDeque::len).sum()
    }

    fn queue(&mut self, waiting: &Waiting) -> &mut VecDeque<Waiting> {
        let [high, normal, low] = &mut self.ready;
        match waiting.message.spec.priority {
            Priority::High => high,
            Priority::Normal => normal,
            Priority::Low => low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::fixtures::message;

    fn waiting(number: u64, due: i64, priority: Priority) -> Waiting {
        let mut message = message("c", number, Millis(due));
        message.spec.priority = priority;
        Waiting {
            origin: ("t".to_owned(), 0, 0),
            value: Bytes::new(),
            due: message.dispatch.start,
            message,
            failures: 0,
        }
    }

    fn dues(taken: &[Waiting]) -> Vec<i64> {
        taken.iter().map(|waiting| waiting.due.0).collect()
    }

    #[test]
    fn nothing_is_ready_before_it_is_due() {
        let mut intake = Intake::default();
        intake.add(waiting(1, 1000, Priority::Normal));
        intake.promote(Millis(999));
        assert_eq!((intake.ready(), intake.next_due()), (0, Some(Millis(1000))));
        intake.promote(Millis(1000));
        assert_eq!((intake.ready(), intake.next_due()), (1, None));
    }

    #[test]
    fn the_urgent_are_taken_first_and_what_comes_back_stays_in_front() {
        let mut intake = Intake::default();
        intake.add(waiting(1, 1, Priority::Low));
        intake.add(waiting(2, 2, Priority::Normal));
        intake.add(waiting(3, 3, Priority::Normal));
        intake.add(waiting(4, 4, Priority::High));
        intake.promote(Millis(10));
        let taken = intake.take(3);
        assert_eq!(dues(&taken), [4, 2, 3]);
        intake.put_back(taken);
        assert_eq!(dues(&intake.take(10)), [4, 2, 3, 1]);
    }
}
