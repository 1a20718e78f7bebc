//! This conversion reads the configuration and the gates of callbacks for the domain, and writes them for clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    http_call,
    new_task::{self, RETENTION_MIN, read_duration},
    notify, own,
    target::{foreign, refuse_own},
    task_view::some_text,
    violations::{Violations, callback, name},
};
use crate::{
    api::{
        callback::{
            CallbackConfiguration, CallbackRequest, CallbackResponse, GateRequest, GateResponse,
            GateState, OnRetry, RateLimit,
        },
        task_request::RetryPolicy,
        text::DurationText,
        time,
    },
    flow::base::records::callbacks::GateChange,
    http::error::{Code, Error},
    limits::{
        ATTEMPT_TIMEOUT_MIN, CALLBACK_LABELS_BYTES_MAX, CLAIM_TIMEOUT_MIN, DESCRIPTION_CHARS_MAX,
        HEARTBEAT_TIMEOUT_MIN, IN_FLIGHT_MAX, INDEXED_LABELS_MAX, LABEL_CHARS_MAX,
        REASON_CHARS_MAX,
    },
    model::{
        backoff::Jitter,
        callback::{Callback, Policy},
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
    let checked = callback(text);
    let name = checked.map_err(|detail| Error::field(Code::InvalidRequest, "/name", detail))?;
    own::refuse_callback("/name", &name)?;
    Ok(name)
}

/// Converts a configuration, for a service that has a Kafka or not. Topics that Kafka knows as the service's own begin with
/// `own_topics`.
///
/// # Errors
/// All mistakes of the request; without any, what this service cannot do.
pub(in crate::http) fn policy(
    request: &CallbackRequest,
    has_kafka: bool,
    own_topics: &str,
) -> Result<Policy, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    new_task::check_attempts(request.max_attempts, wrong);
    let backoff = new_task::backoff(request.retry.as_ref(), wrong);
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
        indexed: indexed(request, wrong),
        notify: told(request, wrong),
        http: http(request, wrong),
        dead_letter_topic: dead_letter_topic(request, wrong),
        skips_retries: request.on_retry.map(|way| way == OnRetry::Skip),
        list_succeeded: request.list_succeeded.unwrap_or(false),
    };
    let labels = request.labels.clone().unwrap_or_default();
    let labels: BTreeMap<String, String> = new_task::labels(labels, wrong).into_iter().collect();
    check_labels(&labels, wrong);
    violations.finish()?;
    check_topics(&policy, has_kafka, own_topics)?;
    Ok(Policy { labels, ..policy })
}

/// Checks that records can go to the topics of a configuration.
fn check_topics(policy: &Policy, has_kafka: bool, own_topics: &str) -> Result<(), Error> {
    notify::check(policy.notify.as_ref(), has_kafka)?;
    notify::check_topic(policy.notify.as_ref(), own_topics)?;
    let Some(topic) = &policy.dead_letter_topic else {
        return Ok(());
    };
    let field = "/dead_letter_topic";
    if !has_kafka {
        let detail = "this service has no Kafka: start it with --queue kafka --kafka HOST:PORT";
        return Err(Error::field(Code::Unsupported, field, detail));
    }
    refuse_own(field, topic, own_topics)
}

/// Checks that the labels of a callback are small enough to be added to each of its tasks.
fn check_labels(labels: &BTreeMap<String, String>, wrong: &mut Violations) {
    let sizes = labels.iter().map(|(name, value)| name.len() + value.len());
    let bytes: usize = sizes.sum();
    if bytes > CALLBACK_LABELS_BYTES_MAX {
        let detail =
            format!("have {bytes} bytes together; at most {CALLBACK_LABELS_BYTES_MAX} are kept");
        wrong.add("/labels", detail);
    }
}

/// Checks the names of labels by which tasks are to be found.
fn indexed(request: &CallbackRequest, wrong: &mut Violations) -> BTreeSet<String> {
    let names = request.indexed_labels.as_deref().unwrap_or_default();
    if names.len() > INDEXED_LABELS_MAX {
        let detail = format!("more than {INDEXED_LABELS_MAX} labels: each costs a write a task");
        wrong.add("/indexed_labels", detail);
    }
    for (index, name) in names.iter().enumerate() {
        if !(1..=LABEL_CHARS_MAX).contains(&name.chars().count()) {
            let detail = format!("the label's name must have 1 to {LABEL_CHARS_MAX} characters");
            wrong.add(format!("/indexed_labels/{index}"), detail);
        }
    }
    names.iter().cloned().collect()
}

fn http(
    request: &CallbackRequest,
    wrong: &mut Violations,
) -> Option<crate::model::http_call::HttpPolicy> {
    let http = request.http.as_ref();
    http.map(|http| http_call::policy(http, wrong))
}

