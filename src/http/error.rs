//! The error table decides for the API every way in which a request can be refused or fail, and its answer.
//!
//! This is the only place where it is decided. Bad input is always a 4xx. A 5xx means that a part of the
//! service is away, or that the service has a bug.

use std::time::Duration;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{
    api::problem::{FieldError, PROBLEM_JSON, Problem},
    flow::api::Fault,
    model::ids::TaskId,
};

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON, or not UTF-8.
    MalformedJson,
    /// Fields are wrong.
    InvalidRequest,
    /// The request asks for something that this version cannot do and must not ignore.
    Unsupported,
    /// The request has a field that is documented for later, and that must not be taken for one with an effect.
    NotSupportedYet,
    /// The text is not an id.
    InvalidTaskId,
    /// The id that a client made cannot name its task.
    UnusableId,
    /// The key cannot name this task.
    UnusableKey,
    /// The key names a live task.
    KeyTaken,
    /// No task has the key.
    KeyNotFound,
    /// The idempotency key belongs to another request.
    IdempotencyKeyReused,
    /// The request may come from a web page of another site.
    Forbidden,
    /// No such path.
    NotFound,
    /// No such task.
    TaskNotFound,
    /// No such callback was configured.
    CallbackNotFound,
    /// A gate of the callback is not open.
    GateNotOpen,
    /// No such job.
    JobNotFound,
    /// The job has ended.
    JobEnded,
    /// The filter of a job cannot be used for it.
    UnusableFilter,
    /// Wrong method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// `If-Match` does not hold.
    PreconditionFailed,
    /// Body or content are over a limit.
    TooLarge,
    /// The body is announced as something other than JSON.
    UnsupportedMediaType,
    /// The service holds as many configured callbacks as it may.
    TooManyCallbacks,
    /// A bug of the service.
    Internal,
    /// A limit of the node is reached.
    TooManyRequests,
    /// This node does not have the role for the request; another one has.
    RoleMissing,
    /// A part of the service is away.
    Unavailable,
    /// The store has no room for new tasks.
    StoreFull,
    /// It is not known whether the request took effect; it may be repeated.
    OutcomeUnknown,
    /// It is not known whether the task was registered; repeating may register it twice.
    RegistrationUnknown,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 31] = [
        Self::MalformedJson,
        Self::InvalidRequest,
        Self::Unsupported,
        Self::NotSupportedYet,
        Self::InvalidTaskId,
        Self::UnusableId,
        Self::UnusableKey,
        Self::KeyTaken,
        Self::KeyNotFound,
        Self::IdempotencyKeyReused,
        Self::Forbidden,
        Self::NotFound,
        Self::TaskNotFound,
        Self::CallbackNotFound,
        Self::GateNotOpen,
        Self::JobNotFound,
        Self::JobEnded,
        Self::UnusableFilter,
        Self::TooManyCallbacks,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::PreconditionFailed,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::Internal,
        Self::TooManyRequests,
        Self::RoleMissing,
        Self::Unavailable,
        Self::StoreFull,
        Self::OutcomeUnknown,
        Self::RegistrationUnknown,
    ];

    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MalformedJson => "malformed_json",
            Self::InvalidRequest => "invalid_request",
            Self::Unsupported => "unsupported",
            Self::NotSupportedYet => "not_supported_yet",
            Self::InvalidTaskId => "invalid_task_id",
            Self::UnusableId => "unusable_id",
            Self::UnusableKey => "unusable_key",
            Self::KeyTaken => "key_taken",
            Self::KeyNotFound => "key_not_found",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::TaskNotFound => "task_not_found",
            Self::CallbackNotFound => "callback_not_found",
            Self::GateNotOpen => "gate_not_open",
            Self::JobNotFound => "job_not_found",
            Self::JobEnded => "job_ended",
            Self::UnusableFilter => "unusable_filter",
            Self::TooManyCallbacks => "too_many_callbacks",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::PreconditionFailed => "precondition_failed",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::Internal => "internal",
            Self::TooManyRequests => "too_many_requests",
            Self::RoleMissing => "role_missing",
            Self::Unavailable => "unavailable",
            Self::StoreFull => "store_full",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::RegistrationUnknown => "registration_unknown",
        }
    }

    /// Returns the status code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::MalformedJson => StatusCode::BAD_REQUEST,
            Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::Unsupported => StatusCode::BAD_REQUEST,
            Self::NotSupportedYet => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InvalidTaskId => StatusCode::BAD_REQUEST,
            Self::UnusableId | Self::UnusableKey | Self::IdempotencyKeyReused => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::KeyTaken | Self::TooManyCallbacks => StatusCode::CONFLICT,
            Self::KeyNotFound => StatusCode::NOT_FOUND,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TaskNotFound => StatusCode::NOT_FOUND,
            Self::CallbackNotFound => StatusCode::NOT_FOUND,
            Self::GateNotOpen | Self::JobEnded => StatusCode::CONFLICT,
            Self::JobNotFound => StatusCode::NOT_FOUND,
            Self::UnusableFilter => StatusCode::UNPROCESSABLE_ENTITY,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            // So that clients and load balancers try the next node.
            Self::RoleMissing | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::StoreFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::OutcomeUnknown | Self::RegistrationUnknown => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the kind of problem in words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::MalformedJson => "The body is not JSON",
            Self::InvalidRequest => "The request is not valid",
            Self::Unsupported => "Not offered by this service",
            Self::NotSupportedYet => "Not supported yet",
            Self::InvalidTaskId => "Not a task id",
            Self::UnusableId => "The id cannot name this task",
            Self::UnusableKey => "The key cannot name this task",
            Self::KeyTaken => "The key names a live task",
            Self::KeyNotFound => "No task has this key",
            Self::IdempotencyKeyReused => "The idempotency key belongs to another request",
            Self::Forbidden => "The host, or the site of the web page, is not listed",
            Self::NotFound => "No such path",
            Self::TaskNotFound => "No such task",
            Self::CallbackNotFound => "No such callback was configured",
            Self::GateNotOpen => "A gate of the callback is not open",
            Self::JobNotFound => "No such job",
            Self::JobEnded => "The job has ended",
            Self::UnusableFilter => "The filter cannot be used for this job",
            Self::TooManyCallbacks => "Too many callbacks are configured",
            Self::MethodNotAllowed => "Wrong method",
            Self::RequestTimeout => "The request took too long to arrive",
            Self::PreconditionFailed => "It has changed",
            Self::TooLarge => "Too large",
            Self::UnsupportedMediaType => "The body is not announced as JSON",
            Self::Internal => "A bug in the service",
            Self::TooManyRequests => "Too many requests",
            Self::RoleMissing => "This node does not do that",
            Self::Unavailable => "A part of the service is away",
            Self::StoreFull => "The store has no room for new tasks",
            Self::OutcomeUnknown => "It is not known whether the request took effect",
            Self::RegistrationUnknown => "It is not known whether the task was registered",
        }
    }

    /// Tells whether the same request may succeed later.
    #[must_use]
    pub(super) const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RequestTimeout
                | Self::TooManyRequests
                | Self::RoleMissing
                | Self::Unavailable
                | Self::StoreFull
                | Self::OutcomeUnknown
        )
    }

    /// Returns advice for the author of the request.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::MalformedJson => {
                "Send one JSON value in UTF-8; the detail names line and column of the first mistake."
            }
            Self::InvalidRequest => {
                "Correct the fields that `errors` lists; each pointer is an RFC 6901 JSON pointer."
            }
            Self::Unsupported => {
                "Leave out what the detail names. It is refused because ignoring it would not be safe."
            }
            Self::NotSupportedYet => {
                "Leave out the fields that `errors` lists. They are refused because they would have no effect yet."
            }
            Self::InvalidTaskId => "Use the id that registration returned.",
            Self::UnusableId => "Make the id as docs/keys.md says, or leave it out.",
            Self::UnusableKey => "Give keys to tasks of callbacks only; see docs/keys.md.",
            Self::KeyTaken => "Read the task `existing`; the key is free once it has ended.",
            Self::IdempotencyKeyReused => {
                "Use a new key for each request, and repeat a request byte for byte."
            }
            Self::Forbidden => {
                "Connect by the node's address or localhost, or name the host in its setting `allowed_hosts`."
            }
            Self::NotFound => "See /openapi.json for the paths.",
            Self::TaskNotFound => "It never existed, or it ended and its retention has passed.",
            Self::KeyNotFound
            | Self::CallbackNotFound
            | Self::GateNotOpen
            | Self::JobNotFound
            | Self::JobEnded
            | Self::UnusableFilter => self.advice_on_resources(),
            Self::TooManyCallbacks => "Delete configurations that are not needed.",
            Self::MethodNotAllowed => "See the Allow header.",
            Self::RequestTimeout => "Send the whole body at once, then try again.",
            Self::PreconditionFailed => "Read it again and decide anew; its ETag has changed.",
            Self::TooLarge => {
                "Keep large data elsewhere and register a reference to it; the detail names the limit."
            }
            Self::UnsupportedMediaType => {
                "Send `content-type: application/json`, without content encoding."
            }
            Self::Internal => "Report it with the trace id.",
            Self::TooManyRequests => {
                "Try again after the time in the Retry-After header, or at another node; the detail names the limit."
            }
            Self::RoleMissing => "Ask a node that has the role that the detail names.",
            Self::Unavailable => {
                "Try again after the time in the Retry-After header; the request had no effect."
            }
            Self::StoreFull => {
                "Tell the operator; try again later. Tasks that were acknowledged before fire on time."
            }
            Self::OutcomeUnknown => "Repeat it: doing it twice is the same as once.",
            Self::RegistrationUnknown => "Repeating it may register the task twice.",
        }
    }

    /// Returns advice on keys, callbacks and jobs.
    const fn advice_on_resources(self) -> &'static str {
        match self {
            Self::KeyNotFound => {
                "The key was never used with this callback, or its last task ended days ago: read that by its id."
            }
            Self::CallbackNotFound => {
                "A callback needs no configuration: its tasks have the defaults of the service."
            }
            Self::GateNotOpen => "Open it first: without its record nothing would hold its tasks.",
            Self::JobNotFound => "It never existed, or it ended more than three days ago.",
            Self::JobEnded => {
                "Read it: its counts say what it has done. Register another job for the rest."
            }
            _ => {
                "Change the fields that `errors` lists; docs/jobs.md says which fields go with which kind."
            }
        }
    }
}

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
    pub(super) fn key_taken(id: TaskId) -> Self {
        Self {
            existing: Some(id),
            ..Self::new(
                Code::KeyTaken,
                format!("the key names the task {id}, which is live"),
            )
        }
    }

    /// Builds the error of a registration that failed: it is the one call that is not safe to repeat blindly.
    #[must_use]
    pub(super) fn of_registration(fault: Fault) -> Self {
        let error = Self::from(fault);
        match error.code {
            Code::OutcomeUnknown => Self {
                code: Code::RegistrationUnknown,
                ..error
            },
            _ => error,
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

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let detail = fault.to_string();
        match fault {
            Fault::Unavailable { retry_after, .. } => Self {
                retry_after: Some(retry_after),
                ..Self::new(Code::Unavailable, detail)
            },
            Fault::Full { retry_after, .. } => Self {
                retry_after: Some(retry_after),
                ..Self::new(Code::StoreFull, detail)
            },
            Fault::Unknown { .. } => Self::new(Code::OutcomeUnknown, detail),
        }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
