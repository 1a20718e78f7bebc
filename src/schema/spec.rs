//! The spec codec converts specs of tasks to and from messages and bytes for stores and queues.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::{
    Malformed, action, chain, content, http_call, join, kin as kin_codec, notify, short, v1,
};
use crate::model::{
    backoff::{Backoff, Jitter},
    chain::FollowUp,
    target::Target,
    task::{Body, Content, Priority, Scheduled, Spec},
    time::{Millis, whole_millis},
};

/// Encodes a spec.
#[must_use]
pub fn encode_spec(spec: &Spec) -> Bytes {
    spec_to_message(spec).encode_to_vec().into()
}

/// Encodes a spec without what is usual in it.
#[must_use]
pub fn encode_short(spec: &Spec) -> Bytes {
    spec_to_short_message(spec).encode_to_vec().into()
}

/// Decodes a spec, short or not.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_spec(bytes: Bytes) -> Result<Spec, Malformed> {
    spec_from_message(v1::TaskSpec::decode(bytes)?)
}

/// Converts a spec to its message.
#[must_use]
pub fn spec_to_message(spec: &Spec) -> v1::TaskSpec {
    let body = match &spec.body {
        Body::Inline(inline) => v1::task_spec::Body::Content(content::to_message(inline)),
        Body::Apart { bytes } => v1::task_spec::Body::ContentBytesApart(*bytes),
    };
    message(spec, body)
}

/// Converts a spec to its message without what is usual in it: for a store's own eyes.
#[must_use]
pub fn spec_to_short_message(spec: &Spec) -> v1::TaskSpec {
    let mut message = spec_to_message(spec);
    short::shorten(&mut message);
    message
}

/// Converts a spec to its message with `content` inside, wherever the spec has it.
#[must_use]
pub fn spec_to_message_with(spec: &Spec, content: &Content) -> v1::TaskSpec {
    message(
        spec,
        v1::task_spec::Body::Content(content::to_message(content)),
    )
}

fn label_message((name, value): &(String, String)) -> v1::Label {
    v1::Label {
        name: name.clone(),
        value: value.clone(),
    }
}

fn retry_message(backoff: &Backoff) -> v1::RetryPolicy {
    let jitter = match backoff.jitter {
        Jitter::None => v1::Jitter::None,
        Jitter::Full => v1::Jitter::Full,
    };
    v1::RetryPolicy {
        initial_ms: millis(backoff.initial),
        factor_milli: backoff.factor_milli,
        max_ms: millis(backoff.max),
        jitter: jitter.into(),
    }
}

fn target_message(target: &Target) -> v1::task_spec::Target {
    match target {
        Target::Callback { name } => {
            v1::task_spec::Target::Callback(v1::CallbackTarget { name: name.clone() })
        }
        Target::Http { callback, call } => {
            v1::task_spec::Target::Http(http_call::to_message(callback, call))
        }
        Target::Kafka { topic, partition } => v1::task_spec::Target::Kafka(v1::KafkaTarget {
            topic: topic.clone(),
            partition: *partition,
        }),
    }
}

fn message(spec: &Spec, body: v1::task_spec::Body) -> v1::TaskSpec {
    let Spec {
        target,
        collection,
        priority,
        max_attempts,
        backoff,
        claim_timeout,
        heartbeat_timeout,
        attempt_timeout,
        expire_after,
        retention,
        dead_retention,
        create_time,
        asked_start,
        scheduled,
        key,
        indexed,
        ordering_key,
        notify,
        actions,
        kin,
        after,
        then,
        body: _,
    } = spec;
    let (actions, checks) = action::to_messages(actions.as_deref());
    v1::TaskSpec {
        target: Some(target_message(target)),
        collection: collection.clone(),
        priority: priority_to_message(*priority).into(),
        max_attempts: *max_attempts,
        retry: Some(retry_message(backoff)),
        claim_timeout_ms: millis(*claim_timeout),
        heartbeat_timeout_ms: millis(*heartbeat_timeout),
        attempt_timeout_ms: attempt_timeout.map(millis),
        expire_after_ms: expire_after.map(millis),
        retention_ms: millis(*retention),
        dead_retention_ms: dead_retention.map(millis),
        create_time_ms: create_time.0,
        asked_start_ms: asked_start.map(|at| at.0),
        scheduled: scheduled.as_deref().map(scheduled_message),
        key: key.clone(),
        indexed_labels: indexed.iter().map(label_message).collect(),
        ordering_key: ordering_key.clone(),
        notify: notify.as_ref().map(notify::to_message),
        actions,
        checks,
        kin: kin.as_deref().map(kin_codec::to_message),
        then: follows_to(then),
        after: after.as_deref().map(join::after_to_message),
        body: Some(body),
        left_out: 0,
    }
}

