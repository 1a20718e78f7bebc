//! The errors tell callers of the client why a call failed and what to do about it.

use std::time::Duration;

use reqwest::StatusCode;

use crate::api::problem::Problem;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service understood the request and will never carry it out: fix the request.
    #[error("refused: {}", described(problem))]
    Refused {
        /// The service's reason.
        problem: Box<Problem>,
    },
    /// There is no such task, or it has been gone for longer than its retention.
    #[error("not found: {}", described(problem))]
    NotFound {
        /// The service's answer about the missing task.
        problem: Box<Problem>,
    },
    /// The service can be reached and cannot do it now: try again later.
    #[error("not now: {}", described(problem))]
    Unavailable {
        /// The service's reason.
        problem: Box<Problem>,
        /// When the service wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// No server could be reached, or none answered. See `sent` before you repeat the call.
    #[error("no answer from {server}: {reason}{}", if *sent {
        "; it is not known whether the request took effect"
    } else {
        ""
    })]
    Transport {
        /// The server tried last.
        server: String,
        /// The reason of the failure.
        reason: String,
        /// Whether the request may have arrived and so may have taken effect.
        sent: bool,
    },
    /// The answer is not one of this service: is the address right?
    #[error("unexpected answer from {server}: {reason}")]
    Unexpected {
        /// The address that answered.
        server: String,
        /// The reason why the answer is not understood.
        reason: String,
    },
    /// The call could not be made from these arguments: fix them.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Returns the error for a problem document that was answered with this status.
    pub(crate) fn of_problem(
        status: StatusCode,
        problem: Box<Problem>,
        retry_after: Option<Duration>,
    ) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::NotFound { problem },
            _ if problem.retryable || status.is_server_error() => Self::Unavailable {
                problem,
                retry_after,
            },
            _ => Self::Refused { problem },
        }
    }

    /// Returns the error for the problem of one item of a batch.
    pub(crate) fn of_item(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.status).unwrap_or_default();
        Self::of_problem(status, Box::new(problem), None)
    }

    /// Tells whether the same call may succeed later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Transport { .. } => true,
            Self::Refused { .. }
            | Self::NotFound { .. }
            | Self::Unexpected { .. }
            | Self::Invalid(_) => false,
        }
    }

    /// Tells whether the call may have taken effect although it failed.
    pub(crate) fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Transport { sent, .. } => *sent,
            Self::Unavailable { problem, .. } => problem.code == "outcome_unknown",
            Self::Refused { .. }
            | Self::NotFound { .. }
            | Self::Unexpected { .. }
            | Self::Invalid(_) => false,
        }
    }

    /// Returns the wait that the service asked for.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            Self::Refused { .. }
            | Self::NotFound { .. }
            | Self::Transport { .. }
            | Self::Unexpected { .. }
            | Self::Invalid(_) => None,
        }
    }
}

fn described(problem: &Problem) -> String {
    let fields = problem
        .errors
        .iter()
        .map(|error| match error.pointer.as_str() {
            "" => error.detail.clone(),
            pointer => format!("{pointer}: {}", error.detail),
        });
    let fields: Vec<String> = fields.collect();
    // The service's detail of a single wrong field repeats that field, so it is said once.
    let says_a_field = fields
        .first()
        .is_some_and(|first| problem.detail.starts_with(first.as_str()));
    let head = match problem.detail.as_str() {
        "" => Some(&problem.title),
        _ => Some(&problem.detail).filter(|_| !says_a_field),
    };
    let said: Vec<&str> = head
        .into_iter()
        .chain(&fields)
        .map(String::as_str)
        .collect();
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::problem::FieldError;

    #[test]
    fn a_refusal_names_the_fields() {
        let problem = Problem {
            kind: "/problems/invalid_request".to_owned(),
            title: "Invalid request".to_owned(),
            status: 400,
            detail: "the task is not valid".to_owned(),
            code: "invalid_request".to_owned(),
            retryable: false,
            errors: vec![FieldError {
                pointer: "/retry/max".to_owned(),
                detail: "must be a duration".to_owned(),
            }],
            trace_id: None,
            existing: None,
        };
        let error = Error::Refused {
            problem: Box::new(problem),
        };
        assert_eq!(
            error.to_string(),
            "refused: the task is not valid; /retry/max: must be a duration"
        );
        assert!(!error.is_temporary());
    }

    #[test]
    fn a_refusal_is_said_once() {
        let field = |pointer: &str| FieldError {
            pointer: pointer.to_owned(),
            detail: "must be a duration".to_owned(),
        };
        let error = crate::http::error::Error::fields(
            crate::http::error::Code::InvalidRequest,
            vec![field("/delay"), field("/retention")],
        );
        let error = Error::of_item(error.problem());
        assert_eq!(
            error.to_string(),
            "refused: /delay: must be a duration; /retention: must be a duration"
        );
    }
}
