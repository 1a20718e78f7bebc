//! The lists return tasks to callers of the client, page by page.

use std::{collections::BTreeMap, fmt::Write as _};

use reqwest::Method;

use super::{Client, Error, StartTime, TaskResponse, TaskState};
use crate::api::{task_list::ListTasksResponse, text::InstantText};

/// The latest start of a task, to the second, as the service writes it.
const LAST_START: &str = "9999-12-30T22:00:00";

/// The filter of a list of tasks. More fields may come: end it with `..TaskFilter::default()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Those of this callback; with `*` at its end, such as `mail.*`, of those whose names begin so.
    pub callback: Option<String>,
    /// Those of this collection.
    pub collection: Option<String>,
    /// Those in this state.
    pub state: Option<TaskState>,
    /// Those with all of these labels, at most 8.
    pub labels: BTreeMap<String, String>,
    /// Those whose last error is of the class of this one: its first line, without its numbers.
    pub error: Option<String>,
    /// Those that start at or after this.
    pub start_time_from: Option<StartTime>,
    /// Those that start before this; none means a day ahead.
    pub start_time_to: Option<StartTime>,
    /// Only those that have not ended.
    pub pending: bool,
    /// Also the service's own tasks.
    pub internal: bool,
    /// Only those that are no children of others.
    pub roots: bool,
    /// The runs of this schedule.
    pub schedule: Option<String>,
    /// Tasks of a page, 1 to 1000; none means 100.
    pub page_size: Option<usize>,
}

/// The pages of a list.
#[derive(Debug)]
pub struct TaskPages {
    client: Client,
    filter: TaskFilter,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
    until: Option<InstantText>,
}

impl Client {
    /// Lists tasks that still have an entry in the wheel: tasks that have not ended, and tasks that ended
    /// within about ten minutes. Tasks that wait for their start come in order of start time.
    #[must_use]
    pub fn list(&self, filter: TaskFilter) -> TaskPages {
        TaskPages {
            client: self.clone(),
            filter,
            next: Some(String::new()),
            until: None,
        }
    }
}

impl TaskPages {
    /// Reads the next page. Returns none when the list has ended. A page may be empty and not be the last,
    /// since each reads a bounded part of the wheel.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<TaskResponse>>, Error> {
        let Some(token) = &self.next else {
            return Ok(None);
        };
        let path = path(&self.filter, token);
        let page: ListTasksResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        self.until = Some(page.start_time_to);
        Ok(Some(page.tasks))
    }
}

impl TaskPages {
    /// Tells whether the list had no end, so that no pending task starts behind it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        // A year of five digits begins with its sign.
        let is_last = |to: &str| to.starts_with('+') || to >= LAST_START;
        self.start_time_to().is_some_and(is_last)
    }

    /// Returns the end of the list once a page was read: the list has no tasks that start then or later.
    #[must_use]
    pub fn start_time_to(&self) -> Option<&str> {
        self.until.as_ref().map(|InstantText(text)| text.as_str())
    }
}

fn path(filter: &TaskFilter, token: &str) -> String {
    let time = |time: &Option<StartTime>| time.as_ref().map(|StartTime(text)| text.0.clone());
    let parameters = [
        ("callback", filter.callback.clone()),
        ("collection", filter.collection.clone()),
        ("error", filter.error.clone()),
        ("state", filter.state.map(|state| state.name().to_owned())),
        ("start_time_from", time(&filter.start_time_from)),
        ("start_time_to", time(&filter.start_time_to)),
        ("ended", filter.pending.then(|| "false".to_owned())),
        ("internal", filter.internal.then(|| "true".to_owned())),
        ("roots", filter.roots.then(|| "true".to_owned())),
        ("schedule", filter.schedule.clone()),
        ("page_size", filter.page_size.map(|size| size.to_string())),
        ("page_token", Some(token.to_owned())),
    ];
    let mut path = with_query("/v1/tasks", parameters);
    for (name, value) in &filter.labels {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str("label.");
        escape(&mut path, name);
        path.push('=');
        escape(&mut path, value);
    }
    path
}

/// Returns the path with those parameters that have a value.
pub(super) fn with_query<const N: usize>(
    path: &str,
    parameters: [(&str, Option<String>); N],
) -> String {
    let mut path = path.to_owned();
    let mut separator = '?';
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            path.push(separator);
            path.push_str(name);
            path.push('=');
            escape(&mut path, &value);
            separator = '&';
        }
    }
    path
}

/// Escapes a value so that it stays one value of the query, whatever characters it has.
pub(super) fn escape(path: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            // Writing to a String cannot fail.
            _ => write!(path, "%{byte:02X}").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_not_in_the_path() {
        assert_eq!(path(&TaskFilter::default(), ""), "/v1/tasks");
        let filter = TaskFilter {
            callback: Some("a&b".to_owned()),
            state: Some(TaskState::Dead),
            start_time_to: Some("2030-01-31T09:00:00+01:00".into()),
            pending: true,
            ..TaskFilter::default()
        };
        assert_eq!(
            path(&filter, "x-_"),
            "/v1/tasks?callback=a%26b&state=dead&start_time_to=2030-01-31T09%3A00%3A00%2B01%3A00&ended=false&page_token=x-_"
        );
    }
}
