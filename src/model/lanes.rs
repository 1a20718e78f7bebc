//! The lanes keep items for the firing stages in memory until they are due, and release them in turns, so
//! that a flood in one lane delays no other.
//!
//! Each lane is a [`DueQueue`], in order of due times. A lane that has something due stands in line. When it
//! is first, it takes a turn of some items and bytes, and goes to the end of the line. So an item of a lane
//! that had nothing due is behind at most one turn of each other lane in line, however much these hold. A
//! lane exists only while it holds something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    due_queue::{DueQueue, Size},
    task::{Priority, Spec},
    time::Millis,
};

/// Items of a turn for each share of a priority.
const ITEMS_OF_SHARE: usize = 4;
/// Bytes of a turn for each share of a priority; a turn is one item at least.
const BYTES_OF_SHARE: u64 = 16 * 1024;

/// Which lane a task is in: one for each callback, or topic, and priority. Two names whose hashes are the same share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneKey {
    name: u64,
    priority: Priority,
}

impl LaneKey {
    /// A lane that all may share where turns are not wanted.
    pub const ONE: Self = Self {
        name: 0,
        priority: Priority::Normal,
    };

    /// Returns the lane of a task.
    #[must_use]
    pub fn of(spec: &Spec) -> Self {
        Self {
            name: spec.target.lane(),
            priority: spec.priority,
        }
    }

    /// Its shares of what is taken: among priorities those of [`Priority::share`].
    const fn shares(self) -> usize {
        self.priority.share()
    }
}

#[derive(Debug)]
struct Lane<T> {
    queue: DueQueue<T>,
    /// Items that it may still take in its turn.
    left: usize,
    in_line: bool,
}

/// Items by lane and due time; within one millisecond of a lane in the order they came.
#[derive(Debug)]
pub struct Lanes<T> {
    lanes: BTreeMap<LaneKey, Lane<T>>,
    /// Lanes that are not in line, by the due time of their first items.
    waiting: BTreeSet<(Millis, LaneKey)>,
    /// Lanes that had something due when they came to stand here.
    line: VecDeque<LaneKey>,
    len: usize,
    bytes: u64,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            line: VecDeque::new(),
            len: 0,
            bytes: 0,
        }
    }
}

impl<T> Lanes<T> {
    /// Adds an item of about `bytes` bytes to a lane.
    pub fn push(&mut self, key: LaneKey, due: Millis, bytes: u64, item: T) {
        self.push_sized(key, due, Size::of(bytes), item);
    }

    /// Adds an item to a lane that takes other bytes when it leaves than while it waits.
    pub fn push_sized(&mut self, key: LaneKey, due: Millis, size: Size, item: T) {
        let lane = self.lanes.entry(key).or_insert_with(|| Lane {
            queue: DueQueue::default(),
            left: key.shares() * ITEMS_OF_SHARE,
            in_line: false,
        });
        if !lane.in_line {
            let next = lane.queue.next_due();
            if next.is_none_or(|next| due < next) {
                if let Some(next) = next {
                    self.waiting.remove(&(next, key));
                }
                self.waiting.insert((due, key));
            }
        }
        lane.queue.push(due, size, item);
        self.len += 1;
        self.bytes += size.held;
    }

    /// Takes items that are due at `now`, at most `max`, lane by lane in turns, those of a lane in order.
    pub fn pop_due(&mut self, now: Millis, max: usize) -> Vec<T> {
        self.pop_due_within(now, max, u64::MAX)
    }

    /// Takes items that are due at `now`, at most `max` and of at most `bytes_max` bytes to take together, lane by lane in turns,
    /// those of a lane in order. The first item is taken however many bytes it has.
    pub fn pop_due_within(&mut self, now: Millis, max: usize, bytes_max: u64) -> Vec<T> {
        self.line_up(now);
        let mut taken = Vec::new();
        let mut room = bytes_max;
        while taken.len() < max
            && let Some(key) = self.line.front().copied()
            && let Some(lane) = self.lanes.get_mut(&key)
        {
            let first = lane.queue.next_taken().unwrap_or(0);
            if first > room && !taken.is_empty() {
                break;
            }
            let count = lane.left.min(max - taken.len());
            let bytes_of_turn = key.shares() as u64 * BYTES_OF_SHARE;
            let before = lane.queue.size();
            let items = lane
                .queue
                .pop_due_within(now, count, bytes_of_turn.min(room));
            let used = before.without(lane.queue.size());
            room = room.saturating_sub(used.taken);
            self.bytes -= used.held;
            self.len -= items.len();
            lane.left -= items.len();
            let over = items.len() < count || lane.left == 0;
            taken.extend(items);
            self.go_on(key, now, over);
        }
        taken
    }

