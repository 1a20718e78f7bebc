//! The types of the forecast tell clients how many tasks are due in the time ahead.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::text::{DurationText, InstantText};

/// The tasks that are due for the first time in the time ahead, by steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ForecastResponse {
    /// When they were counted.
    pub time: InstantText,
    /// The length of a step.
    pub step: DurationText,
    /// Whether all counts are exact. Otherwise each is a lower bound: on a cluster, and while a node that has just started still
    /// counts what it has found.
    pub exact: bool,
    /// The tasks of all steps.
    pub total: u64,
    /// The steps, in order. The first begins at the present second.
    pub steps: Vec<ForecastStep>,
    /// By callback, those that have tasks, in the order of their names. Those behind the first hundred are `(other)`, and records
    /// of Kafka have an empty name.
    pub callbacks: Vec<ForecastCallback>,
}

/// The tasks that are due in a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ForecastStep {
    /// The beginning of the step.
    pub from: InstantText,
    /// How many are due in it, at least.
    pub tasks: u64,
    /// How many are due in it at most; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// The tasks of one callback.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ForecastCallback {
    /// The callback.
    pub callback: String,
    /// Its tasks of all steps.
    pub total: u64,
    /// Its tasks in each step, at least.
    pub tasks: Vec<u64>,
}
