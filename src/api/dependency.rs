//! The type of a dependency tells workers how a task has ended that theirs waited for, and with which result.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::task_state::{TaskState, TreeState};

/// A task that a claimed task waited for. Fields that are not set are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct DependencyResponse {
    /// Its id.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// Its state; absent where it is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// How its tree ended; only of a task that had children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_state: Option<TreeState>,
    /// Its result, when it is JSON of up to 4 KiB. The results of all dependencies have 256 KiB together.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// Such a result as base64, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Media type of the result; absent is `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// How many bytes the result has that found no room here: `GET /v1/tasks/{id}` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The task cannot be read any more: its retention has passed, or it was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl DependencyResponse {
    /// Makes one without a result.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        id: String,
        state: Option<TaskState>,
        tree_state: Option<TreeState>,
        gone: bool,
    ) -> Self {
        Self {
            id,
            state,
            tree_state,
            result: None,
            result_base64: None,
            result_content_type: None,
            result_bytes: None,
            gone,
        }
    }
}
