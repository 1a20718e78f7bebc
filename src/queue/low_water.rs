//! The low-water mark tells consumers how far a partition has been handled when its deliveries are handled in
//! any order.
//!
//! It is pure. `LowWater::mark` never passes a delivery that was not handled. It reaches the end of the
//! deliveries once all are handled. Offsets that were never delivered hold nothing up: the log has gaps where
//! transactions ended or compaction removed records. Committing the mark is left to the consumer.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
struct Item {
    offset: i64,
    handled: bool,
}

/// The deliveries of one partition since it was assigned.
#[derive(Debug, Clone)]
pub struct LowWater {
    /// Everything below was handled.
    mark: i64,
    /// Deliveries from `mark` on, ascending; the first one is not handled.
    items: VecDeque<Item>,
}

impl LowWater {
    /// Returns a mark below which everything was handled before.
    #[must_use]
    pub(crate) const fn new(mark: i64) -> Self {
        Self {
            mark,
            items: VecDeque::new(),
        }
    }

    /// Returns the offset to resume from after a crash.
    #[must_use]
    pub(crate) const fn mark(&self) -> i64 {
        self.mark
    }

    /// Returns the offset behind the last delivery.
    #[cfg(any(test, feature = "kafka"))]
    #[must_use]
    pub(crate) fn end(&self) -> i64 {
        self.items.back().map_or(self.mark, |last| last.offset + 1)
    }

    /// Notes a delivery. A repetition of one that was noted before changes nothing.
    pub(crate) fn delivered(&mut self, offset: i64) {
        let last = self.items.back().map_or(self.mark - 1, |item| item.offset);
        if offset <= last {
            return;
        }
        if self.items.is_empty() {
            // No delivery is outstanding, so a gap before this one is a gap of the log.
            self.mark = offset;
        }
        self.items.push_back(Item {
            offset,
            handled: false,
        });
    }

    /// Notes that a delivery was handled; tells whether the mark moved. An offset that was not delivered
    /// changes nothing.
    pub(crate) fn handled(&mut self, offset: i64) -> bool {
        let found = self.items.binary_search_by_key(&offset, |item| item.offset);
        let Some(item) = found.ok().and_then(|place| self.items.get_mut(place)) else {
            return false;
        };
        item.handled = true;
        let before = self.mark;
        while let Some(first) = self.items.front().filter(|item| item.handled) {
            let end = first.offset + 1;
            self.items.pop_front();
            self.mark = self.items.front().map_or(end, |next| next.offset);
        }
        self.mark != before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn out_of_order_waits_for_the_oldest() {
        let mut low_water = LowWater::new(5);
        for offset in [5, 6, 9] {
            low_water.delivered(offset);
        }
        assert!(!low_water.handled(9));
        assert!(!low_water.handled(6));
        assert_eq!(low_water.mark(), 5);
        assert!(low_water.handled(5));
        assert_eq!((low_water.mark(), low_water.items.len()), (10, 0));
    }

    #[test]
    fn gaps_of_the_log_hold_nothing_up() {
        let mut low_water = LowWater::new(0);
        low_water.delivered(3);
        assert_eq!(low_water.mark(), 3);
        low_water.delivered(7);
        assert!(low_water.handled(3));
        assert_eq!(low_water.mark(), 7);
    }

    #[test]
    fn repetitions_and_strangers_change_nothing() {
        let mut low_water = LowWater::new(0);
        low_water.delivered(0);
        low_water.delivered(0);
        assert!(!low_water.handled(4));
        assert!(low_water.handled(0));
        assert!(!low_water.handled(0));
        low_water.delivered(0);
        assert_eq!((low_water.mark(), low_water.items.len()), (1, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        /// Deliver the offset this far behind the last one.
        Deliver(i64),
        /// Handle the delivery at this place of all delivered ones.
        Handle(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let deliver = (1..4_i64).prop_map(Step::Deliver);
        let handle = any::<prop::sample::Index>().prop_map(|at| Step::Handle(at.index(64)));
        prop::collection::vec(prop_oneof![deliver, handle], 0..200)
    }

    proptest! {
        #[test]
        fn never_passes_what_is_not_handled(start in 0..100_i64, steps in steps()) {
            let mut low_water = LowWater::new(start);
            let mut last = start - 1;
            let mut delivered = Vec::new();
            let mut open = BTreeSet::new();
            for step in steps {
                let before = low_water.mark();
                match step {
                    Step::Deliver(gap) => {
                        last += gap;
                        delivered.push(last);
                        open.insert(last);
                        low_water.delivered(last);
                    }
                    Step::Handle(at) if !delivered.is_empty() => {
                        let offset = delivered[at % delivered.len()];
                        open.remove(&offset);
                        let moved = low_water.handled(offset);
                        prop_assert_eq!(moved, low_water.mark() != before);
                    }
                    Step::Handle(_) => {}
                }
                let expected = open.first().copied().unwrap_or(last + 1).max(start);
                prop_assert_eq!(low_water.mark(), expected);
                prop_assert_eq!(low_water.end(), last + 1);
                prop_assert!(low_water.mark() >= before);
            }
        }
    }
}
