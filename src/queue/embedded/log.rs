//! The log of a partition holds its records for all groups: a window of them in memory, the others on disk.
//!
//! A record leaves the window when every group has handled it, in any order. The window is filled from the
//! disk again when half of it is free. A group sees only the records in the window, so a group that stands
//! still holds up the others of its topic. A topic is meant to have one group.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use super::{budget::Budget, kept::Kept, overflow::Overflow};
use crate::model::time::Millis;

/// How much of a partition is held in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

#[derive(Debug)]
struct Slot {
    at: Millis,
    /// None when every group has handled it.
    kept: Option<Arc<Kept>>,
}

/// A partition.
#[derive(Debug)]
pub(super) struct Log {
    room: Room,
    budget: Arc<Budget>,
    /// Offset of the first slot.
    begin: i64,
    window: VecDeque<Slot>,
    /// Records and bytes that the window holds.
    records: usize,
    bytes: usize,
    overflow: Overflow,
    last_at: Millis,
}

impl Log {
    pub(super) fn new(room: Room, budget: Arc<Budget>, stem: PathBuf) -> Self {
        Self {
            room,
            begin: 0,
            window: VecDeque::new(),
            records: 0,
            bytes: 0,
            overflow: Overflow::new(stem, Arc::clone(&budget)),
            budget,
            last_at: Millis(i64::MIN),
        }
    }

    /// Returns the offset of the oldest record that may still be wanted.
    pub(super) const fn begin(&self) -> i64 {
        self.begin
    }

    /// Tells whether the partition holds no records, neither in memory nor on disk.
    pub(super) fn is_empty(&self) -> bool {
        self.window.is_empty() && self.overflow.len() == 0
    }

    /// Returns the offset behind what is in memory.
    pub(super) fn window_end(&self) -> i64 {
        self.begin + i64::try_from(self.window.len()).unwrap_or(i64::MAX)
    }

    /// Returns a record that is in memory and not handled by everyone.
    pub(super) fn get(&self, offset: i64) -> Option<&Arc<Kept>> {
        let place = usize::try_from(offset - self.begin).ok()?;
        self.window.get(place)?.kept.as_ref()
    }

    /// Appends records of one instant, in order; records that do not fit into the window go to the disk.
    /// Their time is raised to that of the record before them if it is earlier. Returns how many were
    /// appended, and the answer of the disk to the next one.
    pub(super) fn append(&mut self, records: Vec<Kept>) -> (usize, std::io::Result<()>) {
        let (count, last_at) = (records.len(), self.last_at);
        let mut records = records.into_iter().map(|mut kept| {
            kept.at = kept.at.max(last_at);
            kept
        });
        while self.overflow.len() == 0
            && self.has_room()
            && let Some(kept) = records.next()
        {
            self.last_at = kept.at;
            self.push(Arc::new(kept));
        }
        let rest: Vec<Kept> = records.collect();
        if rest.is_empty() {
            return (count, Ok(()));
        }
        let (on_disk, answer) = self.overflow.append(&rest);
        metrics::counter!("tickwheel_queue_overflowed_total").increment(on_disk as u64);
        if let Some(kept) = rest.get(..on_disk).and_then(<[Kept]>::last) {
            self.last_at = kept.at;
        }
        (count - rest.len() + on_disk, answer)
    }

    /// Releases a record that every group has handled.
    pub(super) fn release(&mut self, offset: i64) {
        let place = usize::try_from(offset - self.begin).ok();
        let slot = place.and_then(|place| self.window.get_mut(place));
        let Some(kept) = slot.and_then(|slot| slot.kept.take()) else {
            return;
        };
        self.records -= 1;
        self.bytes -= kept.bytes;
        self.budget.release(kept.bytes);
        while self.window.front().is_some_and(|slot| slot.kept.is_none()) {
            self.window.pop_front();
            self.begin += 1;
        }
    }

