//! The type of the previous task tells workers and clients which task a follow-up follows, and with which result.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::task_state::{TaskState, TreeState};

/// The task that a follow-up follows, as it ended. Fields that are not set are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct PreviousResponse {
    /// Its id.
    #[cfg_attr(feature = "server", schema(format = "uuid"))]
    pub id: String,
    /// How its own run ended.
    pub state: TaskState,
    /// How its tree ended; only of a task that follows the end of a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_state: Option<TreeState>,
    /// Its result, when it is JSON and `with_result` was set.
    #[serde(
        default,
        deserialize_with = "super::task_request::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// Its result as base64, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Media type of the result; absent is `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// How many bytes a result had that was gone before the follow-up was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Its last error, when `with_result` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The parts of such a task.
#[doc(hidden)]
#[derive(Debug)]
pub struct Parts {
    /// Its id.
    pub id: String,
    /// How its own run ended.
    pub state: TaskState,
    /// How its tree ended.
    pub tree_state: Option<TreeState>,
    /// Its last error.
    pub error: Option<String>,
}

impl PreviousResponse {
    /// Makes one without a result.
    #[doc(hidden)]
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            id,
            state,
            tree_state,
            error,
        } = parts;
        Self {
            id,
            state,
            tree_state,
            result: None,
            result_base64: None,
            result_content_type: None,
            result_bytes: None,
            error,
        }
    }
}