const fn priority_to_message(priority: Priority) -> v1::Priority {
    match priority {
        Priority::High => v1::Priority::High,
        Priority::Normal => v1::Priority::Normal,
        Priority::Low => v1::Priority::Low,
    }
}

fn scheduled_message(run: &Scheduled) -> v1::ScheduledRun {
    v1::ScheduledRun {
        schedule: run.schedule.clone(),
        time_ms: run.time.0,
    }
}

/// Reads a spec from its message.
///
/// # Errors
/// [`Malformed`] when a field that must be there is missing or out of range.
pub fn spec_from_message(mut message: v1::TaskSpec) -> Result<Spec, Malformed> {
    short::lengthen(&mut message)?;
    let retry = message.retry.ok_or(Malformed::Missing("retry"))?;
    let jitter = match v1::Jitter::try_from(retry.jitter) {
        Ok(v1::Jitter::None) => Jitter::None,
        Ok(v1::Jitter::Full) => Jitter::Full,
        Ok(v1::Jitter::Unspecified) | Err(_) => return Err(Malformed::OutOfRange("retry.jitter")),
    };
    let priority = match v1::Priority::try_from(message.priority) {
        Ok(v1::Priority::High) => Priority::High,
        Ok(v1::Priority::Normal) => Priority::Normal,
        Ok(v1::Priority::Low) => Priority::Low,
        Ok(v1::Priority::Unspecified) | Err(_) => return Err(Malformed::OutOfRange("priority")),
    };
    if message.max_attempts == 0 {
        return Err(Malformed::OutOfRange("max_attempts"));
    }
    Ok(Spec {
        target: match message.target.ok_or(Malformed::Missing("target"))? {
            v1::task_spec::Target::Callback(callback) => Target::Callback {
                name: callback.name,
            },
            v1::task_spec::Target::Http(http) => http_call::from_message(http)?,
            v1::task_spec::Target::Kafka(kafka) => Target::Kafka {
                topic: kafka.topic,
                partition: kafka.partition,
            },
        },
        collection: message.collection,
        priority,
        max_attempts: message.max_attempts,
        backoff: Backoff {
            initial: duration(retry.initial_ms),
            factor_milli: retry.factor_milli,
            max: duration(retry.max_ms),
            jitter,
        },
        claim_timeout: duration(message.claim_timeout_ms),
        heartbeat_timeout: duration(message.heartbeat_timeout_ms),
        attempt_timeout: message.attempt_timeout_ms.map(duration),
        expire_after: message.expire_after_ms.map(duration),
        retention: duration(message.retention_ms),
        dead_retention: message.dead_retention_ms.map(duration),
        create_time: Millis(message.create_time_ms),
        asked_start: message.asked_start_ms.map(Millis),
        scheduled: message.scheduled.map(scheduled_from),
        key: message.key,
        indexed: labels_from(message.indexed_labels),
        ordering_key: message.ordering_key,
        notify: message.notify.map(notify::from_message).transpose()?,
        actions: action::from_messages(message.actions, message.checks)?,
        kin: kin_codec::from_message(message.kin.as_ref())?,
        after: join::after_from_message(message.after)?,
        then: follows_from(message.then)?,
        body: match message.body.ok_or(Malformed::Missing("body"))? {
            v1::task_spec::Body::Content(inline) => Body::Inline(content::from_message(inline)?),
            v1::task_spec::Body::ContentBytesApart(bytes) => Body::Apart { bytes },
        },
    })
}

fn follows_to(then: &[FollowUp<Spec>]) -> Vec<v1::FollowUp> {
    let follow = |follow: &FollowUp<Spec>| chain::follow_to(follow, spec_to_message(&follow.task));
    then.iter().map(follow).collect()
}

fn follows_from(messages: Vec<v1::FollowUp>) -> Result<Vec<FollowUp<Spec>>, Malformed> {
    let follow = |mut message: v1::FollowUp| {
        let task = message.task.take();
        let task = spec_from_message(task.ok_or(Malformed::Missing("then.task"))?)?;
        chain::follow_from(&message, task)
    };
    messages.into_iter().map(follow).collect()
}

/// Returns how many bytes follow-ups have as encoded.
#[must_use]
pub fn follow_ups_bytes(then: &[FollowUp<Spec>]) -> usize {
    let message = v1::TaskSpec {
        then: follows_to(then),
        ..v1::TaskSpec::default()
    };
    message.encoded_len()
}

/// Returns how many bytes a task has as encoded without its content.
#[must_use]
pub fn in_tree_bytes(spec: &Spec) -> usize {
    let mut message = spec_to_message(spec);
    message.body = None;
    message.encoded_len()
}

