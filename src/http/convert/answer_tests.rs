//! These tests check the answers about tasks, and worker calls in both directions, for the conversions.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    json::read,
    task_view::task_response,
    worker_calls::{claim_request, heartbeat_request, settle_request, worker_name},
};
use crate::{
    api::{
        task_response::{TaskResponse, TaskState},
        worker::{
            ClaimItem, ClaimResponse, ClaimResult, HeartbeatItem, SettleItem, SettleResult, View,
        },
    },
    flow::base::api::{self, ClaimAnswer, Fault, TaskView, VisibleState},
    http::error::{Code, Error},
    model::{
        backoff::Backoff,
        dispatch::Dispatch,
        history::History,
        ids::TaskId,
        state::Outcome,
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    queue::message::TaskMessage,
};

fn id() -> TaskId {
    TaskId::new(Millis(1_800_000_000_000), WheelNumber::new(3).unwrap(), 7)
}

fn content(payload: &'static [u8], content_type: &str) -> Content {
    Content {
        payload: Bytes::from_static(payload),
        content_type: content_type.to_owned(),
        labels: vec![("tenant".to_owned(), "acme".to_owned())],
        ..Content::default()
    }
}

fn spec(target: Target, content: Content) -> Spec {
    Spec {
        indexed: Vec::new(),
        target,
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 5,
        backoff: Backoff::QUICK,
        claim_timeout: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_millis(45_500),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(86_400),
        create_time: Millis(1_799_999_999_999),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(content),
    }
}

fn callback() -> Target {
    Target::Callback {
        name: "send".to_owned(),
    }
}

fn task(spec: Spec) -> TaskView {
    TaskView {
        id: id(),
        spec: Arc::new(spec),
        content: None,
        state: VisibleState::Scheduled,
        start: Millis(1_800_000_000_250),
        effective_start: Millis(1_800_000_000_250),
        fire_time: None,
        claim_time: None,
        end_time: None,
        attempt: 0,
        generation: 0,
        run_generation: 0,
        worker: String::new(),
        progress: None,
        result: None,
        error: None,
        cancel_requested: false,
        history: History::default(),
        run_state: None,
        first_claim: None,
        tree: None,
        children_time_passed: false,
        replaced: false,
        waits: None,
    }
}

fn value(task: &TaskView, view: View) -> Value {
    serde_json::to_value(task_response(task, view)).unwrap()
}

#[test]
fn a_new_task_reads_without_what_is_not_known() {
    let task = task(spec(
        callback(),
        content(b"{\"user\": 7}", "application/json"),
    ));
    assert_eq!(
        value(&task, View::Basic),
        json!({
            "id": id().to_string(), "target": {"type": "callback", "name": "send"}, "state": "scheduled", "tree_state": "none",
            "start_time": "2027-01-15T08:00:00.250Z", "effective_start_time": "2027-01-15T08:00:00.250Z",
            "create_time": "2027-01-15T07:59:59.999Z", "attempt": 0, "max_attempts": 5, "priority": "normal",
            "labels": {"tenant": "acme"}, "generation": 0,
        })
    );
}

#[test]
fn a_finished_task_reads_with_everything() {
    let mut task = task(spec(
        callback(),
        content(b"{\"user\": 7}", "application/json"),
    ));
    task.state = VisibleState::Succeeded;
    task.fire_time = Some(task.start);
    task.claim_time = Some(task.start);
    task.end_time = Some(Millis(task.start.0 + 1));
    task.worker = "w1".to_owned();
    task.progress = Some(Bytes::from("[1, 2]"));
    task.result = Some(Bytes::from("123456789012345678901234567890").into());
    task.error = Some("first try failed".to_owned());
    task.cancel_requested = true;
    let text = serde_json::to_string(&task_response(&task, View::Full)).unwrap();
    for part in [
        r#""payload":{"user": 7}"#,
        r#""progress":[1, 2]"#,
        r#""result":123456789012345678901234567890"#,
        r#""cancel_requested":true"#,
        r#""worker":"w1""#,
        r#""end_time":"2027-01-15T08:00:00.251Z""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let back: TaskResponse = serde_json::from_str(&text).unwrap();
    assert_eq!(
        serde_json::to_string(&back).unwrap(),
        text,
        "clients read what we write"
    );
}

#[test]
fn a_state_is_called_the_same_everywhere() {
    for state in [
        VisibleState::Scheduled,
        VisibleState::Enqueued,
        VisibleState::Claimed,
        VisibleState::Processing,
        VisibleState::Succeeded,
        VisibleState::Failed,
        VisibleState::Retrying,
        VisibleState::Cancelled,
        VisibleState::Expired,
        VisibleState::Dead,
        VisibleState::Published,
    ] {
        let wire = TaskState::from(state);
        assert_eq!(wire.to_string(), state.name());
        assert_eq!(serde_json::to_value(wire).unwrap(), state.name());
    }
}

#[test]
fn a_payload_that_is_not_json_reads_as_base64() {
    for (bytes, content_type) in [
        (&b"\x00\xff"[..], "application/octet-stream"),
        (b"not json", "application/json"),
        (b" 1 ", "application/json"),
        (b"1", "text/plain"),
    ] {
        let task = task(spec(callback(), content(bytes, content_type)));
        let value = value(&task, View::Full);
        assert_eq!(value["payload_base64"], STANDARD.encode(bytes));
        assert_eq!(value["content_type"], content_type);
        assert!(value.get("payload").is_none());
    }
    let task = task(spec(
        callback(),
        content(b"[1]", "application/cloudevents+json; charset=utf-8"),
    ));
    assert_eq!(value(&task, View::Full)["payload"], json!([1]));
}

#[test]
fn a_record_shows_key_and_headers_in_full_only() {
    let target = Target::Kafka {
        topic: "t".to_owned(),
        partition: None,
    };
    let content = Content {
        record_key: Some(Bytes::from_static(b"\xff")),
        record_headers: vec![("h".to_owned(), Bytes::from("v"))],
        ..content(b"", "application/json")
    };
    let task = task(spec(target, content));
    assert_eq!(
        value(&task, View::Basic)["target"],
        json!({"type": "kafka", "topic": "t"})
    );
    assert_eq!(
        value(&task, View::Full)["target"],
        json!({"type": "kafka", "topic": "t", "key_base64": "/w==", "headers": [{"name": "h", "value": "v"}]})
    );
    assert!(
        value(&task, View::Full).get("payload").is_none(),
        "empty is no payload"
    );
}

#[test]
fn a_message_must_agree_with_its_item() {
    let message = TaskMessage {
        dispatch: Dispatch {
            id: id(),
            generation: 2,
            expected_attempt: 1,
            start: Millis(1),
        },
        published: Millis(2),
        spec: spec(callback(), content(b"1", "application/json")),
    };
    let item = ClaimItem {
        id: id().to_string(),
        generation: 2,
        expected_attempt: 1,
        message: Some(STANDARD.encode(message.outgoing().unwrap().encode())),
    };
    let request = claim_request(&item, View::Basic).unwrap();
    assert_eq!(request.spec.as_deref(), Some(&message.spec));
    assert!(!request.with_content);
    let pointer = |item: ClaimItem| {
        let error = claim_request(&item, View::Full).unwrap_err();
        assert_eq!(error.code.status(), 400);
        error.errors[0].pointer.clone()
    };
    assert_eq!(
        pointer(ClaimItem {
            generation: 3,
            ..item.clone()
        }),
        "/message"
    );
    assert_eq!(
        pointer(ClaimItem {
            expected_attempt: 0,
            ..item.clone()
        }),
        "/message"
    );
    let garbage = Some("/////w==".to_owned());
    assert_eq!(
        pointer(ClaimItem {
            message: garbage,
            ..item.clone()
        }),
        "/message"
    );
    assert_eq!(
        pointer(ClaimItem {
            id: "x".to_owned(),
            ..item
        }),
        "/id"
    );
}

#[test]
fn a_claimed_task_carries_all_that_a_worker_needs() {
    let claimed = api::ClaimedTask {
        id: id(),
        attempt: 2,
        generation: 1,
        spec: Arc::new(spec(callback(), content(b"1", "application/json"))),
        content: Some(content(b"{\"big\":  1}", "application/json")),
        dependencies: Arc::default(),
        start: Millis(1_800_000_000_000),
        expires: Millis(1_800_000_045_500),
    };
    let answers = [
        ClaimAnswer::Claimed(Box::new(claimed)),
        ClaimAnswer::Stale,
        ClaimAnswer::Held,
        ClaimAnswer::Early {
            not_before: Millis(1_800_000_000_000),
        },
        ClaimAnswer::Fault(Fault::Unknown {
            reason: "timed out".to_owned(),
        }),
    ];
    let results: Vec<ClaimResult> = answers.into_iter().map(Into::into).collect();
    let text = serde_json::to_string(&ClaimResponse { results }).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(
        text.contains(r#""payload":{"big":  1}"#),
        "byte for byte: {text}"
    );
    assert_eq!(
        value["results"][0],
        json!({"status": "claimed", "task": {
            "id": id().to_string(), "attempt": 2, "generation": 1, "callback": "send", "payload": {"big": 1},
            "priority": "normal", "content_type": "application/json", "start_time": "2027-01-15T08:00:00.000Z",
            "claim_expire_time": "2027-01-15T08:00:45.500Z", "heartbeat_timeout": "45500ms", "max_attempts": 5,
            "labels": {"tenant": "acme"}}})
    );
    assert_eq!(value["results"][1], json!({"status": "stale"}));
    assert_eq!(value["results"][2], json!({"status": "held"}));
    assert_eq!(
        value["results"][3],
        json!({"status": "early", "not_before": "2027-01-15T08:00:00.000Z"})
    );
    assert_eq!(value["results"][4]["error"]["code"], "outcome_unknown");
    let back: ClaimResponse = serde_json::from_str(&text).unwrap();
    assert_eq!(
        serde_json::to_string(&back).unwrap(),
        text,
        "clients read what we write"
    );
}

fn settle(fields: &str) -> Result<Outcome, Error> {
    let text = format!(r#"{{"id":"{}","attempt":1,{fields}}}"#, id());
    settle_request(&read::<SettleItem>(&text)?).map(|request| request.outcome)
}

#[test]
fn reports_become_outcomes() {
    assert_eq!(
        settle(r#""outcome":"succeeded","result":{"n": 1}"#).unwrap(),
        Outcome::Succeeded {
            result: Some(Bytes::from(r#"{"n": 1}"#).into())
        }
    );
    assert_eq!(
        settle(r#""outcome":"succeeded""#).unwrap(),
        Outcome::Succeeded { result: None }
    );
    assert_eq!(
        settle(r#""outcome":"retry","error":"e","delay":"5s""#).unwrap(),
        Outcome::Retry {
            error: "e".to_owned(),
            after: Some(Duration::from_secs(5))
        }
    );
    assert_eq!(
        settle(r#""outcome":"failed","error":"e""#).unwrap(),
        Outcome::Failed {
            error: "e".to_owned()
        }
    );
    assert_eq!(
        settle(r#""outcome":"snoozed","delay":"1m""#).unwrap(),
        Outcome::Snoozed {
            after: Duration::from_secs(60)
        }
    );
}

#[test]
fn reports_that_make_no_sense_are_refused() {
    let deep = "[".repeat(101) + &"]".repeat(101);
    for (fields, pointer) in [
        (r#""outcome":"done""#.to_owned(), "/outcome"),
        (r#""outcome":"snoozed""#.to_owned(), "/delay"),
        (
            r#""outcome":"retry","error":"","result":1"#.to_owned(),
            "/result",
        ),
        (r#""outcome":"succeeded","error":"x""#.to_owned(), "/error"),
        (r#""outcome":"succeeded","delay":"1s""#.to_owned(), "/delay"),
        (
            r#""outcome":"retry","error":"","delay":"-1s""#.to_owned(),
            "/delay",
        ),
        (
            format!(
                r#""outcome":"succeeded","result":"{}""#,
                "x".repeat(1_048_576)
            ),
            "/result",
        ),
        (
            format!(r#""outcome":"succeeded","result":{deep}"#),
            "/result",
        ),
    ] {
        let error = settle(&fields).unwrap_err();
        assert_eq!(
            (error.code, error.errors[0].pointer.as_str()),
            (Code::InvalidRequest, pointer)
        );
    }
}

#[test]
fn a_long_error_is_cut_and_not_refused() {
    let outcome = settle(&format!(
        r#""outcome":"failed","error":"{}""#,
        "ä".repeat(5000)
    ))
    .unwrap();
    let Outcome::Failed { error } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.chars().count(), 4096);
    assert!(error.ends_with("ä..."));
}

#[test]
fn progress_is_bounded() {
    let item = |progress: &str| {
        let text = format!(r#"{{"id":"{}","attempt":1,"progress":{progress}}}"#, id());
        heartbeat_request(&read::<HeartbeatItem>(&text).unwrap())
    };
    assert_eq!(
        item("[0.5]").unwrap().progress.as_deref(),
        Some(&b"[0.5]"[..])
    );
    assert_eq!(item("null").unwrap().progress, None);
    let error = item(&format!("\"{}\"", "x".repeat(4096))).unwrap_err();
    assert!(error.detail.contains("4096"), "{}", error.detail);
}

#[test]
fn a_worker_has_a_name() {
    assert!(worker_name("host-1:4711 / a").is_ok());
    for bad in ["", "a\nb", &"x".repeat(257)] {
        assert_eq!(worker_name(bad).unwrap_err().errors[0].pointer, "/worker");
    }
}

#[test]
fn a_fault_of_a_report_says_whether_to_repeat() {
    let fault = Fault::Unavailable {
        reason: "store".to_owned(),
        retry_after: Duration::from_secs(1),
    };
    let result = SettleResult::from(api::SettleAnswer::Fault(fault));
    assert!(result.error.unwrap().retryable);
}
