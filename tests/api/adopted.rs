//! Tasks that were registered without children get some over the API, until they have ended.

use std::time::Duration;

use serde_json::{Value, json};

use super::Site;

const SECOND: Duration = Duration::from_secs(1);

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    site
}

async fn register(site: &Site, body: Value) -> Value {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn read(site: &Site, task: &Value) -> Value {
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    site.get(&path).await.ok()
}

/// Takes what is due.
async fn claimed(site: &Site) -> Vec<Value> {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    polled["tasks"].as_array().unwrap().clone()
}

/// Settles; a task whose payload is "bad" fails.
async fn settle(site: &Site, tasks: &[Value]) {
    for task in tasks {
        let mut item =
            json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
        if task["payload"] == "bad" {
            item["outcome"] = json!("failed");
            item["error"] = json!("no");
        }
        let body = json!({"worker": "w", "tasks": [item]});
        let settled = site.post("/v1/worker/settle", body.to_string()).await.ok();
        assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
    }
    site.world.pass(SECOND).await;
}

async fn work(site: &Site) -> usize {
    let tasks = claimed(site).await;
    settle(site, &tasks).await;
    tasks.len()
}

fn below(parent: &Value, payload: &str) -> Value {
    json!({"callback": "work", "parent": parent["id"], "payload": payload})
}

#[tokio::test(start_paused = true)]
async fn a_task_gets_children_while_it_waits_runs_and_has_ended_with_open_ones() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work", "delay": "3s"})).await;
    assert_eq!(task["tree_state"], "none");
    register(&site, below(&task, "first")).await;
    let waits = read(&site, &task).await;
    assert_eq!(
        (&waits["state"], &waits["tree_state"]),
        (&json!("scheduled"), &json!("waiting_for_children")),
        "{waits}"
    );
    assert_eq!(work(&site).await, 1);
    site.world.pass(2 * SECOND).await;
    let runs = claimed(&site).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    let late = json!({"callback": "work", "parent": task["id"], "delay": "4s", "payload": "bad"});
    register(&site, late).await;
    settle(&site, &runs).await;
    let open = read(&site, &task).await;
    assert_eq!(open["state"], "waiting_for_children", "{open}");
    // Its own run is over, and its tree is not.
    register(&site, below(&task, "third")).await;
    assert_eq!(work(&site).await, 1);
    site.world.pass(5 * SECOND).await;
    assert_eq!(work(&site).await, 1);
    let ended = read(&site, &task).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("succeeded"), &json!("faulted")),
        "{ended}"
    );
    let path = format!("/v1/tasks/{}/tree", task["id"].as_str().unwrap());
    let nodes = site.get(&path).await.ok()["nodes"].clone();
    assert_eq!(
        nodes[0]["children"],
        json!({"succeeded": 2, "failed": 1}),
        "{nodes}"
    );
    let refused = site.post("/v1/tasks", below(&task, "x").to_string()).await;
    assert_eq!(refused.problem().code, "tree_ended");
}

