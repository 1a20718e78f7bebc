//! The retry computes for callers how long to wait before a call is repeated.
//!
//! The wait doubles, with jitter, or is the one that the service asked for.

use std::time::Duration;

use crate::{
    client,
    model::backoff::{Backoff, Jitter},
    time_source::{Moment, TimeSource},
};

/// Waits between repetitions: short at first (a restart of a server takes a second), never more than five
/// seconds, so that a worker is back at work soon after the longest outage.
const WAITS: Backoff = Backoff {
    initial: Duration::from_millis(100),
    factor_milli: 2000,
    max: Duration::from_secs(5),
    jitter: Jitter::Full,
};

/// Longest wait that a service may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Repetitions of one kind of call.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    not_before: Option<Moment>,
}

impl Retry {
    /// Notes a failure, so that the next call waits.
    pub(super) fn failed(&mut self, asked: Option<Duration>, time: &TimeSource) {
        self.failures = self.failures.saturating_add(1);
        let wait = WAITS.wait(self.failures, time.random());
        // At least the first wait, since full jitter may give zero.
        let own = wait.max(WAITS.initial);
        let wait = asked.map_or(own, |asked| asked.min(RETRY_AFTER_MAX).max(own));
        self.not_before = Some(time.moment().after(wait));
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Returns until when no call may be made; none when one may be made now.
    #[cfg(feature = "queue")]
    pub(super) fn waits_until(&self, now: Moment) -> Option<Moment> {
        self.not_before.filter(|until| now < *until)
    }

    /// Returns the failures in a row.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits until the next call may be made.
    pub(super) async fn wait(&self, time: &TimeSource) {
        if let Some(until) = self.not_before {
            time.sleep_until(until).await;
        }
    }
}

/// Tells whether a failed call is worth repeating as it is: all failures except those that need another
/// request. An unexpected answer may come from a proxy, or from a server in the middle of an upgrade.
pub(super) const fn is_worth_repeating(error: &client::Error) -> bool {
    error.is_temporary() || matches!(error, client::Error::Unexpected { .. })
}
