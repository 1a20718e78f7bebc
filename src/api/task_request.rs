//! The types of task requests carry registrations, cancels and reschedules to the service.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    action::{Action, Check, EndState},
    join::After,
    notify::Notify,
    target::{CallbackTarget, HttpTarget, KafkaTarget},
    text::{DurationText, InstantText},
};
use crate::model::{backoff, task};

/// A task to register. One of `callback`, `http` and `kafka`, or `callback` with `http`; at most one of `start_time` and
/// `delay`; at most one of `payload` and `payload_base64`. A field that is left out has what the configuration of the callback
/// says; the defaults that are named here hold where that says nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// The callback that executes the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackTarget>,
    /// The request to send instead. With `callback`, the task has the rules of that callback; without, those of `http:` and the
    /// host.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub http: Option<HttpTarget>,
    /// The record to publish instead.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub kafka: Option<KafkaTarget>,
    /// The id of the task, made by its client for a request that may be repeated: a UUID of version 8 that carries
    /// `start_time`, a wheel of the service and a look step (docs/keys.md). The same id is one task. By default the
    /// service makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: Option<String>,
    /// The mark of this item of a batch, as the header `Idempotency-Key` of a single registration: for a day, the same
    /// key with the same item is one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 255))]
    pub idempotency_key: Option<String>,
    /// A name of your own for the task: of one key and callback at most one task is live. Only with a callback, and not for
    /// children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 128))]
    pub key: Option<String>,
    /// The key of a sequence: tasks of one callback and one such key run one at a time, in the order of their starts. Only with a
    /// callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 128))]
    pub ordering_key: Option<String>,
    /// The outcome when the key names a live task; `reject` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Label for a subset of a callback's tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "server",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")
    )]
    pub collection: Option<String>,
    /// When the task is to start; a time in the past means now. From 1970 to 30 December 9999, 22:00 UTC; kept to
    /// the millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// How long from now it is to start, instead of `start_time`: ten years at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// Any JSON value; kept byte for byte.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
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
    /// How often the task may be tried before it is dead: as often as its callback says by default, else 10 times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 10000))]
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry: Option<RetryPolicy>,
    /// How long the task may stay unclaimed before it is published again; 60 s by default, at least 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat; at least 3 s. The default is 45 s, and for an `http` task the
    /// time limit of its call and 2 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long an attempt may take in all, however alive its worker is; for ever by default, at least 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<DurationText>,
    /// How long after its start time the task is still useful; afterwards it becomes `expired`. For ever by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// How long the task can be read once it has ended; 72 h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// How long the task can be read and redriven once it is dead; 30 days by default, and never shorter than its retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<DurationText>,
    /// Where the end of the task is told; that of its callback by default. Only for tasks of a callback.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub notify: Option<Notify>,
    /// Things that the service does when the task ends; at most 8. Only for tasks of a callback.
    #[serde(
        default,
        deserialize_with = "super::object::optional_list",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(max_items = 8))]
    pub actions: Option<Vec<Action>>,
    /// Things that the service does at times, by the state of the task; at most 8. Only for tasks of a callback.
    #[serde(
        default,
        deserialize_with = "super::object::optional_list",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(max_items = 8))]
    pub checks: Option<Vec<Check>>,
    /// The id of the task that it is a child of: one that has not ended, with its tree if it has children already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub parent: Option<String>,
    /// Whether the child starts when the own run of its parent has succeeded, and not before; its own start counts if it is
    /// later. If that run ends otherwise, the child is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_parent: bool,
    /// Its children, each a task with children of its own or none: up to 1000 tasks and 40 levels in one request. They start with
    /// the root by default, and `delay` counts from its start. An empty list makes a task to which children can be added.
    #[serde(
        default,
        deserialize_with = "super::object::optional_tasks",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(no_recursion, max_items = 999))]
    pub children: Option<Vec<TaskRequest>>,
    /// How long behind the end of its own run its tree is held open for children to come, whatever has ended in it: 30 days at
    /// most, and with `children` alone. `children_complete` ends the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children_within: Option<DurationText>,
    /// Whether this child is the last one: the tree of its parent is held open no longer. A batch says so behind its last task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub children_complete: bool,
    /// Tasks that are registered when this one ends; at most 8, and each may have some itself. Only for tasks of a callback.
    #[serde(
        default,
        deserialize_with = "super::object::optional_tasks",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(max_items = 8))]
    pub then: Option<Vec<FollowUp>>,
    /// Tasks that it waits for: it starts when they have ended as it wants, at its own start if that is later. Not for tasks of
    /// `kafka`.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<After>,
    /// Labels, for people; at most 32.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<BTreeMap<String, String>>,
}

