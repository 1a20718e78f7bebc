//! The check of a message's spec holds what a worker sends back to the bounds of a registration.
//!
//! A first claim writes the spec that comes with its message into the task's row. Messages are the service's own, but any
//! program can send one: without these bounds a row could be kept for ever, or its lease never end.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    action, http_call,
    new_task::{FACTOR_MAX, RETENTION_MIN},
    target::foreign,
    violations::{checked_name, name},
};
use crate::{
    limits::{
        ATTEMPT_TIMEOUT_MIN, ATTEMPTS_MAX, CLAIM_TIMEOUT_MIN, CONTENT_TYPE_CHARS_MAX, DURATION_MAX,
        HEARTBEAT_TIMEOUT_MIN, INDEXED_LABELS_MAX, LABEL_CHARS_MAX, LABELS_MAX, THEN_BYTES_MAX,
        THEN_LEVELS_MAX, THEN_MAX,
    },
    model::{
        callback::is_reserved,
        chain::{FollowStart, FollowUp},
        notify::Destination,
        target::Target,
        task::{Content, Spec},
    },
    schema::follow_ups_bytes,
};

/// Longest trace context that is kept: the standard's only version has 55 characters.
const TRACE_PARENT_BYTES_MAX: usize = 55;

/// Checks a spec as a registration of it would have been checked.
///
/// # Errors
/// A text about the first mistake in it.
pub(super) fn check(spec: &Spec) -> Result<(), String> {
    let callback = spec.callback().ok_or("is of a task that nobody claims")?;
    if spec.queue() != Some(callback) {
        return Err("is of a task that the service delivers itself".to_owned());
    }
    named("callback", callback)?;
    check_rules(spec)?;
    check_follow_ups(spec)
}

/// Checks the follow-ups of a task, and those of these.
fn check_follow_ups(spec: &Spec) -> Result<(), String> {
    if follow_ups_bytes(&spec.then) > THEN_BYTES_MAX {
        return Err(format!(
            "has follow-ups of more than {THEN_BYTES_MAX} bytes"
        ));
    }
    check_level(&spec.then, 1)
}

fn check_level(then: &[FollowUp<Spec>], level: usize) -> Result<(), String> {
    if !then.is_empty() && (then.len() > THEN_MAX || level > THEN_LEVELS_MAX) {
        return Err(format!(
            "has follow-ups out of bounds ({THEN_MAX} of a task, {THEN_LEVELS_MAX} levels)"
        ));
    }
    for FollowUp { start, task, .. } in then {
        if let FollowStart::After(wait) = start {
            within("start of a follow-up", *wait, Duration::ZERO)?;
        }
        if task.key.is_some() || task.scheduled.is_some() || task.kin.is_some() {
            return Err("has a follow-up with a key, a schedule or a tree of its own".to_owned());
        }
        if task.content().is_none() {
            return Err("has a follow-up without its content".to_owned());
        }
        let callback = task
            .callback()
            .ok_or("has a follow-up that nobody claims")?;
        if is_reserved(callback) {
            return Err("has a follow-up of the service's own".to_owned());
        }
        match &task.target {
            Target::Http { call, .. } => http_call::check(call)
                .map_err(|reason| format!("has a URL of a follow-up that {reason}"))?,
            Target::Callback { .. } | Target::Kafka { .. } => named("callback", callback)?,
        }
        check_rules(task)?;
        check_level(&task.then, level + 1)?;
    }
    Ok(())
}

/// Checks all but the target and the follow-ups.
fn check_rules(spec: &Spec) -> Result<(), String> {
    if !spec.collection.is_empty() {
        named("collection", &spec.collection)?;
    }
    if spec.indexed.len() > INDEXED_LABELS_MAX
        || spec.indexed.iter().any(|(name, value)| {
            let long = |text: &str| text.chars().count() > LABEL_CHARS_MAX;
            long(name) || long(value)
        })
    {
        return Err(format!(
            "has indexed labels out of bounds ({INDEXED_LABELS_MAX} of {LABEL_CHARS_MAX} characters)"
        ));
    }
    if let Some(key) = &spec.key {
        checked_name(key.clone()).map_err(|reason| format!("has a key that {reason}"))?;
    }
    if let Some(key) = &spec.ordering_key {
        checked_name(key.clone()).map_err(|reason| format!("has an ordering_key that {reason}"))?;
    }
    check_told(spec)?;
    if let Some(actions) = &spec.actions {
        action::check_sent(actions)?;
    }
    if !(1..=ATTEMPTS_MAX).contains(&spec.max_attempts) {
        return Err(format!(
            "has max_attempts out of range (1 to {ATTEMPTS_MAX})"
        ));
    }
    let zero = Duration::ZERO;
    let factor = f64::from(spec.backoff.factor_milli) / 1000.0;
    within("retry.initial", spec.backoff.initial, zero)?;
    within("retry.max", spec.backoff.max, zero)?;
    within("claim_timeout", spec.claim_timeout, CLAIM_TIMEOUT_MIN)?;
    within(
        "heartbeat_timeout",
        spec.heartbeat_timeout,
        HEARTBEAT_TIMEOUT_MIN,
    )?;
    within("retention", spec.retention, RETENTION_MIN)?;
    if let Some(timeout) = spec.attempt_timeout {
        within("attempt_timeout", timeout, ATTEMPT_TIMEOUT_MIN)?;
    }
    if let Some(retention) = spec.dead_retention {
        within("dead_retention", retention, RETENTION_MIN)?;
    }
    if let Some(expire_after) = spec.expire_after {
        within("expire_after", expire_after, zero)?;
    }
    if !(1.0..=FACTOR_MAX).contains(&factor) {
        return Err(format!("has retry.factor out of range (1 to {FACTOR_MAX})"));
    }
    spec.content().map_or(Ok(()), check_content)
}

