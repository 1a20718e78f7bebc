//! The answer to a list of tasks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{task_response::TaskResponse, text::InstantText};

/// A page of tasks.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ListTasksResponse {
    /// The tasks, without payload, by start time. A page may have fewer than asked for, even none, and not be the last.
    pub tasks: Vec<TaskResponse>,
    /// Send it as `page_token`, with the same filters, for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// Only tasks that start before this are listed: the end that was asked for, or a day ahead.
    pub start_time_to: InstantText,
}
