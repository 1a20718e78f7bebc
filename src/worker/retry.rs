//! How long to wait before a call to the service is repeated: doubling, with jitter, or what the service asked for.

use std::time::Duration;

use crate::{
    client,
    model::backoff::{Backoff, Jitter},
    time_source::{Moment, TimeSource},
};

/// Waits between repetitions: soon at first (a restart of a server takes a second), never more than five seconds, so
/// that a worker is back at work soon after the longest outage.
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
    /// Notes a failure: the next call is to wait.
    pub(super) fn failed(&mut self, asked: Option<Duration>, time: &TimeSource) {
        self.failures = self.failures.saturating_add(1);
        let wait = WAITS.wait(self.failures, time.random());
        // At least the first wait: full jitter may come out as zero.
        let own = wait.max(WAITS.initial);
        let wait = asked.map_or(own, |asked| asked.min(RETRY_AFTER_MAX).max(own));
        self.not_before = Some(time.moment().after(wait));
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Returns until when nothing is to be called; none when it may be now.
    pub(super) fn waits_until(&self, now: Moment) -> Option<Moment> {
        self.not_before.filter(|until| now < *until)
    }

    /// Returns the failures in a row.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits as long as is to be waited.
    pub(super) async fn wait(&self, time: &TimeSource) {
        if let Some(until) = self.not_before {
            time.sleep_until(until).await;
        }
    }
}

/// Tells whether a failed call is worth repeating as it is: everything that a fix of the request would not change. An
/// unexpected answer may come from a proxy, or from a server in the middle of an upgrade.
pub(super) const fn is_worth_repeating(error: &client::Error) -> bool {
    error.is_temporary() || matches!(error, client::Error::Unexpected { .. })
}