/// Checks where the end of a task is told.
fn check_told(spec: &Spec) -> Result<(), String> {
    match spec.notify.as_ref().map(|notify| &notify.to) {
        None => {}
        Some(Destination::Kafka { topic }) => {
            named("topic of notices", topic)?;
            foreign(topic.clone()).map_err(|reason| format!("has a topic of notices: {reason}"))?;
        }
        Some(Destination::Http(call)) => {
            let checked = http_call::check(call);
            checked.map_err(|reason| format!("has a URL of notices that {reason}"))?;
        }
    }
    Ok(())
}

/// Payload and headers are bounded by what travels in a row; the rest is not.
fn check_content(content: &Content) -> Result<(), String> {
    let chars: RangeInclusive<usize> = 0..=LABEL_CHARS_MAX;
    let fits = |text: &str| chars.contains(&text.chars().count());
    let labels_fit = content.labels.len() <= LABELS_MAX
        && content
            .labels
            .iter()
            .all(|(label, value)| fits(label) && fits(value));
    let trace_bytes = content.trace_parent.as_ref().map_or(0, String::len);
    if !labels_fit {
        Err(format!(
            "has labels out of bounds ({LABELS_MAX} of {LABEL_CHARS_MAX} characters)"
        ))
    } else if content.content_type.len() > CONTENT_TYPE_CHARS_MAX {
        Err(format!(
            "has a content_type of more than {CONTENT_TYPE_CHARS_MAX} characters"
        ))
    } else if trace_bytes > TRACE_PARENT_BYTES_MAX {
        Err(format!(
            "has a traceparent of more than {TRACE_PARENT_BYTES_MAX} characters"
        ))
    } else {
        Ok(())
    }
}

fn named(field: &str, text: &str) -> Result<(), String> {
    let checked = name(text.to_owned());
    checked.map_or_else(
        |reason| Err(format!("has a {field} that {reason}")),
        |_| Ok(()),
    )
}

fn within(field: &str, duration: Duration, least: Duration) -> Result<(), String> {
    if (least..=DURATION_MAX).contains(&duration) {
        Ok(())
    } else {
        Err(format!(
            "has {field} of {duration:?}, out of range ({least:?} to {DURATION_MAX:?})"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, task::Body};

    #[test]
    fn a_spec_of_a_message_has_the_bounds_of_a_registration() {
        assert_eq!(check(&fixtures::spec()), Ok(()));
        let years = Duration::from_secs(200 * 365 * 24 * 3600);
        type Spoil = fn(&mut Spec, Duration);
        let spoils: [(&str, Spoil); 14] = [
            ("callback", |spec, _| {
                spec.target = Target::Callback {
                    name: "a b".to_owned(),
                };
            }),
            ("collection", |spec, _| spec.collection = "x".repeat(129)),
            ("key", |spec, _| spec.key = Some("x".repeat(129))),
            ("indexed labels", |spec, _| {
                spec.indexed = vec![("a".to_owned(), "b".to_owned()); INDEXED_LABELS_MAX + 1];
            }),
            ("ordering_key", |spec, _| {
                spec.ordering_key = Some(String::new())
            }),
            ("max_attempts", |spec, _| {
                spec.max_attempts = ATTEMPTS_MAX + 1
            }),
            ("retention", |spec, years| spec.retention = years),
            ("claim_timeout", |spec, years| spec.claim_timeout = years),
            ("heartbeat_timeout", |spec, _| {
                spec.heartbeat_timeout = Duration::ZERO
            }),
            ("expire_after", |spec, years| {
                spec.expire_after = Some(years)
            }),
            ("attempt_timeout", |spec, _| {
                spec.attempt_timeout = Some(Duration::ZERO)
            }),
            ("dead_retention", |spec, years| {
                spec.dead_retention = Some(years)
            }),
            ("retry.initial", |spec, years| spec.backoff.initial = years),
            ("labels", |spec, _| {
                let labels = vec![("a".to_owned(), "b".to_owned()); LABELS_MAX + 1];
                let content = Content {
                    labels,
                    ..Content::default()
                };
                spec.body = Body::Inline(content);
            }),
        ];
        for (field, spoil) in spoils {
            let mut spec = fixtures::spec();
            spoil(&mut spec, years);
            let refused = check(&spec).unwrap_err();
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