fn told(request: &CallbackRequest, wrong: &mut Violations) -> Option<crate::model::notify::Notify> {
    let told = request.notify.as_ref();
    told.and_then(|told| notify::read(told, wrong))
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

fn dead_letter_topic(request: &CallbackRequest, wrong: &mut Violations) -> Option<String> {
    let topic = name(request.dead_letter_topic.clone()?).and_then(foreign);
    wrong.take("/dead_letter_topic", topic)
}

/// Converts a change of a gate.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn gate_change(
    request: GateRequest,
    who: &str,
    now: Millis,
) -> Result<GateChange, Error> {
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
        who: who.to_owned(),
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

pub(super) fn configuration(policy: &Policy) -> CallbackConfiguration {
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
        indexed_labels: policy.indexed.iter().cloned().collect(),
        notify: policy.notify.as_ref().map(notify::response),
        http: policy.http.as_ref().map(http_call::policy_response),
        dead_letter_topic: policy.dead_letter_topic.clone(),
        on_retry: policy.skips_retries.map(on_retry),
        list_succeeded: policy.list_succeeded.then_some(true),
    }
}

const fn on_retry(skips: bool) -> OnRetry {
    if skips { OnRetry::Skip } else { OnRetry::Block }
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

pub(super) fn gate_response(gate: &gate::Gate) -> GateResponse {
    GateResponse {
        collection: some_text(&gate.collection),
        gate: gate_state(gate.state),
        reason: some_text(&gate.reason),
        since: gate.since.into(),
        until: gate.until.map(Into::into),
        who: some_text(&gate.who),
    }
}

pub(super) const fn gate_state(state: gate::GateState) -> GateState {
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
        policy(&json::read::<CallbackRequest>(text)?, true, "team-7.")
    }

    fn pointers(error: &Error) -> Vec<&str> {
        error.errors.iter().map(|e| e.pointer.as_str()).collect()
    }

    #[test]
    fn every_violation_is_named() {
        let text = r#"{"max_attempts": 0, "retry": {"initial": "2s", "max": "1s", "factor": 0.5},
            "claim_timeout": "1s", "heartbeat_timeout": "soon", "retention": "0s", "expire_after": "0s",
            "attempt_timeout": "999ms", "dead_retention": "0s", "rate": {"per_second": 0, "burst": 0}, "max_in_flight": 0, "dead_letter_topic": "a b",
            "labels": {"": "x"}, "notify": {}}"#;
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
            "/notify",
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
    fn fields_that_are_null_are_absent() {
        let text = r#"{"expire_after": null, "http": null, "retry": null, "on_retry": null, "list_succeeded": null}"#;
        assert_eq!(read(text).unwrap(), Policy::default());
        let text = r#"{"on_retry": "skip", "list_succeeded": true}"#;
        let policy = read(text).unwrap();
        assert_eq!(
            (policy.skips_retries, policy.list_succeeded),
            (Some(true), true)
        );
        assert!(read(r#"{"on_retry": "later"}"#).is_err());
    }

    #[test]
    fn a_topic_of_dead_letters_needs_a_kafka_and_is_none_of_the_services_own() {
        let text = r#"{"dead_letter_topic": "mail.dlt"}"#;
        let read_policy = read(text).unwrap();
        assert_eq!(read_policy.dead_letter_topic.as_deref(), Some("mail.dlt"));
        let request = json::read::<CallbackRequest>(text).unwrap();
        let error = policy(&request, false, "team-7.").unwrap_err();
        assert_eq!(
            (error.code, pointers(&error)),
            (Code::Unsupported, vec!["/dead_letter_topic"])
        );
        // By the name that all services know, and by the prefix of this one.
        for topic in ["tickwheel.mail.high", "team-7.mail.high"] {
            let text = format!(r#"{{"dead_letter_topic": "{topic}"}}"#);
            let own = read(&text).unwrap_err();
            assert_eq!(own.code, Code::InvalidRequest);
            assert_eq!(pointers(&own), ["/dead_letter_topic"]);
            let text = format!(r#"{{"notify": {{"kafka": {{"topic": "{topic}"}}}}}}"#);
            let own = read(&text).unwrap_err();
            assert_eq!(own.code, Code::InvalidRequest);
            assert_eq!(pointers(&own), ["/notify/kafka/topic"]);
        }
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
        let text = r#"{"description":"mail","max_attempts":8,"retry":{"initial":"1s","factor":1.5},"claim_timeout":"1m 30s","priority":"high","labels":{"a":"b"},"rate":{"per_second":0.01,"burst":3},"max_in_flight":200000,"notify":{"kafka":{"topic":"ends"},"states":["dead"]}}"#;
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
            gate_change(request, "", NOW)
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
