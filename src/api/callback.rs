//! The types of callbacks carry their configuration and their gates to the service, and what is going on to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    notify::Notify,
    task_request::{Priority, RetryPolicy},
    text::{DurationText, InstantText},
};

/// The configuration of a callback: it is stored as a whole, in place of the one before. A field that is absent has the default
/// of the service, and a task's own field wins.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallbackRequest {
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 1024))]
    pub description: Option<String>,
    /// How often a task may be tried before it is dead.
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
    /// How long a task may stay unclaimed before it is published again; at least 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat; at least 3 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long a task can be read once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// How long after its start time a task is still useful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// Which of the callback's queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Labels of every task; a label of the task wins. Together a task has at most 32; those of the callback that find no room
    /// are left out.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// How many tasks may be claimed in a second. Tasks over it wait.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub rate: Option<RateLimit>,
    /// How many attempts may run at once. Tasks over it wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 200_000))]
    pub max_in_flight: Option<u32>,
    /// The topic of Kafka, which must exist, that has a record of each task that dies, with its payload. It holds for tasks that
    /// die from two seconds after the change on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_topic: Option<String>,
    /// Labels by which tasks are found quickly, at most four: `GET /v1/tasks?callback=...&label.NAME=...`. It holds for tasks
    /// that are registered from two seconds after the change on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed_labels: Option<Vec<String>>,
    /// How long an attempt may take in all, however alive its worker is; for ever by default, at least 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<DurationText>,
    /// How long a task can be read and redriven once it is dead; 30 days by default, and never shorter than its retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<DurationText>,
    /// Way of the tasks of a key while the first of them waits for its next attempt: to wait, too (`block`, the default),
    /// or to go on (`skip`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_retry: Option<OnRetry>,
    /// Whether lists show tasks that have succeeded for their whole retention also on a cluster, at one write more for each;
    /// false by default. On one machine they always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_succeeded: Option<bool>,
    /// The rules for deliveries over HTTP.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub http: Option<HttpDefaults>,
    /// Where the ends of tasks are told that say nothing of it themselves.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub notify: Option<Notify>,
}

/// The rules of a callback for deliveries over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HttpDefaults {
    /// Where tasks are delivered that name the callback alone; without it, workers run them. It holds for tasks that are
    /// registered from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 2048))]
    pub url: Option<String>,
    /// Headers of every request; one of the task's own wins. Those that hold credentials go out over https, and over http where
    /// `url` begins with `http://`, or without a `url` to this machine; viewers and producers read `***` as their values.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub headers: Option<BTreeMap<String, String>>,
    /// How long an attempt may take, where the task does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// The secrets that sign requests (Standard Webhooks): `whsec_` and base64 of 24 to 64 bytes, the newest first; two while one
    /// is replaced. They read back as their last four characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_items = 2))]
    pub secrets: Option<Vec<String>>,
    /// Whether an answer 4xx is tried again; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_4xx: Option<bool>,
    /// How many requests a node may have under way to a host at once for the tasks of this callback, all its requests to the host
    /// counted. Absent, 8 at first, and up to 32 while the host answers quickly or well. The attempts of a callback on all nodes
    /// together are its own `max_in_flight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 128))]
    pub max_in_flight: Option<u32>,
}

/// How many tasks of a callback may be claimed in a time: in any ten seconds at most eleven times `per_second`, and `burst`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Tasks in a second.
    #[cfg_attr(feature = "server", schema(minimum = 0.01, maximum = 100_000))]
    pub per_second: f64,
    /// Tasks at once after a pause: at least those of a tenth of a second. Absent, those of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 1_000_000))]
    pub burst: Option<u32>,
}

/// The way of a line of tasks whose first one waits for its retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnRetry {
    /// The others wait, too.
    Block,
    /// The others go on.
    Skip,
}

/// The state of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GateState {
    /// Due tasks go out.
    Open,
    /// Due tasks are held, and go out once the gate is open. Running attempts go on.
    Paused,
    /// Due tasks end as cancelled.
    Dropping,
}

