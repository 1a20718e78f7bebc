//! The rows of tables of tasks, and the writing of templates.

use askama::Template;

use crate::{
    api::{target::TargetResponse, task_response::TaskResponse},
    http::ui::{
        gate::Failure,
        parts::{
            states::{self, Shown},
            text::{short, visible},
            time,
        },
    },
    model::http_call::CALLBACK_PREFIX,
};

/// Writes a page.
pub(in crate::http::ui) fn written(page: &impl Template) -> Result<String, Failure> {
    let html = page.render();
    html.map_err(|error| Failure::internal(error.to_string()))
}

/// A task in a row of a table.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) state: Shown,
    /// The callback, the URL or the topic.
    pub(super) to: String,
    pub(super) key: String,
    pub(super) start: String,
    pub(super) attempts: String,
    pub(super) late: String,
    pub(super) error: String,
}

impl Row {
    pub(super) fn of(task: &TaskResponse) -> Self {
        Self {
            id: task.id.clone(),
            state: states::task(task.state),
            to: target(&task.target),
            key: task
                .key
                .as_deref()
                .map_or_else(String::new, |key| short(key, 40)),
            start: time::row(&task.effective_start_time),
            attempts: match task.attempt {
                0 => "–".to_owned(),
                attempt => format!("{attempt}/{}", task.max_attempts),
            },
            late: late(task).map_or_else(|| "–".to_owned(), |late| format!("{late} ms")),
            error: task
                .error
                .as_deref()
                .map_or_else(String::new, |error| short(error, 100)),
        }
    }
}

/// Returns how late a task was handed over: of its first attempt, since a retry has another start.
fn late(task: &TaskResponse) -> Option<u128> {
    if task.attempt > 1 || task.generation > 0 {
        return None;
    }
    let fired = time::read(task.fire_time.as_ref()?)?;
    let due = time::read(&task.start_time)?.max(time::read(&task.create_time)?);
    Some(fired.since(due).as_millis())
}

/// Returns where a task goes, in a few words.
pub(in crate::http::ui) fn target(target: &TargetResponse) -> String {
    match target {
        TargetResponse::Callback { name } => visible(name),
        TargetResponse::Http { url, callback, .. } => {
            if callback.starts_with(CALLBACK_PREFIX) {
                short(url, 48)
            } else {
                visible(callback)
            }
        }
        TargetResponse::Kafka { topic, .. } => format!("topic {}", visible(topic)),
    }
}

/// Returns the callback of a target, if it has one.
pub(super) fn callback(target: &TargetResponse) -> Option<&str> {
    match target {
        TargetResponse::Callback { name } => Some(name),
        TargetResponse::Http { callback, .. } => Some(callback),
        TargetResponse::Kafka { .. } => None,
    }
}
