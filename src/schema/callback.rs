//! The callback codec converts what a user has set for a callback to and from the bytes of its record, for the nodes.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::{Malformed, http_call, notify, v1};
use crate::model::{
    backoff::Jitter,
    callback::{Callback, Policy},
    draft::BackoffDraft,
    gate::{Gate, GateState},
    limit::{Limits, Rate},
    task::Priority,
    time::{Millis, whole_millis},
};

/// Encodes a callback.
#[must_use]
pub fn encode_callback(callback: &Callback) -> Bytes {
    let Callback { policy, gates } = callback;
    let message = v1::Callback {
        policy: policy.as_ref().map(policy_message),
        gates: gates.iter().map(gate_message).collect(),
    };
    message.encode_to_vec().into()
}

/// Encodes a policy alone: two policies are equal when these bytes are.
#[must_use]
pub fn policy_bytes(policy: &Policy) -> Bytes {
    policy_message(policy).encode_to_vec().into()
}

/// Decodes a callback.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_callback(bytes: Bytes) -> Result<Callback, Malformed> {
    let v1::Callback { policy, gates } = v1::Callback::decode(bytes)?;
    let gates = gates.into_iter().map(gate);
    Ok(Callback {
        policy: policy.map(read_policy).transpose()?,
        gates: gates.collect::<Result<_, _>>()?,
    })
}

const fn priority_message(priority: Option<Priority>) -> v1::Priority {
    match priority {
        None => v1::Priority::Unspecified,
        Some(Priority::High) => v1::Priority::High,
        Some(Priority::Normal) => v1::Priority::Normal,
        Some(Priority::Low) => v1::Priority::Low,
    }
}

fn policy_message(policy: &Policy) -> v1::CallbackPolicy {
    let Policy {
        description,
        max_attempts,
        backoff,
        claim_timeout,
        heartbeat_timeout,
        attempt_timeout,
        expire_after,
        retention,
        dead_retention,
        priority,
        labels,
        limits: Limits { rate, in_flight },
        indexed,
        notify,
        http,
        dead_letter_topic,
        skips_retries,
        list_succeeded,
    } = policy;
    let label = |(name, value): (&String, &String)| v1::Label {
        name: name.clone(),
        value: value.clone(),
    };
    v1::CallbackPolicy {
        description: description.clone(),
        max_attempts: *max_attempts,
        retry: Some(retry_message(backoff)),
        claim_timeout_ms: claim_timeout.map(millis),
        heartbeat_timeout_ms: heartbeat_timeout.map(millis),
        attempt_timeout_ms: attempt_timeout.map(millis),
        expire_after_ms: expire_after.map(millis),
        retention_ms: retention.map(millis),
        dead_retention_ms: dead_retention.map(millis),
        priority: priority_message(*priority).into(),
        labels: labels.iter().map(label).collect(),
        rate: rate.map(|rate| v1::RateLimit {
            per_second_milli: rate.per_second_milli(),
            burst: rate.burst(),
        }),
        max_in_flight: *in_flight,
        indexed_labels: indexed.iter().cloned().collect(),
        notify: notify.as_ref().map(notify::to_message),
        http: http.as_ref().map(http_call::policy_to_message),
        dead_letter_topic: dead_letter_topic.clone(),
        skips_retries: *skips_retries,
        list_succeeded: *list_succeeded,
    }
}

fn retry_message(backoff: &BackoffDraft) -> v1::RetryDefaults {
    let BackoffDraft {
        initial,
        factor_milli,
        max,
        jitter,
    } = backoff;
    let jitter = match jitter {
        None => v1::Jitter::Unspecified,
        Some(Jitter::None) => v1::Jitter::None,
        Some(Jitter::Full) => v1::Jitter::Full,
    };
    v1::RetryDefaults {
        initial_ms: initial.map(millis),
        factor_milli: *factor_milli,
        max_ms: max.map(millis),
        jitter: jitter.into(),
    }
}

fn read_policy(message: v1::CallbackPolicy) -> Result<Policy, Malformed> {
    let retry = message.retry.unwrap_or_default();
    let jitter = match v1::Jitter::try_from(retry.jitter) {
        Ok(v1::Jitter::Unspecified) => None,
        Ok(v1::Jitter::None) => Some(Jitter::None),
        Ok(v1::Jitter::Full) => Some(Jitter::Full),
        Err(_) => return Err(Malformed::OutOfRange("retry.jitter")),
    };
    let priority = match v1::Priority::try_from(message.priority) {
        Ok(v1::Priority::Unspecified) => None,
        Ok(v1::Priority::High) => Some(Priority::High),
        Ok(v1::Priority::Normal) => Some(Priority::Normal),
        Ok(v1::Priority::Low) => Some(Priority::Low),
        Err(_) => return Err(Malformed::OutOfRange("priority")),
    };
    if message.max_attempts == Some(0) {
        return Err(Malformed::OutOfRange("max_attempts"));
    }
    let rate = match message.rate {
        None => None,
        Some(rate) => {
            let known = Rate::from_milli(rate.per_second_milli, rate.burst);
            Some(known.ok_or(Malformed::OutOfRange("rate"))?)
        }
    };
    if message.max_in_flight == Some(0) {
        return Err(Malformed::OutOfRange("max_in_flight"));
    }
    let labels = message.labels.into_iter();
    Ok(Policy {
        description: message.description,
        max_attempts: message.max_attempts,
        backoff: BackoffDraft {
            initial: retry.initial_ms.map(duration),
            factor_milli: retry.factor_milli,
            max: retry.max_ms.map(duration),
            jitter,
        },
        claim_timeout: message.claim_timeout_ms.map(duration),
        heartbeat_timeout: message.heartbeat_timeout_ms.map(duration),
        attempt_timeout: message.attempt_timeout_ms.map(duration),
        expire_after: message.expire_after_ms.map(duration),
        retention: message.retention_ms.map(duration),
        dead_retention: message.dead_retention_ms.map(duration),
        priority,
        labels: labels.map(|label| (label.name, label.value)).collect(),
        limits: Limits {
            rate,
            in_flight: message.max_in_flight,
        },
        indexed: message.indexed_labels.into_iter().collect(),
        notify: message.notify.map(notify::from_message).transpose()?,
        http: message.http.map(http_call::policy_from_message),
        dead_letter_topic: message.dead_letter_topic,
        skips_retries: message.skips_retries,
        list_succeeded: message.list_succeeded,
    })
}

