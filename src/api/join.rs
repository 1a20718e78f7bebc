//! The types of joins say for clients which tasks a task waits for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    TaskId,
    text::{DurationText, InstantText},
};

/// The tasks that a task waits for, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The ids of these tasks, each once: tasks of callbacks and requests that the service knows.
    #[cfg_attr(feature = "server", schema(min_items = 1, max_items = 1000))]
    pub ids: Vec<String>,
    /// The ends that it waits for; `all_succeeded` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<AfterCondition>,
    /// Whether tasks that are not known yet may be among them. It needs a `deadline`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
    /// Until when it waits at most: a time such as `2030-01-31T09:00:00Z`, or how long from the registration, such as `30m`. It
    /// fails then. For ever by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
}

/// The ends that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AfterCondition {
    /// All of the tasks succeed. When one of them ends otherwise, the task that waits is cancelled.
    AllSucceeded,
    /// All of the tasks end, in whatever way.
    AllEnded,
}

impl After {
    /// Waits until all of these tasks have succeeded.
    #[must_use]
    pub fn all_succeeded(ids: impl IntoIterator<Item = TaskId>) -> Self {
        Self {
            ids: ids.into_iter().map(|id| id.to_string()).collect(),
            ..Self::default()
        }
    }

    /// Waits until all of these tasks have ended, in whatever way.
    #[must_use]
    pub fn all_ended(ids: impl IntoIterator<Item = TaskId>) -> Self {
        Self {
            condition: Some(AfterCondition::AllEnded),
            ..Self::all_succeeded(ids)
        }
    }

    /// Lets tasks be among them that are registered later. It needs a deadline.
    #[must_use]
    pub const fn later(mut self) -> Self {
        self.later = true;
        self
    }

    /// Waits this long at most, from the registration on.
    #[must_use]
    pub fn within(mut self, wait: Duration) -> Self {
        self.deadline = Some(DurationText::readable(wait).0);
        self
    }

    /// Waits until this time at most.
    #[must_use]
    pub fn until(mut self, at: impl Into<InstantText>) -> Self {
        self.deadline = Some(at.into().0);
        self
    }
}

/// The tasks that a task waits for, or waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct AfterResponse {
    /// The ids of these tasks. Lists leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// The ends that it waits for.
    pub condition: AfterCondition,
    /// Whether tasks that were not known may be among them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
    /// Until when it waits at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<InstantText>,
    /// How many tasks these are.
    pub tasks: u32,
    /// How many of them have not ended, as far as is known. Only a read of the task by its id shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u32>,
    /// The ids of those that have not ended, as far as is known. Only a read of the task by its id shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_ids: Vec<String>,
}

impl AfterResponse {
    /// Makes one of its parts.
    #[doc(hidden)]
    #[must_use]
    pub fn new(
        ids: Vec<String>,
        condition: AfterCondition,
        later: bool,
        deadline: Option<InstantText>,
        tasks: u32,
        open: Option<Vec<String>>,
    ) -> Self {
        Self {
            ids,
            condition,
            later,
            deadline,
            tasks,
            open: open
                .as_ref()
                .map(|ids| u32::try_from(ids.len()).unwrap_or(u32::MAX)),
            open_ids: open.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wait_is_written_as_the_service_reads_it() {
        let id: TaskId = "019a9d5a-0000-8000-8000-000000000007".parse().unwrap();
        let plain = serde_json::to_value(After::all_succeeded([id])).unwrap();
        assert_eq!(plain, json!({"ids": [id.to_string()]}));
        let after = After::all_ended([id])
            .later()
            .within(Duration::from_secs(1800));
        let written = serde_json::to_value(&after).unwrap();
        let wanted = json!({
            "ids": [id.to_string()], "condition": "all_ended", "later": true, "deadline": "30m",
        });
        assert_eq!(written, wanted);
        assert_eq!(serde_json::from_value::<After>(written).unwrap(), after);
        let at = After::default().until("2030-01-31T09:00:00Z");
        assert_eq!(at.deadline.as_deref(), Some("2030-01-31T09:00:00Z"));
    }
}
