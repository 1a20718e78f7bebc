//! The types of id facts carry to clients what they need to make ids of tasks by themselves.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::text::InstantText;

/// Facts for clients that make the ids of their tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct IdsResponse {
    /// How many wheels the service has: an id names one from 0 on. The number never changes.
    pub wheels: u16,
    /// The time of the service, so that a delay need not be counted by the clock of the client.
    pub time: InstantText,
}

impl IdsResponse {
    /// Returns the facts.
    #[cfg(feature = "server")]
    pub(crate) const fn new(wheels: u16, time: InstantText) -> Self {
        Self { wheels, time }
    }
}
