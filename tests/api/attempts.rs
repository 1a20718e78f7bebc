//! A task shows its attempts to people: how each went, newest last.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{model::state::Outcome, store::WheelStore as _};

use super::Site;
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);

/// Fails, gives the task back, is lost, and succeeds.
fn worker() -> Behaviour {
    Arc::new(|_, attempt| {
        let outcome = match attempt {
            1 => Some(Outcome::Retry {
                error: "disk full".to_owned(),
                after: None,
            }),
            2 => Some(Outcome::Snoozed { after: SECOND }),
            3 => None,
            _ => Some(Outcome::Succeeded { result: None }),
        };
        (SECOND / 10, outcome)
    })
}

async fn ended(site: &Site, max_attempts: u32) -> Value {
    let body = json!({"callback": "work", "max_attempts": max_attempts, "heartbeat_timeout": "5s"});
    let id = site.post("/v1/tasks", body.to_string()).await.json()["id"].clone();
    let path = format!("/v1/tasks/{}?wait=60s", id.as_str().unwrap());
    site.get(&path).await.ok()
}

fn told(task: &Value, name: &str) -> Vec<Value> {
    let attempts = task["attempts"].as_array().unwrap();
    attempts
        .iter()
        .map(|attempt| attempt[name].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_read_shows_how_each_attempt_went() {
    let site = Site::new();
    let worker = site.world.worker(site.node.service(), worker());
    site.world.pass(3 * SECOND).await;
    let task = ended(&site, 5).await;
    assert_eq!(task["state"], "succeeded", "{task}");
    assert_eq!(told(&task, "attempt"), [1, 2, 3, 4]);
    assert_eq!(
        told(&task, "outcome"),
        ["retry", "snoozed", "lost", "succeeded"]
    );
    assert_eq!(told(&task, "worker"), ["worker"; 4]);
    let lost = json!("its worker stopped sending heartbeats");
    assert_eq!(
        told(&task, "error"),
        [json!("disk full"), Value::Null, lost, Value::Null]
    );
    let (claims, ends) = (told(&task, "claim_time"), told(&task, "end_time"));
    let times: Vec<&str> = claims
        .iter()
        .zip(&ends)
        .flat_map(|(claim, end)| [claim, end])
        .map(|time| time.as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(
        (&claims[3], &ends[3]),
        (&task["claim_time"], &task["end_time"])
    );
    assert!(task.get("attempts_dropped").is_none());
    let listed = site
        .get("/v1/tasks?state=succeeded&start_time_to=2027-01-15T09:00:00Z")
        .await
        .ok();
    assert_eq!(listed["tasks"][0]["id"], task["id"]);
    assert!(
        listed["tasks"][0].get("attempts").is_none(),
        "a list has none"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_or_runs_shows_what_is_known() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","heartbeat_timeout":"20s","max_attempts":2}"#;
    let id = site.post("/v1/tasks", body).await.json()["id"].clone();
    let read = async || {
        site.get(&format!("/v1/tasks/{}", id.as_str().unwrap()))
            .await
            .ok()
    };
    assert!(read().await.get("attempts").is_none());
    let message = json!({"id": id, "generation": 0, "expected_attempt": 0});
    let claim = json!({"worker": "w-7", "messages": [message]}).to_string();
    let claimed = site.post("/v1/worker/claim", claim).await.ok();
    assert_eq!(claimed["results"][0]["status"], "claimed", "{claimed}");
    let running = read().await;
    assert_eq!(told(&running, "worker"), ["w-7"]);
    assert_eq!(told(&running, "outcome"), [Value::Null]);
    assert_eq!(told(&running, "end_time"), [Value::Null]);
    // No write says that its worker is gone.
    site.world.pass(21 * SECOND).await;
    let lost = read().await;
    assert_eq!(lost["state"], "retrying", "{lost}");
    assert_eq!(told(&lost, "outcome"), ["lost"]);
    assert_eq!(
        told(&lost, "end_time"),
        [lost["effective_start_time"].clone()]
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_given_back_waits_as_one_that_has_not_failed() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let worker = site.world.worker(
        site.node.service(),
        Arc::new(|_, _| {
            (
                Duration::ZERO,
                Some(Outcome::Snoozed { after: 60 * SECOND }),
            )
        }),
    );
    let id = site
        .post("/v1/tasks", r#"{"callback":"work"}"#)
        .await
        .json()["id"]
        .clone();
    let path = format!("/v1/tasks/{}", id.as_str().unwrap());
    site.world.pass(10 * SECOND).await;
    worker.abort();
    let waits = site.get(&path).await.ok();
    assert_eq!(
        (&waits["state"], &waits["attempt"]),
        (&json!("scheduled"), &json!(1))
    );
    assert_eq!(told(&waits, "outcome"), ["snoozed"]);
    let figures = site.get("/v1/callbacks/work").await.ok();
    assert_eq!(figures["retrying"], 0, "{figures}");
    site.world.pass(60 * SECOND).await;
    assert_eq!(site.get(&path).await.ok()["state"], "enqueued");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_told_so() {
    let site = Site::new();
    // It works for an hour, then for a moment.
    let worker = site.world.worker(
        site.node.service(),
        Arc::new(|_, attempt| {
            let takes = if attempt == 1 { 3600 * SECOND } else { SECOND };
            (takes, Some(Outcome::Succeeded { result: None }))
        }),
    );
    site.world.pass(3 * SECOND).await;
    let body = json!({"description": "slow", "attempt_timeout": "5s", "dead_retention": "60d"});
    let stored = site.put("/v1/callbacks/work", &body).await.json();
    assert_eq!(stored["attempt_timeout"], "5s", "{stored}");
    assert_eq!(stored["dead_retention"], "60d", "{stored}");
    site.world.pass(3 * SECOND).await;
    let body = json!({"callback": "work", "heartbeat_timeout": "1h"});
    let id = site.post("/v1/tasks", body.to_string()).await.json()["id"].clone();
    let path = format!("/v1/tasks/{}?view=FULL&wait=60s", id.as_str().unwrap());
    let task = site.get(&path).await.ok();
    assert_eq!(task["state"], "succeeded", "{task}");
    assert_eq!(task["attempt_timeout"], "5s", "{task}");
    assert_eq!(task["dead_retention"], "60d", "{task}");
    assert_eq!(told(&task, "outcome"), ["timed_out", "succeeded"]);
    let error = json!("the attempt took longer than its attempt_timeout");
    assert_eq!(told(&task, "error"), [error, Value::Null]);
    for (field, value) in [("attempt_timeout", "1ms"), ("dead_retention", "0s")] {
        let body = json!({"callback": "work", field: value});
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        assert_eq!(
            (problem.status, &*problem.errors[0].pointer),
            (400, &*format!("/{field}"))
        );
    }
    worker.abort();
}

/// Claims an attempt of a task, tells notes, and reports a failure.
async fn run(site: &Site, id: &str, attempt: u32, notes: &[Value]) {
    let message = json!({"id": id, "generation": 0, "expected_attempt": attempt - 1});
    let claim = json!({"worker": "w", "messages": [message]}).to_string();
    let claimed = site.post("/v1/worker/claim", claim).await.ok();
    assert_eq!(claimed["results"][0]["status"], "claimed", "{claimed}");
    for note in notes {
        site.world.pass(SECOND).await;
        let beat = json!({"id": id, "attempt": attempt, "progress": note});
        let beats = json!({"worker": "w", "tasks": [beat]}).to_string();
        site.post("/v1/worker/heartbeat", beats).await.ok();
    }
    let settled =
        json!({"id": id, "attempt": attempt, "outcome": "retry", "error": "no", "delay": "1s"});
    let settle = json!({"worker": "w", "tasks": [settled]}).to_string();
    site.post("/v1/worker/settle", settle).await.ok();
    site.world.pass(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_told_stays_with_its_attempt() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","max_attempts":2}"#;
    let id = site.post("/v1/tasks", body).await.json()["id"].clone();
    let id = id.as_str().unwrap();
    let path = format!("/v1/tasks/{id}");
    let messages = async |query: &str| site.get(&format!("{path}/messages{query}")).await.ok();
    assert_eq!(messages("").await, json!({"attempt": 0, "messages": []}));
    run(
        &site,
        id,
        1,
        &[json!("read"), json!("read"), json!({"rows": 7})],
    )
    .await;
    let many: Vec<Value> = (0..25).map(|number| json!(number)).collect();
    run(&site, id, 2, &many).await;
    let task = site.get(&path).await.ok();
    assert_eq!(task["state"], "dead", "{task}");
    assert_eq!(told(&task, "progress"), [json!({"rows": 7}), json!(24)]);
    assert!(task.get("progress").is_none(), "nothing runs: {task}");
    let of = |answer: Value| -> Vec<Value> {
        let messages = answer["messages"].as_array().unwrap().iter();
        messages
            .map(|message| message["progress"].clone())
            .collect()
    };
    assert_eq!(
        of(messages("?attempt=1").await),
        [json!("read"), json!({"rows": 7})]
    );
    let last = messages("").await;
    assert_eq!(last["attempt"], 2);
    let times: Vec<&str> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["time"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted() && times.len() == 20, "{times:?}");
    assert_eq!(of(last.clone()), many[5..]);
    assert_eq!(of(messages("?attempt=3").await), [Value::Null; 0]);
    let wrong = site
        .get(&format!("{path}/messages?attempt=0"))
        .await
        .problem();
    assert!(wrong.detail.contains("?attempt"), "{wrong:?}");
    let keys = [1, 2].map(|attempt| tickwheel::model::messages::key(id.parse().unwrap(), attempt));
    let kept = async || {
        let bodies = site.world.store.bodies(&keys).await.unwrap();
        bodies.iter().flatten().count()
    };
    assert_eq!(kept().await, 2);
    site.delete(&format!("/v1/dead-letters/{id}")).await;
    assert_eq!(
        (
            kept().await,
            site.get(&format!("{path}/messages")).await.status.as_u16()
        ),
        (0, 404)
    );
}
