//! This conversion reads the target of a request for the domain, and writes it for answers.
//!
//! A request has exactly one target, and no fields of another kind of target.

use bytes::Bytes;

use super::{
    content::{base64, to_base64},
    http_call, json,
    violations::{Violations, name},
};
use crate::{
    api::{
        target::{
            CallbackTarget, HttpTarget, KafkaHeader, KafkaHeaders, KafkaTarget, TargetResponse,
        },
        task_request::TaskRequest,
    },
    http::error::{Code, Error},
    limits::HEADERS_MAX,
    model::{target::Target, task::Content},
    queue::message::{START_TIME_HEADER, TASK_ID_HEADER, TOPIC_PREFIX},
};

/// A target, and the parts of its request that belong to the content.
#[derive(Debug, Clone)]
pub(super) struct TargetParts {
    /// The target.
    pub(super) target: Target,
    /// The record's key.
    pub(super) record_key: Option<Bytes>,
    /// The record's headers.
    pub(super) record_headers: Vec<(String, Bytes)>,
}

/// Reads the one target. Returns none only when a violation was noted.
pub(super) fn read(
    callback: Option<CallbackTarget>,
    http: Option<HttpTarget>,
    kafka: Option<KafkaTarget>,
    violations: &mut Violations,
) -> Option<TargetParts> {
    match (callback, http, kafka) {
        (Some(callback), None, None) => read_callback(callback, violations),
        (callback, Some(http), None) => read_http(callback, &http, violations),
        (None, None, Some(kafka)) => read_kafka(kafka, violations),
        (None, None, None) => {
            violations.add(
                "",
                "a target is missing: give `callback`, `http` or `kafka`",
            );
            None
        }
        (_, Some(_), Some(_)) => {
            violations.exclusive(("http", true), ("kafka", true));
            None
        }
        (Some(_), None, Some(_)) => {
            violations.exclusive(("callback", true), ("kafka", true));
            None
        }
    }
}

fn read_http(
    callback: Option<CallbackTarget>,
    http: &HttpTarget,
    violations: &mut Violations,
) -> Option<TargetParts> {
    let call = http_call::read("/http", http, violations);
    let named = match callback {
        None => None,
        Some(callback) => Some(read_callback(callback, violations)?),
    };
    let call = call?;
    let callback = named.as_ref().and_then(|parts| parts.target.callback());
    let callback = callback.map_or_else(|| http_call::callback_of(&call), str::to_owned);
    Some(TargetParts {
        target: Target::Http {
            callback,
            call: Box::new(call),
        },
        record_key: None,
        record_headers: Vec::new(),
    })
}

/// Refuses fields that have no meaning for a record: it is published once, and nobody claims it.
pub(super) fn only_callback_fields(request: &TaskRequest, violations: &mut Violations) {
    if request.kafka.is_none() || request.callback.is_some() || request.http.is_some() {
        return;
    }
    let fields = [
        ("collection", request.collection.is_some()),
        ("priority", request.priority.is_some()),
        ("max_attempts", request.max_attempts.is_some()),
        ("retry", request.retry.is_some()),
        ("claim_timeout", request.claim_timeout.is_some()),
        ("heartbeat_timeout", request.heartbeat_timeout.is_some()),
        ("attempt_timeout", request.attempt_timeout.is_some()),
        ("expire_after", request.expire_after.is_some()),
        ("dead_retention", request.dead_retention.is_some()),
        ("notify", request.notify.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, given)| *given) {
        violations.add(
            format!("/{field}"),
            format!("`{field}` has no effect on a `kafka` target: leave it out"),
        );
    }
}

fn read_callback(callback: CallbackTarget, violations: &mut Violations) -> Option<TargetParts> {
    let (pointer, text) = match callback {
        CallbackTarget::Name(text) => ("/callback", text),
        CallbackTarget::Object(object) => ("/callback/name", object.name),
    };
    let name = violations.take(pointer, name(text))?;
    Some(TargetParts {
        target: Target::Callback { name },
        record_key: None,
        record_headers: Vec::new(),
    })
}

