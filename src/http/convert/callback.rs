//! This conversion reads the configuration and the gates of callbacks for the domain, and writes them for clients.
//!
//! Fields that are documented for later are read, and refused by name: a field that has no effect must not look as if it had
//! one.

use std::{collections::BTreeMap, time::Duration};

use super::{
    new_task::{self, RETENTION_MIN, read_duration},
    task_view::some_text,
    violations::{Violations, name},
};
use crate::{
    api::{
        callback::{
            CallbackConfiguration, CallbackRequest, CallbackResponse, GateRequest, GateResponse,
            GateState, RateLimit,
        },
        problem::FieldError,
        task_request::RetryPolicy,
        text::DurationText,
        time,
    },
    flow::records::callbacks::GateChange,
    http::error::{Code, Error},
    limits::{
        ATTEMPT_TIMEOUT_MIN, CALLBACK_LABELS_BYTES_MAX, CLAIM_TIMEOUT_MIN, DESCRIPTION_CHARS_MAX,
        HEARTBEAT_TIMEOUT_MIN, IN_FLIGHT_MAX, REASON_CHARS_MAX,
    },
    model::{
        backoff::Jitter,
        callback::{Callback, Policy, RESERVED_PREFIX, is_reserved},
        draft::BackoffDraft,
        gate,
        limit::{BURST_MAX, BURST_SPAN_MIN, Limits, RATE_MAX, RATE_MIN, Rate},
        time::Millis,
    },
};

/// Checks the name of a callback that is to be configured.
///
/// # Errors
/// A text about the mistake.
pub(in crate::http) fn callback_name(text: String) -> Result<String, Error> {
    let checked = name(text).and_then(|name| {
        if is_reserved(&name) {
            Err(format!(
                "must not begin with `{RESERVED_PREFIX}`: these callbacks are the service's own"
            ))
        } else {
            Ok(name)
        }
    });
    checked.map_err(|detail| Error::field(Code::InvalidRequest, "/name", detail))
}

/// Converts a configuration.
///
/// # Errors
/// All mistakes of the request; without any, all fields that are not supported yet.
pub(in crate::http) fn policy(request: &CallbackRequest) -> Result<Policy, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    new_task::check_attempts(request.max_attempts, wrong);
    let backoff = new_task::backoff(request.retry.as_ref(), wrong);
    check_later_fields(request, wrong);
    let description = request.description.as_deref();
    if let Err(detail) = text(description, DESCRIPTION_CHARS_MAX) {
        wrong.add("/description", detail);
    }
    let mut duration = |pointer, text: &Option<DurationText>, least| {
        read_duration(pointer, text.as_ref(), least, wrong)
    };
    let policy = Policy {
        description: description.unwrap_or_default().to_owned(),
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
        expire_after: duration(
            "/expire_after",
            &request.expire_after,
            Duration::from_millis(1),
        ),
        retention: duration("/retention", &request.retention, RETENTION_MIN),
        dead_retention: duration("/dead_retention", &request.dead_retention, RETENTION_MIN),
        priority: request.priority.map(Into::into),
        labels: BTreeMap::new(),
        limits: limits(request, wrong),
    };
    let labels = request.labels.clone().unwrap_or_default();
    let labels: BTreeMap<String, String> = new_task::labels(labels, wrong).into_iter().collect();
    let bytes: usize = labels
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > CALLBACK_LABELS_BYTES_MAX {
        let detail =
            format!("have {bytes} bytes together; at most {CALLBACK_LABELS_BYTES_MAX} are kept");
        wrong.add("/labels", detail);
    }
    violations.finish()?;
    refuse_later_fields(request)?;
    Ok(Policy { labels, ..policy })
}

/// Checks the limits.
fn limits(request: &CallbackRequest, wrong: &mut Violations) -> Limits {
    let given = request.rate.as_ref();
    let rate = given.and_then(|RateLimit { per_second, burst }| {
        let rate = Rate::new(*per_second, *burst);
        if !(RATE_MIN..=RATE_MAX).contains(per_second) {
            wrong.add(
                "/rate/per_second",
                format!("must be {RATE_MIN} to {RATE_MAX}; pause the callback to let no task go"),
            );
        }
        if burst.is_some_and(|burst| !(1..=BURST_MAX).contains(&burst)) {
            let detail =
                format!("must be 1 to {BURST_MAX}; leave it out for the tasks of a second");
            wrong.add("/rate/burst", detail);
        } else if rate.is_none() && (RATE_MIN..=RATE_MAX).contains(per_second) {
            let least = (per_second * BURST_SPAN_MIN.as_secs_f64()).floor();
            let detail = format!("must be at least {least}: the tasks of a tenth of a second");
            wrong.add("/rate/burst", detail);
        }
        rate
    });
    let in_flight = request.max_in_flight;
    if in_flight.is_some_and(|most| !(1..=IN_FLIGHT_MAX).contains(&most)) {
        wrong.add(
            "/max_in_flight",
            format!("must be 1 to {IN_FLIGHT_MAX}; pause the callback to let none run, leave it out for no limit"),
        );
    }
    Limits { rate, in_flight }
}

