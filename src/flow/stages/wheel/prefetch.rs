//! The prefetch memory holds entries for a term ahead of their time: due entries until their millisecond,
//! looks a little longer.
//!
//! Callbacks and topics leave it in turns ([`Lanes`]), and none may fill it. The reader passes over one that
//! has its share of the memory, and reads it later ([`super::deferred`]).
//!
//! Looks lie at the ends of ticks, those of all wheels at once. So each wheel waits with its looks for its
//! phase in the tick ([`Shape::phase_of`](crate::model::wheel::Shape::phase_of)). A wheel that is to be given
//! away does not wait: it examines the looks whose time has come. Otherwise the next owner would begin in
//! front of these, and hand over once more the entries that went out behind them.

use std::time::Duration;

use super::held::{Held, weight};
use crate::{
    flaw::{self, Flaw},
    flow::base::context::Lane,
    limits,
    model::{
        due_queue::Size,
        entry::{Entry, Kind},
        lanes::{LaneKey, Lanes, has_its_share},
        time::Millis,
    },
};

/// See the module.
#[derive(Debug)]
pub(in crate::flow) struct Prefetch {
    entries: Lanes<Held>,
    /// Due entries whose contents are kept apart, by the bytes of these.
    large: Lanes<Held>,
    looks: Lanes<Held>,
    phase: Duration,
}

/// How many entries, and about how many bytes in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::flow) struct Amount {
    pub(in crate::flow) entries: usize,
    pub(in crate::flow) bytes: u64,
}

impl Amount {
    /// Adds an entry.
    pub(in crate::flow) fn add(&mut self, entry: &Entry) {
        self.entries += 1;
        self.bytes += weight(entry);
    }

    /// Returns both together.
    pub(in crate::flow) const fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Tells whether this amount reaches the maximum, by one measure or the other.
    pub(in crate::flow) const fn is_full(self, max: Self) -> bool {
        self.entries >= max.entries || self.bytes >= max.bytes
    }

    /// Tells whether a lane that holds this amount of `all` has its share of `max`.
    pub(super) const fn is_its_share(self, all: Self, max: Self) -> bool {
        has_its_share(self.entries as u64, all.entries as u64, max.entries as u64)
            || has_its_share(self.bytes, all.bytes, max.bytes)
    }
}

/// Returns the lane of an entry.
pub(super) fn lane_of(entry: &Entry) -> LaneKey {
    if flaw::is(Flaw::OneLane) {
        LaneKey::ONE
    } else {
        LaneKey::of(&entry.spec)
    }
}

impl Prefetch {
    /// Holds nothing yet; looks will wait for `phase` beyond their time.
    pub(in crate::flow) fn new(phase: Duration) -> Self {
        Self {
            entries: Lanes::default(),
            large: Lanes::default(),
            looks: Lanes::default(),
            phase,
        }
    }

    /// Takes in what was read.
    pub(in crate::flow) fn push(&mut self, held: Held) {
        let due = held.entry.key.due;
        if matches!(held.entry.kind, Kind::Look { .. }) {
            let key = lane_of(&held.entry);
            self.looks.push(key, due, weight(&held.entry), held);
        } else {
            self.push_due(held, due);
        }
    }

    fn push_due(&mut self, held: Held, at: Millis) {
        let (key, weight) = (lane_of(&held.entry), weight(&held.entry));
        match held.entry.spec.bytes_apart() {
            Some(taken) => {
                let size = Size {
                    held: weight,
                    taken,
                };
                self.large.push_sized(key, at, size, held);
            }
            None => self.entries.push(key, at, weight, held),
        }
    }

    /// Takes back what is to be tried again at `at`, which is not before its time.
    pub(in crate::flow) fn put_back(&mut self, held: Held, at: Millis) {
        if matches!(held.entry.kind, Kind::Look { .. }) {
            let key = lane_of(&held.entry);
            // It has waited for its phase.
            let at = at.before(self.phase);
            self.looks.push(key, at, weight(&held.entry), held);
        } else {
            self.push_due(held, at);
        }
    }

    /// Takes what is to be done at `now` of due entries whose contents are kept apart: at most `max`, and as many bytes of
    /// contents as one step reads.
    pub(super) fn pop_large(&mut self, now: Millis, max: usize) -> Vec<Held> {
        self.large
            .pop_due_within(now, max, limits::CONTENTS_STEP_BYTES_MAX)
    }

    /// Takes what is to be done at `now` of other due entries, at most `max`.
    pub(in crate::flow) fn pop_due(&mut self, now: Millis, max: usize) -> Vec<Held> {
        self.entries.pop_due(now, max)
    }

