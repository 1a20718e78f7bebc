//! The types of notices say for clients where the ends of a task are told.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{action::EndState, target::HttpTarget};

/// Where the ends of a task are told, exactly one of `kafka` and `http`, and which ends are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// A record in a topic of Kafka.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub kafka: Option<NotifyKafka>,
    /// A request over HTTP, signed by the secrets of the callback `http:` and its host.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub http: Option<HttpTarget>,
    /// The ends that are told: of its own run (`succeeded`, `failed`, `cancelled`, `expired`, `dead`) and of its tree
    /// (`completed`, `faulted`, `cancelled`). Each has a message of its own. Absent is all of its own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_items = 1))]
    pub states: Option<Vec<EndState>>,
}

/// A topic of Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NotifyKafka {
    /// The topic, which must exist.
    #[cfg_attr(feature = "server", schema(max_length = 128))]
    pub topic: String,
}
