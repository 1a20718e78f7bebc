//! Polls wake workers in time and serve them fairly, and no task is lost with a connection.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::{doubles::store::faulty::Fate, limits, model::time::Millis};
use tokio::task::JoinHandle;

use super::{Answer, Site, request};
use crate::sim::world::{Fates, World};

const SECOND: Duration = Duration::from_secs(1);

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    site
}

/// Sends a poll; its answer comes later.
fn poll(site: &Site, callbacks: &[&str], max_tasks: u32, wait: &str) -> JoinHandle<Answer> {
    let body = json!({"worker": "w", "callbacks": callbacks, "max_tasks": max_tasks, "wait": wait});
    let (router, body) = (site.router.clone(), body.to_string());
    tokio::spawn(
        async move { Answer::of(router, request(Method::POST, "/v1/worker/poll", body)).await },
    )
}

async fn tasks(poll: JoinHandle<Answer>) -> Vec<Value> {
    let answer = poll.await.unwrap().ok();
    answer["tasks"].as_array().unwrap().clone()
}

/// Registers `count` tasks of a callback that start in `delay`.
async fn register(site: &Site, callback: &str, count: usize, delay: &str) -> Vec<String> {
    let one = json!({"callback": callback, "delay": delay, "payload": {"n": 1}, "heartbeat_timeout": "20s"});
    let body = json!({"tasks": vec![one; count]}).to_string();
    let answer = site.post("/v1/tasks:batchCreate", body).await.ok();
    let results = answer["results"].as_array().unwrap();
    let id = |result: &Value| result["task"]["id"].as_str().unwrap().to_owned();
    results.iter().map(id).collect()
}

async fn settle(site: &Site, task: &Value, outcome: &str) {
    let item = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
    let body = json!({"worker": "w", "tasks": [item]}).to_string();
    let answer = site.post("/v1/worker/settle", body).await.ok();
    assert_eq!(answer["results"][0]["status"], "ok");
}

/// Another node of the same cluster.
fn other(site: &Site, number: u64) -> Site {
    Site::of(site.world.clone(), site.world.node(number))
}

fn now(site: &Site) -> Millis {
    site.world.time.now()
}

