//! From a registration request to the domain: defaults, bounds, and every complaint at once.

use std::time::Duration;

use bytes::Bytes;

use super::{
    content::{self, Parts},
    json, read_target as target,
    task_request::{RescheduleRequest, RetryPolicy, TaskRequest},
    text::{DurationText, InstantText},
    time,
    violations::{Violations, name, shorten},
};
use crate::{
    flow::api::NewTask,
    http::error::{Code, Error},
    limits::{ATTEMPTS_MAX, CLAIM_TIMEOUT_MIN, HEARTBEAT_TIMEOUT_MIN, LABEL_CHARS_MAX, LABELS_MAX},
    model::{
        backoff::Backoff,
        task::{Body, Content, Spec, Target},
        time::Millis,
    },
    schema,
};

/// Attempts of a task that does not say how many: with the default waits they span two days.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 10;

/// Claim timeout of a task that does not say: longer than a rebalance of consumers usually takes.
pub const CLAIM_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// Heartbeat timeout of a task that does not say: three heartbeats of 15 s.
pub const HEARTBEAT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(45);

/// Retention of a task that does not say: what failed on Friday can be read on Monday.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(72 * 3600);

/// Shortest retention: stores count it in seconds.
pub(super) const RETENTION_MIN: Duration = Duration::from_secs(1);

/// Factor between waits, at most; beyond it the longest wait is reached at once anyway.
pub(super) const FACTOR_MAX: f64 = 1000.0;

/// What a request does not say itself.
#[derive(Debug, Clone)]
pub struct Context {
    /// When it was received.
    pub now: Millis,
    /// Largest content, encoded.
    pub content_bytes_max: usize,
    /// Whether there is a Kafka that `kafka` targets can go to.
    pub has_kafka: bool,
    /// Trace context of the request, well formed.
    pub trace_parent: Option<String>,
}

/// Converts a request.
///
/// # Errors
/// Everything that is wrong with it.
pub fn new_task(request: TaskRequest, context: &Context) -> Result<NewTask, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let start = time::start(
        request.start_time.as_ref(),
        request.delay.as_ref(),
        context.now,
        wrong,
    );
    target::only_callback_fields(&request, wrong);
    let rules = rules(&request, context.now, wrong);
    let parts = target::read(request.callback, request.kafka, wrong);
    let payload = content::read(
        Parts {
            payload: request.payload,
            payload_base64: request.payload_base64,
            content_type: request.content_type,
        },
        wrong,
    );
    let labels = labels(request.labels.unwrap_or_default(), wrong);
    violations.finish()?;
    let Some(parts) = parts else {
        return Err(Error::new(Code::Internal, "a task without target passed"));
    };
    if !context.has_kafka && !parts.target.is_tracked() {
        return Err(Error::field(
            Code::Unsupported,
            "/kafka",
            "this service has no Kafka: start it with --queue kafka --kafka HOST:PORT, or give the task a callback",
        ));
    }
    let content = Content {
        payload: payload.bytes,
        content_type: payload.content_type,
        record_key: parts.record_key,
        record_headers: parts.record_headers,
        labels,
        trace_parent: context.trace_parent.clone(),
    };
    check_size(&content, context.content_bytes_max)?;
    Ok(NewTask {
        start: start.unwrap_or(context.now),
        spec: Spec {
            target: parts.target,
            body: Body::Inline(content),
            asked_start: passed(request.start_time.as_ref(), context.now),
            ..rules
        },
    })
}

/// The start that was asked for, if it has passed.
fn passed(start_time: Option<&InstantText>, now: Millis) -> Option<Millis> {
    let asked = start_time.and_then(|text| time::instant(text).ok());
    asked.filter(|asked| *asked < now)
}

/// Reads everything that is neither target nor content.
fn rules(request: &TaskRequest, now: Millis, wrong: &mut Violations) -> Spec {
    let moment = Duration::from_millis(1);
    let collection = request.collection.clone();
    let claim_timeout = request.claim_timeout.as_ref();
    let heartbeat_timeout = request.heartbeat_timeout.as_ref();
    let expire_after = request.expire_after.as_ref();
    let retention = request.retention.as_ref();
    Spec {
        // Target and body are put in by the caller, once they are known to be good.
        target: Target::Callback {
            name: String::new(),
        },
        body: Body::Apart { bytes: 0 },
        collection: collection
            .and_then(|text| wrong.take("/collection", name(text)))
            .unwrap_or_default(),
        priority: request.priority.map_or_else(Default::default, Into::into),
        max_attempts: attempts(request.max_attempts, wrong),
        backoff: backoff(request.retry.as_ref(), wrong),
        claim_timeout: read_duration("/claim_timeout", claim_timeout, CLAIM_TIMEOUT_MIN, wrong)
            .unwrap_or(CLAIM_TIMEOUT_DEFAULT),
        heartbeat_timeout: read_duration(
            "/heartbeat_timeout",
            heartbeat_timeout,
            HEARTBEAT_TIMEOUT_MIN,
            wrong,
        )
        .unwrap_or(HEARTBEAT_TIMEOUT_DEFAULT),
        expire_after: read_duration("/expire_after", expire_after, moment, wrong),
        retention: read_duration("/retention", retention, RETENTION_MIN, wrong)
            .unwrap_or(RETENTION_DEFAULT),
        create_time: now,
        asked_start: None,
    }
}