    /// Puts lanes that have something due in line, those that wait longest first.
    fn line_up(&mut self, now: Millis) {
        while let Some((due, key)) = self.waiting.first().copied()
            && due <= now
        {
            self.waiting.remove(&(due, key));
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.in_line = true;
                self.line.push_back(key);
            }
        }
    }

    /// Decides where the first lane in line belongs after it was served; `over` says that its turn has ended.
    fn go_on(&mut self, key: LaneKey, now: Millis, over: bool) {
        let Some(lane) = self.lanes.get_mut(&key) else {
            return;
        };
        let next = lane.queue.next_due();
        if let Some(due) = next
            && due <= now
            && !over
        {
            // The caller had enough; the turn is not over.
            return;
        }
        self.line.pop_front();
        lane.left = key.shares() * ITEMS_OF_SHARE;
        match next {
            None => {
                self.lanes.remove(&key);
            }
            Some(due) if due <= now => self.line.push_back(key),
            Some(due) => {
                lane.in_line = false;
                self.waiting.insert((due, key));
            }
        }
    }

    /// Returns the earliest due time of a lane that is not in line, or one of a lane that is and so had something due.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        let first = self.line.front().and_then(|key| self.lanes.get(key));
        let in_line = first.and_then(|lane| lane.queue.next_due());
        let waiting = self.waiting.first().map(|(due, _)| *due);
        in_line.into_iter().chain(waiting).min()
    }

    /// Returns the items, lane by lane, those of a lane in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lanes.values().flat_map(|lane| lane.queue.iter())
    }

    /// Returns how many items of a lane wait, and about how many bytes they take in memory.
    #[must_use]
    pub fn held(&self, key: LaneKey) -> (usize, u64) {
        let lane = self.lanes.get(&key);
        lane.map_or((0, 0), |lane| (lane.queue.len(), lane.queue.size().held))
    }

    /// Returns how many items wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Tells whether nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns about how many bytes of memory all take.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Tells whether a lane holds its share of a memory, which is three times the free part. So one lane alone
