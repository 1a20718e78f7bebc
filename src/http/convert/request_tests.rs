//! These tests check for clients what registration requests become, and what answers say about wrong ones.

use std::time::Duration;

use bytes::Bytes;

use super::{
    json,
    new_task::{Context, new_start, new_task},
};
use crate::{
    api::task_request::{RescheduleRequest, TaskRequest},
    flow::base::api::NewTask,
    http::error::Error,
    model::{
        backoff::{Backoff, Jitter},
        draft::Defaults,
        target::Target,
        task::{Body, Content, Priority},
        time::Millis,
    },
    schema,
};

/// 2027-01-15T08:00:00Z.
pub(super) const NOW: Millis = Millis(1_800_000_000_000);

fn context() -> Context {
    Context {
        now: NOW,
        content_bytes_max: 10_000,
        has_kafka: true,
        own_topics: "team-7.".into(),
        has_mail: true,
        trace_parent: None,
    }
}

pub(super) fn read(text: &str) -> Result<NewTask, Error> {
    new_task(json::read::<TaskRequest>(text)?, &context())
}

fn content(task: &NewTask) -> &Content {
    let Body::Inline(content) = &task.draft.body else {
        panic!("the content is apart")
    };
    content
}

#[track_caller]
pub(super) fn refused(text: &str, pointer: &str, says: &str) {
    let error = read(text).unwrap_err();
    assert!(error.code.status().is_client_error(), "{error:?}");
    let found = error
        .errors
        .iter()
        .any(|e| e.pointer == pointer && e.detail.contains(says));
    assert!(
        found,
        "{text}: expected {pointer:?} {says:?}, got {error:#?}"
    );
}

