//! Golden messages: what readers in every language are checked against, as bytes and as their decoded fields.
//!
//! `tests/golden/kafka_message.json` is only added to. `docs/kafka-message.md` is the contract that it shows.

use std::{fmt::Write as _, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{CONTENT_TYPE, TaskMessage, TimeTexts, topic};
use crate::{
    model::{
        backoff::{Backoff, Jitter},
        dispatch::Dispatch,
        ids::TaskId,
        kin::Kin,
        target::Target,
        task::{Body, Content, Priority, Scheduled, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    queue::{Delivery, Partition},
};

const START: Millis = Millis(1_893_456_000_250);

/// The partitions of the topics in the file.
const PARTITIONS: i32 = 8;

fn id(wheel: u16) -> TaskId {
    let wheel = WheelNumber::new(wheel).unwrap();
    TaskId::new(START, wheel, 0x0123_4567_89ab_cdef)
}

/// Every field is absent or empty that can be.
fn least() -> TaskMessage {
    let id = TaskId::new(Millis::EPOCH, WheelNumber::new(0).unwrap(), 0);
    TaskMessage {
        dispatch: Dispatch::first(id, Millis::EPOCH),
        published: Millis::EPOCH,
        spec: Spec {
            indexed: Vec::new(),
            target: Target::Callback {
                name: "x".to_owned(),
            },
            collection: String::new(),
            priority: Priority::Normal,
            max_attempts: 1,
            backoff: Backoff::QUICK,
            claim_timeout: Duration::from_secs(60),
            heartbeat_timeout: Duration::from_secs(60),
            attempt_timeout: None,
            ordering_key: None,
            dead_retention: None,
            expire_after: None,
            retention: Duration::ZERO,
            create_time: Millis(0),
            asked_start: None,
            scheduled: None,
            key: None,
            notify: None,
            actions: None,
            kin: None,
            after: None,
            then: Vec::new(),
            body: Body::Inline(Content::default()),
        },
    }
}

/// A task with a payload, as most are.
fn usual() -> TaskMessage {
    let mut message = least();
    message.dispatch = Dispatch::first(id(513), START);
    message.published = Millis(START.0 + 7);
    message.spec.target = Target::Callback {
        name: "send-email".to_owned(),
    };
    message.spec.max_attempts = 10;
    message.spec.heartbeat_timeout = Duration::from_secs(30);
    message.spec.retention = Duration::from_secs(259_200);
    message.spec.create_time = Millis(START.0 - 60_000);
    message.spec.body = Body::Inline(Content {
        payload: Bytes::from_static("{\"to\":\"Zürich\"}".as_bytes()),
        content_type: "application/json".to_owned(),
        ..Content::default()
    });
    message
}

/// The third attempt of a task that was moved once, with most fields.
fn full() -> TaskMessage {
    let mut message = usual();
    message.dispatch.generation = 1;
    message.dispatch.expected_attempt = 2;
    message.dispatch.start = Millis(START.0 + 5000);
    message.published = Millis(START.0 + 5007);
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let spec = &mut message.spec;
    spec.collection = "password-reset".to_owned();
    spec.priority = Priority::High;
    spec.backoff = Backoff {
        initial: Duration::from_millis(1500),
        factor_milli: 3000,
        max: Duration::from_secs(3600),
        jitter: Jitter::None,
    };
    spec.attempt_timeout = Some(Duration::from_secs(600));
    spec.expire_after = Some(Duration::from_secs(86_400));
    spec.dead_retention = Some(Duration::from_secs(2_592_000));
    spec.asked_start = Some(Millis(START.0 - 120_000));
    spec.scheduled = Some(Box::new(Scheduled {
        schedule: "nightly".to_owned(),
        time: START,
    }));
    spec.ordering_key = Some("customer-7".to_owned());
    spec.key = Some("reset-7".to_owned());
    spec.indexed = vec![label("team", "billing")];
    spec.kin = Some(Box::new(Kin {
        parent: Some(id(514)),
        is_parent: true,
        after_parent: false,
        undoes: false,
        children_within: None,
    }));
    spec.body = Body::Inline(Content {
        payload: Bytes::from_static(b"\x00\xff{"),
        content_type: "application/octet-stream".to_owned(),
        record_key: None,
        record_headers: Vec::new(),
        labels: vec![label("team", "billing")],
        trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        previous: None,
    });
    message
}

/// A message whose content stays in the store: its claim brings it.
fn apart() -> Bytes {
    let mut message = usual();
    message.spec.body = Body::Apart { bytes: 400_000 };
    let outgoing = super::Outgoing {
        dispatch: message.dispatch,
        published: message.published,
        spec: &message.spec,
        content: None,
    };
    outgoing.encode()
}

/// A message of a later version: with fields that nobody knows yet, in itself and in its task.
fn with_later_fields() -> Bytes {
    use prost::Message as _;
    /// Number 999 as text, number 1000 as a varint.
    const LATER: &[u8] = b"\xba\x3e\x05later\xc0\x3e\x96\x01";
    let spec = crate::schema::spec_to_message(&usual().spec).encode_to_vec();
    let plain = usual().outgoing().unwrap().encode();
    // The task is the last field of the message, behind its tag and its length.
    let head = plain.len() - spec.len() - prost::length_delimiter_len(spec.len()) - 1;
    let mut value = [LATER, &plain[..head], b"\x32"].concat();
    prost::encode_length_delimiter(spec.len() + LATER.len(), &mut value).unwrap();
    value.extend([&spec, LATER].concat());
    value.into()
}

/// The fields of a message by their names in the schema; those of a task that readers use.
fn fields(message: &TaskMessage) -> Value {
    let spec = &message.spec;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    let content = spec.content().map(|content| {
        json!({
            "payload": STANDARD.encode(&content.payload),
            "content_type": content.content_type,
            "labels": content.labels.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "trace_parent": content.trace_parent,
        })
    });
    json!({
        "id": message.dispatch.id.to_string(),
        "generation": message.dispatch.generation,
        "expected_attempt": message.dispatch.expected_attempt,
        "start_time_ms": message.dispatch.start.0,
        "publish_time_ms": message.published.0,
        "spec": {
            "callback": spec.callback(),
            "collection": spec.collection,
            "priority": spec.priority.name(),
            "max_attempts": spec.max_attempts,
            "claim_timeout_ms": millis(spec.claim_timeout),
            "heartbeat_timeout_ms": millis(spec.heartbeat_timeout),
            "attempt_timeout_ms": spec.attempt_timeout.map(millis),
            "create_time_ms": spec.create_time.0,
            "ordering_key": spec.ordering_key,
            "key": spec.key,
            "content": content,
        },
    })
}

fn hex(value: &[u8]) -> String {
    value.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Bytes {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A record as this version publishes it.
fn written(name: &str, message: &TaskMessage) -> Value {
    let callback = message.spec.callback().unwrap();
    let record = message
        .outgoing()
        .unwrap()
        .to_record(callback, &mut TimeTexts::default());
    let Partition::OfWheel(wheel) = record.partition else {
        panic!("{:?}", record.partition);
    };
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let headers = record
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(text(value))));
    json!({
        "name": name,
        "topic": record.topic,
        "partition": wheel.partition(PARTITIONS),
        "key": record.key.as_ref().map(text),
        "headers": headers.collect::<serde_json::Map<String, Value>>(),
        "value": hex(&record.value),
        "decoded": fields(message),
    })
}

/// The fields that a reader has of a record; null where it passes it.
fn decoded(content_type: &str, value: &Bytes) -> Value {
    let delivery = Delivery {
        topic: topic("send-email", Priority::Normal),
        partition: 0,
        offset: 0,
        key: None,
        value: value.clone(),
        headers: vec![("content-type".into(), content_type.to_owned().into())],
    };
    let read = TaskMessage::read(&delivery);
    read.map_or(Value::Null, |message| fields(&message))
}

/// A record that this version does not publish.
fn read(name: &str, content_type: &str, value: &Bytes) -> Value {
    json!({
        "name": name,
        "topic": topic("send-email", Priority::Normal),
        "headers": { "content-type": content_type },
        "value": hex(value),
        "decoded": decoded(content_type, value),
    })
}

fn all() -> Value {
    let whole = usual().outgoing().unwrap().encode();
    let later_type = CONTENT_TYPE.replace(".v1.", ".v2.");
    let without_target = Bytes::from_static(
        b"\x0a\x10\x01\xb8\xda\xc5\xb4\xfa\x82\x01\x81\x23\x45\x67\x89\xab\xcd\xef\x32\x00",
    );
    json!({
        "partitions": PARTITIONS,
        "messages": [
            written("the least", &least()),
            written("a usual task", &usual()),
            written("a third attempt with most fields", &full()),
            read("a content that is kept apart", CONTENT_TYPE, &apart()),
            read("fields of a later version", CONTENT_TYPE, &with_later_fields()),
            read("a later format", &later_type, &Bytes::from_static(b"\x0a\x04next")),
            read("a later format that looks like this one", &later_type, &whole),
            read("a message that was cut", CONTENT_TYPE, &whole.slice(..whole.len() / 2)),
            read("a task of no callback", CONTENT_TYPE, &without_target),
            read("no bytes", CONTENT_TYPE, &Bytes::new()),
            read("text", CONTENT_TYPE, &Bytes::from_static(b"hello")),
        ],
    })
}

fn golden() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kafka_message.json");
    if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&all()).unwrap();
        std::fs::write(&file, text + "\n").unwrap();
    }
    serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap()
}

#[test]
fn messages_are_written_as_their_golden_bytes() {
    let (now, golden) = (all(), golden());
    assert_eq!(now, golden, "the format has changed; it is now:\n{now:#}");
}

#[test]
fn golden_bytes_are_read_as_their_fields() {
    for golden in golden()["messages"].as_array().unwrap() {
        let name = &golden["name"];
        let value = unhex(golden["value"].as_str().unwrap());
        let decoded = decoded(golden["headers"]["content-type"].as_str().unwrap(), &value);
        assert_eq!(decoded, golden["decoded"], "{name}");
        let passed = [
            "a later format",
            "a later format that looks like this one",
            "a message that was cut",
            "a task of no callback",
            "no bytes",
            "text",
        ];
        assert_eq!(
            decoded.is_null(),
            passed.contains(&name.as_str().unwrap()),
            "{name}"
        );
    }
    // Nothing of a task is lost by what a later version adds to it.
    assert_eq!(TaskMessage::decode(with_later_fields()).unwrap(), usual());
}
