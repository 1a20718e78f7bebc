//! The type of the messages of an attempt carries to clients what its worker has told.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::text::InstantText;

/// The messages that the worker of an attempt told with its heartbeats.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = MessagesAnswer))]
#[non_exhaustive]
pub struct MessagesResponse {
    /// The attempt; 0 where the task had none.
    pub attempt: u32,
    /// The last 20 messages, within 16 KiB, the oldest first.
    pub messages: Vec<MessageResponse>,
}

/// A message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct MessageResponse {
    /// When the service received it.
    pub time: InstantText,
    /// The progress that was told.
    #[cfg_attr(feature = "server", schema(value_type = serde_json::Value))]
    pub progress: Box<RawValue>,
}

impl MessagesResponse {
    /// Makes the messages of an attempt.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(attempt: u32, messages: Vec<MessageResponse>) -> Self {
        Self { attempt, messages }
    }
}

impl MessageResponse {
    /// Makes a message.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(time: InstantText, progress: Box<RawValue>) -> Self {
        Self { time, progress }
    }
}
