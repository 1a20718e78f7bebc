//! A worker uses the API over plain HTTP: it subscribes, consumes, claims, sends heartbeats and settles.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tickwheel::{
    queue::{
        Consumer as _,
        message::{TaskMessage, group},
    },
    store::TaskStore as _,
};

use super::Site;

const SECOND: Duration = Duration::from_secs(1);

/// Registers a task that is due at once, and returns its message from the queue.
pub(super) async fn due(site: &Site, body: &str) -> TaskMessage {
    let subscribed = site
        .post(
            "/v1/worker/subscribe",
            r#"{"worker":"w","callbacks":["work"]}"#,
        )
        .await
        .ok();
    let topics: Vec<String> = serde_json::from_value(subscribed["topics"].clone()).unwrap();
    assert_eq!(subscribed["groups"], json!({"work": group("work")}));
    let mut consumer = site.world.queue.consumer(&group("work"), &topics);
    assert_eq!(site.post("/v1/tasks", body.to_owned()).await.status, 201);
    let delivery = consumer.receive(1, 10 * SECOND).await.unwrap().remove(0);
    TaskMessage::decode(delivery.value).unwrap()
}

pub(super) async fn claim(site: &Site, message: &TaskMessage, rest: &str) -> Value {
    let item = json!({
        "id": message.dispatch.id.to_string(), "generation": message.dispatch.generation,
        "expected_attempt": message.dispatch.expected_attempt, "message": STANDARD.encode(message.outgoing().unwrap().encode()),
    });
    let body = format!(r#"{{"worker":"w","messages":[{item}]{rest}}}"#);
    site.post("/v1/worker/claim", body).await.ok()["results"][0].clone()
}

pub(super) async fn call(site: &Site, path: &str, item: Value) -> Value {
    let body = json!({"worker": "w", "tasks": [item]}).to_string();
    site.post(path, body).await.ok()["results"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_a_task_over_plain_http() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body =
        r#"{"callback":"work","payload":{"n": 1},"heartbeat_timeout":"20s","collection":"c"}"#;
    let message = due(&site, body).await;
    let id = message.dispatch.id.to_string();

    let claimed = claim(&site, &message, "").await;
    assert_eq!(claimed["status"], "claimed");
    let task = &claimed["task"];
    assert_eq!((&task["id"], &task["attempt"]), (&json!(id), &json!(1)));
    assert_eq!(
        (&task["payload"], &task["collection"]),
        (&json!({"n": 1}), &json!("c"))
    );
    assert_eq!(
        (&task["heartbeat_timeout"], &task["callback"]),
        (&json!("20s"), &json!("work"))
    );
    let status = claim(&site, &message, "").await["status"].clone();
    assert!(
        status == "held" || status == "stale",
        "a second claim wins nothing: {status}"
    );

    let beat = json!({"id": id, "attempt": 1, "progress": {"done": 0.5}});
    assert_eq!(
        call(&site, "/v1/worker/heartbeat", beat).await,
        json!({"status": "ok"})
    );
    let path = format!("/v1/tasks/{id}");
    let task = site.get(&path).await.ok();
    assert_eq!(
        (&task["state"], &task["worker"]),
        (&json!("processing"), &json!("w"))
    );
    assert_eq!(task["progress"], json!({"done": 0.5}));
    site.world.pass(SECOND).await;
    let silent = json!({"id": id, "attempt": 1});
    call(&site, "/v1/worker/heartbeat", silent).await;
    let task = site.get(&path).await.ok();
    assert_eq!(task["progress"], json!({"done": 0.5}), "it stays");

    let wrong = json!({"id": id, "attempt": 2, "outcome": "succeeded"});
    let refused = call(&site, "/v1/worker/settle", wrong).await;
    assert_eq!(
        refused,
        json!({"status": "lost", "reason": "attempt 1 is the task's last"})
    );
    let right = json!({"id": id, "attempt": 1, "outcome": "succeeded", "result": [1, "two"]});
    for _ in 0..2 {
        let status = call(&site, "/v1/worker/settle", right.clone()).await["status"].clone();
        assert_eq!(status, "ok", "a report may be repeated");
    }
    let task = site.get(&path).await.ok();
    assert_eq!(
        (&task["state"], &task["result"]),
        (&json!("succeeded"), &json!([1, "two"]))
    );
    let late = json!({"id": id, "attempt": 1});
    let ended = json!({"status": "lost", "reason": "the task has ended: it is succeeded"});
    assert_eq!(call(&site, "/v1/worker/heartbeat", late).await, ended);
    let other = json!({"id": id, "attempt": 1, "outcome": "failed", "error": "no"});
    assert_eq!(call(&site, "/v1/worker/settle", other).await, ended);
    let unknown = json!({"id": super::task_id(), "attempt": 1, "outcome": "succeeded"});
    let reason = "no task of this id was claimed, or its retention has passed";
    assert_eq!(
        call(&site, "/v1/worker/settle", unknown).await,
        json!({"status": "lost", "reason": reason})
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_running_worker() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let message = due(&site, r#"{"callback":"work","payload":1}"#).await;
    let id = message.dispatch.id.to_string();
    let claimed = claim(&site, &message, r#","view":"BASIC""#).await;
    assert_eq!(claimed["status"], "claimed");
    assert!(claimed["task"].get("payload").is_none(), "{claimed}");
    let cancelled = site.post(&format!("/v1/tasks/{id}/cancel"), "").await.ok();
    assert_eq!(cancelled["outcome"], "cancel_requested");
    assert_eq!(cancelled["task"]["cancel_requested"], true);
    let beat = json!({"id": id, "attempt": 1});
    let status = call(&site, "/v1/worker/heartbeat", beat).await["status"].clone();
    assert_eq!(status, "cancel_requested");
    let report = json!({"id": id, "attempt": 1, "outcome": "retry", "error": "stopped"});
    assert_eq!(
        call(&site, "/v1/worker/settle", report).await["status"],
        "ok"
    );
    assert_eq!(
        site.get(&format!("/v1/tasks/{id}")).await.ok()["state"],
        "cancelled"
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_its_delay() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let message = due(&site, r#"{"callback":"work"}"#).await;
    let id = message.dispatch.id.to_string();
    assert_eq!(claim(&site, &message, "").await["status"], "claimed");
    let report = json!({"id": id, "attempt": 1, "outcome": "retry", "error": "no", "delay": "1h"});
    assert_eq!(
        call(&site, "/v1/worker/settle", report).await["status"],
        "ok"
    );
    let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(
        (&task["state"], &task["error"]),
        (&json!("retrying"), &json!("no"))
    );
    assert!(
        task["effective_start_time"].as_str() > task["start_time"].as_str(),
        "{task}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_conditional_reader_sees_progress_and_that_a_cancel_was_asked_for() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let message = due(&site, r#"{"callback":"work"}"#).await;
    let path = format!("/v1/tasks/{}", message.dispatch.id);
    claim(&site, &message, "").await;
    let beat = |progress: u32| json!({"id": message.dispatch.id.to_string(), "attempt": 1, "progress": progress});
    call(&site, "/v1/worker/heartbeat", beat(1)).await;
    let mut seen = site.get(&path).await.header("etag").to_owned();
    let read = async |tag: &str| {
        let mut request = super::request(axum::http::Method::GET, &path, "");
        let headers = request.headers_mut();
        headers.insert("if-none-match", tag.parse().unwrap());
        site.send(request).await
    };
    assert_eq!(read(&seen).await.status, 304);
    call(&site, "/v1/worker/heartbeat", beat(2)).await;
    let answer = read(&seen).await;
    assert_eq!(answer.ok()["progress"], 2);
    answer.header("etag").clone_into(&mut seen);
    site.post(&format!("{path}/cancel"), "").await.ok();
    let answer = read(&seen).await;
    assert_eq!(answer.ok()["cancel_requested"], true);
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_of_what_does_not_live_leaves_nothing() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let message = due(&site, r#"{"callback":"work"}"#).await;
    let id = message.dispatch.id;
    assert_eq!(claim(&site, &message, "").await["status"], "claimed");
    let beat = |id: String, attempt: u32| json!({"id": id, "attempt": attempt, "progress": "x"});
    let never = "no task of this id was claimed, or its retention has passed";
    let other = "attempt 1 is the task's last";
    for (beaten, attempt, reason) in [
        (super::task_id(), 1, never),
        (id.to_string(), 2, other),
        (id.to_string(), 7, other),
    ] {
        let answer = call(&site, "/v1/worker/heartbeat", beat(beaten.clone(), attempt)).await;
        assert_eq!(answer, json!({"status": "lost", "reason": reason}));
        let key = [(beaten.parse().unwrap(), attempt)];
        let kept = site.world.store.heartbeats(&key).await.unwrap();
        assert!(kept[0].is_none(), "{kept:?}");
    }
    // The live attempt keeps its lease, whichever node it was claimed through.
    let answer = call(&site, "/v1/worker/heartbeat", beat(id.to_string(), 1)).await;
    assert_eq!(answer["status"], "ok");
    let other = Site::of(site.world.clone(), site.world.node(2));
    let answer = call(&other, "/v1/worker/heartbeat", beat(id.to_string(), 1)).await;
    assert_eq!(answer["status"], "ok");
    let settle = json!({"id": id.to_string(), "attempt": 1, "outcome": "succeeded"});
    call(&site, "/v1/worker/settle", settle).await;
    let answer = call(&site, "/v1/worker/heartbeat", beat(id.to_string(), 1)).await;
    assert_eq!(answer["status"], "lost");
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_task_is_beyond_the_bounds_of_a_registration_is_refused() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let mut message = due(&site, r#"{"callback":"work"}"#).await;
    message.spec.retention = Duration::from_secs(1_000_000_000);
    let answer = claim(&site, &message, "").await;
    assert_eq!(answer["status"], "error");
    let error = &answer["error"]["errors"][0];
    assert_eq!(error["pointer"], "/message");
    let detail = error["detail"].as_str().unwrap();
    assert!(detail.contains("retention"), "{detail}");
    let read = site
        .get(&format!("/v1/tasks/{}", message.dispatch.id))
        .await
        .ok();
    assert_eq!(
        (&read["state"], &read["attempt"]),
        (&json!("enqueued"), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_asks_for_contents_gets_as_much_as_a_poll_and_the_rest_with_the_next() {
    const TASKS: usize = 20;
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let task = json!({"callback": "work", "payload": "x".repeat(900_000)}).to_string();
    let mut items = Vec::new();
    for _ in 0..TASKS {
        let message = due(&site, &task).await;
        // Without the message the service reads the sizes from its store; it does not trust the
        // size that a message states.
        items.push(
            json!({"id": message.dispatch.id.to_string(), "generation": 0, "expected_attempt": 0}),
        );
    }
    let mut calls = 0;
    while !items.is_empty() {
        calls += 1;
        let body = json!({"worker": "w", "messages": items}).to_string();
        let answer = site.post("/v1/worker/claim", body).await;
        let most = tickwheel::limits::POLL_BYTES_MAX;
        assert!(
            answer.body.len() < most + 1_000_000,
            "{}",
            answer.body.len()
        );
        let results = answer.ok()["results"].as_array().unwrap().clone();
        let early = results.iter().map(|result| result["status"] == "early");
        let early: Vec<bool> = early.collect();
        assert!(early.contains(&false), "{results:?}");
        let mut early = early.into_iter();
        items.retain(|_| early.next().unwrap());
    }
    assert!((3..=4).contains(&calls), "{calls}");
}