/// may have three quarters, two may have three sevenths each, and there is always room for another lane.
#[must_use]
pub const fn has_its_share(held: u64, all: u64, max: u64) -> bool {
    held > 0 && held >= max.saturating_sub(all).saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{fixtures, target::Target};

    fn key(name: &str, priority: Priority) -> LaneKey {
        let mut spec = fixtures::spec();
        spec.target = Target::Callback {
            name: name.to_owned(),
        };
        spec.priority = priority;
        LaneKey::of(&spec)
    }

    fn normal(name: &str) -> LaneKey {
        key(name, Priority::Normal)
    }

    const TURN: usize = 4 * ITEMS_OF_SHARE;

    #[test]
    fn behind_a_flood_is_behind_one_turn_of_it() {
        let mut lanes = Lanes::default();
        for number in 0..10_000 {
            lanes.push(normal("flood"), Millis(number / 1000), 600, "flood");
        }
        assert_eq!(lanes.pop_due(Millis(10), 3 * TURN + 1).len(), 3 * TURN + 1);
        lanes.push(normal("quiet"), Millis(10), 600, "quiet");
        let taken = lanes.pop_due(Millis(10), 10 * TURN);
        let place = taken.iter().position(|item| *item == "quiet");
        // The turn that was begun is finished first.
        assert_eq!(place, Some(TURN - 1));
        // And again, as often as it comes.
        lanes.push(normal("quiet"), Millis(10), 600, "quiet");
        let taken = lanes.pop_due(Millis(10), 10 * TURN);
        assert!(taken.iter().position(|item| *item == "quiet") <= Some(TURN));
    }

    #[test]
    fn behind_many_floods_is_behind_one_turn_of_each() {
        let mut lanes = Lanes::default();
        for flood in 0..20 {
            for _ in 0..500 {
                lanes.push(normal(&format!("flood {flood}")), Millis(0), 600, flood);
            }
        }
        lanes.pop_due(Millis(0), 1000);
        lanes.push(normal("quiet"), Millis(1), 600, 99);
        let taken = lanes.pop_due(Millis(1), 1000);
        let place = taken.iter().position(|item| *item == 99).unwrap();
        assert!(place <= 20 * TURN, "{place}");
    }

    #[test]
    fn priorities_share_sixteen_to_four_to_one_and_bytes_end_a_turn() {
        let mut lanes = Lanes::default();
        for _ in 0..1000 {
            for priority in Priority::ALL {
                lanes.push(key("work", priority), Millis(0), 600, priority);
            }
        }
        let taken = lanes.pop_due(Millis(0), 21 * ITEMS_OF_SHARE * 3);
        let of = |priority| taken.iter().filter(|of| **of == priority).count();
        let got = Priority::ALL.map(of);
        assert_eq!(got, [16, 4, 1].map(|share| share * ITEMS_OF_SHARE * 3));

        let mut lanes = Lanes::default();
        for _ in 0..100 {
            lanes.push(normal("large"), Millis(0), BYTES_OF_SHARE * 3, "large");
        }
        lanes.push(normal("small"), Millis(0), 600, "small");
        assert!(lanes.pop_due(Millis(0), 3).contains(&"small"));
        assert_eq!(lanes.bytes(), 98 * BYTES_OF_SHARE * 3);
    }

    #[test]
    fn a_lane_exists_only_while_it_holds_something() {
        let mut lanes = Lanes::default();
        for number in 0..1000 {
            lanes.push(normal(&number.to_string()), Millis(number), 600, number);
        }
        assert_eq!(lanes.pop_due(Millis(2000), usize::MAX).len(), 1000);
        assert!(lanes.lanes.is_empty() && lanes.line.is_empty() && lanes.waiting.is_empty());
        assert_eq!((lanes.len(), lanes.bytes(), lanes.next_due()), (0, 0, None));
    }

    #[test]
    fn a_clock_that_goes_back_takes_nothing_early() {
        let mut lanes = Lanes::default();
        lanes.push(normal("a"), Millis(10), 1, 10);
        lanes.push(normal("a"), Millis(10), 1, 10);
        assert_eq!(lanes.pop_due(Millis(10), 1), [10]);
        assert!(lanes.pop_due(Millis(5), 9).is_empty());
        assert_eq!(lanes.next_due(), Some(Millis(10)));
        lanes.push(normal("a"), Millis(3), 1, 3);
        assert_eq!(lanes.pop_due(Millis(5), 9), [3]);
        assert_eq!(lanes.pop_due(Millis(10), 9), [10]);
    }

    #[test]
    fn one_lane_has_three_quarters_and_there_is_room_for_another() {
        assert!(!has_its_share(749, 749, 1000) && has_its_share(750, 750, 1000));
        assert!(has_its_share(429, 858, 1000) && !has_its_share(428, 856, 1000));
        assert!(!has_its_share(0, 2000, 1000) && has_its_share(1, 2000, 1000));
    }

    proptest! {
        #[test]
        fn all_come_out_in_the_order_of_their_lane_and_never_early(
            items in prop::collection::vec((0..4u8, 0..50i64, 1..40_000u64), 0..80),
            steps in prop::collection::vec((0..60i64, 1..9usize, 1..200_000u64), 0..40),
        ) {
            let mut lanes = Lanes::default();
            let (mut out, mut pushed) = (Vec::new(), Vec::new());
            let mut coming = items.iter();
            for (now, max, bytes_max) in steps {
                for (lane, due, bytes) in coming.by_ref().take(4) {
                    lanes.push(normal(&lane.to_string()), Millis(*due), *bytes, (*lane, *due, *bytes));
                    pushed.push((*lane, *due, *bytes));
                }
                let taken = lanes.pop_due_within(Millis(now), max, bytes_max);
                let bytes: u64 = taken.iter().map(|(_, _, bytes)| *bytes).sum();
                prop_assert!(taken.len() <= max && (bytes <= bytes_max || taken.len() == 1));
                prop_assert!(taken.iter().all(|(_, due, _)| *due <= now));
                for lane in 0..4 {
                    prop_assert!(taken.iter().filter(|item| item.0 == lane).map(|item| item.1).is_sorted());
                }
                let left = lanes.iter().any(|(_, due, _)| *due <= now);
                prop_assert!(!taken.is_empty() || !left);
                out.extend(taken);
                prop_assert_eq!(lanes.len(), pushed.len() - out.len());
                prop_assert_eq!(lanes.next_due().is_none(), lanes.is_empty());
            }
            out.extend(lanes.pop_due(Millis(100), usize::MAX));
            prop_assert_eq!((lanes.len(), lanes.bytes()), (0, 0));
            out.sort_unstable();
            pushed.sort_unstable();
            prop_assert_eq!(out, pushed);
        }
    }
}
