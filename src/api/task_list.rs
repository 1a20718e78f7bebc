//! The type of a page of tasks carries the answer to a list for clients.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{task_response::TaskResponse, text::InstantText};

/// A page of tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListTasksAnswer))]
#[non_exhaustive]
pub struct ListTasksResponse {
    /// The tasks, without payload, by start time. A page may have fewer than asked for, even none, and not be the last.
    pub tasks: Vec<TaskResponse>,
    /// Send this as `page_token`, with the same filters, to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// Only tasks that start before this time are listed: the end that was asked for, or a day ahead.
    pub start_time_to: InstantText,
}
