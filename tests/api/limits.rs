//! A callback has limits over the API: they are shown, bad ones are refused with what to do, and workers are told to wait.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::{
    model::task::Priority,
    queue::{
        Consumer as _,
        message::{TaskMessage, group, topic},
    },
};

use super::{Site, request, worker::claim};

const SECOND: Duration = Duration::from_secs(1);
const PATH: &str = "/v1/callbacks/work";

async fn limited(limits: Value) -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let put = request(Method::PUT, PATH, limits.to_string());
    assert_eq!(site.send(put).await.status, 201);
    site.world.pass(2 * SECOND).await;
    site
}

/// Polls for tasks; returns how many came.
async fn polled(site: &Site, most: usize, wait: &str) -> usize {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": most, "wait": wait});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    polled["tasks"].as_array().unwrap().len()
}

async fn register(site: &Site, count: usize) {
    for _ in 0..count {
        let answer = site
            .post("/v1/tasks", r#"{"callback":"work"}"#.to_owned())
            .await;
        assert_eq!(answer.status, 201);
    }
    site.world.pass(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn limits_are_shown_with_the_burst_that_was_left_out() {
    let site = limited(json!({"rate": {"per_second": 0.01}, "max_in_flight": 200_000})).await;
    let shown = site.get(PATH).await.ok();
    assert_eq!(shown["rate"], json!({"per_second": 0.01, "burst": 1}));
    assert_eq!(shown["max_in_flight"], 200_000);
    let whole = json!({"rate": {"per_second": 100_000.0, "burst": 1_000_000}});
    let put = request(Method::PUT, PATH, whole.to_string());
    let shown = site.send(put).await.ok();
    assert_eq!(shown["rate"], whole["rate"]);
    assert!(shown.get("max_in_flight").is_none());
}

#[tokio::test(start_paused = true)]
async fn limits_out_of_range_are_refused_with_what_to_do() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    for (limits, pointer, says) in [
        (
            json!({"rate": {"per_second": 0}}),
            "/rate/per_second",
            "0.01 to 100000",
        ),
        (
            json!({"rate": {"per_second": -5}}),
            "/rate/per_second",
            "pause the callback",
        ),
        (
            json!({"rate": {"per_second": 1e9}}),
            "/rate/per_second",
            "0.01 to 100000",
        ),
        (
            json!({"rate": {"per_second": 5, "burst": 0}}),
            "/rate/burst",
            "1 to 1000000",
        ),
        (
            json!({"rate": {"per_second": 500, "burst": 7}}),
            "/rate/burst",
            "at least 50",
        ),
        (
            json!({"max_in_flight": 0}),
            "/max_in_flight",
            "pause the callback",
        ),
        (
            json!({"max_in_flight": 4_000_000_000_u32}),
            "/max_in_flight",
            "1 to 200000",
        ),
    ] {
        let put = request(Method::PUT, PATH, limits.to_string());
        let problem = site.send(put).await.problem();
        assert_eq!(
            (problem.status, &*problem.code),
            (400, "invalid_request"),
            "{limits}"
        );
        let found: Vec<&str> = problem.errors.iter().map(|error| &*error.pointer).collect();
        assert_eq!(found, [pointer], "{limits}");
        assert!(problem.errors[0].detail.contains(says), "{problem:?}");
    }
    assert_eq!(site.get(PATH).await.status, 404, "nothing of it was stored");
}

#[tokio::test(start_paused = true)]
async fn polls_get_the_burst_and_then_the_rate() {
    let site = limited(json!({"rate": {"per_second": 2, "burst": 3}})).await;
    register(&site, 10).await;
    assert_eq!(polled(&site, 10, "1s").await, 3);
    assert_eq!(polled(&site, 10, "0s").await, 0);
    site.world.pass(SECOND).await;
    assert_eq!(polled(&site, 10, "1s").await, 2);
    // A poll that waits is woken when a token is there.
    let before = site.world.time.now();
    assert_eq!(polled(&site, 1, "20s").await, 1);
    let waited = site.world.time.now().since(before);
    assert!(waited <= SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_run_than_may_and_a_report_lets_the_next_one_go() {
    let site = limited(json!({"max_in_flight": 2})).await;
    register(&site, 5).await;
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 5, "wait": "1s"});
    let first = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(polled(&site, 5, "2s").await, 0);
    let (id, attempt) = (&first["tasks"][0]["id"], &first["tasks"][0]["attempt"]);
    let report = json!({"id": id, "attempt": attempt, "outcome": "succeeded"});
    let report = json!({"worker": "w", "tasks": [report]});
    site.post("/v1/worker/settle", report.to_string())
        .await
        .ok();
    assert_eq!(polled(&site, 5, "1s").await, 1);
    assert_eq!(site.get(PATH).await.ok()["running"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_over_the_rate_is_answered_limited_and_is_no_attempt() {
    let site = limited(json!({"rate": {"per_second": 0.5, "burst": 1}})).await;
    register(&site, 2).await;
    let topics = Priority::ALL.map(|priority| topic("work", priority));
    let mut consumer = site.world.queue.consumer(&group("work"), &topics);
    let mut messages = Vec::new();
    while messages.len() < 2 {
        let received = consumer.receive(2, SECOND).await.unwrap().into_iter();
        messages.extend(received.map(|one| TaskMessage::decode(one.value).unwrap()));
    }
    let [first, second] = <[TaskMessage; 2]>::try_from(messages).unwrap();
    assert_eq!(claim(&site, &first, "").await["status"], "claimed");
    let answer = claim(&site, &second, "").await;
    assert_eq!(answer["status"], "limited", "{answer}");
    assert!(answer["not_before"].is_string());
    let path = format!("/v1/tasks/{}", second.dispatch.id);
    assert_eq!(site.get(&path).await.ok()["attempt"], 0);
    site.world.pass(3 * SECOND).await;
    let answer = claim(&site, &second, "").await;
    assert_eq!(
        (&answer["status"], &answer["task"]["attempt"]),
        (&json!("claimed"), &json!(1))
    );
}
