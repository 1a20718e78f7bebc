//! The types of the test clock carry to tests of programs how they move the clock of their service, and how that went.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::text::{DurationText, InstantText};

/// Moves the clock forward, and stops at each due time on the way. One of `by` and `to` is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AdvanceClockRequest {
    /// How far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<DurationText>,
    /// Up to which time. A time that has passed is reached already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<InstantText>,
    /// How long, by a real clock, it waits at each stop for workers: up to `60s`, and `5s` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_within: Option<DurationText>,
}

/// How the clock was moved.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct AdvanceClockResponse {
    /// The time that the clock shows now.
    pub reached: InstantText,
    /// Whether that is the time that was asked for. If not, the call took some seconds or stopped 10,000 times: another call
    /// goes on from here.
    pub done: bool,
    /// Tasks that were handed to workers, receivers or topics for the first time.
    pub fired: u64,
    /// Attempts that did not end in time, and tasks that their workers did not take in time. They go on, and are waited for no
    /// more.
    pub unsettled: u64,
    /// Tasks that are due, and that no worker asks for.
    pub waiting: u64,
}

/// Moves the clock forward at once, as if the service had been off.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetClockRequest {
    /// The time that it shows then. It must not have passed.
    pub time: InstantText,
}

/// The clock of the service.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ClockResponse {
    /// The time that it shows.
    pub time: InstantText,
}

#[cfg(feature = "server")]
impl AdvanceClockResponse {
    /// Returns how a walk went.
    pub(crate) fn new(
        (reached, done): (InstantText, bool),
        fired: u64,
        (unsettled, waiting): (u64, u64),
    ) -> Self {
        Self {
            reached,
            done,
            fired,
            unsettled,
            waiting,
        }
    }
}

#[cfg(feature = "server")]
impl ClockResponse {
    /// Returns a clock that shows this.
    pub(crate) fn new(time: InstantText) -> Self {
        Self { time }
    }
}