/// Converts the new start of a task.
///
/// # Errors
/// Everything that is wrong with it.
pub fn new_start(request: &RescheduleRequest, now: Millis) -> Result<Millis, Error> {
    let mut violations = Violations::default();
    let (start_time, delay) = (request.start_time.as_ref(), request.delay.as_ref());
    if start_time.is_none() && delay.is_none() {
        violations.add(
            "",
            "give `start_time` or `delay`; to start at once, use /run",
        );
    }
    let start = time::start(start_time, delay, now, &mut violations);
    violations.finish()?;
    Ok(start.unwrap_or(now))
}

/// Checks what would be stored and published: payload, headers, key and labels as encoded.
fn check_size(content: &Content, bytes_max: usize) -> Result<(), Error> {
    let bytes = schema::content_bytes(content);
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(Error::field(
        Code::TooLarge,
        "/payload",
        format!(
            "payload, headers, key and labels are {bytes} bytes together as encoded; the limit is {bytes_max}"
        ),
    ))
}

pub(super) fn read_duration(
    pointer: &str,
    text: Option<&DurationText>,
    least: Duration,
    violations: &mut Violations,
) -> Option<Duration> {
    text.and_then(|text| violations.take(pointer, time::duration(text, least)))
}

fn attempts(wanted: Option<u32>, violations: &mut Violations) -> u32 {
    let attempts = wanted.unwrap_or(MAX_ATTEMPTS_DEFAULT);
    if !(1..=ATTEMPTS_MAX).contains(&attempts) {
        violations.add("/max_attempts", format!("must be 1 to {ATTEMPTS_MAX}"));
    }
    attempts
}

fn backoff(policy: Option<&RetryPolicy>, violations: &mut Violations) -> Backoff {
    let Some(policy) = policy else {
        return Backoff::DEFAULT;
    };
    let default = Backoff::DEFAULT;
    let zero = Duration::ZERO;
    let initial = read_duration("/retry/initial", policy.initial.as_ref(), zero, violations);
    let initial = initial.unwrap_or(default.initial);
    let max = read_duration("/retry/max", policy.max.as_ref(), zero, violations);
    if max.is_some_and(|max| max < initial) {
        violations.add("/retry/max", "must not be shorter than `initial`");
    }
    let factor = policy
        .factor
        .unwrap_or_else(|| f64::from(default.factor_milli) / 1000.0);
    if !(1.0..=FACTOR_MAX).contains(&factor) {
        violations.add("/retry/factor", format!("must be 1 to {FACTOR_MAX}"));
    }
    Backoff {
        initial,
        factor_milli: thousandths(factor),
        max: max.unwrap_or_else(|| default.max.max(initial)),
        jitter: policy.jitter.map_or(default.jitter, Into::into),
    }
}

/// Rounds to thousandths; the bounds have been checked.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates, and the value is 1 to 1000"
)]
fn thousandths(factor: f64) -> u32 {
    (factor * 1000.0).round() as u32
}

fn labels(
    labels: std::collections::BTreeMap<String, String>,
    violations: &mut Violations,
) -> Vec<(String, String)> {
    if labels.len() > LABELS_MAX {
        violations.add("/labels", format!("more than {LABELS_MAX} labels"));
        return Vec::new();
    }
    for (label, value) in &labels {
        let pointer = format!("/labels/{}", json::escape(label));
        if !(1..=LABEL_CHARS_MAX).contains(&label.chars().count()) {
            let detail = format!("the label's name must have 1 to {LABEL_CHARS_MAX} characters");
            violations.add(pointer.clone(), detail);
        }
        if value.chars().count() > LABEL_CHARS_MAX {
            let detail = format!(
                "`{}` is too long; a label's value has at most {LABEL_CHARS_MAX} characters",
                shorten(value)
            );
            violations.add(pointer, detail);
        }
    }
    labels.into_iter().collect()
}

/// A payload and what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Payload {
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// Its media type.
    pub(super) content_type: String,
}
