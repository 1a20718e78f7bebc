//! The tree handlers show tasks with all below them to clients, and cancel them.

use axum::{
    extract::{Path, Query, State, rejection::PathRejection},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use super::query::path_id;
use crate::{
    api::{
        problem::Problem,
        text::shorten,
        tree::{CancelTreeResponse, TreeResponse},
        worker::View,
    },
    http::{
        Api, answer,
        convert::{
            Violations, own,
            task_view::task_response,
            tree_view::{self, Format},
            unknown,
        },
        error::{Code, Error},
    },
    limits::TREE_LEVELS_MAX,
    model::ids::TaskId,
};

/// Reads a task with the tasks below it, as data or as a picture.
///
/// Each task tells how many children it has: those that have ended with all below them, by state, and the others as `open`. At
/// most 1000 tasks are shown; `cut` tells where children are left out.
#[utoipa::path(get, path = "/v1/tasks/{id}/tree", tag = "tasks", operation_id = "getTree",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("format" = Option<String>, Query, description = "`json`, which is the default, `mermaid`, `dot` or `svg`"),
        ("depth" = Option<usize>, Query, minimum = 0,
            description = "Levels below the task; all by default")),
    responses(
        (status = 200, description = "The tree", body = TreeResponse),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, Error> {
    let id = path_id(id)?;
    let (format, depth) = query(&uri)?;
    let nodes = api.service.trees().show(id, depth).await?;
    if nodes.is_empty() {
        return Err(Error::task_not_found());
    }
    let typed =
        |media: &'static str, text: String| ([(header::CONTENT_TYPE, media)], text).into_response();
    Ok(match format {
        Format::Json => answer::json(&tree_view::response(&nodes)),
        Format::Mermaid => typed("text/plain; charset=utf-8", tree_view::mermaid(&nodes)),
        Format::Dot => typed("text/vnd.graphviz; charset=utf-8", tree_view::dot(&nodes)),
        Format::Svg => typed("image/svg+xml", tree_view::svg(&nodes)),
    })
}

/// Cancels a task with all below it, and answers.
pub(super) async fn cancelled(api: &Api, id: TaskId) -> Result<Response, Error> {
    let done = api.service.trees().cancel(own::refuse_task(id)?).await?;
    let done = done.ok_or_else(Error::task_not_found)?;
    let (outcome, task) = done.root;
    let body = CancelTreeResponse {
        outcome: outcome.into(),
        task: task_response(&task, View::Basic),
        cancelled: done.cancelled,
        cancel_requested: done.requested,
        complete: done.complete,
    };
    let status = if done.complete {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok((status, answer::json(&body)).into_response())
}

fn query(uri: &Uri) -> Result<(Format, usize), Error> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
    let (mut format, mut depth) = (Format::Json, usize::MAX);
    let mut violations = Violations::default();
    for (name, value) in pairs.0 {
        match name.as_str() {
            "format" => {
                let read =
                    Format::named(&value).ok_or_else(|| unknown("format", &value, &Format::NAMES));
                format = violations.take("?format", read).unwrap_or(format);
            }
            "depth" => {
                let read = value.parse().map_err(|_| {
                    format!("must be a whole number; trees made by one request have up to {TREE_LEVELS_MAX} levels")
                });
                depth = violations.take("?depth", read).unwrap_or(depth);
            }
            _ => {
                let detail = unknown("query parameter", &name, &["format", "depth"]);
                violations.add(format!("?{}", shorten(&name)), detail);
            }
        }
    }
    violations.finish().map(|()| (format, depth))
}
