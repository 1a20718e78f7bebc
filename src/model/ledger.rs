//! The ledger tells a wheel's owner how far the wheel has been fired: it is a contiguous low-water mark over
//! acknowledgements that come in any order.
//!
//! Entries are noted in reading order and marked done in any order. The mark passes an entry only when
//! everything before it is done. It passes entries of one (due, id) only together, also when a page of the
//! reader ends between them. Where the reader has seen everything up to some place, the mark goes there, so
//! that empty slots move it too.

use std::collections::VecDeque;

use super::{clock::Position, time::Millis};

/// The number of a noted entry: one after the other, never reused within one term of ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Item {
    position: Position,
    done: bool,
}

/// The ledger of one term of ownership.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger {
    fired: Position,
    /// Position of the last entry passed; `fired` reaches it once its group is known to be complete.
    passed: Option<Position>,
    read_through: Position,
    first: u64,
    items: VecDeque<Item>,
}

impl Ledger {
    /// Begins at the position that the clock row holds.
    #[must_use]
    pub const fn new(fired: Position) -> Self {
        Self {
            fired,
            passed: None,
            read_through: fired,
            first: 0,
            items: VecDeque::new(),
        }
    }

    /// Notes an entry that was read; it must not lie before the one noted last.
    ///
    /// # Panics
    /// When entries are noted out of order: a reader that does so would let the mark pass entries that are not done.
    pub fn note(&mut self, position: Position) -> Number {
        let last = self.items.back().map(|item| item.position).or(self.passed);
        assert!(
            last.is_none_or(|last| last <= position) && position > self.fired,
            "the ledger was given {position:?} behind {last:?} or {:?}",
            self.fired
        );
        let number = Number(self.first + self.items.len() as u64);
        self.items.push_back(Item {
            position,
            done: false,
        });
        number
    }

    /// Says that the reader has noted everything up to and including `position`.
    pub fn reached(&mut self, position: Position) {
        self.read_through = self.read_through.max(position);
        self.advance();
    }

    /// Marks an entry done; a second time is harmless.
    pub fn done(&mut self, number: Number) {
        let index = number
            .0
            .checked_sub(self.first)
            .and_then(|index| usize::try_from(index).ok());
        if let Some(item) = index.and_then(|index| self.items.get_mut(index)) {
            item.done = true;
        }
        self.advance();
    }

    /// Returns how far everything is done.
    #[must_use]
    pub const fn fired(&self) -> Position {
        self.fired
    }

    /// Returns how far everything is done that two readers of one wheel have noted, each a part of it. A mark stands at the last
    /// entry of its own part; the other part may be done further on, up to what is not done in the first.
    #[must_use]
    pub fn fired_with(&self, other: &Self) -> Position {
        let done = self.fired.max(other.fired);
        self.free().min(other.free()).min(done)
    }

    /// Returns a place up to which nothing is noted that is not done.
    fn free(&self) -> Position {
        let before = |oldest: Position| Position::behind(Millis(oldest.due.0.saturating_sub(1)));
        self.oldest()
            .map_or(self.fired, |oldest| self.fired.max(before(oldest)))
    }