/// A gate to set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// The state that it is to have.
    pub gate: GateState,
    /// The collection whose tasks it concerns; absent is all tasks of the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "server",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")
    )]
    pub collection: Option<String>,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 1024))]
    pub reason: Option<String>,
    /// When it opens by itself; not for a gate that is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<InstantText>,
}

impl GateRequest {
    /// Makes the request for all tasks of a callback.
    #[must_use]
    pub const fn new(gate: GateState) -> Self {
        Self {
            gate,
            collection: None,
            reason: None,
            until: None,
        }
    }
}

/// A callback: what was configured, its gates, and what is going on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackResponse {
    /// Its name.
    pub name: String,
    /// Its configuration; a field that is absent has the default of the service.
    #[serde(flatten)]
    pub configuration: CallbackConfiguration,
    /// The state of the gate for all its tasks.
    pub gate: GateState,
    /// The gates that are not open.
    pub gates: Vec<GateResponse>,
    /// The present activity; absent in lists and in answers to changes.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = CallbackActivity))]
    pub activity: Option<CallbackActivity>,
}

/// The configuration of a callback, as it was given.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackConfiguration {
    /// A text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How often a task may be tried before it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long a task may stay unclaimed before it is published again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout: Option<DurationText>,
    /// How long an attempt may take in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<DurationText>,
    /// How long a task can be read once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// How long a task can be read and redriven once it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_retention: Option<DurationText>,
    /// How long after its start time a task is still useful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<DurationText>,
    /// Which of the callback's queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Labels of every task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many tasks may be claimed in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// How many attempts may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Labels by which tasks are found quickly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexed_labels: Vec<String>,
    /// Where the ends of tasks are told that say nothing of it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Notify>,
    /// The rules for deliveries over HTTP. Of secrets, the last four characters are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpDefaults>,
    /// The topic of Kafka that has a record of each task that dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_topic: Option<String>,
    /// The way of the tasks of an ordering key while the first of them waits for its next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_retry: Option<OnRetry>,
    /// Whether lists show tasks that have succeeded for their whole retention also on a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_succeeded: Option<bool>,
}

/// A gate that is not open.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct GateResponse {
    /// The collection whose tasks it concerns; absent is all tasks of the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Its state.
    pub gate: GateState,
    /// The reason that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was set.
    pub since: InstantText,
    /// When it opens by itself; absent when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<InstantText>,
    /// The name of the API key with which it was set; absent where none was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// The present activity of a callback on all nodes. Each node tells the others its share within a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackActivity {
    /// Workers that polled for its tasks within ten minutes, by name; a hundred at most.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub workers: Vec<CallbackWorker>,
    /// Due tasks that no worker has taken.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub ready: u64,
    /// Since when the oldest of them is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_time: Option<InstantText>,
    /// Attempts that are running, as the nodes know that gave them out.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub running: u64,
    /// Tasks that wait for their next attempt: those whose reports the nodes have taken since they started.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub retrying: u64,
    /// Tasks that are due and that a gate holds.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub held: u64,
    /// Tasks that are dead and kept.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required = false))]
    pub dead: u64,
    /// How late its tasks were handed over in the last five minutes; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<CallbackLateness>,
    /// Whether there may be more: other nodes may not have told of them yet, or there are too many to count. The figures are
    /// lower bounds then.
    #[cfg_attr(feature = "server", schema(required = false))]
    pub partial: bool,
}

/// How late the tasks of a callback were handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackLateness {
    /// Half of them at most so late, in milliseconds.
    pub p50_ms: i64,
    /// All but one in a hundred.
    pub p99_ms: i64,
    /// The latest.
    pub max_ms: i64,
}

/// A worker of a callback.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CallbackWorker {
    /// Its name.
    pub name: String,
    /// The version of its program, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How long ago it last polled, in milliseconds; up to ten seconds more where it polled another node than the one that is
    /// asked.
    pub last_poll_ms: u64,
}

/// A page of callbacks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListCallbacksAnswer))]
#[non_exhaustive]
pub struct ListCallbacksResponse {
    /// The callbacks that were configured or have a gate that is not open, by name. A page may have fewer than asked for, even
    /// none, and not be the last.
    pub callbacks: Vec<CallbackResponse>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