fn read_kafka(kafka: KafkaTarget, violations: &mut Violations) -> Option<TargetParts> {
    let topic = violations.take("/kafka/topic", name(kafka.topic).and_then(foreign));
    if kafka.partition.is_some_and(|partition| partition < 0) {
        violations.add("/kafka/partition", "must not be negative");
    }
    let record_key = match (kafka.key, kafka.key_base64) {
        (Some(_), Some(_)) => {
            violations.add(
                "/kafka/key_base64",
                "`key` and `key_base64` exclude each other: give one",
            );
            None
        }
        (Some(key), None) => Some(Bytes::from(key)),
        (None, Some(key)) => violations.take("/kafka/key_base64", base64(&key)),
        (None, None) => None,
    };
    let record_headers = read_headers(kafka.headers, violations);
    Some(TargetParts {
        target: Target::Kafka {
            topic: topic?,
            partition: kafka.partition,
        },
        record_key,
        record_headers,
    })
}

/// Refuses the topics between the service and its workers, because a message there is believed in all that it
/// says of its task.
pub(super) fn foreign(topic: String) -> Result<String, String> {
    if topic.starts_with(TOPIC_PREFIX) {
        return Err(format!(
            "topics that begin with `{TOPIC_PREFIX}` are the service's own: use another one"
        ));
    }
    Ok(topic)
}

/// Refuses a topic that Kafka knows as the service's own, which begins with `own`: the publisher does, and its record would
/// never go out.
///
/// # Errors
/// [`Code::InvalidRequest`], with the field.
pub(super) fn refuse_own(pointer: &str, topic: &str, own: &str) -> Result<(), Error> {
    if !topic.starts_with(own) {
        return Ok(());
    }
    let detail = format!("topics that begin with `{own}` are the service's own: use another one");
    Err(Error::field(Code::InvalidRequest, pointer, detail))
}

fn read_headers(
    headers: Option<KafkaHeaders>,
    violations: &mut Violations,
) -> Vec<(String, Bytes)> {
    let headers: Vec<(String, KafkaHeader)> = match headers {
        None => return Vec::new(),
        Some(KafkaHeaders::Object(map)) => map
            .into_iter()
            .map(|(name, value)| {
                let pointer = format!("/kafka/headers/{}", json::escape(&name));
                let value = Some(value);
                let value_base64 = None;
                (
                    pointer,
                    KafkaHeader {
                        name,
                        value,
                        value_base64,
                    },
                )
            })
            .collect(),
        Some(KafkaHeaders::List(list)) => list
            .into_iter()
            .enumerate()
            .map(|(index, header)| (format!("/kafka/headers/{index}"), header))
            .collect(),
    };
    if headers.len() > HEADERS_MAX {
        violations.add("/kafka/headers", format!("more than {HEADERS_MAX} headers"));
        return Vec::new();
    }
    headers
        .into_iter()
        .filter_map(|(pointer, header)| violations.take(&pointer, read_header(header)))
        .collect()
}

fn read_header(header: KafkaHeader) -> Result<(String, Bytes), String> {
    let KafkaHeader {
        name,
        value,
        value_base64,
    } = header;
    // A NUL would cut the name short in the broker's client.
    if name.is_empty() || name.contains('\0') {
        return Err("a header needs a name, without NUL".to_owned());
    }
    if [TASK_ID_HEADER, START_TIME_HEADER].contains(&name.as_str()) {
        return Err(format!("the service sets the header `{name}` itself"));
    }
    match (value, value_base64) {
        (Some(value), None) => Ok((name, Bytes::from(value))),
        (None, Some(value)) => base64(&value).map(|value| (name, value)),
        (None, None) => Err("a header needs `value` or `value_base64`".to_owned()),
        (Some(_), Some(_)) => {
            Err("`value` and `value_base64` exclude each other: give one".to_owned())
        }
    }
}

/// Converts a target; what belongs to the content of its record is shown with a content only.
pub(super) fn response(target: &Target, content: Option<&Content>) -> TargetResponse {
    match target {
        Target::Callback { name } => TargetResponse::Callback { name: name.clone() },
        Target::Http { callback, call } => http_call::response(callback, call),
        Target::Kafka { topic, partition } => {
            let key = content.and_then(|content| content.record_key.as_ref());
            let (key, key_base64) = key.map_or((None, None), text_or_base64);
            TargetResponse::Kafka {
                topic: topic.clone(),
                partition: *partition,
                key,
                key_base64,
                headers: content.map(headers).unwrap_or_default(),
            }
        }
    }
}

fn headers(content: &Content) -> Vec<KafkaHeader> {
    let header = |(name, value): &(String, Bytes)| {
        let (value, value_base64) = text_or_base64(value);
        KafkaHeader {
            name: name.clone(),
            value,
            value_base64,
        }
    };
    content.record_headers.iter().map(header).collect()
}

fn text_or_base64(bytes: &Bytes) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(to_base64(bytes))),
    }
}
