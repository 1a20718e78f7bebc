//! The hand moves the wall clock of a service forward for tests of users, and wakes all that wait for the wall clock.
//!
//! A service for users has none: its waits for the wall clock notice a step of the clock within a second.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::time::Millis;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// One move at a time.
    moving: Mutex<()>,
    to: AtomicI64,
    count: AtomicU64,
    moved: Notify,
}

impl Hand {
    /// Moves the clock to `at` by `step`, which tells whether it has moved.
    pub(super) fn moves(&self, at: Millis, step: impl FnOnce() -> bool) {
        let _alone = self.moving.lock();
        // Before the step: who sees the later time must not take a lease for ended that moves along.
        let before = self.to.swap(at.0, Ordering::SeqCst);
        if step() {
            self.count.fetch_add(1, Ordering::SeqCst);
            self.moved.notify_waiters();
        } else {
            self.to.store(before, Ordering::SeqCst);
        }
    }

    /// Returns the time to which it has moved the clock last, if it has.
    pub(super) fn moved_to(&self) -> Option<Millis> {
        Some(self.to.load(Ordering::SeqCst))
            .filter(|to| *to != 0)
            .map(Millis)
    }

    /// Returns how often it has moved the clock.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until it has moved the clock more than `moves` times. Cancel-safe.
    pub(super) async fn moved(&self, moves: u64) {
        loop {
            // A move that comes between the look and the wait is not lost: it counts from here.
            let moved = self.moved.notified();
            if self.count() != moves {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{model::time::Millis, time_source::TimeSource};

    #[tokio::test]
    async fn a_move_by_hand_wakes_those_who_wait_and_goes_forward_only() {
        let (time, hour) = (TimeSource::by_hand(), Duration::from_secs(3600));
        let (began, truth) = (time.now(), TimeSource::real());
        assert_eq!((time.moves(), time.moved_to()), (0, None));
        let (sleeper, started) = (time.clone(), truth.moment());
        let sleeps = tokio::spawn(async move { sleeper.sleep_until_wall(began.after(hour)).await });
        tokio::task::yield_now().await;
        time.move_to(began.after(hour));
        sleeps.await.unwrap();
        let took = truth.moment().since(started);
        assert!(took < Duration::from_millis(900), "{took:?}");
        assert!(time.now() >= began.after(hour) && time.now() < began.after(hour * 2));
        time.move_to(began);
        assert_eq!(
            (time.moves(), time.moved_to()),
            (1, Some(began.after(hour)))
        );
        // A move that came before the wait counts.
        time.sleep_unless_moved(hour, 0).await;
        let other = TimeSource::real();
        other.move_to(Millis::MAX);
        assert!(!other.is_by_hand() && other.moves() == 0);
        assert!(other.now() < Millis::MAX);
    }
}
