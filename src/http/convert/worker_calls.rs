//! These conversions translate worker calls for the domain and back, item by item. A bad item gets its own
//! error.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    chain,
    content::{self, Parts, base64},
    json, message_spec,
    new_task::read_duration,
    task_view::{dependency_response, some_text},
    violations::Violations,
};
use crate::{
    api::{
        text::DurationText,
        worker::{
            ClaimItem, ClaimResult, ClaimStatus, ClaimedTask, HeartbeatItem, HeartbeatResult,
            HeartbeatStatus, SettleItem, SettleOutcome, SettleResult, SettleStatus, View,
        },
    },
    flow::base::api,
    http::error::{Code, Error},
    limits::{ERROR_CHARS_MAX, PROGRESS_BYTES_MAX, RESULT_BYTES_MAX, WORKER_CHARS_MAX},
    model::{dispatch::Dispatch, ids::TaskId, result::TaskResult, state::Outcome},
    queue::message::TaskMessage,
    schema,
};

/// Checks a worker's name.
///
/// # Errors
/// A description of the mistake.
pub fn worker_name(text: &str) -> Result<(), Error> {
    let length = text.chars().count();
    if !(1..=WORKER_CHARS_MAX).contains(&length) || text.chars().any(char::is_control) {
        let detail = format!("must have 1 to {WORKER_CHARS_MAX} characters, none of them control");
        return Err(Error::field(Code::InvalidRequest, "/worker", detail));
    }
    Ok(())
}

/// Converts a message to claim.
///
/// # Errors
/// All mistakes of the item.
pub fn claim_request(item: &ClaimItem, view: View) -> Result<api::ClaimRequest, Error> {
    let id = task_id(&item.id)?;
    let (spec, published) = match &item.message {
        None => (None, None),
        Some(text) => {
            let message = message(text).map_err(bad_message)?;
            let Dispatch {
                id: found,
                generation,
                expected_attempt,
                start: _,
            } = message.dispatch;
            let found = (found, generation, expected_attempt);
            if found != (id, item.generation, item.expected_attempt) {
                return Err(bad_message(
                    "does not agree with id, generation and expected_attempt".to_owned(),
                ));
            }
            message_spec::check(&message.spec).map_err(bad_message)?;
            // A large content inside is read from the store, as far as there is memory for it: the call may wait for that.
            let spec = schema::without_large_content(&Arc::new(message.spec));
            (Some(spec), Some(message.published))
        }
    };
    Ok(api::ClaimRequest {
        id,
        generation: item.generation,
        expected_attempt: item.expected_attempt,
        spec,
        published,
        with_content: view == View::Full,
        admitted: false,
    })
}

/// Converts a sign of life.
///
/// # Errors
/// All mistakes of the item.
pub fn heartbeat_request(item: &HeartbeatItem) -> Result<api::HeartbeatRequest, Error> {
    let mut violations = Violations::default();
    let progress = bounded(
        "/progress",
        item.progress.as_deref(),
        PROGRESS_BYTES_MAX,
        &mut violations,
    );
    violations.finish()?;
    Ok(api::HeartbeatRequest {
        id: task_id(&item.id)?,
        attempt: item.attempt,
        progress,
    })
}

/// The error of an attempt whose worker gives none.
const NO_REASON: &str = "the worker gave no reason";

/// Converts a report.
///
/// # Errors
/// All mistakes of the item.
pub fn settle_request(item: &SettleItem) -> Result<api::SettleRequest, Error> {
    let id = task_id(&item.id)?;
    let mut violations = Violations::default();
    let wrong = &mut violations;
    allowed_fields(item, wrong);
    let result = result(item, wrong);
    let delay = read_duration("/delay", item.delay.as_ref(), Duration::ZERO, wrong);
    let error = kept_error(item.error.as_deref().unwrap_or(NO_REASON));
    violations.finish()?;
    let outcome = match item.outcome {
        SettleOutcome::Succeeded => Outcome::Succeeded { result },
        SettleOutcome::Retry => Outcome::Retry {
            error,
            after: delay,
        },
        SettleOutcome::Failed => Outcome::Failed { error },
        SettleOutcome::Snoozed => Outcome::Snoozed {
            after: delay.unwrap_or_default(),
        },
    };
    Ok(api::SettleRequest {
        id,
        attempt: item.attempt,
        outcome,
        answered: None,
    })
}

