//! The read permits give turns to the wheels of a node for work that is not urgent: reading ahead, and
//! examining looks.
//!
//! The wheels of a node tick together, so all of them read the next tick and examine the looks of the last at
//! the same moment. Where the store shares the cores with everything else, that is a burst each second in
//! which claims and settles wait: at 27,000 tasks a second they took 30 to 60 ms then. So a store may say how
//! many large reads are worth having under way at once
//! ([`WheelStore::reads_at_once`](crate::store::WheelStore::reads_at_once)), and the wheels take turns. Reads
//! ahead and looks have seconds of time. Ticks that were missed have turns of their own
//! ([`crate::flow::base::permits`]).
//!
//! Turns are given in the order in which they are asked for. A wheel holds its turn while it reads a page, or
//! the rows of a batch of looks, and never while something is written or handed over.

use tokio::sync::{Semaphore, SemaphorePermit};

/// The turns of one node.
#[derive(Debug)]
pub(in crate::flow) struct ReadPermits {
    reads: Option<Semaphore>,
    looks: Option<Semaphore>,
}

/// A turn; it ends when it is dropped.
pub(in crate::flow) type Turn<'a> = SemaphorePermit<'a>;

impl ReadPermits {
    /// Allows `at_once` turns of each kind at once, at least one; without a number there is no bound.
    pub(in crate::flow) fn new(at_once: Option<usize>) -> Self {
        let turns = || at_once.map(|at_once| Semaphore::new(at_once.max(1)));
        Self {
            reads: turns(),
            looks: turns(),
        }
    }

    /// Waits for a turn to read ahead. Cancel-safe: a caller that goes away gives up its place.
    pub(in crate::flow) async fn read(&self) -> Option<Turn<'_>> {
        take(self.reads.as_ref()).await
    }

    /// Waits for a turn to examine looks. Cancel-safe: a caller that goes away gives up its place.
    pub(in crate::flow) async fn look(&self) -> Option<Turn<'_>> {
        take(self.looks.as_ref()).await
    }
}

async fn take(turns: Option<&Semaphore>) -> Option<Turn<'_>> {
    // It is never closed.
    turns?.acquire().await.ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn as_many_as_there_are_turns_go_on_and_reads_wait_for_no_look() {
        let turns = ReadPermits::new(Some(2));
        let held = [turns.look(), turns.look()].map(|turn| turn.now_or_never().unwrap());
        assert!(turns.look().now_or_never().is_none());
        assert!(turns.read().now_or_never().unwrap().is_some());
        drop(held);
        assert!(turns.look().now_or_never().is_some());
    }

    #[test]
    fn none_at_all_would_stand_still_and_no_number_is_no_bound() {
        assert!(ReadPermits::new(Some(0)).read().now_or_never().is_some());
        let free = ReadPermits::new(None);
        let held: Vec<_> = (0..1000).map(|_| free.read().now_or_never()).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