#[tokio::test(start_paused = true)]
async fn a_waiting_poll_is_answered_when_a_task_falls_due_and_never_before() {
    let site = site().await;
    let waiting = poll(&site, &["work"], 10, "30s");
    site.world.pass(SECOND).await;
    let id = register(&site, "work", 1, "7s").await.remove(0);
    let due = now(&site).after(7 * SECOND);
    let mut answer = waiting.await.unwrap().ok();
    let late = now(&site).0 - due.0;
    assert!((0..=2).contains(&late), "{late} ms late");
    let task = answer["tasks"][0].take();
    assert_eq!((&task["id"], &task["attempt"]), (&json!(id), &json!(1)));
    assert_eq!(
        (
            &task["callback"],
            &task["payload"],
            &task["heartbeat_timeout"]
        ),
        (&json!("work"), &json!({"n": 1}), &json!("20s"))
    );
    assert!(task["claim_expire_time"].as_str() > task["start_time"].as_str());
    assert!(
        ["8s", "8001ms", "8002ms"].contains(&answer["waited"].as_str().unwrap()),
        "{answer}"
    );
    let read = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(
        (&read["state"], &read["worker"]),
        (&json!("claimed"), &json!("w"))
    );
    settle(&site, &task, "succeeded").await;

    let begun = now(&site);
    assert_eq!(
        tasks(poll(&site, &["work"], 10, "5s")).await,
        Vec::<Value>::new()
    );
    assert_eq!(now(&site).since(begun), 5 * SECOND);
    assert_eq!(
        tasks(poll(&site, &["work"], 10, "0s")).await,
        Vec::<Value>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_there_is_spread_over_those_that_wait() {
    let site = site().await;
    let mut polls = Vec::new();
    for _ in 0..3 {
        polls.push(poll(&site, &["work"], 10, "30s"));
        site.world.pass(SECOND / 10).await;
    }
    register(&site, "work", 7, "2s").await;
    let mut counts = Vec::new();
    for waiting in polls {
        counts.push(tasks(waiting).await.len());
    }
    assert_eq!(counts, [3, 2, 2], "who came first is served first");
    // A poll without others gets the waiting tasks, up to the number that it asks for.
    register(&site, "work", 7, "0s").await;
    site.world.pass(SECOND).await;
    assert_eq!(tasks(poll(&site, &["work"], 5, "1s")).await.len(), 5);
    assert_eq!(tasks(poll(&site, &["work"], 5, "1s")).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_poll_over_several_callbacks_loses_nothing_of_any() {
    let site = site().await;
    let mut seen = Vec::new();
    let mut wanted = Vec::new();
    for round in 0..20 {
        for callback in ["a", "b", "c"] {
            wanted.extend(register(&site, callback, 1 + round % 3, "1s").await);
        }
        for _ in 0..2 {
            for task in tasks(poll(&site, &["a", "b", "c", "idle"], 2, "2s")).await {
                seen.push(task["id"].as_str().unwrap().to_owned());
                settle(&site, &task, "succeeded").await;
            }
        }
    }
    while seen.len() < wanted.len() {
        let some = tasks(poll(&site, &["a", "b", "c"], 1000, "10s")).await;
        assert!(!some.is_empty(), "{} of {}", seen.len(), wanted.len());
        seen.extend(
            some.iter()
                .map(|task| task["id"].as_str().unwrap().to_owned()),
        );
    }
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_callback_in_a_flood_does_not_crowd_out_others_of_the_same_poll() {
    let site = site().await;
    register(&site, "flood", 1000, "1s").await;
    register(&site, "quiet", 5, "1s").await;
    site.world.pass(2 * SECOND).await;
    let mut quiet = 0;
    for _ in 0..4 {
        for task in tasks(poll(&site, &["flood", "quiet"], 20, "2s")).await {
            quiet += usize::from(task["callback"] == "quiet");
            settle(&site, &task, "succeeded").await;
        }
    }
    assert_eq!(quiet, 5, "of the first eighty");
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_does_not_wait_gets_what_lies_ready() {
    let site = site().await;
    register(&site, "a", 5, "1s").await;
    site.world.pass(2 * SECOND).await;
    assert_eq!(tasks(poll(&site, &["a"], 10, "0s")).await.len(), 5);
    assert_eq!(tasks(poll(&site, &["a"], 10, "0s")).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_went_away_while_waiting_takes_nothing_along() {
    let site = site().await;
    let gone = poll(&site, &["work"], 10, "30s");
    site.world.pass(SECOND).await;
    let next = poll(&site, &["work"], 10, "30s");
    register(&site, "work", 1, "2s").await;
    site.world.pass(SECOND).await;
    gone.abort();
    let task = tasks(next).await.remove(0);
    assert_eq!(task["attempt"], 1);
}

#[tokio::test(start_paused = true)]
async fn who_went_away_before_it_saw_its_batch_leaves_it_to_the_next() {
    let site = site().await;
    let body = r#"{"worker":"w","callbacks":["work"],"max_tasks":10,"wait":"60s"}"#;
    let mut gone = Box::pin(site.post("/v1/worker/poll", body));
    let instant = Duration::from_millis(1);
    assert!(
        site.world
            .time
            .within(instant, gone.as_mut())
            .await
            .is_none()
    );
    register(&site, "work", 2, "1s").await;
    // The poll does not run while its batch is handed to it.
    site.world.pass(2 * SECOND).await;
    drop(gone);
    let begun = now(&site);
    let tasks = tasks(poll(&site, &["work"], 10, "30s")).await;
    assert_eq!((tasks.len(), &tasks[0]["attempt"]), (2, &json!(1)));
    assert!(now(&site).since(begun) < SECOND / 10);
}

/// A store whose conditional writes of tasks do as `fate` says while the switch is on.
fn switched(fate: Fate) -> (Arc<AtomicBool>, Fates) {
    let switch = Arc::new(AtomicBool::new(false));
    let on = Arc::clone(&switch);
    let fates: Fates = Arc::new(move |_, call| {
        let hit = call.operation == "swap_tasks" && on.load(Ordering::SeqCst);
        if hit { fate } else { Fate::Go }
    });
    (switch, fates)
}

#[tokio::test(start_paused = true)]
async fn who_went_away_while_its_claim_was_under_way_gives_the_task_back_at_once() {
    let (slow, fates) = switched(Fate::Delay(SECOND));
    let site = Site::with_fates(fates);
    site.world.pass(3 * SECOND).await;
    let gone = poll(&site, &["work"], 10, "30s");
    register(&site, "work", 1, "2s").await;
    slow.store(true, Ordering::SeqCst);
    site.world.pass(2 * SECOND + SECOND / 2).await;
    gone.abort();
    site.world.pass(SECOND / 10).await;
    slow.store(false, Ordering::SeqCst);
    let begun = now(&site);
    let task = tasks(poll(&site, &["work"], 10, "30s")).await.remove(0);
    assert_eq!(task["attempt"], 2, "it had been claimed, and was released");
    let waited = now(&site).since(begun);
    assert!(
        waited < SECOND,
        "far less than its claim would have lasted: {waited:?}"
    );
    settle(&site, &task, "succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_reads_releases_its_tasks() {
    let site = site().await;
    register(&site, "work", 3, "0s").await;
    let body = r#"{"worker":"w","callbacks":["work"],"max_tasks":10}"#;
    let response = tower::ServiceExt::oneshot(
        site.router.clone(),
        request(Method::POST, "/v1/worker/poll", body),
    );
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    // The connection breaks before a byte of the body is written.
    drop(response);
    let again = tasks(poll(&site, &["work"], 10, "5s")).await;
    assert!(again.iter().all(|task| task["attempt"] == 2), "{again:?}");
    assert_eq!(
        again.len() + tasks(poll(&site, &["work"], 10, "1s")).await.len(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_and_costs_only_the_outage() {
    let (away, fates) = switched(Fate::Fail);
    let site = Site::with_fates(fates);
    site.world.pass(3 * SECOND).await;
    let id = register(&site, "work", 1, "0s").await.remove(0);
    away.store(true, Ordering::SeqCst);
    let begun = now(&site);
    let problem = poll(&site, &["work"], 10, "3s").await.unwrap().problem();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (503, "unavailable")
    );
    assert!(problem.detail.contains("store"), "{problem:?}");
    let waited = now(&site).since(begun);
    assert!(
        waited >= 3 * SECOND && waited < 4 * SECOND,
        "it went on waiting: {waited:?}"
    );
    // The next one waits through the end of the outage.
    let waiting = poll(&site, &["work"], 10, "30s");
    site.world.pass(2 * SECOND).await;
    away.store(false, Ordering::SeqCst);
    let back = now(&site);
    let task = tasks(waiting).await.remove(0);
    assert_eq!((&task["id"], &task["attempt"]), (&json!(id), &json!(1)));
    assert!(now(&site).since(back) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_node_answers_polls_at_once_and_leaves_the_rest_to_others() {
    let site = site().await;
    let waiting = poll(&site, &["work"], 10, "60s");
    site.world.pass(SECOND).await;
    let begun = now(&site);
    site.node.node.leave();
    assert_eq!(tasks(waiting).await, Vec::<Value>::new());
    assert_eq!(now(&site), begun);
    let problem = poll(&site, &["work"], 10, "60s").await.unwrap().problem();
    assert_eq!((problem.status, problem.retryable), (503, true));
    let other = other(&site, 2);
    register(&other, "work", 5, "1s").await;
    assert_eq!(tasks(poll(&other, &["work"], 10, "30s")).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_has_its_polls_answered_and_nobody_elses() {
    let site = site().await;
    let leaving = poll(&site, &["work"], 10, "60s");
    site.world.pass(SECOND).await;
    let begun = now(&site);
    let answer = site
        .post("/v1/worker/leave", r#"{"worker":"another"}"#)
        .await;
    assert_eq!(answer.ok(), json!({}));
    assert!(!leaving.is_finished());
    assert_eq!(
        site.post("/v1/worker/leave", r#"{"worker":"w"}"#)
            .await
            .status,
        200
    );
    assert_eq!(tasks(leaving).await, Vec::<Value>::new());
    assert_eq!(now(&site), begun);
}

#[tokio::test(start_paused = true)]
async fn partitions_do_not_strand_where_nobody_polls_any_more() {
    let world = World::new(4, 1000);
    let node = world.node(1);
    let one = Site::of(world, node);
    one.world.pass(3 * SECOND).await;
    // The node now has a feed, and with it every partition or its share of the partitions.
    assert_eq!(tasks(poll(&one, &["work"], 10, "1s")).await.len(), 0);
    let other = other(&one, 2);
    assert_eq!(tasks(poll(&other, &["work"], 10, "1s")).await.len(), 0);
    let ids = register(&other, "work", 40, "1s").await;
    let begun = now(&other);
    let mut seen = 0;
    while seen < ids.len() {
        seen += tasks(poll(&other, &["work"], 100, "10s")).await.len();
        let passed = now(&other).since(begun);
        assert!(
            passed < limits::POLL_IDLE + 5 * SECOND,
            "{seen} after {passed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_polls_are_refused_with_the_field_and_the_limit() {
    let site = site().await;
    for (body, pointer, limit) in [
        (r#"{"worker":"","callbacks":["a"]}"#, "/worker", "256"),
        (r#"{"worker":"w","callbacks":[]}"#, "/callbacks", "100"),
        (
            r#"{"worker":"w","callbacks":["a b"]}"#,
            "/callbacks/0",
            "A-Z",
        ),
        (
            r#"{"worker":"w","callbacks":["a"],"max_tasks":1001}"#,
            "/max_tasks",
            "1000",
        ),
        (
            r#"{"worker":"w","callbacks":["a"],"wait":"2m"}"#,
            "/wait",
            "60s",
        ),
    ] {
        let problem = site.post("/v1/worker/poll", body).await.problem();
        assert_eq!(problem.status, 400, "{body}");
        assert_eq!(problem.errors[0].pointer, pointer);
        assert!(problem.errors[0].detail.contains(limit), "{problem:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_role_says_which_one_is_missing() {
    let mut world = World::new(1, 1000);
    world.polled = false;
    let node = world.node(1);
    let site = Site::of(world, node);
    let answer = poll(&site, &["work"], 1, "60s").await.unwrap();
    let problem = answer.problem();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (503, "role_missing")
    );
    assert!(problem.detail.contains("`controller`"), "{problem:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_already_is_answered_with_nothing_when_the_node_stops_while_its_claim_fails() {
    let (away, fates) = switched(Fate::Fail);
    let site = Site::with_fates(fates);
    site.world.pass(3 * SECOND).await;
    let waiting = poll(&site, &["work"], 10, "60s");
    site.world.pass(SECOND).await;
    // The claim of the poll fails again and again; each time the poll goes back into the queue of
    // waiting polls.
    away.store(true, Ordering::SeqCst);
    register(&site, "work", 1, "1s").await;
    site.world.pass(2 * SECOND).await;
    assert!(!waiting.is_finished());
    site.node.node.leave();
    let answer = waiting.await.unwrap();
    assert_eq!(answer.ok()["tasks"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn who_waits_already_is_answered_with_nothing_when_its_claim_fails_after_the_node_has_stopped()
 {
    let (away, fates) = switched(Fate::FailLate(3 * SECOND));
    let site = Site::with_fates(fates);
    site.world.pass(3 * SECOND).await;
    let waiting = poll(&site, &["work"], 10, "60s");
    site.world.pass(SECOND).await;
    away.store(true, Ordering::SeqCst);
    register(&site, "work", 1, "1s").await;
    // The claim is under way when the node stops, and fails afterwards, when there is no queue of
    // polls to go back to.
    site.world.pass(2 * SECOND).await;
    site.node.node.leave();
    assert!(!waiting.is_finished());
    let answer = waiting.await.unwrap();
    assert_eq!(answer.ok()["tasks"], json!([]));
}

#[tokio::test]
async fn a_poll_that_waits_holds_nothing_of_its_request() {
    let site = Site::new();
    let padding = " ".repeat(limits::REQUEST_BYTES_MAX - 200);
    let body = format!(r#"{{"worker":"w","callbacks":["work"],"wait":"60s"{padding}}}"#);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..limits::BODIES_BYTES_MAX / body.len() {
        let (router, body) = (site.router.clone(), body.clone());
        waiting.spawn(async move {
            Answer::of(router, request(Method::POST, "/v1/worker/poll", body)).await
        });
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    // All of them wait, and there is room for as many again.
    let beat = format!(r#"{{"worker":"w","tasks":[]{padding}}}"#);
    assert_eq!(site.post("/v1/worker/settle", beat).await.status, 200);
    let one = format!(r#"{{"callback":"work","delay":"1h"{padding}}}"#);
    assert_eq!(site.post("/v1/tasks", one).await.status, 201);
    assert_eq!(waiting.len(), limits::BODIES_BYTES_MAX / body.len());
    assert!(waiting.try_join_next().is_none(), "none is answered");
}
