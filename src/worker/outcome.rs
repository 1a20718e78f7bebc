//! The outcome tells the service how a callback ended, panics and errors included.

use std::{fmt::Display, time::Duration};

use serde::Serialize;

use crate::limits::{ERROR_CHARS_MAX, RESULT_BYTES_MAX};

/// Any error of a callback. `?` turns every error type (and a text) into it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done.
    Done,
    /// Done, with a result that is kept with the task: see [`Outcome::done_with`].
    DoneWith(serde_json::Value),
    /// Done, with a result that is kept with the task as bytes: see [`Outcome::done_with_bytes`].
    DoneWithBytes {
        /// The bytes, at most 1 MiB.
        bytes: Vec<u8>,
        /// Their media type, such as `image/png`.
        content_type: String,
    },
    /// Failed: try again after the task's backoff.
    Retry(String),
    /// Failed: try again after this wait.
    RetryAfter(Duration, String),
    /// Failed: trying again is of no use.
    Fail(String),
    /// Not now: run again after this. Does not count against `max_attempts`.
    Snooze(Duration),
}

impl Outcome {
    /// Done, with a result that is kept with the task and can be read by its id.
    ///
    /// # Errors
    /// When the result cannot be written as JSON.
    pub fn done_with(result: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self::DoneWith(serde_json::to_value(result)?))
    }

    /// Done, with a result of any media type that is kept with the task and can be read by its id. More than 1 MiB fails the
    /// task.
    #[must_use]
    pub fn done_with_bytes(bytes: impl Into<Vec<u8>>, content_type: impl Into<String>) -> Self {
        Self::DoneWithBytes {
            bytes: bytes.into(),
            content_type: content_type.into(),
        }
    }

    /// Failed: try again after the task's backoff.
    #[must_use]
    pub fn retry(error: impl Display) -> Self {
        Self::Retry(error.to_string())
    }

    /// Failed: trying again is of no use.
    #[must_use]
    pub fn fail(error: impl Display) -> Self {
        Self::Fail(error.to_string())
    }

    /// Returns the outcome within the limits of the server: texts are cut, and a result that is too large
    /// fails the task.
    pub(crate) fn bounded(self) -> Self {
        match self {
            Self::DoneWith(result) => match result.to_string().len() {
                0..=RESULT_BYTES_MAX => Self::DoneWith(result),
                bytes => too_large(bytes),
            },
            Self::DoneWithBytes { bytes, .. } if bytes.len() > RESULT_BYTES_MAX => {
                too_large(bytes.len())
            }
            Self::Retry(error) => Self::Retry(cut(error)),
            Self::RetryAfter(wait, error) => Self::RetryAfter(wait, cut(error)),
            Self::Fail(error) => Self::Fail(cut(error)),
            other @ (Self::Done | Self::DoneWithBytes { .. } | Self::Snooze(_)) => other,
        }
    }

    /// Returns the value of the label `outcome` in metrics.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Done | Self::DoneWith(_) | Self::DoneWithBytes { .. } => "succeeded",
            Self::Retry(_) | Self::RetryAfter(..) => "retry",
            Self::Fail(_) => "failed",
            Self::Snooze(_) => "snoozed",
        }
    }
}

fn too_large(bytes: usize) -> Outcome {
    Outcome::Fail(format!(
        "the callback is done, but its result has {bytes} bytes and the limit is {RESULT_BYTES_MAX}: \
         store it elsewhere and return its address"
    ))
}

/// Turns what a callback returned into an outcome: an error is a retry, with the text of its whole chain of causes.
pub(crate) fn from_return(returned: Result<Outcome, Failure>) -> Outcome {
    match returned {
        Ok(outcome) => outcome,
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = error.source();
            while let Some(inner) = cause {
                text = format!("{text}: {inner}");
                cause = inner.source();
            }
            Outcome::Retry(text)
        }
    }
}

/// Turns a panic into an outcome.
pub(crate) fn from_panic(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Outcome::Retry(format!("the callback panicked: {text}"))
}

fn cut(text: String) -> String {
    if text.chars().count() <= ERROR_CHARS_MAX {
        return text;
    }
    text.chars()
        .take(ERROR_CHARS_MAX - 1)
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_is_a_retry_with_its_causes() {
        let error = Outer(std::io::Error::other("socket closed"));
        assert_eq!(
            from_return(Err(error.into())),
            Outcome::Retry("cannot send: socket closed".to_owned())
        );
    }

    #[test]
    fn a_panic_is_a_retry_with_its_text() {
        let panic = std::panic::catch_unwind(|| panic!("no {}", 7)).unwrap_err();
        assert_eq!(
            from_panic(panic.as_ref()),
            Outcome::Retry("the callback panicked: no 7".to_owned())
        );
    }

    #[test]
    fn a_result_that_is_too_large_fails_with_the_limit() {
        let json = Outcome::done_with(&"x".repeat(RESULT_BYTES_MAX)).unwrap();
        let bytes = Outcome::done_with_bytes(vec![7; RESULT_BYTES_MAX + 2], "image/png");
        for result in [json, bytes] {
            let Outcome::Fail(error) = result.bounded() else {
                panic!("expected a failure");
            };
            assert!(
                error.contains("1048578 bytes") && error.contains("1048576"),
                "{error}"
            );
        }
        let fits = Outcome::done_with_bytes(vec![7; RESULT_BYTES_MAX], "image/png");
        assert_eq!(fits.clone().bounded(), fits);
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let Outcome::Retry(error) = Outcome::retry("ä".repeat(5000)).bounded() else {
            panic!("expected a retry");
        };
        assert_eq!(error.chars().count(), ERROR_CHARS_MAX);
    }
}
