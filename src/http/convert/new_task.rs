//! This conversion makes a draft of a registration request for the domain. It checks bounds, and reports all
//! mistakes at once.
//!
//! It fills nothing in: registration completes the draft ([`crate::model::draft`]).

use std::{sync::Arc, time::Duration};

use super::{
    action,
    content::{self, Parts},
    json, notify, own, target,
    violations::{Violations, checked_name, name},
};
use crate::{
    api::{
        task_request::{RescheduleRequest, RetryPolicy, TaskRequest},
        text::{DurationText, InstantText, shorten},
        time,
    },
    flow::base::api::NewTask,
    http::error::{Code, Error},
    limits::{
        ATTEMPT_TIMEOUT_MIN, ATTEMPTS_MAX, CLAIM_TIMEOUT_MIN, HEARTBEAT_TIMEOUT_MIN,
        LABEL_CHARS_MAX, LABELS_MAX,
    },
    model::{
        action::Actions,
        draft::{BackoffDraft, Defaults, TaskDraft},
        notify::Notify,
        target::Target,
        task::{Body, Content},
        time::Millis,
    },
    schema,
};

/// Shortest retention: stores count it in seconds.
pub(super) const RETENTION_MIN: Duration = Duration::from_secs(1);

/// Factor between waits, at most; beyond it the longest wait is reached at once anyway.
pub(super) const FACTOR_MAX: f64 = 1000.0;

/// Facts that a conversion needs and the request does not contain.
#[derive(Debug, Clone)]
pub struct Context {
    /// When it was received.
    pub now: Millis,
    /// Largest content, encoded.
    pub content_bytes_max: usize,
    /// Whether there is a Kafka that `kafka` targets can go to.
    pub has_kafka: bool,
    /// How Kafka knows the begin of the names of the service's own topics.
    pub own_topics: Arc<str>,
    /// Whether there is a server for e-mails.
    pub has_mail: bool,
    /// Trace context of the request, well formed.
    pub trace_parent: Option<String>,
}

/// Checks what depends on the content, too.
fn check_whole(
    actions: Option<&Actions>,
    target: &Target,
    content: &Content,
    context: &Context,
) -> Result<(), Error> {
    check_size(content, context.content_bytes_max)?;
    let (has_mail, now) = (context.has_mail, context.now);
    action::check(actions, target.is_tracked(), content, has_mail, now)
}

/// Converts a request without the tasks that follow it, which `chained` of `chain.rs` adds.
///
/// # Errors
/// All mistakes of the request.
pub fn new_task(mut request: TaskRequest, context: &Context) -> Result<NewTask, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let (at, delay) = (request.start_time.as_ref(), request.delay.as_ref());
    let start = start_of(at, delay, context.now, wrong);
    target::only_callback_fields(&request, wrong);
    let rules = rules(&mut request, wrong);
    let actions = action::read(&request, wrong);
    let parts = target::read(request.callback, request.http, request.kafka, wrong);
    let payload = content::read(
        Parts {
            payload: request.payload,
            payload_base64: request.payload_base64,
            content_type: request.content_type,
        },
        wrong,
    );
    let labels = labels(request.labels.unwrap_or_default(), wrong);
    let told = request.notify.as_ref();
    let told = told.and_then(|told| notify::read(told, wrong));
    violations.finish()?;
    let no_target = || Error::new(Code::Internal, "a task without target passed");
    let parts = parts.ok_or_else(no_target)?;
    let is_ordered = rules.ordering_key.is_some();
    check_offered(&parts.target, is_ordered, told.as_ref(), context)?;
    let content = Content {
        payload: payload.bytes,
        content_type: payload.content_type,
        record_key: parts.record_key,
        record_headers: parts.record_headers,
        labels,
        trace_parent: context.trace_parent.clone(),
        previous: None,
    };
    check_whole(actions.as_deref(), &parts.target, &content, context)?;
    let body = Body::Inline(content);
    Ok(NewTask {
        start: start.unwrap_or(context.now),
        draft: TaskDraft {
            asked_start: passed(request.start_time.as_ref(), context.now),
            notify: told,
            actions,
            priority: request.priority.map(Into::into),
            ..rules.draft(parts.target, body, context.now)
        },
    })
}

