//! The message handler shows clients what the worker of an attempt has told.

use axum::{extract::State, http::Uri, response::Response};

use crate::{
    api::{messages::MessagesResponse, problem::Problem},
    flow::base::api,
    http::{
        Api, answer,
        convert::task_view::message_response,
        error::Error,
        extract::{FromQuery, Named, Params, TaskPath, each, put, whole_number},
    },
};

/// Lists what the worker of an attempt told: each `progress` of its heartbeats that was new, with its time.
///
/// The last 20 can be read, within 16 KiB, as long as the task can be read.
#[utoipa::path(get, path = "/v1/tasks/{id}/messages", tag = "tasks", operation_id = "listMessages",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("attempt" = Option<u32>, Query, minimum = 1, description = "The attempt; the last one by default")),
    responses(
        (status = 200, description = "The messages, the oldest first", body = MessagesResponse),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    Params(query): Params<MessagesQuery>,
) -> Result<Response, Error> {
    let task = api.service.get(id, api::View::Basic).await?;
    let task = task.ok_or_else(Error::task_not_found)?;
    let attempt = query.attempt.unwrap_or(task.attempt);
    let told = api.service.messages(id, &[attempt]).await?;
    let messages = told.iter().flatten().map(message_response).collect();
    Ok(answer::json(&MessagesResponse::new(attempt, messages)))
}

/// The query of the messages.
#[derive(Debug)]
pub(in crate::http) struct MessagesQuery {
    attempt: Option<u32>,
}

impl FromQuery for MessagesQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self { attempt: None };
        let violations = each(uri, &["attempt"], |name, value| {
            (name == "attempt").then(|| put(&mut query.attempt, attempt(&value)))
        })?;
        violations.finish().map(|()| query)
    }
}

fn attempt(text: &str) -> Result<u32, String> {
    let most = u32::MAX as usize;
    let number = whole_number(text, most, most)?;
    u32::try_from(number).map_err(|error| error.to_string())
}
