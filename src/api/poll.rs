//! The types of polls carry requests and answers of workers that poll the service.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{text::DurationText, worker::ClaimedTask};

/// Asks for due tasks, already claimed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PollRequest {
    /// The worker's name, for people; 1 to 256 characters.
    pub worker: String,
    /// The callbacks whose tasks it runs; 1 to 100.
    #[cfg_attr(feature = "server", schema(min_items = 1, max_items = 100))]
    pub callbacks: Vec<String>,
    /// How many tasks it takes at most: 1 to 1000; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 1, maximum = 1000))]
    pub max_tasks: Option<u32>,
    /// How long to wait for the first task: up to `60s`; `30s` when left out. `0s` returns only tasks that
    /// are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<DurationText>,
    /// The version of the worker's program, for people: up to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 64))]
    pub version: Option<String>,
}

/// Tasks to run. The worker has claimed them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = PollAnswer))]
pub struct PollResponse {
    /// The tasks; empty when none was due in time. Settle each task before its claim expires, or send
    /// heartbeats.
    pub tasks: Vec<ClaimedTask>,
    /// How long the request had waited when the tasks were claimed. A worker that uses its own clock counts
    /// the claims from the moment when it sent the request, plus this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<DurationText>,
}

/// Says that a worker takes no more tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaveRequest {
    /// The worker's name, as in its polls.
    pub worker: String,
}

/// Done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = LeaveAnswer))]
pub struct LeaveResponse {}
