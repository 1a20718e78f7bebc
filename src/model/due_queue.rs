//! The in-memory wheel keeps items that were read ahead for the firing stages, in buckets of one millisecond, until due.
//!
//! It holds a few ticks at most, so its buckets are a sorted map and not an array of levels: a catch-up after an outage
//! holds hours of due times at once, and the next due time must be known exactly to sleep until it.

use std::collections::{BTreeMap, VecDeque};

use super::time::Millis;

/// Items by due time; within one millisecond in the order they came.
#[derive(Debug)]
pub struct DueQueue<T> {
    buckets: BTreeMap<Millis, VecDeque<(u64, T)>>,
    len: usize,
    bytes: u64,
}

impl<T> Default for DueQueue<T> {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            len: 0,
            bytes: 0,
        }
    }
}

impl<T> DueQueue<T> {
    /// Adds an item of about `bytes` bytes.
    pub(super) fn push(&mut self, due: Millis, bytes: u64, item: T) {
        self.buckets
            .entry(due)
            .or_default()
            .push_back((bytes, item));
        self.len += 1;
        self.bytes += bytes;
    }

    /// Takes the oldest items that are due at `now`, at most `max` and of at most `bytes_max` bytes together, in order. The first
    /// item is taken however many bytes it has.
    pub(super) fn pop_due_within(&mut self, now: Millis, max: usize, bytes_max: u64) -> Vec<T> {
        let mut taken = Vec::new();
        let mut room = bytes_max;
        while taken.len() < max {
            let Some(mut bucket) = self.buckets.first_entry() else {
                break;
            };
            if *bucket.key() > now {
                break;
            }
            let fits = |(bytes, _): &(u64, T)| *bytes <= room || taken.is_empty();
            if !bucket.get().front().is_none_or(fits) {
                break;
            }
            match bucket.get_mut().pop_front() {
                Some((bytes, item)) => {
                    self.len -= 1;
                    self.bytes -= bytes;
                    room = room.saturating_sub(bytes);
                    taken.push(item);
                }
                None => {
                    bucket.remove();
                }
            }
        }
        taken
    }

    /// Returns the earliest due time.
    #[must_use]
    pub(super) fn next_due(&self) -> Option<Millis> {
        self.buckets
            .iter()
            .find(|(_, bucket)| !bucket.is_empty())
            .map(|(due, _)| *due)
    }

    /// Returns about how many bytes the first item has.
    #[must_use]
    pub(super) fn next_bytes(&self) -> Option<u64> {
        let mut items = self.buckets.values().flatten();
        items.next().map(|(bytes, _)| *bytes)
    }

    /// Returns the items, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.values().flatten().map(|(_, item)| item)
    }

    /// Returns how many items wait.
    #[must_use]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns about how many bytes wait.
    #[must_use]
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_bound_what_is_taken_and_one_item_always_fits() {
        let mut queue = DueQueue::default();
        for (due, bytes) in [(1, 5), (1, 5), (2, 1), (3, 50), (4, 1)] {
            queue.push(Millis(due), bytes, due);
        }
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [1, 1, 2]);
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [3]);
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [4]);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn items_come_out_in_order_and_never_early(dues in prop::collection::vec(0..50i64, 0..60), steps in prop::collection::vec((0..60i64, 1..9usize), 0..30)) {
            let mut queue = DueQueue::default();
            for due in &dues { queue.push(Millis(*due), 3, *due); }
            let (mut now, mut out, total) = (0, Vec::new(), dues.len());
            for (later, max) in steps {
                now = now.max(later);
                let taken = queue.pop_due_within(Millis(now), max, u64::MAX);
                prop_assert!(taken.iter().all(|due| *due <= now) && taken.len() <= max);
                prop_assert!(taken.len() == max || queue.next_due().is_none_or(|due| due > Millis(now)));
                out.extend(taken);
                prop_assert_eq!(queue.len(), total - out.len());
                prop_assert_eq!(queue.bytes(), 3 * queue.len() as u64);
            }
            out.extend(queue.pop_due_within(Millis(100), 100, u64::MAX));
            let mut sorted = dues;
            sorted.sort_unstable();
            prop_assert_eq!(queue.len(), 0);
            prop_assert_eq!(out.len(), sorted.len());
            if out.is_sorted() { prop_assert_eq!(out, sorted); }
        }
    }
}
