//! The deferred list tracks for the reader of a wheel the entries that it has passed over: those of callbacks
//! and topics that had their share of the memory.
//!
//! In a slot, a flood of one callback may lie in front of entries of others. A reader that waited for room
//! would read these only after the flood has gone out. So it passes over rows of a lane that has its share,
//! and a second reader follows with a cursor of its own. The second reader reads the same slots again, and
//! takes the rows that were passed over, as room comes. Rows that wait for this are not held in memory,
//! however many there are. Once a lane is passed over, all of its rows are, so each lane is read in order.
//! This ends when the second reader has reached the first.
//!
//! No entry is lost: rows that were passed over are noted in a ledger of their own, and `fired` is the lesser
//! of both. A term that ends forgets this, and the next one reads from `fired`. So entries of other lanes
//! that went out before the flood in front of them may go out once more then, and claims refuse them.

use std::collections::BTreeMap;

use super::{
    cursor::Cursor,
    prefetch::{Amount, lane_of},
};
use crate::model::{
    clock::Position,
    entry::{Entry, Key},
    lanes::LaneKey,
    ledger::{Ledger, Number},
    time::Millis,
    undelivered::{self, Action, Reason, Stage},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Deferred {
    ledger: Ledger,
    /// Where the second reader stands, while a lane is passed over.
    cursor: Cursor,
    /// Lanes whose rows are passed over, from these positions on.
    from: BTreeMap<LaneKey, Position>,
    /// The first reader has chosen from a page, and not yet moved its cursor behind it.
    choosing: bool,
}

/// Tells whether a lane has its share of the memory, with the first amount more of it and the second amount
/// more in all.
pub(super) type HasShare<'a> = dyn Fn(LaneKey, Amount, Amount) -> bool + 'a;

/// The place of an entry.
pub(in crate::flow) const fn position(entry: &Entry) -> Position {
    Position {
        due: entry.key.due,
        id: entry.key.id,
    }
}

/// Tells whether an entry that there is no room for waits in its slot, for the second reader.
fn waits(entry: &Entry) -> bool {
    let class = entry.spec.target.class();
    undelivered::action(Reason::NoRoom, Stage::Read, class) == Action::RetryHere
}

impl Deferred {
    /// Starts with no lane passed over.
    pub(in crate::flow) const fn new(cursor: Cursor, fired: Position) -> Self {
        Self {
            ledger: Ledger::new(fired),
            cursor,
            from: BTreeMap::new(),
            choosing: false,
        }
    }

    /// Returns those entries of a page that the first reader, which stands at `cursor`, is to hold. The
    /// others are passed over from now on; [`Self::chosen`] says that its cursor is behind the page.
    ///
    /// Without `has_share`, which is given what of a page is held, no lane is passed over that was not so before.
    pub(in crate::flow) fn choose(
        &mut self,
        cursor: Cursor,
        fired: Position,
        entries: Vec<Entry>,
        has_share: Option<&HasShare<'_>>,
    ) -> Vec<Entry> {
        let mut kept = Vec::with_capacity(entries.len());
        let (mut all, mut of_lanes) = (Amount::default(), BTreeMap::<LaneKey, Amount>::new());
        let mut last = cursor.behind.map(|key| Position {
            due: key.due,
            id: key.id,
        });
        for entry in entries {
            let (at, lane) = (position(&entry), lane_of(&entry));
            // One place is in one ledger as a whole: none begins within it.
            let begins = last != Some(at);
            last = Some(at);
            let of_lane = of_lanes.entry(lane).or_default();
            let has_share = has_share.filter(|_| begins);
            if self.is_passed_over(lane, at) {
                continue;
            }
            let is_full = has_share.is_some_and(|has_share| has_share(lane, *of_lane, all));
            if is_full && waits(&entry) {
                self.begin(lane, at, cursor, fired);
                continue;
            }
            of_lane.add(&entry);
            all.add(&entry);
            kept.push(entry);
        }
        self.choosing = true;
        kept
    }

    /// Says that the first reader has moved its cursor behind the page from which it chose.
    pub(in crate::flow) const fn chosen(&mut self) {
        self.choosing = false;
    }

    fn is_passed_over(&self, lane: LaneKey, at: Position) -> bool {
        self.from.get(&lane).is_some_and(|from| at >= *from)
    }

    /// Passes over a lane from a place on.
    fn begin(&mut self, lane: LaneKey, at: Position, cursor: Cursor, fired: Position) {
        if self.from.is_empty() {
            self.cursor = cursor;
            // No entry before that place is passed over: the first ledger alone says what has gone out there.
            let before = Position::behind(Millis(at.due.0 - 1)).max(fired);
            if self.ledger.outstanding() == 0 {
                self.ledger.reached(before);
            }
        }
        self.from.insert(lane, at);
    }

    /// Returns where the second reader is to read on; none if it has reached the first one, which stands at `first`.
    pub(in crate::flow) fn cursor(&self, first: Cursor) -> Option<Cursor> {
        (!self.from.is_empty() && self.cursor.is_before(first)).then_some(self.cursor)
    }

    /// Returns the lanes that are passed over.
    pub(in crate::flow) fn lanes(&self) -> impl Iterator<Item = LaneKey> {
        self.from.keys().copied()
    }

    /// Returns those entries of a page of the second reader that were passed over, as far as the first one had come, and not
    /// beyond `last`.
    pub(super) fn passed_over(&self, entries: Vec<Entry>, last: Option<Key>) -> Vec<Entry> {
        let of_it = |entry: &Entry| {
            last.is_none_or(|last| entry.key <= last)
                && self.is_passed_over(lane_of(entry), position(entry))
        };
        entries.into_iter().filter(of_it).collect()
    }

    /// Notes an entry that was passed over and is held now.
    pub(in crate::flow) fn note(&mut self, entry: &Entry) -> Number {
        self.ledger.note(position(entry))
    }

    /// Says that the second reader has come to `cursor`, and has noted everything before `reached`. If that is where the first
    /// one stands, nothing is passed over any more.
    pub(super) fn came_to(&mut self, cursor: Cursor, reached: Option<Position>, first: Cursor) {
        if let Some(reached) = reached {
            self.ledger.reached(reached);
        }
        self.cursor = cursor;
        if !self.choosing && !cursor.is_before(first) {
            self.from.clear();
        }
    }

    /// Marks an entry done.
    pub(in crate::flow) fn done(&mut self, number: Number) {
        self.ledger.done(number);
    }

    /// Returns the ledger of what was passed over; none if there is nothing of it.
    pub(in crate::flow) fn ledger(&self) -> Option<&Ledger> {
        let any = !self.from.is_empty() || self.ledger.outstanding() > 0;
        any.then_some(&self.ledger)
    }

    /// Returns the place of the oldest entry that is held and not done.
    pub(in crate::flow) fn oldest(&self) -> Option<Position> {
        self.ledger.oldest()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{fixtures, ids::TaskId, target::Target, time::Tick, wheel::WheelNumber};

    fn entry(name: &str, due: i64, number: u64) -> Entry {
        let mut spec = fixtures::spec();
        spec.target = Target::Callback {
            name: name.to_owned(),
        };
        let due = Millis(due);
        let id = TaskId::new(due, WheelNumber::from_low_bits(1), number);
        Entry::due(id, 0, 0, due, Arc::new(spec), 1)
    }

    fn at(tick: i64, behind: Option<&Entry>) -> Cursor {
        Cursor {
            tick: Tick(tick),
            behind: behind.map(|entry| entry.key),
        }
    }

    const BEGUN: Position = Position::behind(Millis(0));

    fn dues(entries: &[Entry]) -> Vec<i64> {
        entries.iter().map(|entry| entry.key.due.0).collect()
    }

    /// Two of a page's entries of a lane are its share.
    fn two(_: LaneKey, of_lane: Amount, _: Amount) -> bool {
        of_lane.entries >= 2
    }

    const NONE: Option<&HasShare<'static>> = None;

    /// Five of a flood and two others, of which two of the flood are passed over.
    fn begun() -> (Deferred, Vec<Entry>) {
        let mut deferred = Deferred::new(at(1, None), BEGUN);
        let page: Vec<Entry> = [
            ("flood", 1),
            ("flood", 2),
            ("flood", 3),
            ("quiet", 4),
            ("flood", 5),
        ]
        .iter()
        .map(|(name, due)| entry(name, *due, 1))
        .collect();
        let kept = deferred.choose(at(1, None), BEGUN, page.clone(), Some(&two));
        assert_eq!(dues(&kept), [1, 2, 4]);
        (deferred, page)
    }

    #[test]
    fn a_lane_with_its_share_is_passed_over_until_the_second_reader_has_caught_up() {
        let (mut deferred, page) = begun();
        deferred.chosen();
        let first = at(1, page.last());
        assert_eq!(deferred.cursor(first), Some(at(1, None)));
        // The lane is read in order, however much room there is.
        let later = vec![entry("flood", 6, 1), entry("quiet", 6, 2)];
        let kept = deferred.choose(first, BEGUN, later.clone(), NONE);
        assert_eq!(kept.len(), 1);
        deferred.chosen();
        let first = at(1, later.last());
        let mut all = page;
        all.extend(later);
        // No further than the first reader has come, and nothing that it has held.
        let got = deferred.passed_over(all.clone(), Some(all[5].key));
        assert_eq!(dues(&got), [3, 5, 6]);
        let numbers: Vec<Number> = got.iter().map(|entry| deferred.note(entry)).collect();
        deferred.came_to(first, None, first);
        assert_eq!(deferred.cursor(first), None);
        // Its rows are held again from here on, and what it noted holds `fired` back until it is done.
        let next = deferred.choose(first, BEGUN, vec![entry("flood", 7, 1)], NONE);
        assert_eq!(next.len(), 1);
        let fired = deferred.ledger().unwrap().fired();
        assert!(fired >= BEGUN && fired < position(&got[0]), "{fired:?}");
        numbers.into_iter().for_each(|number| deferred.done(number));
        assert!(deferred.ledger().is_none() && deferred.oldest().is_none());
    }

    /// The first reader has chosen and not moved: what it left is not behind its cursor yet.
    #[test]
    fn a_page_that_is_being_taken_is_not_forgotten() {
        let (mut deferred, page) = begun();
        let first = at(1, None);
        assert_eq!(deferred.cursor(first), None);
        deferred.came_to(first, None, first);
        let again = deferred.choose(first, BEGUN, page.clone(), Some(&two));
        assert_eq!(dues(&again), [1, 2, 4], "the same when it is tried again");
        deferred.chosen();
        let got = deferred.passed_over(page.clone(), page.last().map(|entry| entry.key));
        assert_eq!(dues(&got), [3, 5]);
    }

    #[test]
    fn one_place_is_passed_over_as_a_whole() {
        let mut deferred = Deferred::new(at(1, None), BEGUN);
        let mut again = entry("flood", 2, 1);
        again.key.generation = 1;
        let page = vec![
            entry("flood", 1, 1),
            entry("flood", 2, 1),
            again,
            entry("flood", 3, 1),
        ];
        let kept = deferred.choose(at(1, None), BEGUN, page.clone(), Some(&two));
        assert_eq!(dues(&kept), [1, 2, 2]);
        let from = at(1, page.get(1));
        let rest = page.into_iter().skip(2).collect();
        let mut deferred = Deferred::new(from, BEGUN);
        let all = |_: LaneKey, _: Amount, _: Amount| true;
        let kept = deferred.choose(from, BEGUN, rest, Some(&all));
        assert_eq!(dues(&kept), [2], "the page before ended within it");
    }

    #[test]
    fn fired_never_passes_what_was_passed_over_and_never_goes_back() {
        let (mut deferred, page) = begun();
        deferred.chosen();
        let fired = deferred.ledger().unwrap().fired();
        assert!(fired >= BEGUN && fired < position(&page[2]), "{fired:?}");
        let tick_end = Millis(1000);
        let numbers: Vec<Number> = [2, 4].map(|index| deferred.note(&page[index])).to_vec();
        deferred.came_to(at(2, None), Some(Position::behind(tick_end)), at(3, None));
        deferred.done(numbers[1]);
        assert!(deferred.ledger().unwrap().fired() < position(&page[2]));
        deferred.done(numbers[0]);
        assert_eq!(
            deferred.ledger().unwrap().fired(),
            Position::behind(tick_end)
        );
        assert_eq!(deferred.cursor(at(3, None)), Some(at(2, None)));
    }
}