/// Checks that the task is for others than the service itself, and that its records can go out, if there are any.
fn check_offered(
    target: &Target,
    is_ordered: bool,
    told: Option<&Notify>,
    context: &Context,
) -> Result<(), Error> {
    if let Some(callback) = target.callback() {
        own::refuse_callback("/callback", callback)?;
    }
    if is_ordered && !target.is_tracked() {
        let detail = "a `kafka` task has no ordering key: nothing tells when it has ended; leave the key out, or give the task a callback";
        return Err(Error::field(Code::UnusableKey, "/ordering_key", detail));
    }
    notify::check(told, context.has_kafka)?;
    check_topics(target, told, &context.own_topics)?;
    if context.has_kafka || target.is_tracked() {
        return Ok(());
    }
    Err(Error::field(
        Code::Unsupported,
        "/kafka",
        "this service has no Kafka: start it with --queue kafka --kafka HOST:PORT, or give the task a callback",
    ))
}

/// Refuses topics that Kafka knows as the service's own.
fn check_topics(target: &Target, told: Option<&Notify>, own: &str) -> Result<(), Error> {
    if let Target::Kafka { topic, .. } = target {
        target::refuse_own("/kafka/topic", topic, own)?;
    }
    notify::check_topic(told, own)
}

/// The start that was asked for, if it has passed.
fn passed(start_time: Option<&InstantText>, now: Millis) -> Option<Millis> {
    let asked = start_time.and_then(|text| time::instant(text).ok());
    asked.filter(|asked| *asked < now)
}

/// The fields of a request that are neither target nor content, checked.
struct Rules {
    collection: Option<String>,
    ordering_key: Option<String>,
    max_attempts: Option<u32>,
    backoff: BackoffDraft,
    claim_timeout: Option<Duration>,
    heartbeat_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    expire_after: Option<Duration>,
    retention: Option<Duration>,
    dead_retention: Option<Duration>,
}

impl Rules {
    /// Returns a draft with these fields, received at `now`.
    fn draft(self, target: Target, body: Body, now: Millis) -> TaskDraft {
        TaskDraft {
            target,
            body,
            asked_start: None,
            scheduled: None,
            key: None,
            ordering_key: self.ordering_key,
            notify: None,
            actions: None,
            kin: None,
            after: None,
            then: Vec::new(),
            collection: self.collection,
            priority: None,
            max_attempts: self.max_attempts,
            backoff: self.backoff,
            claim_timeout: self.claim_timeout,
            heartbeat_timeout: self.heartbeat_timeout,
            attempt_timeout: self.attempt_timeout,
            expire_after: self.expire_after,
            retention: self.retention,
            dead_retention: self.dead_retention,
            create_time: now,
        }
    }
}

/// Takes names out of the request, and reads the rest of its rules.
fn rules(request: &mut TaskRequest, wrong: &mut Violations) -> Rules {
    let collection = request.collection.take();
    let collection = collection.and_then(|text| wrong.take("/collection", name(text)));
    let ordering_key = request.ordering_key.take();
    let ordering_key =
        ordering_key.and_then(|text| wrong.take("/ordering_key", checked_name(text)));
    check_attempts(request.max_attempts, wrong);
    let backoff = backoff(request.retry.as_ref(), wrong);
    let mut duration = |pointer, text: &Option<DurationText>, least| {
        read_duration(pointer, text.as_ref(), least, wrong)
    };
    let moment = Duration::from_millis(1);
    Rules {
        collection,
        ordering_key,
        max_attempts: request.max_attempts,
        backoff,
        claim_timeout: duration("/claim_timeout", &request.claim_timeout, CLAIM_TIMEOUT_MIN),
        heartbeat_timeout: duration(
            "/heartbeat_timeout",
            &request.heartbeat_timeout,
            HEARTBEAT_TIMEOUT_MIN,
        ),
        attempt_timeout: duration(
            "/attempt_timeout",
            &request.attempt_timeout,
            ATTEMPT_TIMEOUT_MIN,
        ),
        expire_after: duration("/expire_after", &request.expire_after, moment),
        retention: duration("/retention", &request.retention, RETENTION_MIN),
        dead_retention: duration("/dead_retention", &request.dead_retention, RETENTION_MIN),
    }
}