fn scheduled_from(run: v1::ScheduledRun) -> Box<Scheduled> {
    Box::new(Scheduled {
        schedule: run.schedule,
        time: Millis(run.time_ms),
    })
}

fn labels_from(labels: Vec<v1::Label>) -> Vec<(String, String)> {
    let pair = |label: v1::Label| (label.name, label.value);
    labels.into_iter().map(pair).collect()
}

/// A duration beyond the reach of instants is for ever, and is written so again.
fn duration(millis: u64) -> Duration {
    Duration::from_millis(millis.min(i64::MAX.unsigned_abs()))
}

fn millis(duration: Duration) -> u64 {
    whole_millis(duration).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        action::{Action, Actions, Deed, When},
        after::{After, Condition},
        email::Email,
        kin::Kin,
        notify::{Destination, EndStates, Notify},
    };

    #[test]
    fn a_spec_survives_its_bytes() {
        let spec = Spec {
            target: Target::Kafka {
                topic: "t".to_owned(),
                partition: Some(3),
            },
            collection: "c".to_owned(),
            priority: Priority::Low,
            max_attempts: 9,
            backoff: Backoff {
                jitter: Jitter::None,
                ..Backoff::QUICK
            },
            claim_timeout: Duration::from_secs(61),
            heartbeat_timeout: Duration::from_millis(4501),
            attempt_timeout: Some(Duration::from_secs(7)),
            expire_after: Some(Duration::ZERO),
            retention: Duration::from_secs(86_400),
            dead_retention: Some(Duration::from_secs(99)),
            create_time: Millis(1_790_000_000_123),
            asked_start: Some(Millis(-7)),
            scheduled: Some(Box::new(Scheduled {
                schedule: "nightly".to_owned(),
                time: Millis(1_790_000_000_000),
            })),
            key: Some("order-7".to_owned()),
            indexed: vec![("tenant".to_owned(), "acme".to_owned())],
            ordering_key: Some("account-3".to_owned()),
            notify: Some(Notify::of_run(
                Destination::Kafka {
                    topic: "ends".to_owned(),
                },
                EndStates::ALL,
            )),
            actions: Some(Box::new(Actions {
                at_ends: vec![Action {
                    when: When::Run(EndStates::ALL),
                    deed: Deed::Email(Box::new(Email {
                        to: vec!["a@b.c".to_owned()],
                        cc: Vec::new(),
                        subject: String::new(),
                        body: "{{task.id}}".to_owned(),
                    })),
                }],
                checks: Vec::new(),
            })),
            kin: Some(Box::new(Kin {
                parent: Some(crate::model::fixtures::id()),
                is_parent: true,
                after_parent: true,
                undoes: true,
                children_within: Some(Duration::from_secs(3600)),
            })),
            after: Some(Box::new(After {
                condition: Condition::AllEnded,
                later: true,
                deadline: Some(Millis(-3)),
                tasks: 7,
            })),
            then: Vec::new(),
            body: Body::Inline(Content {
                payload: Bytes::from_static(b"\x00\xff"),
                content_type: "application/octet-stream".to_owned(),
                record_key: Some(Bytes::new()),
                record_headers: vec![("a".to_owned(), Bytes::from_static(b"\xfe"))],
                labels: vec![("tenant".to_owned(), "acme".to_owned())],
                trace_parent: Some("00-1-2-01".to_owned()),
                previous: None,
            }),
        };
        assert_eq!(decode_spec(encode_spec(&spec)), Ok(spec.clone()));
        let callback = Spec {
            target: Target::Callback {
                name: "send".to_owned(),
            },
            body: Body::Apart { bytes: 70_000 },
            expire_after: None,
            asked_start: None,
            scheduled: None,
            key: None,
            indexed: Vec::new(),
            ordering_key: None,
            notify: None,
            actions: None,
            kin: None,
            after: None,
            then: Vec::new(),
            ..spec
        };
        assert_eq!(decode_spec(encode_spec(&callback)), Ok(callback.clone()));
        // A few bytes of the tasks that have one.
        let asked = Spec {
            asked_start: Some(Millis(1_790_000_000_123)),
            ..callback.clone()
        };
        let more = encode_short(&asked).len() - encode_short(&callback).len();
        assert_eq!(more, 7);
        assert_eq!(decode_spec(encode_short(&asked)), Ok(asked));
    }

    #[test]
    fn bytes_that_are_not_a_spec_are_refused_with_the_field() {
        assert_eq!(decode_spec(Bytes::new()), Err(Malformed::Missing("retry")));
        assert!(
            decode_spec(Bytes::from_static(b"\xff\xff\xff"))
                .is_err_and(|e| matches!(e, Malformed::Encoding(_)))
        );
    }
}