/// A task that is registered when another one ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FollowUp {
    /// The ends that it follows: ends of the own run of the other task, or ends of its tree. Absent is `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_items = 1))]
    pub states: Option<Vec<EndState>>,
    /// The task: of a callback, or a request. Its `delay` counts from the end of the other task, and a `start_time` before that
    /// end means that end. Without both it starts at once.
    #[cfg_attr(feature = "server", schema(no_recursion))]
    pub task: Box<TaskRequest>,
    /// Whether the result of the other task goes with it as `previous`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_result: bool,
    /// Whether it becomes a child of the parent of the other task, or of the other task if that is the root of a tree. A cancel
    /// of the tree passes over it if the end that it follows was no success.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_tree: bool,
}

impl FollowUp {
    /// Follows with a task when the other one has succeeded.
    #[must_use]
    pub fn task(task: TaskRequest) -> Self {
        Self {
            task: Box::new(task),
            ..Self::default()
        }
    }

    /// Sets the ends that it follows.
    #[must_use]
    pub fn at(mut self, states: impl IntoIterator<Item = EndState>) -> Self {
        self.states = Some(states.into_iter().collect());
        self
    }

    /// Takes the result of the other task along.
    #[must_use]
    pub const fn with_result(mut self) -> Self {
        self.with_result = true;
        self
    }

    /// Makes it a child in the tree of the other task.
    #[must_use]
    pub const fn in_tree(mut self) -> Self {
        self.in_tree = true;
        self
    }
}

/// The outcome of a registration whose key names a live task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnConflict {
    /// It fails with 409, which names the live task.
    Reject,
    /// It succeeds with 200 and the live task.
    Ignore,
    /// It cancels the live task, or tells its attempt to stop, and takes its place: 201 with the new task.
    Replace,
}

/// The queue of a callback in which a task travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Priority {
    /// A queue of its own, before the others.
    High,
    /// The default.
    Normal,
    /// A queue of its own, behind the others.
    Low,
}

#[doc(hidden)]
impl From<Priority> for task::Priority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::High => Self::High,
            Priority::Normal => Self::Normal,
            Priority::Low => Self::Low,
        }
    }
}

#[doc(hidden)]
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
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Wait after the first failed attempt; 10 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<DurationText>,
    /// Factor between waits; 5 by default, to three decimals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 1000))]
    pub factor: Option<f64>,
    /// Longest wait; 12 h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<DurationText>,
    /// How waits are spread; `full` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
}

impl RetryPolicy {
    /// Returns waits that begin with `initial`, are `factor` times longer each time, and never exceed `max`. They
    /// are spread over their whole length, so that tasks that failed together do not come back together.
    #[must_use]
    pub fn exponential(initial: Duration, factor: f64, max: Duration) -> Self {
        Self {
            initial: Some(initial.into()),
            factor: Some(factor),
            max: Some(max.into()),
            jitter: Some(Jitter::Full),
        }
    }

    /// Returns the same wait after every failed attempt.
    #[must_use]
    pub fn fixed(wait: Duration) -> Self {
        Self::exponential(wait, 1.0, wait).with_jitter(Jitter::None)
    }

    /// Sets how waits are spread.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }
}

/// How a wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Jitter {
    /// Uniform between zero and the computed wait.
    Full,
    /// Exactly the computed wait.
    None,
}

#[doc(hidden)]
impl From<Jitter> for backoff::Jitter {
    fn from(jitter: Jitter) -> Self {
        match jitter {
            Jitter::Full => Self::Full,
            Jitter::None => Self::None,
        }
    }
}

/// Tasks to register together; one bad task fails only itself.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct BatchCreateRequest {
    /// The tasks; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub tasks: Vec<TaskRequest>,
}

/// Tasks to cancel together; one bad id fails only itself.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct BatchCancelRequest {
    /// The tasks' ids; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub ids: Vec<String>,
}

/// A new start for a task: exactly one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RescheduleRequest {
    /// When the task is to start; a time in the past means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// How long from now the task is to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
}

/// The task that a key names.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// The callback of the task.
    pub callback: String,
    /// The key of the task.
    pub key: String,
}

/// A new start for the task that a key names: exactly one of `start_time` and `delay`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyRescheduleRequest {
    /// The callback of the task.
    pub callback: String,
    /// The key of the task.
    pub key: String,
    /// When the task is to start; a time in the past means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<InstantText>,
    /// How long from now the task is to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
}

/// Reads a JSON value that is present, even if it is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
