//! The types of id facts carry to clients what they need to make ids of tasks by themselves.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::text::{DurationText, InstantText};

/// Facts for clients that make the ids of their tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct IdsResponse {
    /// How many wheels the service has: an id names one from 0 on. The number never changes.
    pub wheels: u16,
    /// The time of the service, so that a delay need not be counted by the clock of the client.
    pub time: InstantText,
    /// How long a client may count on this time by a clock of its own; a minute when absent. A service whose clock a test moves
    /// says `0s`: ask it again for each registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for: Option<DurationText>,
}

impl IdsResponse {
    /// Returns the facts.
    #[cfg(feature = "server")]
    pub(crate) const fn new(
        wheels: u16,
        time: InstantText,
        valid_for: Option<DurationText>,
    ) -> Self {
        Self {
            wheels,
            time,
            valid_for,
        }
    }
}