#[tokio::test(start_paused = true)]
async fn a_running_task_gets_its_first_child_and_waits_for_it() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work"})).await;
    let runs = claimed(&site).await;
    let child = json!({
        "callback": "work", "parent": task["id"], "idempotency_key": "once", "after_parent": true,
    });
    let first = register(&site, child.clone()).await;
    assert_eq!(first["state"], "waiting", "{first}");
    let again = site.post("/v1/tasks", child.to_string()).await.ok();
    assert_eq!(again["id"], first["id"]);
    let beat = json!({"worker": "w", "tasks": [{"id": task["id"], "attempt": 1}]});
    let beat = site
        .post("/v1/worker/heartbeat", beat.to_string())
        .await
        .ok();
    assert_eq!(beat["results"][0]["status"], "ok", "{beat}");
    settle(&site, &runs).await;
    assert_eq!(read(&site, &task).await["state"], "waiting_for_children");
    assert_eq!(work(&site).await, 1);
    let ended = read(&site, &task).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("succeeded"), &json!("completed")),
        "{ended}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_without_children_gets_none() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work"})).await;
    assert_eq!(work(&site).await, 1);
    let refused = site.post("/v1/tasks", below(&task, "x").to_string()).await;
    let problem = refused.problem();
    assert_eq!((problem.status, &*problem.code), (409, "tree_ended"));
    assert_eq!(problem.errors[0].pointer, "/parent", "{problem:?}");
    let ended = read(&site, &task).await;
    assert_eq!(ended["state"], "succeeded");
    assert_eq!(ended["tree_state"], "none", "{ended}");
    site.world.pass(90 * SECOND).await;
    assert_eq!(work(&site).await, 0, "a refused child ran");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_others_and_a_replaced_one() {
    let site = site().await;
    let first = register(&site, json!({"callback": "work"})).await;
    let waits = json!({"callback": "work", "after": {"ids": [first["id"]]}});
    let waits = register(&site, waits).await;
    register(&site, below(&waits, "child")).await;
    assert_eq!(read(&site, &waits).await["state"], "waiting");
    // The child does not wait, its parent does.
    let mut done = 0;
    while done < 3 {
        let taken = work(&site).await;
        assert_ne!(taken, 0, "{done} have run");
        done += taken;
    }
    assert_eq!(read(&site, &waits).await["tree_state"], "completed");
    // Its attempt goes on, and its key is that of another task.
    let named = json!({"callback": "work", "key": "k", "on_conflict": "replace"});
    let old = register(&site, named.clone()).await;
    let runs = claimed(&site).await;
    assert_eq!(runs[0]["id"], old["id"]);
    register(&site, named).await;
    let refused = site.post("/v1/tasks", below(&old, "x").to_string()).await;
    let problem = refused.problem();
    assert_eq!((problem.status, &*problem.code), (409, "tree_ended"));
    assert!(problem.detail.contains("replaced"), "{problem:?}");
}

async fn act(site: &Site, task: &Value, what: &str, body: Value) -> Value {
    let path = format!("/v1/tasks/{}/{what}", task["id"].as_str().unwrap());
    site.post(&path, body.to_string()).await.ok()
}

/// The rows of children above such a parent say that it is none.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_below_children_that_became_parents_later() {
    let far = |parent: &Value| json!({"callback": "work", "parent": parent["id"], "delay": "1h"});
    for is_cancelled in [false, true] {
        let site = site().await;
        let root = json!({"callback": "work", "delay": "1h", "children": []});
        let root = register(&site, root).await;
        let child = register(&site, far(&root)).await;
        let leaf = register(&site, far(&child)).await;
        if is_cancelled {
            act(&site, &child, "cancel", json!({})).await;
        }
        let done = act(&site, &root, "cancel", json!({"tree": true})).await;
        assert_eq!(
            (&done["cancelled"], &done["complete"]),
            (&json!(2 - u64::from(is_cancelled)), &json!(true)),
            "{done}"
        );
        assert_eq!(read(&site, &leaf).await["state"], "cancelled");
        site.world.pass(5 * SECOND).await;
        assert_eq!(read(&site, &root).await["tree_state"], "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_reaches_below_open_children_that_became_parents_later() {
    let site = site().await;
    let root = json!({"callback": "work", "children": [{"callback": "work", "payload": "bad"}]});
    let root = register(&site, root).await;
    site.world.pass(SECOND).await;
    while work(&site).await > 0 {}
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    let done = act(&site, &root, "retry-failed", json!({})).await;
    assert_eq!(done["retried"], 1, "{done}");
    let child = json!({"callback": "work", "parent": root["id"], "delay": "1h"});
    let child = register(&site, child).await;
    let leaf = register(&site, below(&child, "bad")).await;
    while work(&site).await > 0 {}
    assert_eq!(read(&site, &leaf).await["state"], "failed");
    let done = act(&site, &root, "retry-failed", json!({})).await;
    assert_eq!(done["retried"], 2, "{done}");
}

#[tokio::test(start_paused = true)]
async fn a_task_gets_its_first_child_while_it_runs_again() {
    let site = site().await;
    let root = json!({"callback": "work", "children": [{"callback": "work", "payload": "bad"}]});
    let root = register(&site, root).await;
    site.world.pass(SECOND).await;
    while work(&site).await > 0 {}
    act(&site, &root, "retry-failed", json!({})).await;
    let runs = claimed(&site).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    register(&site, below(&runs[0], "x")).await;
    settle(&site, &runs).await;
    while work(&site).await > 0 {}
    site.world.pass(5 * SECOND).await;
    assert_eq!(read(&site, &runs[0]).await["tree_state"], "faulted");
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    let done = act(&site, &root, "retry-failed", json!({})).await;
    assert_eq!(done["retried"], 1, "{done}");
}