/// The values that a store leaves out are its own and never change. The defaults of retries and retention
/// have changed since: they take their bytes until the next format of the store gives them bits of their own
/// in `schema/short.rs`.
#[test]
fn a_task_that_says_nothing_of_its_own_is_kept_short() {
    let spec = read(r#"{"callback":"send_email","payload":{"user":7}}"#)
        .unwrap()
        .draft
        .complete(&Defaults::SERVICE);
    let kept = schema::spec_to_short_message(&spec);
    let timeouts = [kept.claim_timeout_ms, kept.heartbeat_timeout_ms];
    assert_eq!((timeouts, kept.priority), ([0; 2], 0));
    assert_eq!(kept.left_out.count_ones(), 4);
    let whole = schema::encode_spec(&spec).len();
    let short = schema::encode_short(&spec).len();
    assert!(whole - short >= 24, "{whole} {short}");
}

#[test]
fn the_shortest_request_gets_the_defaults() {
    let task = read(r#"{"callback":"send_email"}"#).unwrap();
    assert_eq!(task.start, NOW);
    let spec = &task.draft.clone().complete(&Defaults::SERVICE);
    assert_eq!(spec.callback(), Some("send_email"));
    assert_eq!((spec.max_attempts, spec.priority), (10, Priority::Normal));
    assert_eq!(spec.backoff, Backoff::DEFAULT);
    assert_eq!(spec.claim_timeout, Duration::from_secs(60));
    assert_eq!(spec.heartbeat_timeout, Duration::from_secs(45));
    assert_eq!(spec.expire_after, None);
    assert_eq!(spec.retention, Duration::from_secs(3 * 86_400));
    assert_eq!(spec.create_time, NOW);
    assert_eq!(
        (spec.collection.as_str(), content(&task).payload.len()),
        ("", 0)
    );
}

#[test]
fn every_field_arrives() {
    let task = read(
        r#"{"callback":{"name":"a.b-c_D9"},"collection":"x","start_time":"2027-01-15T10:00:00.0001+01:00",
        "payload":{"user": 7},"priority":"low","max_attempts":9,
        "retry":{"initial":"2s","factor":1.5,"max":"PT1M","jitter":"none"},"claim_timeout":"30s",
        "heartbeat_timeout":"1m 5s","expire_after":"1h","retention":"168h","labels":{"b":"2","a":"1"}}"#,
    )
    .unwrap();
    assert_eq!(
        task.start,
        Millis(NOW.0 + 3_600_001),
        "rounded up, never early"
    );
    let spec = &task.draft.clone().complete(&Defaults::SERVICE);
    assert_eq!(spec.callback(), Some("a.b-c_D9"));
    assert_eq!((spec.collection.as_str(), spec.max_attempts), ("x", 9));
    assert_eq!(
        spec.backoff,
        Backoff {
            initial: Duration::from_secs(2),
            factor_milli: 1500,
            max: Duration::from_secs(60),
            jitter: Jitter::None,
        }
    );
    assert_eq!(spec.claim_timeout, Duration::from_secs(30));
    assert_eq!(spec.heartbeat_timeout, Duration::from_secs(65));
    assert_eq!(spec.expire_after, Some(Duration::from_secs(3600)));
    assert_eq!(spec.retention, Duration::from_secs(604_800));
    assert_eq!(
        content(&task).labels,
        [("a".into(), "1".into()), ("b".into(), "2".into())]
    );
    assert_eq!(content(&task).content_type, "application/json");
}

#[test]
fn a_payload_is_kept_byte_for_byte() {
    for payload in [
        "null",
        "0",
        "\"\"",
        "123456789012345678901234567890.10",
        "{ \"b\" : 1,\n \"a\":1,\"a\":2e5 , \"\\u00e4\": \"\u{1f980}\"}",
        "[[],{}]",
    ] {
        let task = read(&format!(r#"{{"callback":"c","payload": {payload} }}"#)).unwrap();
        assert_eq!(content(&task).payload, payload.as_bytes(), "{payload}");
    }
}

#[test]
fn bytes_come_as_base64_with_their_type() {
    let task = read(r#"{"callback":"c","payload_base64":"AP8="}"#).unwrap();
    assert_eq!(content(&task).payload, Bytes::from_static(b"\x00\xff"));
    assert_eq!(content(&task).content_type, "application/octet-stream");
    let task = read(r#"{"callback":"c","payload_base64":"","content_type":"text/x"}"#).unwrap();
    assert_eq!(content(&task).content_type, "text/x");
}

#[test]
fn a_record_is_taken_as_it_is() {
    let task = read(
        r#"{"kafka":{"topic":"orders","key":"k","partition":3,
        "headers":[{"name":"a","value":"1"},{"name":"a","value_base64":"/w=="}]},"payload":1,"delay":"1m 30s"}"#,
    )
    .unwrap();
    let topic = "orders".to_owned();
    assert_eq!(
        task.draft.target,
        Target::Kafka {
            topic,
            partition: Some(3)
        }
    );
    assert_eq!(task.start, Millis(NOW.0 + 90_000));
    assert_eq!(content(&task).record_key.as_deref(), Some(&b"k"[..]));
    assert_eq!(
        content(&task).record_headers,
        [
            ("a".to_owned(), Bytes::from("1")),
            ("a".to_owned(), Bytes::from_static(b"\xff"))
        ]
    );
    let task = read(r#"{"kafka":{"topic":"t","key_base64":"","headers":{"x":"y"}}}"#).unwrap();
    assert_eq!(
        content(&task).record_key.as_deref(),
        Some(&b""[..]),
        "empty is not none"
    );
    assert_eq!(content(&task).record_headers.len(), 1);
}

#[test]
fn a_start_in_the_past_is_now() {
    for start in ["1970-01-01T00:00:00Z", "2027-01-15T07:59:59.999Z"] {
        let task = read(&format!(r#"{{"callback":"c","start_time":"{start}"}}"#)).unwrap();
        assert_eq!(task.start, NOW);
    }
}

#[test]
fn times_out_of_range_are_refused_with_the_range() {
    let range = "1970-01-01T00:00:00.000Z to 9999-12-30";
    for start in [
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
    ] {
        refused(
            &format!(r#"{{"callback":"c","start_time":"{start}"}}"#),
            "/start_time",
            range,
        );
    }
    for start in ["", "tomorrow", "2027-01-15T07:59:59"] {
        refused(
            &format!(r#"{{"callback":"c","start_time":"{start}"}}"#),
            "/start_time",
            "RFC 3339",
        );
    }
    refused(
        r#"{"callback":"c","start_time":1800000000}"#,
        "/start_time",
        "RFC 3339",
    );
}

#[test]
fn delays_must_be_sensible() {
    for (delay, says) in [
        ("-5s", "negative"),
        ("5s ago", "negative"),
        ("100000h", "0s to 3650d"),
        ("9999999999999999999999h", "not a duration"),
        ("1 month", "written in days"),
        ("", "not a duration"),
        ("90", "not a duration"),
    ] {
        refused(
            &format!(r#"{{"callback":"c","delay":"{delay}"}}"#),
            "/delay",
            says,
        );
    }
    refused(r#"{"callback":"c","delay":90}"#, "/delay", r#""90s""#);
    let task = read(r#"{"callback":"c","delay":"1h 30m 0.25s"}"#).unwrap();
    assert_eq!(task.start, Millis(NOW.0 + 5_400_250));
    let task = read(r#"{"callback":"c","delay":"0s"}"#).unwrap();
    assert_eq!(task.start, NOW);
}

#[test]
fn exactly_one_of_what_excludes_each_other() {
    refused(r"{}", "", "a target is missing");
    refused(
        r#"{"callback":"c","kafka":{"topic":"t"}}"#,
        "/kafka",
        "exclude",
    );
    refused(
        r#"{"callback":"c","delay":"1s","start_time":"2030-01-01T00:00:00Z"}"#,
        "/delay",
        "exclude",
    );
    refused(
        r#"{"callback":"c","payload":1,"payload_base64":""}"#,
        "/payload_base64",
        "exclude",
    );
    refused(
        r#"{"kafka":{"topic":"t","key":"","key_base64":""}}"#,
        "/kafka/key_base64",
        "exclude",
    );
}

#[test]
fn what_is_not_offered_yet_is_refused_in_words() {
    refused(
        r#"{"kafka":{"topic":"t"},"expire_after":"1h"}"#,
        "/expire_after",
        "no effect on a `kafka` target",
    );
    refused(
        r#"{"kafka":{"topic":"tickwheel.orders.high"}}"#,
        "/kafka/topic",
        "the service's own",
    );
    refused(
        r#"{"kafka":{"topic":"t"},"max_attempts":3}"#,
        "/max_attempts",
        "no effect",
    );
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_known_one() {
    refused(
        r#"{"callback":"c","start_tim":"x"}"#,
        "/start_tim",
        "did you mean `start_time`?",
    );
    refused(
        r#"{"callback":"c","retry":{"inital":"1s"}}"#,
        "/retry/inital",
        "did you mean `initial`?",
    );
    refused(
        r#"{"callback":{"nam":"c"}}"#,
        "/callback/nam",
        "did you mean `name`?",
    );
    refused(
        r#"{"callback":"c","zzz":1}"#,
        "/zzz",
        "known are: callback, http, kafka",
    );
    refused(r#"{"callback":"c","a/b~`":1}"#, "/a~1b~0`", "unknown field");
}

#[test]
fn wrong_types_and_values_are_refused_with_their_place() {
    refused(r#"{"callback":7}"#, "/callback", "a callback's name or");
    refused(
        r#"{"callback":"c","priority":"urgent"}"#,
        "/priority",
        "known are: high, normal, low",
    );
    refused(
        r#"{"callback":"c","max_attempts":-1}"#,
        "/max_attempts",
        "a whole number from 0",
    );
    refused(
        r#"{"callback":"c","max_attempts":0}"#,
        "/max_attempts",
        "1 to 10000",
    );
    refused(
        r#"{"callback":"c","max_attempts":10001}"#,
        "/max_attempts",
        "1 to 10000",
    );
}

#[test]
fn wrong_values_inside_are_refused_with_their_place() {
    refused(
        r#"{"callback":"c","labels":{"a":1}}"#,
        "/labels/a",
        "expected a string",
    );
    refused(
        r#"{"callback":"c","retry":{"factor":0.5}}"#,
        "/retry/factor",
        "1 to 1000",
    );
    refused(
        r#"{"callback":"c","retry":{"initial":"2s","max":"1s"}}"#,
        "/retry/max",
        "shorter",
    );
    refused(
        r#"{"callback":"c","claim_timeout":"4s"}"#,
        "/claim_timeout",
        "5s to",
    );
    refused(
        r#"{"callback":"c","heartbeat_timeout":"1s"}"#,
        "/heartbeat_timeout",
        "3s to",
    );
    refused(
        r#"{"callback":"c","retention":"0s"}"#,
        "/retention",
        "1s to",
    );
    refused(
        r#"{"callback":"c","payload_base64":"?"}"#,
        "/payload_base64",
        "not base64",
    );
    refused(
        r#"{"callback":"c","payload":1,"content_type":"text/plain"}"#,
        "/content_type",
        "payload_base64",
    );
    refused(
        r#"{"callback":"c","payload":1,"content_type":"json"}"#,
        "/content_type",
        "media type",
    );
    refused(
        r#"{"kafka":{"topic":"t","partition":-1}}"#,
        "/kafka/partition",
        "negative",
    );
    refused(
        r#"{"kafka":{"topic":"t","headers":[{"name":"a"}]}}"#,
        "/kafka/headers/0",
        "value",
    );
    refused(
        r#"{"kafka":{"topic":"t","headers":[{"name":"a","value":3}]}}"#,
        "/kafka/headers/0/value",
        "string",
    );
    refused(
        r#"{"kafka":{"topic":"t","headers":{"tickwheel-task-id":""}}}"#,
        "/kafka/headers/tickwheel-task-id",
        "itself",
    );
    refused(r#"{"kafka":{}}"#, "/kafka", "missing field `topic`");
    refused(r#"{"callback":"c","callback":"d"}"#, "/callback", "twice");
    refused("[]", "", "expected a JSON object");
    refused(r#"["send_email"]"#, "", "expected a JSON object");
    refused(
        r#"{"callback":"c","retry":["1s"]}"#,
        "/retry",
        "expected a JSON object",
    );
    refused(r#"{"callback":["c"]}"#, "/callback", "a callback's name or");
    refused(r#"{"kafka":["t"]}"#, "/kafka", "expected a JSON object");
    refused(
        r#"{"kafka":{"topic":"t","headers":[["a"]]}}"#,
        "/kafka/headers/0",
        "expected a JSON object",
    );
}

#[test]
fn all_wrong_fields_are_named_at_once() {
    let error =
        read(r#"{"delay":"x","max_attempts":0,"retention":"y","payload_base64":"!"}"#).unwrap_err();
    let pointers: Vec<&str> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/delay",
            "/max_attempts",
            "/retention",
            "",
            "/payload_base64"
        ]
    );
}

#[test]
fn a_reschedule_names_exactly_one_new_start() {
    let start = |text: &str| {
        let request = json::read::<RescheduleRequest>(text)?;
        new_start(&request, NOW)
    };
    assert_eq!(start(r#"{"delay":"1s"}"#).unwrap(), Millis(NOW.0 + 1000));
    assert_eq!(
        start(r#"{"start_time":"2000-01-01T00:00:00Z"}"#).unwrap(),
        NOW
    );
    assert!(start("{}").unwrap_err().detail.contains("/run"));
    let both = r#"{"delay":"1s","start_time":"2000-01-01T00:00:00Z"}"#;
    assert!(start(both).unwrap_err().detail.contains("exclude"));
}

#[test]
fn a_client_request_reads_back_as_itself() {
    let text =
        r#"{"callback":{"name":"c"},"delay":"90s","payload":null,"retry":{"jitter":"none"}}"#;
    let request: TaskRequest = json::read(text).unwrap();
    assert_eq!(serde_json::to_string(&request).unwrap(), text);
}

#[test]
fn a_record_without_a_kafka_is_refused_at_its_field() {
    let request = json::read::<TaskRequest>(r#"{"kafka": {"topic": "t"}}"#).unwrap();
    let mut context = context();
    context.has_kafka = false;
    let error = new_task(request, &context).unwrap_err();
    let [violation] = error.errors.as_slice() else {
        panic!("{error:?}");
    };
    assert_eq!(violation.pointer, "/kafka");
    assert!(violation.detail.contains("--kafka"), "{violation:?}");
}

#[test]
fn topics_that_kafka_knows_as_the_services_own_are_refused() {
    let told = r#"{"callback": "a", "notify": {"kafka": {"topic": "team-7.ends"}}}"#;
    let record = r#"{"kafka": {"topic": "team-7.mail.high"}}"#;
    for (text, pointer) in [(record, "/kafka/topic"), (told, "/notify/kafka/topic")] {
        assert_eq!(read(text).unwrap_err().errors[0].pointer, pointer);
    }
    assert!(read(r#"{"kafka": {"topic": "team-70"}}"#).is_ok());
}
