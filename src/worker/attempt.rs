//! The attempt holds the state of one running attempt for its runner, its callback and the heartbeats.
//!
//! The deadline is the worker's half of the lease. The server may hand the task to another worker once the
//! heartbeat timeout has passed since it recorded the claim or the last heartbeat. The worker therefore stops
//! a margin earlier, counted by the monotonic clock from **before** it sent the request. A process that was
//! suspended finds its deadline passed.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    model::ids::TaskId,
    time_source::{Moment, TimeSource},
};

/// Longest safety margin before the end of a lease: larger than the skew of clock rates and a scheduling delay.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// The name of an attempt; (id, attempt) is the fencing token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) id: TaskId,
    pub(crate) attempt: u32,
}

/// A running attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) key: Key,
    heartbeat_timeout: Duration,
    deadline: Mutex<Moment>,
    /// When it has taken too long by the limit of its task, less a margin; none without one.
    ends: Option<Moment>,
    progress: Mutex<Option<serde_json::Value>>,
    /// The callback has added all children of the task.
    children_complete: AtomicBool,
    /// Cancelled when somebody asks to cancel the task: the callback is told.
    pub(crate) cancelled: CancellationToken,
    /// Cancelled when the attempt is not the live one any more, or must end now: the callback is dropped.
    pub(crate) lost: CancellationToken,
}

impl Attempt {
    /// Begins an attempt whose claim was sent at `lease_start`.
    pub(crate) fn new(key: Key, heartbeat_timeout: Duration, lease_start: Moment) -> Self {
        Self {
            key,
            heartbeat_timeout,
            deadline: Mutex::new(deadline(lease_start, heartbeat_timeout)),
            ends: None,
            progress: Mutex::new(None),
            children_complete: AtomicBool::new(false),
            cancelled: CancellationToken::new(),
            lost: CancellationToken::new(),
        }
    }

    /// Sets the time limit of the task for an attempt whose claim was sent at `lease_start`.
    pub(crate) fn limited(self, limit: Option<Duration>, lease_start: Moment) -> Self {
        Self {
            ends: limit.map(|limit| deadline(lease_start, limit)),
            ..self
        }
    }

    /// Tells whether it has taken too long by the limit of its task.
    pub(crate) fn has_overrun(&self, now: Moment) -> bool {
        self.ends.is_some_and(|end| end <= now)
    }

    /// Waits until the attempt has taken too long: for its task's own limit, else until `default`. Waits for ever without
    /// either.
    pub(crate) async fn overran(&self, default: Option<Moment>, time: &TimeSource) {
        match self.ends.or(default) {
            Some(end) => time.sleep_until(end).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) const fn heartbeat_timeout(&self) -> Duration {
        self.heartbeat_timeout
    }

    /// Returns when the attempt must have ended, as far as is known now.
    pub(crate) fn deadline(&self) -> Moment {
        *self.deadline.lock()
    }

    /// Moves the deadline after a heartbeat that was sent and answered at these moments.
    ///
    /// An answer that arrives after the deadline moves nothing: another worker may have read the row just
    /// before the heartbeat was written, and have taken over.
    pub(crate) fn extend(&self, sent: Moment, answered: Moment) {
        let mut current = self.deadline.lock();
        if answered < *current {
            *current = deadline(sent, self.heartbeat_timeout).max(*current);
        }
    }

    /// Waits until the deadline has passed.
    pub(crate) async fn expired(&self, time: &TimeSource) {
        loop {
            let deadline = self.deadline();
            if time.moment() >= deadline {
                return;
            }
            time.sleep_until(deadline).await;
        }
    }

    pub(crate) fn set_progress(&self, progress: serde_json::Value) {
        *self.progress.lock() = Some(progress);
    }

    pub(crate) fn complete_children(&self) {
        self.children_complete.store(true, Ordering::Relaxed);
    }

    pub(crate) fn are_children_complete(&self) -> bool {
        self.children_complete.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> Option<serde_json::Value> {
        let progress = self.progress.lock();
        progress.clone()
    }
}

fn deadline(sent: Moment, limit: Duration) -> Moment {
    let margin = MARGIN_MAX.min(limit / 4);
    sent.after(limit.saturating_sub(margin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{time::Millis, wheel::WheelNumber};

    fn attempt(timeout: Duration, start: Moment) -> Attempt {
        let id = TaskId::new(Millis(0), WheelNumber::from_low_bits(0), 1);
        Attempt::new(Key { id, attempt: 1 }, timeout, start)
    }

    #[test]
    fn the_deadline_keeps_a_margin() {
        let start = TimeSource::real().moment();
        for (timeout_ms, deadline_ms) in [(30_000, 29_000), (4000, 3000), (3000, 2250)] {
            let attempt = attempt(Duration::from_millis(timeout_ms), start);
            assert_eq!(
                attempt.deadline(),
                start.after(Duration::from_millis(deadline_ms))
            );
        }
    }

    #[test]
    fn a_heartbeat_counts_from_when_it_was_sent() {
        let start = TimeSource::real().moment();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let attempt = attempt(Duration::from_secs(30), start);
        attempt.extend(at(10), at(12));
        assert_eq!(attempt.deadline(), at(39));
    }

    #[test]
    fn a_late_answer_moves_nothing() {
        let start = TimeSource::real().moment();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let attempt = attempt(Duration::from_secs(30), start);
        attempt.extend(at(10), at(29));
        assert_eq!(attempt.deadline(), at(29));
    }

    #[test]
    fn answers_out_of_order_never_shorten_the_lease() {
        let start = TimeSource::real().moment();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let attempt = attempt(Duration::from_secs(30), start);
        attempt.extend(at(10), at(11));
        attempt.extend(at(5), at(12));
        assert_eq!(attempt.deadline(), at(39));
    }

    #[test]
    fn an_attempt_has_overrun_a_second_before_its_limit() {
        let start = TimeSource::real().moment();
        let at = |seconds| start.after(Duration::from_secs(seconds));
        let limited =
            attempt(Duration::from_secs(30), start).limited(Some(Duration::from_secs(9)), start);
        assert_eq!(
            (limited.has_overrun(at(7)), limited.has_overrun(at(8))),
            (false, true)
        );
        let free = attempt(Duration::from_secs(30), start).limited(None, start);
        assert!(!free.has_overrun(at(99_999)));
    }
}
