//! The types of notices say for clients where the end of a task is told.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{target::HttpTarget, task_state::TaskState};

/// Where the end of a task is told, exactly one of `kafka` and `http`, and which ends are.
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
    /// The ends that are told: of `succeeded`, `failed`, `cancelled`, `expired` and `dead`. Absent is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_items = 1))]
    pub states: Option<Vec<TaskState>>,
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
