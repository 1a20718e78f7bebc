//! The error table alone decides for the API how a request can fail: bad input is a 4xx; a 5xx is a part that is away, or a bug.

use std::time::Duration;

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

pub use super::code::Code;
use super::trace;
use crate::{
    api::problem::{FieldError, PROBLEM_JSON, Problem},
    flow::base::api::TaskView,
    model::ids::TaskId,
};

/// A request, or an item of one, that was not done.
#[derive(Debug, Clone)]
pub struct Error {
    /// The kind of the problem.
    pub code: Code,
    /// A description of the mistake in this request.
    pub detail: String,
    /// The fields that are wrong.
    pub errors: Vec<FieldError>,
    /// When to try again, if that may help.
    pub retry_after: Option<Duration>,
    /// The task that has the key.
    pub existing: Option<TaskId>,
}

impl Error {
    /// Builds an error without fields.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
            existing: None,
        }
    }

    /// Builds the error of one field.
    #[must_use]
    pub fn field(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::fields(
            code,
            vec![FieldError {
                pointer: pointer.into(),
                detail: detail.into(),
            }],
        )
    }

    /// Builds the error of some fields; the detail names the first.
    #[must_use]
    pub fn fields(code: Code, errors: Vec<FieldError>) -> Self {
        let mut detail = errors.first().map_or_else(String::new, |first| {
            if first.pointer.is_empty() {
                first.detail.clone()
            } else {
                format!("{}: {}", first.pointer, first.detail)
            }
        });
        if let more @ 1.. = errors.len().saturating_sub(1) {
            detail.push_str(&format!(" (and {more} more, see errors)"));
        }
        Self {
            errors,
            ..Self::new(code, detail)
        }
    }

    /// Builds the error of an id that no task has.
    #[must_use]
    pub fn task_not_found() -> Self {
        Self::new(
            Code::TaskNotFound,
            "there is no task of this id, or its retention has passed",
        )
    }

    /// Builds the error of an id that no job has.
    #[must_use]
    pub(super) fn job_not_found() -> Self {
        Self::new(
            Code::JobNotFound,
            "there is no job of this id, or it ended more than three days ago",
        )
    }

    /// Builds the error of a key that no task has.
    #[must_use]
    pub fn key_not_found() -> Self {
        Self::new(
            Code::KeyNotFound,
            "no task of this callback has this key, or it ended days ago",
        )
    }

    /// Builds the error of a key that a live task has.
    #[must_use]
    pub(super) fn key_taken(task: &TaskView) -> Self {
        let id = task.id;
        let tree = if task.spec.is_parent() {
            "; it may have children, so no other task replaces it: cancel it with its tree first"
        } else {
            ""
        };
        Self {
            existing: Some(id),
            ..Self::new(
                Code::KeyTaken,
                format!("the key names the task {id}, which is live{tree}"),
            )
        }
    }

    /// Returns the problem document.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let code = self.code.name();
        Problem {
            kind: format!("/problems/{code}"),
            title: self.code.title().to_owned(),
            status: self.code.status().as_u16(),
            detail: self.detail.clone(),
            code: code.to_owned(),
            retryable: self.code.is_retryable(),
            errors: self.errors.clone(),
            existing: self.existing.map(|id| id.to_string()),
            trace_id: None,
        }
    }

    /// Returns the problem document of one item of a request, with the id under which logs know the request.
    #[must_use]
    pub(super) fn problem_of_item(&self) -> Problem {
        let trace_id = trace::current_id();
        let (code, detail) = (self.code.name(), &self.detail);
        if self.code == Code::Internal {
            tracing::warn!(trace_id, code, detail, "an item of a request failed");
        } else {
            tracing::debug!(trace_id, code, detail, "an item of a request was refused");
        }
        Problem {
            trace_id,
            ..self.problem()
        }
    }

    /// Returns the answer, with the id under which logs know the request.
    pub(super) fn respond(self, trace_id: Option<String>) -> Response {
        let problem = Problem {
            trace_id,
            ..self.problem()
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (self.code.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(after) = self.retry_after {
            let seconds = after.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // `super::server::observe` finds it here and answers once more, with the trace id.
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.respond(None)
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