/// Reads the result of a report. A JSON value has no media type unless the report names one.
fn result(item: &SettleItem, wrong: &mut Violations) -> Option<TaskResult> {
    wrong.exclusive(
        ("result", item.result.is_some()),
        ("result_base64", item.result_base64.is_some()),
    );
    let content_type = item.result_content_type.clone();
    let content_type =
        content_type.and_then(|text| wrong.take("/result_content_type", content::media_type(text)));
    if let Some(text) = &content_type {
        let detail = match (&item.result, &item.result_base64) {
            (Some(_), _) if !content::is_json(text) => {
                Some("`result` is JSON; send other media types as `result_base64`")
            }
            (None, None) => Some("there is no result: give `result` or `result_base64`"),
            _ => None,
        };
        if let Some(detail) = detail {
            wrong.add("/result_content_type", detail);
        }
    }
    if let Some(value) = item.result.as_deref() {
        let json = bounded("/result", Some(value), RESULT_BYTES_MAX, wrong)?;
        return Some(TaskResult {
            content_type: content_type.unwrap_or_default(),
            ..TaskResult::from(json)
        });
    }
    let read = base64(item.result_base64.as_deref()?).and_then(|bytes| {
        let length = bytes.len();
        let too_long = || format!("is {length} bytes long; the limit is {RESULT_BYTES_MAX}");
        (length <= RESULT_BYTES_MAX)
            .then_some(bytes)
            .ok_or_else(too_long)
    });
    let bytes = wrong.take("/result_base64", read)?;
    Some(TaskResult {
        content_type: content_type.unwrap_or_else(|| content::BYTES.to_owned()),
        ..TaskResult::from(bytes)
    })
}

/// Notes fields that the outcome requires and that are missing, and fields that it does not allow.
fn allowed_fields(item: &SettleItem, violations: &mut Violations) {
    let outcome = item.outcome;
    let (is_success, is_snooze) = (
        outcome == SettleOutcome::Succeeded,
        outcome == SettleOutcome::Snoozed,
    );
    let is_failure = matches!(outcome, SettleOutcome::Retry | SettleOutcome::Failed);
    let of_success = [
        ("result", item.result.is_some()),
        ("result_base64", item.result_base64.is_some()),
        ("result_content_type", item.result_content_type.is_some()),
    ];
    if item.children_complete && !is_success && outcome != SettleOutcome::Failed {
        let detail = "only `succeeded` and `failed` end the run that adds children";
        violations.add("/children_complete", detail);
    }
    for (field, _) in of_success.iter().filter(|(_, given)| *given && !is_success) {
        violations.add(
            format!("/{field}"),
            format!("only `succeeded` has a `{field}`"),
        );
    }
    match &item.error {
        Some(_) if !is_failure => {
            violations.add("/error", "only `retry` and `failed` have an `error`");
        }
        Some(_) | None => {}
    }
    match &item.delay {
        Some(_) if !is_snooze && outcome != SettleOutcome::Retry => {
            violations.add("/delay", "only `retry` and `snoozed` have a `delay`");
        }
        None if is_snooze => violations.add("/delay", "missing: say for how long"),
        Some(_) | None => {}
    }
}

/// Reads a task's id.
///
/// # Errors
/// When it is not one.
pub fn task_id(text: &str) -> Result<TaskId, Error> {
    text.parse()
        .map_err(|error: crate::model::ids::NotATaskId| {
            Error::field(Code::InvalidTaskId, "/id", error.to_string())
        })
}

fn message(text: &str) -> Result<TaskMessage, String> {
    TaskMessage::decode(base64(text)?).map_err(|error| error.to_string())
}

fn bad_message(detail: String) -> Error {
    Error::field(Code::InvalidRequest, "/message", detail)
}

fn bounded(
    pointer: &str,
    value: Option<&RawValue>,
    bytes_max: usize,
    violations: &mut Violations,
) -> Option<Bytes> {
    let value = value?;
    let bytes = value.get().len();
    let result = if bytes > bytes_max {
        Err(format!("is {bytes} bytes long; the limit is {bytes_max}"))
    } else {
        json::readable(value)
    };
    violations.take(pointer, result)
}

/// Cuts an error text to the part that is kept; refusing a report for its length would lose the report.
fn kept_error(text: &str) -> String {
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(ERROR_CHARS_MAX - 3)
            .chain("...".chars())
            .collect(),
    }
}