    /// Returns how many noted entries the mark has not passed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.items.len()
    }

    /// Returns the position of the oldest noted entry that is not done.
    #[must_use]
    pub fn oldest(&self) -> Option<Position> {
        self.items.front().map(|item| item.position)
    }

    fn advance(&mut self) {
        while self.items.front().is_some_and(|item| item.done) {
            let Some(item) = self.items.pop_front() else {
                break;
            };
            self.first += 1;
            if let Some(passed) = self.passed.replace(item.position)
                && passed < item.position
            {
                self.fired = self.fired.max(passed);
            }
        }
        let next = self.items.front().map(|item| item.position);
        if let Some(passed) = self.passed
            && (next.is_some_and(|next| passed < next) || passed <= self.read_through)
            && next.is_none_or(|next| passed < next)
        {
            self.fired = self.fired.max(passed);
        }
        if next.is_none() {
            self.fired = self.fired.max(self.read_through);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ids::TaskId;

    fn at(due: i64) -> Position {
        Position {
            due: Millis(due),
            id: TaskId::FIRST,
        }
    }

    #[test]
    fn the_mark_waits_for_the_oldest() {
        let mut ledger = Ledger::new(at(0));
        let a = ledger.note(at(1));
        let b = ledger.note(at(2));
        ledger.reached(Position::behind(Millis(5)));
        ledger.done(b);
        assert_eq!(ledger.fired(), at(0));
        ledger.done(a);
        assert_eq!(ledger.fired(), Position::behind(Millis(5)));
    }

    #[test]
    fn a_group_is_passed_as_a_whole_also_across_pages() {
        let mut ledger = Ledger::new(at(0));
        let a = ledger.note(at(1));
        let b = ledger.note(at(2));
        ledger.done(a);
        ledger.done(b);
        assert_eq!(
            ledger.fired(),
            at(1),
            "the page may go on with the same (due, id)"
        );
        let c = ledger.note(at(2));
        assert_eq!(ledger.fired(), at(1));
        ledger.note(at(3));
        ledger.done(c);
        assert_eq!(ledger.fired(), at(2));
    }

    #[test]
    fn an_empty_slot_moves_the_mark() {
        let mut ledger = Ledger::new(at(0));
        ledger.reached(Position::behind(Millis(10)));
        assert_eq!(ledger.fired(), Position::behind(Millis(10)));
        assert_eq!(ledger.outstanding(), 0);
    }

    #[test]
    fn two_parts_are_done_up_to_what_is_not_done_in_either() {
        let (mut records, mut flood) = (Ledger::new(at(0)), Ledger::new(at(0)));
        let noted = |ledger: &mut Ledger, dues: [i64; 3]| dues.map(|due| ledger.note(at(due)));
        let of_records = noted(&mut records, [10, 20, 30]);
        let of_flood = noted(&mut flood, [5, 25, 40]);
        assert_eq!(records.fired_with(&flood), at(0));
        flood.done(of_flood[0]);
        records.done(of_records[0]);
        assert_eq!(flood.fired(), at(5));
        assert_eq!(
            records.fired_with(&flood),
            at(10),
            "not further than what was done"
        );
        records.done(of_records[1]);
        records.done(of_records[2]);
        assert_eq!(
            records.fired_with(&flood),
            at(20),
            "the last of a part may go on"
        );
        flood.done(of_flood[1]);
        records.reached(Position::behind(Millis(50)));
        assert_eq!(records.fired_with(&flood), Position::behind(Millis(39)));
        assert_eq!(flood.fired_with(&records), Position::behind(Millis(39)));
        flood.done(of_flood[2]);
        flood.reached(Position::behind(Millis(45)));
        assert_eq!(records.fired_with(&flood), Position::behind(Millis(45)));
    }

    proptest! {
        #[test]
        fn nothing_undone_of_two_parts_is_passed(parts in prop::collection::vec((1..20i64, any::<bool>()), 1..40), order: Vec<prop::sample::Index>) {
            let mut parts = parts;
            parts.sort_unstable();
            parts.dedup_by_key(|(due, _)| *due);
            let mut ledgers = [Ledger::new(at(0)), Ledger::new(at(0))];
            let mut open = Vec::new();
            for (due, part) in parts {
                open.push((usize::from(part), ledgers[usize::from(part)].note(at(due)), at(due)));
            }
            for index in order {
                if open.is_empty() { break; }
                let (part, number, _) = open.remove(index.index(open.len()));
                ledgers[part].done(number);
                let fired = ledgers[0].fired_with(&ledgers[1]);
                prop_assert!(open.iter().all(|(_, _, position)| fired < *position));
                prop_assert!(fired >= ledgers[0].fired().min(ledgers[1].fired()));
            }
        }

        #[test]
        fn nothing_undone_is_ever_passed(dues in prop::collection::vec(1..20i64, 1..40), order: Vec<prop::sample::Index>) {
            let mut dues = dues;
            dues.sort_unstable();
            let mut ledger = Ledger::new(at(0));
            let mut open: Vec<(Number, Position)> = dues.iter().map(|due| (ledger.note(at(*due)), at(*due))).collect();
            ledger.reached(Position::behind(Millis(20)));
            for index in order {
                if open.is_empty() { break; }
                let (number, _) = open.remove(index.index(open.len()));
                ledger.done(number);
                let oldest = open.iter().map(|(_, position)| *position).min();
                prop_assert!(oldest.is_none_or(|oldest| ledger.fired() < oldest));
            }
            for (number, _) in open { ledger.done(number); }
            prop_assert_eq!(ledger.fired(), Position::behind(Millis(20)));
        }
    }
}
