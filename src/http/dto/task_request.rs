//! Requests about tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    target::{CallbackTarget, KafkaTarget},
    text::{DurationText, InstantText},
};
use crate::model::{backoff, task};

/// A task to register. Exactly one of `callback` and `kafka`; at most one of `start_time` and `delay`; at most one of
/// `payload` and `payload_base64`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"callback": "send_email", "delay": "90s", "payload": {"user": 7}}))]
pub struct TaskRequest {
    /// The callback that executes the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackTarget>,
    /// The record to publish instead.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub kafka: Option<KafkaTarget>,
    /// Label for a subset of a callback's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub collection: Option<String>,
    /// When it is to start; in the past is now. Between 1970 and 9999; kept to the millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// How long from now it is to start, instead of `start_time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// Any JSON value; kept byte for byte.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// Any bytes, as base64, instead of `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Media type of the payload; `application/json` for `payload`, `application/octet-stream` for `payload_base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Which of the callback's queues; `normal` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// How often it may be tried before it is dead; 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000, default = 10)]
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<RetryPolicy>,
    /// How long it may stay unclaimed before it is published again; 60 s by default, at least 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat; 45 s by default, at least 3 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long after its start time it is still useful; afterwards it becomes `expired`. For ever by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// How long it can be read once it has ended; 72 h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// Labels, for people; at most 32.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Which of a callback's queues a task travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Its own queue, before the others.
    High,
    /// The default.
    Normal,
    /// Its own queue, behind the others.
    Low,
}

impl From<Priority> for task::Priority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::High => Self::High,
            Priority::Normal => Self::Normal,
            Priority::Low => Self::Low,
        }
    }
}

impl From<task::Priority> for Priority {
    fn from(priority: task::Priority) -> Self {
        match priority {
            task::Priority::High => Self::High,
            task::Priority::Normal => Self::Normal,
            task::Priority::Low => Self::Low,
        }
    }
}

/// Waits between attempts: the first, then each `factor` times the one before, up to `max`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Wait after the first failed attempt; 10 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<DurationText>,
    /// Factor between waits; 5 by default, to three decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000, default = 5)]
    pub factor: Option<f64>,
    /// Longest wait; 12 h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<DurationText>,
    /// How waits are spread; `full` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
}

/// How a wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Jitter {
    /// Uniform in zero to the computed wait.
    Full,
    /// Exactly the computed wait.
    None,
}

impl From<Jitter> for backoff::Jitter {
    fn from(jitter: Jitter) -> Self {
        match jitter {
            Jitter::Full => Self::Full,
            Jitter::None => Self::None,
        }
    }
}

/// Tasks to register together; one bad task fails only itself.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct BatchCreateRequest {
    /// The tasks; at most 1000.
    #[schema(max_items = 1000)]
    pub tasks: Vec<TaskRequest>,
}

/// Tasks to cancel together; one bad id fails only itself.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct BatchCancelRequest {
    /// The tasks' ids; at most 1000.
    #[schema(max_items = 1000)]
    pub ids: Vec<String>,
}

/// A new start for a task: exactly one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescheduleRequest {
    /// When it is to start; in the past is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// How long from now it is to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
}

/// Reads a JSON value that is there, be it `null`.
pub(super) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
