//! These tests compare records of topics byte for byte with those of older versions. This version must read
//! and write a record as the older one did: files under `tests/golden/` are never changed, only added to.

use std::{fmt::Write as _, time::Duration};

use bytes::Bytes;
use tickwheel::{
    flow::life::record,
    model::{
        backoff::{Backoff, Jitter},
        dispatch::Dispatch,
        ids::TaskId,
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    queue::{
        Record,
        message::{TaskMessage, TimeTexts},
    },
};

pub(crate) const START: Millis = Millis(1_893_456_000_250);

pub(crate) fn id() -> TaskId {
    TaskId::new(START, WheelNumber::new(513).unwrap(), 0x0123_4567_89ab_cdef)
}

/// Every field has a value that is not its default.
pub(crate) fn full() -> (Spec, Content) {
    let content = Content {
        payload: Bytes::from_static(b"{\"to\":\"Z\xc3\xbcrich\"}\x00\xff"),
        content_type: "application/json".to_owned(),
        record_key: Some(Bytes::from_static(b"customer-7")),
        record_headers: vec![
            ("first".to_owned(), Bytes::from_static(b"1")),
            ("empty".to_owned(), Bytes::new()),
            ("first".to_owned(), Bytes::from_static(b"again\xfe")),
        ],
        labels: vec![("team".to_owned(), "billing".to_owned())],
        trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        previous: None,
    };
    let spec = Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "send-email".to_owned(),
        },
        collection: "password-reset".to_owned(),
        priority: Priority::High,
        max_attempts: 7,
        backoff: Backoff {
            initial: Duration::from_millis(1500),
            factor_milli: 3000,
            max: Duration::from_secs(3600),
            jitter: Jitter::None,
        },
        claim_timeout: Duration::from_secs(90),
        heartbeat_timeout: Duration::from_secs(45),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: Some(Duration::from_secs(86_400)),
        retention: Duration::from_secs(604_800),
        create_time: Millis(1_893_455_000_000),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(content.clone()),
    };
    (spec, content)
}

/// Every field is absent or empty that can be.
fn least() -> Spec {
    Spec {
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
    }
}

/// Writes a record as text: its text fields in quotes, its value in lines of 32 bytes.
fn render(record: &Record) -> String {
    let mut text = format!("topic {}\npartition {:?}\n", record.topic, record.partition);
    let shown = |bytes: &Bytes| format!("\"{}\"", bytes.escape_ascii());
    let key = record.key.as_ref().map_or_else(|| "null".to_owned(), shown);
    writeln!(text, "key {key}").unwrap();
    for (name, value) in &record.headers {
        writeln!(text, "header {name} {}", shown(value)).unwrap();
    }
    writeln!(text, "value").unwrap();
    for line in record.value.chunks(32) {
        let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{hex}").unwrap();
    }
    text
}

/// Reads the value out of a rendered record.
fn value(text: &str) -> Bytes {
    let (_, lines) = text.split_once("\nvalue\n").unwrap();
    let hex: String = lines.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn record(message: &TaskMessage, callback: &str) -> Record {
    let message = message.outgoing().expect("its content is inside");
    message.to_record(callback, &mut TimeTexts::default())
}

fn assert_unchanged(golden: &str, message: &TaskMessage, callback: &str) {
    let rendered = render(&record(message, callback));
    assert_eq!(
        rendered, golden,
        "the format has changed; it is now:\n{rendered}"
    );
    let stored = TaskMessage::decode(value(golden)).unwrap();
    assert_eq!(&stored, message);
    assert_eq!(render(&record(&stored, callback)), golden);
}

#[test]
fn a_task_message_with_everything_is_unchanged() {
    let (spec, _) = full();
    let message = TaskMessage {
        dispatch: Dispatch {
            id: id(),
            generation: 3,
            expected_attempt: 2,
            start: Millis(START.0 + 5000),
        },
        published: Millis(START.0 + 5007),
        spec,
    };
    let golden = include_str!("golden/task_message_full.txt");
    assert_unchanged(golden, &message, "send-email");
}

#[test]
fn a_task_message_with_the_least_is_unchanged() {
    let id = TaskId::new(Millis::EPOCH, WheelNumber::new(0).unwrap(), 0);
    let message = TaskMessage {
        dispatch: Dispatch::first(id, Millis::EPOCH),
        published: Millis::EPOCH,
        spec: least(),
    };
    let golden = include_str!("golden/task_message_least.txt");
    assert_unchanged(golden, &message, "x");
}

#[test]
fn a_record_of_a_kafka_target_is_unchanged() {
    let (spec, content) = full();
    let spec = Spec {
        target: Target::Kafka {
            topic: "orders.due".to_owned(),
            partition: Some(3),
        },
        ..spec
    };
    let (dispatch, mut times) = (Dispatch::first(id(), START), TimeTexts::default());
    let made = record::record(&dispatch, &spec, &content, START, &mut times);
    let rendered = render(&made);
    let golden = include_str!("golden/user_record.txt");
    assert_eq!(
        rendered, golden,
        "the format has changed; it is now:\n{rendered}"
    );
}
