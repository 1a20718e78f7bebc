//! Trees that are cancelled as a whole over the API: their end is their own, and what follows a cancel runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, notify};

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

async fn cancel(site: &Site, task: &Value) -> Value {
    let path = format!("/v1/tasks/{}/cancel", task["id"].as_str().unwrap());
    site.post(&path, r#"{"tree": true}"#).await.ok()
}

async fn refused(site: &Site, path: &str, body: Value) -> String {
    let problem = site.post(path, body.to_string()).await.problem();
    assert_eq!(problem.status, 409, "{problem:?}");
    problem.code
}

async fn retried(site: &Site, task: &Value) -> String {
    let path = format!("/v1/tasks/{}/retry-failed", task["id"].as_str().unwrap());
    refused(site, &path, json!({})).await
}

/// The nodes of a tree, as callback and state.
async fn nodes(site: &Site, task: &Value) -> Vec<(String, String)> {
    let path = format!("/v1/tasks/{}/tree", task["id"].as_str().unwrap());
    let tree = site.get(&path).await.ok();
    let text = |node: &Value, field: &str| node[field].as_str().unwrap().to_owned();
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let mut nodes: Vec<(String, String)> = nodes
        .map(|node| (text(node, "callback"), text(node, "state")))
        .collect();
    nodes.sort_unstable();
    nodes
}

async fn claimed(site: &Site, callbacks: &[&str]) -> Vec<Value> {
    let poll = json!({"worker": "w", "callbacks": callbacks, "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    polled["tasks"].as_array().unwrap().clone()
}

async fn settle(site: &Site, task: &Value, outcome: &str) {
    let mut item = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
    if outcome == "failed" {
        item["error"] = json!("no");
    }
    let body = json!({"worker": "w", "tasks": [item]});
    site.post("/v1/worker/settle", body.to_string()).await.ok();
}

/// Runs what is due of these callbacks for a while, and returns the callbacks of what ran.
async fn ran(site: &Site, callbacks: &[&str]) -> Vec<String> {
    let mut ran = Vec::new();
    for _ in 0..5 {
        for task in claimed(site, callbacks).await {
            ran.push(task["callback"].as_str().unwrap().to_owned());
            settle(site, &task, "succeeded").await;
        }
        site.world.pass(SECOND).await;
    }
    ran.sort_unstable();
    ran
}

/// Runs what is due of these callbacks; those of `bad` fail.
async fn work(site: &Site, callbacks: &[&str]) {
    // Callbacks may come one after the other.
    for _ in callbacks {
        for task in claimed(site, callbacks).await {
            let is_bad = task["callback"] == "bad";
            settle(site, &task, if is_bad { "failed" } else { "succeeded" }).await;
        }
    }
}

const FOLLOWING: [&str; 5] = ["confirm", "undo", "next", "refund", "any"];

fn follows(states: &[&str], callback: &str) -> Value {
    json!({"states": states, "task": {"callback": callback}})
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_cancelled_is_not_confirmed_and_is_undone() {
    let site = site().await;
    let then = [
        follows(&["completed"], "confirm"),
        follows(&["cancelled"], "undo"),
        follows(&["completed", "faulted", "cancelled"], "any"),
    ];
    let child = json!({"callback": "work", "then": [follows(&["succeeded"], "next")]});
    let far = json!({"callback": "work", "delay": "1h"});
    let body = json!({"callback": "order", "then": then, "children": [child, far]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    work(&site, &["order"]).await;
    let running = claimed(&site, &["work"]).await;
    assert_eq!(running.len(), 1);
    let done = cancel(&site, &root).await;
    assert_eq!(
        [
            &done["outcome"],
            &done["cancelled"],
            &done["cancel_requested"],
            &done["complete"]
        ],
        [&json!("cancelled"), &json!(1), &json!(1), &json!(true)],
        "{done}"
    );
    assert_eq!(done["reason"], Value::Null);
    let late = json!({"callback": "work", "parent": root["id"]});
    assert_eq!(
        refused(&site, "/v1/tasks", late.clone()).await,
        "tree_cancelled"
    );
    assert_eq!(retried(&site, &root).await, "tree_cancelled");
    assert_eq!(cancel(&site, &root).await["outcome"], "already_cancelled");
    assert_eq!(
        read(&site, &root).await["tree_state"],
        "waiting_for_children"
    );
    assert_eq!(ran(&site, &FOLLOWING).await, [""; 0], "it goes on");
    // Its worker was done before it was told.
    settle(&site, &running[0], "succeeded").await;
    assert_eq!(ran(&site, &FOLLOWING).await, ["any", "undo"]);
    let ended = read(&site, &root).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("succeeded"), &json!("cancelled")),
        "{ended}"
    );
    assert_eq!(cancel(&site, &root).await["outcome"], "already_cancelled");
    assert_eq!(refused(&site, "/v1/tasks", late).await, "tree_cancelled");
    assert_eq!(retried(&site, &root).await, "tree_cancelled");
    let states = nodes(&site, &root).await;
    let expected = [
        ("order", "succeeded"),
        ("work", "cancelled"),
        ("work", "succeeded"),
    ];
    let expected = expected.map(|(callback, state)| (callback.to_owned(), state.to_owned()));
    assert_eq!(states, expected);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_before_all_runs_is_undone_once() {
    let site = site().await;
    let then = [
        follows(&["cancelled"], "undo"),
        follows(&["completed"], "confirm"),
    ];
    let far = json!({"callback": "work", "delay": "1h"});
    let body = json!({"callback": "order", "delay": "1h", "then": then, "children": [far]});
    let root = register(&site, body).await;
    assert_eq!(cancel(&site, &root).await["outcome"], "cancelled");
    assert_eq!(ran(&site, &FOLLOWING).await, ["undo"]);
    let ended = read(&site, &root).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
}

/// A task that undoes a step is in the tree: neither the cancel nor its repetitions end it, and the tree ends behind it.
#[tokio::test(start_paused = true)]
async fn a_tree_that_is_cancelled_ends_behind_what_undoes_its_steps() {
    let site = site().await;
    let undo = |callback: &str| {
        let task = json!({
            "callback": callback, "delay": "20s",
            "then": [{"in_tree": true, "task": {"callback": "next"}}],
        });
        json!({"states": ["failed", "dead", "cancelled"], "in_tree": true, "task": task})
    };
    let far = json!({"callback": "work", "delay": "1h", "then": [undo("refund")]});
    let branch = json!({"callback": "branch", "delay": "1h", "children": [far]});
    let body = json!({"callback": "order", "then": [undo("undo")], "children": [branch]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    work(&site, &["order"]).await;
    let done = cancel(&site, &root).await;
    assert_eq!(
        (&done["outcome"], &done["cancelled"]),
        (&json!("cancelled"), &json!(2)),
        "{done}"
    );
    site.world.pass(5 * SECOND).await;
    let again = cancel(&site, &root).await;
    assert_eq!(
        (&again["outcome"], &again["cancelled"]),
        (&json!("already_cancelled"), &json!(0)),
        "{again}"
    );
    assert_eq!(
        read(&site, &root).await["tree_state"],
        "waiting_for_children"
    );
    site.world.pass(20 * SECOND).await;
    // A task that follows one that undoes is a part of that.
    assert_eq!(
        ran(&site, &FOLLOWING).await,
        ["next", "next", "refund", "undo"]
    );
    let ended = read(&site, &root).await;
    assert_eq!(ended["tree_state"], "cancelled", "{ended}");
    let states = nodes(&site, &root).await;
    assert_eq!(states.len(), 7, "{states:?}");
}

/// A part that is cancelled is a child that has ended and faults nothing, and no success to those that wait for it.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_cancelled_faults_nothing_and_is_no_success() {
    let site = site().await;
    let far = json!({"callback": "work", "delay": "1h"});
    let bad = json!({"callback": "bad"});
    let part = json!({"callback": "part", "children": [bad, far]});
    let then = [
        follows(&["completed"], "confirm"),
        follows(&["cancelled"], "undo"),
    ];
    let body = json!({"callback": "order", "then": then, "children": [part]});
    let root = register(&site, body).await;
    let path = format!("/v1/tasks/{}/tree", root["id"].as_str().unwrap());
    let tree = site.get(&path).await.ok();
    let part = tree["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["callback"] == "part");
    let part = part.unwrap().clone();
    let waits = json!({"callback": "work", "after": {"ids": [part["id"]]}});
    let waits = register(&site, waits).await;
    site.world.pass(SECOND).await;
    work(&site, &["order", "part", "bad"]).await;
    assert_eq!(cancel(&site, &part).await["outcome"], "cancelled");
    site.world.pass(5 * SECOND).await;
    assert_eq!(read(&site, &part).await["tree_state"], "cancelled");
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    assert_eq!(ran(&site, &FOLLOWING).await, ["confirm"]);
    let waits = read(&site, &waits).await;
    assert_eq!(waits["state"], "cancelled", "{waits}");
    let error = waits["error"].as_str().unwrap();
    assert!(error.ends_with("its tree was cancelled"), "{error}");
    assert_eq!(retried(&site, &part).await, "tree_cancelled");
    assert_eq!(retried(&site, &root).await, "nothing_failed");
}

/// The failed part of the tree above runs again, and nothing of a part of it that was cancelled.
#[tokio::test(start_paused = true)]
async fn a_retry_leaves_a_part_alone_that_was_cancelled() {
    let site = site().await;
    let bad = json!({"callback": "bad"});
    let far = json!({"callback": "work", "delay": "1h"});
    let part = json!({"callback": "bad", "children": [bad, far]});
    let body = json!({"callback": "order", "children": [part, bad]});
    let root = register(&site, body).await;
    let path = format!("/v1/tasks/{}/tree", root["id"].as_str().unwrap());
    let tree = site.get(&path).await.ok();
    let all = tree["nodes"].as_array().unwrap().clone();
    let part = all
        .iter()
        .find(|node| node["children"].is_object() && node["parent"] == root["id"]);
    let part = part.unwrap().clone();
    let below = all
        .iter()
        .find(|node| node["callback"] == "bad" && node["parent"] == part["id"]);
    let below = below.unwrap().clone();
    site.world.pass(SECOND).await;
    work(&site, &["order", "bad"]).await;
    assert_eq!(cancel(&site, &part).await["outcome"], "cancelled");
    site.world.pass(5 * SECOND).await;
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    for task in [&part, &below] {
        assert_eq!(retried(&site, task).await, "tree_cancelled");
    }
    let path = format!("/v1/tasks/{}/retry-failed", root["id"].as_str().unwrap());
    let done = site.post(&path, "{}").await.ok();
    assert_eq!(
        (&done["retried"], &done["left"]),
        (&json!(1), &json!(0)),
        "{done}"
    );
    assert_eq!(ran(&site, &["bad"]).await, ["bad"]);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    assert_eq!(read(&site, &part).await["state"], "failed");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_tree_is_told_for_its_root_and_for_the_tree() {
    let site = notify::site().await;
    let told_to = json!({"kafka": {"topic": "ends"}, "states": ["cancelled"]});
    let body = json!({"callback": "work", "delay": "1h", "notify": told_to, "children": []});
    let root = register(&site, body).await;
    cancel(&site, &root).await;
    site.world.pass(SECOND * 5).await;
    let mut told = notify::messages(&site);
    told.sort_by_key(|message| message["type"].to_string());
    let kinds: Vec<&Value> = told.iter().map(|message| &message["type"]).collect();
    assert_eq!(kinds, ["task.cancelled", "tree.cancelled"], "{told:?}");
    let data = &told[1]["data"];
    assert_eq!(
        (&data["task_id"], &data["tree_state"]),
        (&root["id"], &json!("cancelled"))
    );
}
