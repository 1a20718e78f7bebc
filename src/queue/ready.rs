//! The ready queue keeps received messages of one callback for a consumer: until they are due, and then until it has room.
//!
//! It is pure. A message never leaves it before its time. Due messages leave by priority, in the shares of
//! [`super::weighted_round_robin`], so that none starves; messages of one priority leave in the order of their start. Its
//! owner bounds how many there may be.
//!
//! Workers on Kafka and the polls of a node use the same queue, so a priority means the same to both.

use std::collections::BTreeMap;

use super::weighted_round_robin::WeightedRoundRobin;
use crate::model::{task::Priority, time::Millis};

/// A message that waits in a [`ReadyQueue`].
pub trait Waiting {
    /// Returns the time before which it must not leave.
    fn not_before(&self) -> Millis;
    /// Returns the start of its task, which orders messages of one priority.
    fn start(&self) -> Millis;
    /// Returns its priority.
    fn priority(&self) -> Priority;
    /// Returns about how many bytes it takes where it goes.
    fn bytes(&self) -> usize;
}

/// The messages that wait; see the module.
#[derive(Debug)]
pub struct ReadyQueue<T> {
    /// By the time before which they must not leave.
    held: BTreeMap<(Millis, i64), T>,
    /// By start, for each priority.
    ready: [BTreeMap<(Millis, i64), T>; Priority::ALL.len()],
    turns: WeightedRoundRobin,
    /// The number of the last message that was added; numbers keep those of one time in order.
    last: i64,
    /// The number of the last message that was put back; it is before all others.
    first: i64,
}

impl<T> Default for ReadyQueue<T> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            ready: Default::default(),
            turns: WeightedRoundRobin::new(Priority::ALL.len()),
            last: 0,
            first: 0,
        }
    }
}

impl<T: Waiting> ReadyQueue<T> {
    /// Adds a message.
    pub fn add(&mut self, message: T, now: Millis) {
        self.last += 1;
        self.insert(message, self.last, now);
    }

    /// Puts back messages that were taken, in their order, before all others of their start.
    pub fn put_back(&mut self, messages: Vec<T>, now: Millis) {
        for message in messages.into_iter().rev() {
            self.first -= 1;
            self.insert(message, self.first, now);
        }
    }

    fn insert(&mut self, message: T, number: i64, now: Millis) {
        if message.not_before() > now {
            self.held.insert((message.not_before(), number), message);
        } else {
            let key = (message.start(), number);
            self.lane(message.priority()).insert(key, message);
        }
    }

    /// Makes ready what is due.
    pub fn promote(&mut self, now: Millis) {
        while let Some(first) = self.held.first_entry() {
            let (not_before, number) = *first.key();
            if not_before > now {
                return;
            }
            let message = first.remove();
            self.insert(message, number, now);
        }
    }

    /// Takes up to `max` ready messages of about `bytes_max` bytes together. At least one is taken if there is one and
    /// `max` is not zero.
    pub fn take(&mut self, max: usize, bytes_max: usize) -> Vec<T> {
        let ready: Vec<usize> = self.ready.iter().map(BTreeMap::len).collect();
        let granted = self.turns.grant(&ready, max);
        let mut taken = Vec::new();
        let mut bytes = 0;
        for (lane, count) in self.ready.iter_mut().zip(granted) {
            for _ in 0..count {
                let Some(first) = lane.first_entry() else {
                    break;
                };
                let with_it = bytes + first.get().bytes();
                if with_it > bytes_max && !taken.is_empty() {
                    return taken;
                }
                bytes = with_it;
                taken.push(first.remove());
            }
        }
        taken
    }

    /// Returns when the next held message is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.held.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns how many messages wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.held.len() + self.ready()
    }

    /// Returns how many messages are ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    fn lane(&mut self, priority: Priority) -> &mut BTreeMap<(Millis, i64), T> {
        let [high, normal, low] = &mut self.ready;
        match priority {
            Priority::High => high,
            Priority::Normal => normal,
            Priority::Low => low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1000);
    const ALL_BYTES: usize = usize::MAX;

    #[derive(Debug, Clone, Copy)]
    struct Message {
        name: i64,
        not_before: Millis,
        start: Millis,
        priority: Priority,
    }

    impl Waiting for Message {
        fn not_before(&self) -> Millis {
            self.not_before
        }
        fn start(&self) -> Millis {
            self.start
        }
        fn priority(&self) -> Priority {
            self.priority
        }
        fn bytes(&self) -> usize {
            10
        }
    }

    fn message(name: i64, start: i64, priority: Priority) -> Message {
        Message {
            name,
            not_before: Millis(start),
            start: Millis(start),
            priority,
        }
    }

    fn names(taken: &[Message]) -> Vec<i64> {
        taken.iter().map(|message| message.name).collect()
    }

    #[test]
    fn no_message_leaves_before_its_time() {
        let mut queue = ReadyQueue::default();
        queue.add(message(1, 1001, Priority::Normal), NOW);
        queue.promote(NOW);
        assert!(queue.take(10, ALL_BYTES).is_empty());
        assert_eq!((queue.ready(), queue.waiting()), (0, 1));
        assert_eq!(queue.next_due(), Some(Millis(1001)));
        queue.promote(Millis(1001));
        assert_eq!((queue.ready(), queue.next_due()), (1, None));
        assert_eq!(names(&queue.take(10, ALL_BYTES)), [1]);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn priorities_share_and_the_lowest_does_not_starve() {
        let mut queue = ReadyQueue::default();
        for start in 0..100 {
            for priority in Priority::ALL {
                queue.add(message(start, start, priority), NOW);
            }
        }
        let taken = queue.take(42, ALL_BYTES);
        let of = |priority| taken.iter().filter(|one| one.priority == priority).count();
        let shares = Priority::ALL.map(of);
        assert_eq!(shares, [32, 8, 2]);
    }

    #[test]
    fn messages_of_a_priority_leave_by_start_and_those_put_back_are_first() {
        let mut queue = ReadyQueue::default();
        for (name, start) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            queue.add(message(name, start, Priority::Normal), NOW);
        }
        let taken = queue.take(2, ALL_BYTES);
        assert_eq!(names(&taken), [2, 4]);
        queue.add(message(5, 10, Priority::Normal), NOW);
        queue.put_back(taken, NOW);
        assert_eq!(names(&queue.take(9, ALL_BYTES)), [2, 4, 5, 3, 1]);
    }

    #[test]
    fn bytes_bound_what_is_taken_but_for_the_first() {
        let mut queue = ReadyQueue::default();
        for start in 0..5 {
            queue.add(message(start, start, Priority::Normal), NOW);
        }
        assert_eq!(queue.take(5, 25).len(), 2);
        assert_eq!(queue.take(5, 1).len(), 1);
        assert_eq!(queue.take(0, 100).len(), 0);
        assert_eq!(queue.waiting(), 2);
    }
}