    /// Takes looks that are to be done at `now`, at most `max`.
    pub(super) fn pop_due_looks(&mut self, now: Millis, max: usize) -> Vec<Held> {
        self.looks.pop_due(now.before(self.phase), max)
    }

    /// Takes looks whose time is `until` or before, at most `max`; the phase does not matter.
    pub(super) fn pop_looks(&mut self, until: Millis, max: usize) -> Vec<Held> {
        self.looks.pop_due(until, max)
    }

    /// Tells whether there are looks whose time is `until` or before.
    pub(super) fn has_looks(&self, until: Millis) -> bool {
        self.looks.next_due().is_some_and(|due| due <= until)
    }

    /// Returns when the next of a lane is to be done.
    pub(in crate::flow) fn next_due(&self, lane: Lane) -> Option<Millis> {
        match lane {
            Lane::Small => self.entries.next_due(),
            Lane::Looks => self.looks.next_due().map(|due| due.after(self.phase)),
            Lane::Large => self.large.next_due(),
        }
    }

    /// Returns how much a lane holds.
    pub(super) fn of_lane(&self, key: LaneKey) -> Amount {
        let lanes = [&self.entries, &self.large, &self.looks];
        lanes
            .map(|lanes| lanes.held(key))
            .into_iter()
            .fold(Amount::default(), |all, (entries, bytes)| {
                all.and(Amount { entries, bytes })
            })
    }

    /// Returns how many there are.
    pub(in crate::flow) const fn len(&self) -> usize {
        self.entries.len() + self.large.len() + self.looks.len()
    }

    /// Returns about how many bytes they take in memory; contents that are kept apart take none yet.
    pub(in crate::flow) const fn bytes(&self) -> u64 {
        self.entries.bytes() + self.large.bytes() + self.looks.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        flow::stages::wheel::held::Noted,
        model::{
            clock::Position,
            fixtures,
            ids::TaskId,
            ledger::Ledger,
            task::{Body, Content, Spec},
            wheel::WheelNumber,
        },
    };

    fn held(due: i64, is_look: bool) -> Held {
        let due = Millis(due);
        let id = TaskId::new(due, WheelNumber::from_low_bits(1), 7);
        let spec = Arc::new(fixtures::spec());
        let entry = if is_look {
            Entry::look(id, 0, due, None, due, spec, 1)
        } else {
            Entry::due(id, 0, 0, due, spec, 1)
        };
        let mut ledger = Ledger::new(Position::behind(Millis(-1)));
        Held {
            number: Noted::InOrder(ledger.note(Position { due, id })),
            entry,
            failing_since: None,
            timely: true,
            copy: None,
        }
    }

    fn large(due: i64, bytes: u64) -> Held {
        let mut held = held(due, false);
        let mut spec = fixtures::spec();
        spec.body = Body::Apart { bytes };
        held.entry.spec = Arc::new(spec);
        held
    }

    #[test]
    fn contents_kept_apart_have_a_lane_of_their_own_and_are_cut_by_their_bytes() {
        let mut ahead = Prefetch::new(Duration::ZERO);
        let half = limits::CONTENTS_STEP_BYTES_MAX / 2;
        for due in [1, 2, 3] {
            ahead.push(large(due, half));
        }
        ahead.push(held(4, false));
        assert_eq!(dues(&ahead.pop_due(Millis(9), 9)), [4]);
        assert_eq!(dues(&ahead.pop_large(Millis(9), 9)), [1, 2]);
        assert_eq!(ahead.next_due(Lane::Large), Some(Millis(3)));
        assert_eq!(ahead.next_due(Lane::Small), None);
        let left = weight(&large(3, half).entry);
        assert_eq!((ahead.len(), ahead.bytes()), (1, left));
        ahead.put_back(large(1, half), Millis(5));
        assert_eq!(dues(&ahead.pop_large(Millis(5), 9)), [3, 1]);
    }

    /// Returns how much tasks are in memory when it is full.
    fn fill(held: &Held) -> Amount {
        let max = Amount {
            entries: limits::AHEAD_ENTRIES_MAX,
            bytes: limits::AHEAD_BYTES_MAX,
        };
        let mut ahead = Prefetch::new(Duration::ZERO);
        loop {
            let all = ahead.of_lane(lane_of(&held.entry));
            assert_eq!((all.entries, all.bytes), (ahead.len(), ahead.bytes()));
            if all.is_full(max) {
                return all;
            }
            ahead.push(held.clone());
        }
    }