    /// Fills the window from the disk when half of what it may hold is free; tells whether it holds new
    /// records. If it were filled earlier, each record would become a file of its own, made and deleted.
    pub(super) fn refill(&mut self) -> bool {
        let half_free = self.records <= self.room.records / 2 && self.bytes <= self.room.bytes / 2;
        if self.overflow.len() == 0 || !half_free || !self.budget.has_room_to_fill(self.bytes) {
            return false;
        }
        while self.overflow.len() > 0 && self.has_room() {
            match self.overflow.take() {
                Ok(taken) => taken.into_iter().for_each(|kept| self.push(kept)),
                Err(lost) => tracing::error!(
                    records = lost.records, error = %lost.error,
                    "cannot read an overflow file: its tasks are published again by their looks"
                ),
            }
        }
        true
    }

    /// Returns the offset of the first record published at `since` or later, if there is one.
    pub(super) fn first_since(&self, since: Millis) -> Option<i64> {
        if self.last_at < since {
            return None;
        }
        let place = self.window.partition_point(|slot| slot.at < since);
        // A record behind the window is somewhere on disk. It is enough to know that no record there was
        // delivered.
        let begin = self.begin + i64::try_from(place).ok()?;
        (begin < self.window_end() || self.overflow.len() > 0).then_some(begin)
    }

    fn has_room(&self) -> bool {
        let own = self.records < self.room.records && self.bytes < self.room.bytes;
        own && self.budget.has_room(self.bytes)
    }

    fn push(&mut self, kept: Arc<Kept>) {
        self.records += 1;
        self.bytes += kept.bytes;
        self.budget.hold(kept.bytes);
        self.window.push_back(Slot {
            at: kept.at,
            kept: Some(kept),
        });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;

    use super::*;
    use crate::{limits, queue::Headers};

    const ROOM: Room = Room {
        records: 1000,
        bytes: 16 * limits::EMBEDDED_TOPIC_BYTES_MIN,
    };

    fn filled(log: &mut Log, records: usize) {
        for n in 0..records {
            let value = Bytes::from(vec![b'x'; limits::EMBEDDED_TOPIC_BYTES_MIN / 4]);
            let kept = Kept::new(Millis(n as i64), None, value, Headers::new());
            log.append(vec![kept]).1.unwrap();
        }
    }

    #[test]
    fn a_partition_has_its_least_when_others_hold_everything_and_more_when_they_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let budget = Arc::new(Budget::new(2 * limits::EMBEDDED_TOPIC_BYTES_MIN, 0));
        let log = |name: &str| Log::new(ROOM, Arc::clone(&budget), dir.path().join(name));
        let (mut first, mut second) = (log("0-0"), log("1-0"));
        filled(&mut first, 20);
        filled(&mut second, 20);
        assert_eq!((first.records, second.records), (8, 4));
        // Handled records make room for those on disk, up to the last one.
        for offset in 0..20 {
            assert!(second.get(offset).is_some(), "record {offset}");
            second.release(offset);
            second.refill();
        }
        drop(first);
        filled(&mut second, 20);
        assert_eq!(second.records, 8);
    }

    #[test]
    fn a_partition_that_has_its_least_only_makes_no_file_for_each_record() {
        let dir = tempfile::tempdir().unwrap();
        let budget = Arc::new(Budget::new(limits::EMBEDDED_TOPIC_BYTES_MIN, 16));
        let log = |name: &str| Log::new(ROOM, Arc::clone(&budget), dir.path().join(name));
        let (mut full, mut busy) = (log("0-0"), log("1-0"));
        filled(&mut full, 20);
        let small = |n: i64| {
            let value = Bytes::from(vec![b'x'; limits::EMBEDDED_TOPIC_BYTES_MIN / 100]);
            Kept::new(Millis(n), None, value, Headers::new())
        };
        let mut files = BTreeSet::new();
        for n in 0..1000 {
            busy.append(vec![small(n)]).1.unwrap();
            let seen = std::fs::read_dir(dir.path()).unwrap();
            files.extend(seen.map(|file| file.unwrap().path()));
            // The consumer is as fast, and lags by about as many records as the minimum of a partition holds.
            if let Ok(offset) = u32::try_from(n - 92) {
                assert!(busy.get(offset.into()).is_some(), "record {offset}");
                busy.release(offset.into());
                busy.refill();
            }
        }
        assert!(files.len() < 50, "{} files", files.len());
    }
}