impl From<api::ClaimAnswer> for ClaimResult {
    fn from(answer: api::ClaimAnswer) -> Self {
        let plain = |status| Self {
            status,
            task: None,
            not_before: None,
            error: None,
        };
        match answer {
            api::ClaimAnswer::Claimed(task) => Self {
                task: Some((*task).into()),
                ..plain(ClaimStatus::Claimed)
            },
            api::ClaimAnswer::Stale => plain(ClaimStatus::Stale),
            api::ClaimAnswer::Held => plain(ClaimStatus::Held),
            api::ClaimAnswer::Gated => plain(ClaimStatus::Gated),
            api::ClaimAnswer::Behind => plain(ClaimStatus::Behind),
            api::ClaimAnswer::Early { not_before } => Self {
                not_before: Some(not_before.into()),
                ..plain(ClaimStatus::Early)
            },
            api::ClaimAnswer::Limited { not_before } => Self {
                not_before: Some(not_before.into()),
                ..plain(ClaimStatus::Limited)
            },
            api::ClaimAnswer::Fault(fault) => Error::from(fault).into(),
        }
    }
}

impl From<Error> for ClaimResult {
    fn from(error: Error) -> Self {
        Self {
            status: ClaimStatus::Error,
            task: None,
            not_before: None,
            error: Some(error.problem_of_item()),
        }
    }
}

impl From<api::ClaimedTask> for ClaimedTask {
    fn from(task: api::ClaimedTask) -> Self {
        let content = task.content.as_ref();
        let Parts {
            payload,
            payload_base64,
            content_type,
        } = content.map_or_else(Parts::default, |content| {
            content::write(&content.payload, &content.content_type)
        });
        let run = task.spec.scheduled.as_ref();
        Self {
            id: task.id.to_string(),
            attempt: task.attempt,
            generation: task.generation,
            callback: task.spec.callback().unwrap_or_default().to_owned(),
            collection: some_text(&task.spec.collection),
            priority: Some(task.spec.priority.into()),
            ordering_key: task.spec.ordering_key.clone(),
            parent: task.spec.parent().map(|parent| parent.to_string()),
            schedule: run.map(|run| run.schedule.clone()),
            scheduled_time: run.map(|run| run.time.into()),
            payload,
            payload_base64,
            content_type,
            start_time: task.start.into(),
            claim_expire_time: task.expires.into(),
            heartbeat_timeout: DurationText::from(task.spec.heartbeat_timeout),
            attempt_timeout: task.spec.attempt_timeout.map(DurationText::from),
            max_attempts: task.spec.max_attempts,
            labels: content
                .map(|content| content.labels.iter().cloned().collect())
                .unwrap_or_default(),
            previous: content.and_then(chain::previous_of),
            dependencies: task.dependencies.iter().map(dependency_response).collect(),
            traceparent: content.and_then(|content| content.trace_parent.clone()),
        }
    }
}

impl From<api::HeartbeatAnswer> for HeartbeatResult {
    fn from(answer: api::HeartbeatAnswer) -> Self {
        let status = match answer {
            api::HeartbeatAnswer::Ok => HeartbeatStatus::Ok,
            api::HeartbeatAnswer::Lost(reason) => {
                return Self {
                    status: HeartbeatStatus::Lost,
                    reason: Some(reason.to_string()),
                    error: None,
                };
            }
            api::HeartbeatAnswer::CancelRequested => HeartbeatStatus::CancelRequested,
            api::HeartbeatAnswer::Fault(fault) => return Error::from(fault).into(),
        };
        Self {
            status,
            reason: None,
            error: None,
        }
    }
}

impl From<Error> for HeartbeatResult {
    fn from(error: Error) -> Self {
        Self {
            status: HeartbeatStatus::Error,
            reason: None,
            error: Some(error.problem_of_item()),
        }
    }
}

impl From<api::SettleAnswer> for SettleResult {
    fn from(answer: api::SettleAnswer) -> Self {
        let status = match answer {
            api::SettleAnswer::Ok => SettleStatus::Ok,
            api::SettleAnswer::Lost(reason) => {
                return Self {
                    status: SettleStatus::Lost,
                    reason: Some(reason.to_string()),
                    error: None,
                };
            }
            api::SettleAnswer::Fault(fault) => return Error::from(fault).into(),
        };
        Self {
            status,
            reason: None,
            error: None,
        }
    }
}

impl From<Error> for SettleResult {
    fn from(error: Error) -> Self {
        Self {
            status: SettleStatus::Error,
            reason: None,
            error: Some(error.problem_of_item()),
        }
    }
}