    #[test]
    fn entries_fill_the_memory_by_all_that_their_tasks_own() {
        let most = limits::AHEAD_BYTES_MAX as usize / fixtures::LADEN_BYTES + 1;
        for body in [fixtures::spec().body, Body::Apart { bytes: 2000 }] {
            let spec = Arc::new(Spec {
                body,
                ..fixtures::laden()
            });
            for is_look in [false, true] {
                let mut held = held(1000, is_look);
                held.entry.spec = Arc::clone(&spec);
                let all = fill(&held);
                assert!(all.entries <= most, "{} entries fit", all.entries);
            }
        }
    }

    #[test]
    fn plain_tasks_are_bounded_by_their_number_first() {
        let mut held = held(1000, false);
        held.entry.spec = Arc::new(Spec {
            body: Body::Inline(Content {
                payload: vec![7; 64].into(),
                ..Content::default()
            }),
            ..fixtures::spec()
        });
        assert_eq!(fill(&held).entries, limits::AHEAD_ENTRIES_MAX);
    }

    fn dues(taken: &[Held]) -> Vec<i64> {
        taken.iter().map(|held| held.entry.key.due.0).collect()
    }

    #[test]
    fn looks_wait_for_their_phase_and_entries_for_nothing() {
        let mut ahead = Prefetch::new(Duration::from_millis(100));
        ahead.push(held(1000, true));
        ahead.push(held(1010, false));
        assert_eq!(
            (ahead.len(), ahead.next_due(Lane::Small)),
            (2, Some(Millis(1010)))
        );
        assert_eq!(ahead.next_due(Lane::Looks), Some(Millis(1100)));
        assert!(ahead.pop_due(Millis(1009), 9).is_empty());
        assert_eq!(dues(&ahead.pop_due(Millis(1010), 9)), [1010]);
        assert!(ahead.pop_due_looks(Millis(1099), 9).is_empty());
        assert_eq!(dues(&ahead.pop_due_looks(Millis(1100), 9)), [1000]);
        let next = [Lane::Small, Lane::Looks].map(|lane| ahead.next_due(lane));
        assert_eq!((ahead.len(), ahead.bytes(), next), (0, 0, [None, None]));
    }

    #[test]
    fn who_gives_its_wheel_away_takes_looks_at_once_and_none_that_is_to_come() {
        let mut ahead = Prefetch::new(Duration::from_millis(900));
        ahead.push(held(1000, true));
        ahead.push(held(1000, false));
        ahead.push(held(2000, true));
        assert!(ahead.has_looks(Millis(1000)) && !ahead.has_looks(Millis(999)));
        assert_eq!(dues(&ahead.pop_looks(Millis(1999), 9)), [1000]);
        assert!(!ahead.has_looks(Millis(1999)));
        assert_eq!(ahead.len(), 2);
    }

    #[test]
    fn neither_waits_for_all_of_the_other() {
        let mut ahead = Prefetch::new(Duration::ZERO);
        for due in 0..10 {
            ahead.push(held(due, false));
            ahead.push(held(100 + due, true));
        }
        assert_eq!(dues(&ahead.pop_due(Millis(1000), 3)), [0, 1, 2]);
        assert_eq!(dues(&ahead.pop_due_looks(Millis(1000), 3)), [100, 101, 102]);
        assert_eq!(ahead.pop_due(Millis(1000), 100).len(), 7);
        assert_eq!(ahead.pop_due_looks(Millis(1000), 100).len(), 7);
    }

    #[test]
    fn a_look_that_is_tried_again_does_not_wait_for_its_phase_again() {
        let mut ahead = Prefetch::new(Duration::from_millis(900));
        ahead.put_back(held(5, true), Millis(2000));
        assert_eq!(ahead.next_due(Lane::Looks), Some(Millis(2000)));
        assert_eq!(ahead.pop_due_looks(Millis(2000), 9).len(), 1);
    }

    #[test]
    fn a_lane_has_its_share_by_entries_or_by_bytes() {
        let mut ahead = Prefetch::new(Duration::ZERO);
        for due in 0..6 {
            ahead.push(held(due, due % 2 == 0));
            ahead.push(large(due, 1 << 20));
        }
        let key = lane_of(&held(0, false).entry);
        let mine = ahead.of_lane(key);
        assert_eq!((mine.entries, mine.bytes), (12, ahead.bytes()));
        let max = |entries, bytes| Amount { entries, bytes };
        assert!(mine.is_its_share(mine, max(16, u64::MAX)));
        assert!(!mine.is_its_share(mine, max(17, u64::MAX)));
        assert!(mine.is_its_share(mine, max(100, mine.bytes + 1)));
        assert_eq!(ahead.of_lane(LaneKey::ONE), Amount::default());
    }
}