fn gate_message(gate: &Gate) -> v1::Gate {
    let Gate {
        collection,
        state,
        reason,
        since,
        until,
        who,
    } = gate;
    let state = match state {
        GateState::Open => v1::GateState::Open,
        GateState::Paused => v1::GateState::Paused,
        GateState::Dropping => v1::GateState::Dropping,
    };
    v1::Gate {
        collection: collection.clone(),
        state: state.into(),
        reason: reason.clone(),
        since_ms: since.0,
        until_ms: until.map(|at| at.0),
        who: who.clone(),
    }
}

fn gate(message: v1::Gate) -> Result<Gate, Malformed> {
    let state = match v1::GateState::try_from(message.state) {
        Ok(v1::GateState::Open) => GateState::Open,
        Ok(v1::GateState::Paused) => GateState::Paused,
        Ok(v1::GateState::Dropping) => GateState::Dropping,
        Ok(v1::GateState::Unspecified) | Err(_) => return Err(Malformed::OutOfRange("gate.state")),
    };
    Ok(Gate {
        collection: message.collection,
        state,
        reason: message.reason,
        since: Millis(message.since_ms),
        until: message.until_ms.map(Millis),
        who: message.who,
    })
}

fn duration(millis: u64) -> Duration {
    Duration::from_millis(millis.min(i64::MAX.unsigned_abs()))
}

fn millis(duration: Duration) -> u64 {
    whole_millis(duration).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::notify::{Destination, EndStates, Notify};

    fn full() -> Callback {
        let second = Duration::from_secs(1);
        Callback {
            policy: Some(Policy {
                indexed: ["tenant".to_owned()].into(),
                description: "mail".to_owned(),
                max_attempts: Some(3),
                backoff: BackoffDraft {
                    initial: Some(second),
                    factor_milli: Some(1500),
                    max: Some(second * 9),
                    jitter: Some(Jitter::None),
                },
                claim_timeout: Some(second * 7),
                heartbeat_timeout: Some(second * 8),
                attempt_timeout: Some(second * 13),
                expire_after: Some(second * 10),
                retention: Some(second * 11),
                dead_retention: Some(second * 14),
                priority: Some(Priority::Low),
                labels: [("a".to_owned(), "b".to_owned())].into(),
                limits: Limits {
                    rate: Rate::new(0.01, Some(7)),
                    in_flight: Some(12),
                },
                notify: Some(Notify::of_run(
                    Destination::Kafka {
                        topic: "ends".to_owned(),
                    },
                    EndStates::ALL,
                )),
                http: Some(crate::model::http_call::HttpPolicy {
                    timeout: Some(second),
                    ..Default::default()
                }),
                dead_letter_topic: Some("mail.dlt".to_owned()),
                skips_retries: Some(true),
                list_succeeded: true,
            }),
            gates: vec![Gate {
                collection: "bulk".to_owned(),
                state: GateState::Dropping,
                reason: "too late".to_owned(),
                since: Millis(1_800_000_000_000),
                until: Some(Millis(1_800_000_060_000)),
                who: "night watch".to_owned(),
            }],
        }
    }

    #[test]
    fn a_callback_survives_its_bytes() {
        let policy = Some(Policy::default());
        for callback in [
            full(),
            Callback::default(),
            Callback {
                policy,
                gates: Vec::new(),
            },
        ] {
            let read = decode_callback(encode_callback(&callback));
            assert_eq!(read, Ok(callback));
        }
    }

    #[test]
    fn values_of_a_later_version_are_refused_with_the_field() {
        let bytes = encode_callback(&full());
        let spoilt = |spoil: fn(&mut v1::Callback)| {
            let mut message = v1::Callback::decode(bytes.clone()).unwrap();
            spoil(&mut message);
            decode_callback(message.encode_to_vec().into()).unwrap_err()
        };
        let wrong = spoilt(|message| message.gates[0].state = 9);
        assert_eq!(wrong, Malformed::OutOfRange("gate.state"));
        let wrong = spoilt(|message| message.policy.as_mut().unwrap().priority = 9);
        assert_eq!(wrong, Malformed::OutOfRange("priority"));
        let wrong = spoilt(|message| message.policy.as_mut().unwrap().max_attempts = Some(0));
        assert_eq!(wrong, Malformed::OutOfRange("max_attempts"));
        let wrong = spoilt(|message| message.policy.as_mut().unwrap().max_in_flight = Some(0));
        assert_eq!(wrong, Malformed::OutOfRange("max_in_flight"));
        let no_rate = |message: &mut v1::Callback| {
            message.policy.as_mut().unwrap().rate = Some(v1::RateLimit::default());
        };
        assert_eq!(spoilt(no_rate), Malformed::OutOfRange("rate"));
        assert!(decode_callback(Bytes::from_static(b"\xff\xff")).is_err());
    }
}