/// Checks fields that are documented for later, so that their shapes are fixed.
fn check_later_fields(request: &CallbackRequest, wrong: &mut Violations) {
    if let Some(topic) = &request.dead_letter_topic {
        wrong.take("/dead_letter_topic", name(topic.clone()));
    }
}

/// Refuses fields that this version would not put in force.
fn refuse_later_fields(request: &CallbackRequest) -> Result<(), Error> {
    let fields = [
        ("/dead_letter_topic", request.dead_letter_topic.is_some()),
        ("/indexed_labels", request.indexed_labels.is_some()),
        ("/on_retry", request.on_retry.is_some()),
        ("/list_succeeded", request.list_succeeded.is_some()),
        ("/http", request.http.is_some()),
        ("/notify", request.notify.is_some()),
    ];
    let given = fields.into_iter().filter(|(_, given)| *given);
    let errors: Vec<FieldError> = given
        .map(|(pointer, _)| FieldError {
            pointer: pointer.to_owned(),
            detail: "is not supported yet: leave it out".to_owned(),
        })
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Error::fields(Code::NotSupportedYet, errors))
    }
}

/// Converts a change of a gate.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn gate_change(request: GateRequest, now: Millis) -> Result<GateChange, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let collection = request.collection;
    let collection = collection.and_then(|text| wrong.take("/collection", name(text)));
    if let Err(detail) = text(request.reason.as_deref(), REASON_CHARS_MAX) {
        wrong.add("/reason", detail);
    }
    let until = request.until.as_ref();
    let until = until.and_then(|text| wrong.take("/until", time::instant(text)));
    let state = match request.gate {
        GateState::Open => gate::GateState::Open,
        GateState::Paused => gate::GateState::Paused,
        GateState::Dropping => gate::GateState::Dropping,
    };
    if until.is_some() && state == gate::GateState::Open {
        wrong.add("/until", "has no meaning for a gate that is opened");
    } else if until.is_some_and(|until| until <= now) {
        wrong.add("/until", "has passed: give a later time");
    }
    violations.finish()?;
    Ok(GateChange {
        collection: collection.unwrap_or_default(),
        state,
        reason: request.reason.unwrap_or_default(),
        until,
    })
}

fn text(text: Option<&str>, chars_max: usize) -> Result<(), String> {
    let chars = text.map_or(0, |text| text.chars().count());
    if chars > chars_max {
        return Err(format!(
            "has {chars} characters; at most {chars_max} are kept"
        ));
    }
    Ok(())
}

/// Converts a callback.
#[must_use]
pub(in crate::http) fn callback_response(
    name: &str,
    callback: &Callback,
    now: Millis,
) -> CallbackResponse {
    let closed = callback.gates.iter();
    let closed = closed.filter(|gate| gate.state_at(now) != gate::GateState::Open);
    CallbackResponse {
        name: name.to_owned(),
        configuration: callback
            .policy
            .as_ref()
            .map(configuration)
            .unwrap_or_default(),
        gate: gate_state(callback.gate(now)),
        gates: closed.map(gate_response).collect(),
        activity: None,
    }
}

fn configuration(policy: &Policy) -> CallbackConfiguration {
    let readable = |duration: Option<Duration>| duration.map(DurationText::readable);
    CallbackConfiguration {
        description: some_text(&policy.description),
        max_attempts: policy.max_attempts,
        retry: retry(&policy.backoff),
        claim_timeout: readable(policy.claim_timeout),
        heartbeat_timeout: readable(policy.heartbeat_timeout),
        retention: readable(policy.retention),
        dead_retention: readable(policy.dead_retention),
        attempt_timeout: readable(policy.attempt_timeout),
        expire_after: readable(policy.expire_after),
        priority: policy.priority.map(Into::into),
        labels: policy.labels.clone(),
        rate: policy.limits.rate.map(|rate| RateLimit {
            per_second: rate.per_second(),
            burst: Some(rate.burst()),
        }),
        max_in_flight: policy.limits.in_flight,
    }
}

fn retry(backoff: &BackoffDraft) -> Option<RetryPolicy> {
    use crate::api::task_request::Jitter as Shown;
    (*backoff != BackoffDraft::default()).then(|| RetryPolicy {
        initial: backoff.initial.map(DurationText::readable),
        factor: backoff
            .factor_milli
            .map(|factor| f64::from(factor) / 1000.0),
        max: backoff.max.map(DurationText::readable),
        jitter: backoff.jitter.map(|jitter| match jitter {
            Jitter::Full => Shown::Full,
            Jitter::None => Shown::None,
        }),
    })
}

fn gate_response(gate: &gate::Gate) -> GateResponse {
    GateResponse {
        collection: some_text(&gate.collection),
        gate: gate_state(gate.state),
        reason: some_text(&gate.reason),
        since: gate.since.into(),
        until: gate.until.map(Into::into),
    }
}

