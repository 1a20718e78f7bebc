//! One partition: a window of records in memory, and what lies behind it on disk.
//!
//! Records leave the window when every group has handled them, in any order; the window is filled from the disk again when
//! half of it is free. So a group sees what lies within the window only: one that stands still holds up the others of its
//! topic, and a topic is meant to have one.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use bytes::Bytes;

use super::{budget::Budget, overflow::Overflow};
use crate::{model::time::Millis, queue::Headers};

/// A record as it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// When it was published.
    pub(super) at: Millis,
    pub(super) key: Option<Bytes>,
    pub(super) value: Bytes,
    pub(super) headers: Headers,
    /// About how much memory it takes.
    pub(super) bytes: usize,
}

impl Kept {
    pub(super) fn new(at: Millis, key: Option<Bytes>, value: Bytes, headers: Headers) -> Self {
        /// What a record takes beside its contents: allocations, places in collections.
        const OVERHEAD: usize = 128;
        let lengths = headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 64);
        let bytes =
            OVERHEAD + key.as_ref().map_or(0, Bytes::len) + value.len() + lengths.sum::<usize>();
        Self {
            at,
            key,
            value,
            headers,
            bytes,
        }
    }
}

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

    /// Returns the offset behind what is in memory.
    pub(super) fn window_end(&self) -> i64 {
        self.begin + i64::try_from(self.window.len()).unwrap_or(i64::MAX)
    }

    /// Returns a record that is in memory and not handled by everyone.
    pub(super) fn get(&self, offset: i64) -> Option<&Arc<Kept>> {
        let place = usize::try_from(offset - self.begin).ok()?;
        self.window.get(place)?.kept.as_ref()
    }

    /// Appends a record, whose time is moved up to that of its predecessor; behind what is on disk, on disk.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn append(&mut self, mut kept: Kept) -> std::io::Result<()> {
        kept.at = kept.at.max(self.last_at);
        let at = kept.at;
        if self.overflow.len() == 0 && self.has_room() {
            self.push(Arc::new(kept));
        } else {
            self.overflow.append(&kept)?;
            metrics::counter!("tickwheel_queue_overflowed_total").increment(1);
        }
        self.last_at = at;
        Ok(())
    }

    /// Lets go of a record that every group has handled.
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

    /// Fills the window from the disk when half of it is free; tells whether there is something new in it.
    pub(super) fn refill(&mut self) -> bool {
        let half_free = self.records <= self.room.records / 2 && self.bytes <= self.room.bytes / 2;
        if self.overflow.len() == 0 || !half_free {
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

    /// Returns the offset of the first record published at `since` or later; none when there is none.
    pub(super) fn first_since(&self, since: Millis) -> Option<i64> {
        if self.last_at < since {
            return None;
        }
        let place = self.window.partition_point(|slot| slot.at < since);
        // Behind the window it is on disk, somewhere; that nothing there was delivered is all one needs to know.
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
    use super::*;
    use crate::limits;

    const ROOM: Room = Room {
        records: 1000,
        bytes: 16 * limits::EMBEDDED_TOPIC_BYTES_MIN,
    };

    fn filled(log: &mut Log, records: usize) {
        for n in 0..records {
            let value = Bytes::from(vec![b'x'; limits::EMBEDDED_TOPIC_BYTES_MIN / 4]);
            let kept = Kept::new(Millis(n as i64), None, value, Headers::new());
            log.append(kept).unwrap();
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
        // What is handled makes room for what lies on disk, to the end.
        for offset in 0..20 {
            assert!(second.get(offset).is_some(), "record {offset}");
            second.release(offset);
            second.refill();
        }
        drop(first);
        filled(&mut second, 20);
        assert_eq!(second.records, 8);
    }
}
