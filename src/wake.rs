//! The wake list wakes tasks for a change, in the order in which they began to wait.
//!
//! A `watch` channel spreads its waiters over shards at random, so the same run would not go the same way
//! twice.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// The state that can change.
#[derive(Debug, Default)]
pub struct Changes {
    count: AtomicU64,
    waiting: Notify,
}

/// A task that waits for changes.
#[derive(Debug)]
pub struct Watcher {
    changes: Arc<Changes>,
    seen: u64,
}

impl Changes {
    /// Says that something has changed.
    pub fn announce(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    /// Returns how many changes there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns a watcher that knows everything up to now.
    #[must_use]
    pub fn watcher(self: &Arc<Self>) -> Watcher {
        Watcher {
            changes: Arc::clone(self),
            seen: self.count(),
        }
    }
}

impl Watcher {
    /// Takes notice of everything up to now.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.changes.count();
    }

    /// Waits until something has changed that it has not taken notice of. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            // A notification that comes between the look and the wait is not lost: it counts from here.
            let notified = self.changes.waiting.notified();
            let count = self.changes.count();
            if count != self.seen {
                self.seen = count;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn tasks_are_woken_in_the_order_in_which_they_began_to_wait() {
        let (changes, woken) = (
            Arc::new(Changes::default()),
            Arc::<Mutex<Vec<u32>>>::default(),
        );
        for round in 0..3 {
            for number in 0..20 {
                let (mut watcher, woken) = (changes.watcher(), Arc::clone(&woken));
                tokio::spawn(async move {
                    watcher.changed().await;
                    woken.lock().unwrap().push(number);
                });
            }
            tokio::task::yield_now().await;
            changes.announce();
            tokio::task::yield_now().await;
            let woken = std::mem::take(&mut *woken.lock().unwrap());
            assert_eq!(woken, (0..20).collect::<Vec<_>>(), "round {round}");
        }
        assert_eq!(changes.count(), 3);
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_seen_and_one_that_was_noticed_is_not() {
        let changes = Arc::new(Changes::default());
        let mut watcher = changes.watcher();
        changes.announce();
        watcher.changed().await;
        changes.announce();
        watcher.mark_unchanged();
        let waits = tokio::spawn(async move { watcher.changed().await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        changes.announce();
        waits.await.unwrap();
    }
}