const fn gate_state(state: gate::GateState) -> GateState {
    match state {
        gate::GateState::Open => GateState::Open,
        gate::GateState::Paused => GateState::Paused,
        gate::GateState::Dropping => GateState::Dropping,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::convert::json;

    const NOW: Millis = Millis(1_800_000_000_000);

    fn read(text: &str) -> Result<Policy, Error> {
        policy(&json::read::<CallbackRequest>(text)?)
    }

    fn pointers(error: &Error) -> Vec<&str> {
        error.errors.iter().map(|e| e.pointer.as_str()).collect()
    }

    #[test]
    fn every_violation_is_named() {
        let text = r#"{"max_attempts": 0, "retry": {"initial": "2s", "max": "1s", "factor": 0.5},
            "claim_timeout": "1s", "heartbeat_timeout": "soon", "retention": "0s", "expire_after": "0s",
            "attempt_timeout": "999ms", "dead_retention": "0s", "rate": {"per_second": 0, "burst": 0}, "max_in_flight": 0, "dead_letter_topic": "a b",
            "labels": {"": "x"}}"#;
        let error = read(text).unwrap_err();
        assert_eq!(error.code, Code::InvalidRequest);
        let mut found = pointers(&error);
        found.sort_unstable();
        let expected = [
            "/attempt_timeout",
            "/claim_timeout",
            "/dead_letter_topic",
            "/dead_retention",
            "/expire_after",
            "/heartbeat_timeout",
            "/labels/",
            "/max_attempts",
            "/max_in_flight",
            "/rate/burst",
            "/rate/per_second",
            "/retention",
            "/retry/factor",
            "/retry/max",
        ];
        assert_eq!(found, expected);
        let long = format!(r#"{{"description": "{}"}}"#, "x".repeat(1025));
        assert_eq!(pointers(&read(&long).unwrap_err()), ["/description"]);
    }

    #[test]
    fn fields_that_would_have_no_effect_are_refused_by_name() {
        let text = r#"{"dead_letter_topic": "t", "indexed_labels": ["a"],
            "on_retry": "skip", "list_succeeded": true,
            "http": {"url": "https://example.org"}, "notify": []}"#;
        let error = read(text).unwrap_err();
        assert_eq!(error.code, Code::NotSupportedYet);
        assert_eq!(error.code.status().as_u16(), 422);
        assert_eq!(error.errors.len(), 6);
        let error = read(r#"{"expire_after": null, "http": null, "retry": null}"#);
        assert_eq!(error.unwrap(), Policy::default());
    }

    #[test]
    fn an_unknown_field_names_the_nearest() {
        let error = read(r#"{"maxx_attempts": 3}"#).unwrap_err();
        assert!(error.detail.contains("`max_attempts`"), "{error:?}");
    }

    #[test]
    fn names_of_the_service_are_refused() {
        for (text, says) in [
            ("tickwheel.jobs", "service's own"),
            ("a b", "found ' '"),
            ("", "1 to 128"),
        ] {
            let error = callback_name(text.to_owned()).unwrap_err();
            assert_eq!(pointers(&error), ["/name"], "{text}");
            assert!(error.detail.contains(says), "{error:?}");
        }
        assert_eq!(callback_name("tickwheel".to_owned()).unwrap(), "tickwheel");
    }

    #[test]
    fn a_configuration_is_shown_as_it_was_given() {
        let text = r#"{"description":"mail","max_attempts":8,"retry":{"initial":"1s","factor":1.5},"claim_timeout":"1m 30s","priority":"high","labels":{"a":"b"},"rate":{"per_second":0.01,"burst":3},"max_in_flight":200000}"#;
        let callback = Callback {
            policy: Some(read(text).unwrap()),
            gates: Vec::new(),
        };
        let shown = callback_response("c", &callback, NOW);
        let shown = serde_json::to_value(&shown).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(text).unwrap();
        expected["name"] = "c".into();
        expected["gate"] = "open".into();
        expected["gates"] = serde_json::json!([]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_gate_opens_in_the_future_or_never() {
        let read = |text: &str| {
            let request = json::read::<GateRequest>(text)?;
            gate_change(request, NOW)
        };
        let refused = |text: &str| {
            let error = read(text).unwrap_err();
            pointers(&error).join(" ")
        };
        assert_eq!(
            refused(r#"{"gate":"paused","until":"2020-01-01T00:00:00Z"}"#),
            "/until"
        );
        assert_eq!(
            refused(r#"{"gate":"open","until":"2099-01-01T00:00:00Z"}"#),
            "/until"
        );
        assert_eq!(
            refused(r#"{"gate":"paused","collection":"a b"}"#),
            "/collection"
        );
        assert_eq!(refused(r#"{"gate":"shut"}"#), "/gate");
        let change = read(
            r#"{"gate":"dropping","collection":"a","reason":"late","until":"2099-01-01T00:00:00Z"}"#,
        );
        let change = change.unwrap();
        assert_eq!((&*change.collection, &*change.reason), ("a", "late"));
        assert!(change.until.is_some() && change.state == gate::GateState::Dropping);
    }
}
