//! The in-memory wheel keeps items that were read ahead for the firing stages, in buckets of one millisecond, until due.
//!
//! It holds a few ticks at most, so its buckets are a sorted map and not an array of levels: a catch-up after an outage
//! holds hours of due times at once, and the next due time must be known exactly to sleep until it.

use std::collections::{BTreeMap, VecDeque};

use super::time::Millis;

/// The sizes of an item, or of all that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// About how many bytes it takes in memory while it waits.
    pub held: u64,
    /// How many bytes of a turn, or of a step, it takes when it leaves.
    pub taken: u64,
}

impl Size {
    /// Returns the size of an item that is handed over as it is held.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        Self {
            held: bytes,
            taken: bytes,
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            taken: self.taken + other.taken,
        }
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self {
            held: self.held - other.held,
            taken: self.taken - other.taken,
        }
    }
}

/// Items by due time; within one millisecond in the order they came.
#[derive(Debug)]
pub struct DueQueue<T> {
    buckets: BTreeMap<Millis, VecDeque<(Size, T)>>,
    len: usize,
    size: Size,
}

impl<T> Default for DueQueue<T> {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            len: 0,
            size: Size::default(),
        }
    }
}

impl<T> DueQueue<T> {
    /// Adds an item.
    pub(super) fn push(&mut self, due: Millis, size: Size, item: T) {
        self.buckets.entry(due).or_default().push_back((size, item));
        self.len += 1;
        self.size = self.size.and(size);
    }

    /// Takes the oldest items that are due at `now`, at most `max` and of at most `bytes_max` bytes to take together, in order.
    /// The first item is taken however many bytes it has.
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
            let fits = |(size, _): &(Size, T)| size.taken <= room || taken.is_empty();
            if !bucket.get().front().is_none_or(fits) {
                break;
            }
            match bucket.get_mut().pop_front() {
                Some((size, item)) => {
                    self.len -= 1;
                    self.size = self.size.without(size);
                    room = room.saturating_sub(size.taken);
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

    /// Returns how many bytes the first item has to take.
    #[must_use]
    pub(super) fn next_taken(&self) -> Option<u64> {
        let mut items = self.buckets.values().flatten();
        items.next().map(|(size, _)| size.taken)
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

    /// Returns the sizes of all that wait.
    #[must_use]
    pub(super) const fn size(&self) -> Size {
        self.size
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
            queue.push(Millis(due), Size::of(bytes), due);
        }
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [1, 1, 2]);
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [3]);
        assert_eq!(queue.pop_due_within(Millis(9), 9, 11), [4]);
        assert_eq!((queue.len(), queue.size()), (0, Size::default()));
    }

    proptest! {
        #[test]
        fn items_come_out_in_order_and_never_early(dues in prop::collection::vec(0..50i64, 0..60), steps in prop::collection::vec((0..60i64, 1..9usize), 0..30)) {
            let mut queue = DueQueue::default();
            for due in &dues { queue.push(Millis(*due), Size::of(3), *due); }
            let (mut now, mut out, total) = (0, Vec::new(), dues.len());
            for (later, max) in steps {
                now = now.max(later);
                let taken = queue.pop_due_within(Millis(now), max, u64::MAX);
                prop_assert!(taken.iter().all(|due| *due <= now) && taken.len() <= max);
                prop_assert!(taken.len() == max || queue.next_due().is_none_or(|due| due > Millis(now)));
                out.extend(taken);
                prop_assert_eq!(queue.len(), total - out.len());
                prop_assert_eq!(queue.size(), Size::of(3 * queue.len() as u64));
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
