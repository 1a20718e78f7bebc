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
pub(super) struct Changes {
    count: AtomicU64,
    waiting: Notify,
}

/// A task that waits for changes.
#[derive(Debug)]
pub(super) struct Watcher {
    changes: Arc<Changes>,
    seen: u64,
}

impl Changes {
    /// Says that something has changed.
    pub(super) fn announce(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    /// Returns a watcher that knows everything up to now.
    pub(super) fn watcher(self: &Arc<Self>) -> Watcher {
        Watcher {
            changes: Arc::clone(self),
            seen: self.count.load(Ordering::SeqCst),
        }
    }
}

impl Watcher {
    /// Takes notice of everything up to now.
    pub(super) fn mark_unchanged(&mut self) {
        self.seen = self.changes.count.load(Ordering::SeqCst);
    }

    /// Waits until something has changed that it has not taken notice of. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            // A notification that comes between the look and the wait is not lost: it counts from here.
            let notified = self.changes.waiting.notified();
            let count = self.changes.count.load(Ordering::SeqCst);
            if count != self.seen {
                self.seen = count;
                return;
            }
            notified.await;
        }
    }
}
