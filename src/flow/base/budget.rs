//! A byte budget bounds, for a whole node, the memory of contents that are on their way from the store to the queue.
//!
//! A content of more than [`limits::INLINE_BYTES_MAX`] is kept apart and read when its task goes out. Every
//! stage that sends does so: publishing, near tasks, looks, catching up, the recovery at a start. So do answers
//! to polls and claims, and records of dead tasks. The content is read again when its task ends, to be given an
//! end of life. All of these take their bytes from this budget first, and give them back when the queue or the
//! store has answered, or the answer is made. Contents that travel inside their entries are not counted here,
//! because the memory that holds the entries bounds them. They never wait behind large contents.
//!
//! One part of the budget is only for tasks that end. Behind a silent queue, contents to be sent wait for
//! minutes, but a worker that reports the end of its attempt must not wait. Each part has a line of its own.
//!
//! Requests are served in order, so a large request is not passed by for ever. There is no promise about a
//! single request that is larger than its part: such a request gets the whole part.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// Bytes of one permit: a semaphore counts fewer permits than a machine has bytes.
const UNIT_BYTES: u64 = 1024;

/// The part of the budget that is for tasks that end, as a divisor.
const ENDS_SHARE: u64 = 4;

/// The budget of one node; clones share it.
#[derive(Debug, Clone)]
pub struct Budget {
    sends: Share,
    ends: Share,
}

#[derive(Debug, Clone)]
struct Share {
    units: Arc<Semaphore>,
    units_max: u32,
}

impl Share {
    fn new(bytes: u64) -> Self {
        let units_max = units(bytes);
        Self {
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
        }
    }

    async fn take(&self, bytes: u64) -> Portion {
        let wanted = units(bytes).min(self.units_max);
        let units = Arc::clone(&self.units).acquire_many_owned(wanted).await;
        // The semaphore is never closed.
        Portion { _units: units.ok() }
    }
}

/// A portion of the budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct Portion {
    _units: Option<OwnedSemaphorePermit>,
}

impl Default for Budget {
    /// Allows [`limits::CONTENTS_BYTES_MAX`].
    fn default() -> Self {
        Self::new(limits::CONTENTS_BYTES_MAX)
    }
}

impl Budget {
    /// Allows `bytes` bytes, a quarter of them to tasks that end, each part rounded up to whole KiB, at least one.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let ends = bytes / ENDS_SHARE;
        Self {
            sends: Share::new(bytes - ends),
            ends: Share::new(ends),
        }
    }

    /// Waits until `bytes` bytes are free for what is sent, and takes them; a request above the whole part takes all of it.
    ///
    /// A caller that is cancelled while it waits takes nothing and loses its place in the line.
    pub async fn take(&self, bytes: u64) -> Portion {
        self.sends.take(bytes).await
    }

    /// As [`Self::take`], for a task that ends.
    pub(in crate::flow) async fn take_to_end(&self, bytes: u64) -> Portion {
        self.ends.take(bytes).await
    }

    /// Returns how many bytes are free now for what is sent.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.sends.units.available_permits() as u64 * UNIT_BYTES
    }
}

fn units(bytes: u64) -> u32 {
    let most = u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX);
    u32::try_from(bytes.div_ceil(UNIT_BYTES))
        .unwrap_or(u32::MAX)
        .clamp(1, most)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_is_taken_is_missing_until_it_is_dropped() {
        let budget = Budget::new(13 * UNIT_BYTES);
        let first = budget.take(6 * UNIT_BYTES).await;
        assert_eq!(budget.free(), 4 * UNIT_BYTES);
        assert!(budget.take(5 * UNIT_BYTES).now_or_never().is_none());
        drop(first);
        assert!(budget.take(5 * UNIT_BYTES).now_or_never().is_some());
        assert_eq!(budget.free(), 10 * UNIT_BYTES);
    }

    #[tokio::test]
    async fn a_request_above_the_budget_gets_all_of_it_and_is_not_passed_by() {
        let budget = Budget::new(5 * UNIT_BYTES);
        let small = budget.take(1).await;
        let mut large = Box::pin(budget.take(u64::MAX));
        assert!((&mut large).now_or_never().is_none());
        let mut later = Box::pin(budget.take(1));
        assert!((&mut later).now_or_never().is_none());
        drop(small);
        let large = large.now_or_never().unwrap();
        assert_eq!(budget.free(), 0);
        drop(large);
        assert!(later.now_or_never().is_some());
    }

    #[tokio::test]
    async fn what_ends_waits_for_what_ends_alone() {
        let budget = Budget::new(8 * UNIT_BYTES);
        let all = budget.take(u64::MAX).await;
        assert!(budget.take(1).now_or_never().is_none());
        let end = budget.take_to_end(2 * UNIT_BYTES).now_or_never();
        assert!(end.is_some());
        assert!(budget.take_to_end(1).now_or_never().is_none());
        drop(all);
        assert!(budget.take_to_end(1).now_or_never().is_none());
        drop(end);
        assert!(budget.take_to_end(1).now_or_never().is_some());
    }
}
