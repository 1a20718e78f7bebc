//! The buffer keeps for the hub the messages of one callback that this node has received and that are not yet claimed.
//!
//! It is pure. A message never leaves it before its time. Due messages leave by priority (in turns, so that none
//! starves), then by start time. The feed bounds how many there may be.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    model::{
        dispatch::Dispatch,
        task::{Priority, Spec},
        time::Millis,
    },
    queue::weighted_round_robin::Turns,
};

/// Where a message came from: topic, partition, offset.
pub(super) type Origin = (String, i32, i64);

/// A message that waits for a poll.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) origin: Origin,
    pub(super) dispatch: Dispatch,
    /// When the message was handed to the queue.
    pub(super) published: Millis,
    /// Not to be claimed before this.
    pub(super) not_before: Millis,
    pub(super) spec: Arc<Spec>,
    /// About how long it is in an answer.
    pub(super) bytes: usize,
}

/// The messages.
#[derive(Debug)]
pub(super) struct Buffer {
    held: BTreeMap<(Millis, u64), Item>,
    ready: [BTreeMap<(Millis, u64), Item>; Priority::ALL.len()],
    turns: Turns,
    added: u64,
}

impl Default for Buffer {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            ready: Default::default(),
            turns: Turns::new(Priority::ALL.len()),
            added: 0,
        }
    }
}

impl Buffer {
    /// Adds a message.
    pub(super) fn add(&mut self, item: Item, now: Millis) {
        self.added += 1;
        if item.not_before > now {
            self.held.insert((item.not_before, self.added), item);
        } else {
            let key = (item.dispatch.start, self.added);
            self.lane(item.spec.priority).insert(key, item);
        }
    }

    /// Makes ready what is due.
    pub(super) fn promote(&mut self, now: Millis) {
        while let Some(first) = self.held.first_entry() {
            if first.key().0 > now {
                return;
            }
            let item = first.remove();
            self.add(item, now);
        }
    }

    /// Takes up to `max` ready messages of about `bytes_max` bytes together, at least one if there is one and `max` is
    /// not zero.
    pub(super) fn take(&mut self, max: usize, bytes_max: usize) -> Vec<Item> {
        let ready: Vec<usize> = self.ready.iter().map(BTreeMap::len).collect();
        let granted = self.turns.grant(&ready, max);
        let mut taken = Vec::new();
        let mut bytes = 0;
        for (lane, count) in self.ready.iter_mut().zip(granted) {
            for _ in 0..count {
                let Some(first) = lane.first_entry() else {
                    break;
                };
                let with_it = bytes + first.get().bytes;
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
    pub(super) fn next_due(&self) -> Option<Millis> {
        self.held.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns how many messages wait.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.ready()
    }

    /// Returns how many messages are ready.
    pub(super) fn ready(&self) -> usize {
        self.ready.iter().map(BTreeMap::len).sum()
    }

    fn lane(&mut self, priority: Priority) -> &mut BTreeMap<(Millis, u64), Item> {
        let [high, normal, low] = &mut self.ready;
        match priority {
            Priority::High => high,
            Priority::Normal => normal,
            Priority::Low => low,
        }
    }
}