/// Converts the new start of a task.
///
/// # Errors
/// All mistakes of the request.
pub fn new_start(request: &RescheduleRequest, now: Millis) -> Result<Millis, Error> {
    let mut violations = Violations::default();
    let (start_time, delay) = (request.start_time.as_ref(), request.delay.as_ref());
    if start_time.is_none() && delay.is_none() {
        violations.add(
            "",
            "give `start_time` or `delay`; to start at once, use /run",
        );
    }
    let start = start_of(start_time, delay, now, &mut violations);
    violations.finish()?;
    Ok(start.unwrap_or(now))
}

/// Checks the size of all that would be stored and published: payload, headers, key and labels as encoded.
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

pub(super) fn check_attempts(wanted: Option<u32>, violations: &mut Violations) {
    if wanted.is_some_and(|attempts| !(1..=ATTEMPTS_MAX).contains(&attempts)) {
        violations.add("/max_attempts", format!("must be 1 to {ATTEMPTS_MAX}"));
    }
}

pub(super) fn backoff(policy: Option<&RetryPolicy>, violations: &mut Violations) -> BackoffDraft {
    let Some(policy) = policy else {
        return BackoffDraft::default();
    };
    let zero = Duration::ZERO;
    let initial = read_duration("/retry/initial", policy.initial.as_ref(), zero, violations);
    let max = read_duration("/retry/max", policy.max.as_ref(), zero, violations);
    // A bound that is below the first wait of the service is a mistake, too, if no first wait is given.
    let least = initial.unwrap_or(Defaults::SERVICE.backoff.initial);
    if max.is_some_and(|max| max < least) {
        violations.add("/retry/max", "must not be shorter than `initial`");
    }
    if policy
        .factor
        .is_some_and(|factor| !(1.0..=FACTOR_MAX).contains(&factor))
    {
        violations.add("/retry/factor", format!("must be 1 to {FACTOR_MAX}"));
    }
    BackoffDraft {
        initial,
        factor_milli: policy.factor.map(thousandths),
        max,
        jitter: policy.jitter.map(Into::into),
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

pub(super) fn labels(
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
            violations.add(pointer.clone(), detail);
        }
        // As in keys: a list of tasks shows them.
        if let Some(odd) = label.chars().chain(value.chars()).find(|c| c.is_control()) {
            let detail = format!("must have no control characters; found {odd:?}");
            violations.add(pointer, detail);
        }
    }
    labels.into_iter().collect()
}

/// Reads when a task is to start. At most one of the two fields may be given; without either there is no
/// start.
pub(super) fn start_of(
    start_time: Option<&InstantText>,
    delay: Option<&DurationText>,
    now: Millis,
    violations: &mut Violations,
) -> Option<Millis> {
    violations.exclusive(
        ("start_time", start_time.is_some()),
        ("delay", delay.is_some()),
    );
    let at = start_time.and_then(|text| violations.take("/start_time", time::instant(text)));
    let after =
        delay.and_then(|text| violations.take("/delay", time::duration(text, Duration::ZERO)));
    at.map(|at| at.max(now))
        .or_else(|| after.map(|after| now.after(after)))
}
