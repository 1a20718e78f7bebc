//! Trees of tasks over the API: they are made, added to, shown and cancelled, and bad requests say what to do.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::limits::{TREE_LEVELS_MAX, TREE_TASKS_MAX};

use super::{Site, task_id};

const SECOND: Duration = Duration::from_secs(1);

async fn register(site: &Site, body: Value) -> Value {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn read(site: &Site, task: &Value) -> Value {
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    site.get(&path).await.ok()
}

async fn tree(site: &Site, task: &Value, query: &str) -> Value {
    let path = format!("/v1/tasks/{}/tree{query}", task["id"].as_str().unwrap());
    site.get(&path).await.ok()
}

/// Runs what is due; tasks whose payload is "bad" fail.
async fn work(site: &Site) -> usize {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    let tasks = polled["tasks"].as_array().unwrap().clone();
    for task in &tasks {
        let mut item =
            json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
        if task["payload"] == "bad" {
            item["outcome"] = json!("failed");
            item["error"] = json!("no");
        }
        let body = json!({"worker": "w", "tasks": [item]});
        site.post("/v1/worker/settle", body.to_string()).await.ok();
    }
    tasks.len()
}

async fn work_all(site: &Site) {
    for _ in 0..5 {
        work(site).await;
        site.world.pass(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_of_one_request_ends_with_its_last_task() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let leaf = json!({"callback": "work", "delay": "20s"});
    let branch = json!({"callback": "work", "children": [leaf, leaf]});
    let body = json!({"callback": "work", "children": [branch, {"callback": "work"}]});
    let root = register(&site, body).await;
    assert_eq!(root["tree_state"], "waiting_for_children");
    site.world.pass(SECOND).await;
    assert_eq!(work(&site).await, 3);
    site.world.pass(SECOND).await;
    let waiting = read(&site, &root).await;
    assert_eq!(waiting["state"], "waiting_for_children", "{waiting}");
    // Children below the depth are not shown, and their states are counted.
    let cut = &tree(&site, &root, "?depth=1").await["nodes"];
    let branch = cut
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["cut"] == true);
    assert_eq!(branch.unwrap()["children"], json!({"scheduled": 2}));
    let shown = tree(&site, &root, "").await;
    let nodes = shown["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 5, "{shown}");
    assert_eq!(nodes[0]["id"], root["id"]);
    let states = json!({"waiting_for_children": 1, "succeeded": 1});
    assert_eq!(nodes[0]["children"], states);
    let branch = nodes
        .iter()
        .find(|node| node["children"]["scheduled"] == 2)
        .unwrap();
    assert_eq!(branch["parent"], root["id"]);
    assert_eq!(branch["state"], "waiting_for_children");
    site.world.pass(20 * SECOND).await;
    work_all(&site).await;
    let ended = read(&site, &root).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("succeeded"), &json!("completed"))
    );
    assert!(
        ended["tree_end_time"].is_string() && ended["end_time"].is_string(),
        "{ended}"
    );
    let counts = &tree(&site, &root, "?depth=0").await["nodes"];
    assert_eq!(counts[0]["children"], json!({"succeeded": 2}));
    assert_eq!(
        (&counts[0]["cut"], counts.as_array().unwrap().len()),
        (&json!(true), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn children_are_added_until_the_tree_has_ended_and_a_failure_faults_it() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let root = register(&site, json!({"callback": "work", "children": []})).await;
    let bad = json!({"callback": "work", "parent": root["id"], "payload": "bad"});
    let child = register(&site, bad).await;
    assert_eq!(child["parent"], root["id"]);
    let late = json!({"callback": "work", "parent": root["id"], "delay": "10s"});
    register(&site, late.clone()).await;
    site.world.pass(SECOND).await;
    work_all(&site).await;
    let waiting = read(&site, &root).await;
    assert_eq!(waiting["tree_state"], "waiting_for_children", "{waiting}");
    // Its own run has ended, and its tree has not.
    register(&site, late.clone()).await;
    let path = format!(
        "/v1/tasks?parent={}&page_size=2",
        root["id"].as_str().unwrap()
    );
    let page = site.get(&path).await.ok();
    assert_eq!(page["tasks"].as_array().unwrap().len(), 2);
    let token = page["next_page_token"].as_str().unwrap();
    let rest = site.get(&format!("{path}&page_token={token}")).await.ok();
    assert_eq!(rest["tasks"].as_array().unwrap().len(), 1, "{rest}");
    site.world.pass(15 * SECOND).await;
    work_all(&site).await;
    let ended = read(&site, &root).await;
    assert_eq!(ended["tree_state"], "faulted", "{ended}");
    let refused = site.post("/v1/tasks", late.to_string()).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.problem().code, "tree_ended");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_tree_ends_all_of_it() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let far = json!({"callback": "work", "delay": "1h", "children": [{"callback": "work", "delay": "2h"}]});
    let body = json!({"callback": "work", "delay": "1h", "children": [far, far]});
    let root = register(&site, body).await;
    let path = format!("/v1/tasks/{}/cancel", root["id"].as_str().unwrap());
    let answer = site.post(&path, r#"{"tree": true}"#).await.ok();
    assert_eq!(answer["outcome"], "cancelled");
    assert_eq!(
        (&answer["cancelled"], &answer["complete"]),
        (&json!(4), &json!(true)),
        "{answer}"
    );
    site.world.pass(5 * SECOND).await;
    let ended = read(&site, &root).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("cancelled"), &json!("cancelled")),
        "{ended}"
    );
    let again = site.post(&path, r#"{"tree": true}"#).await.ok();
    assert_eq!(
        (&again["outcome"], &again["cancelled"]),
        (&json!("already_cancelled"), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_tree_that_has_ended_says_why_it_is_too_late() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let soon = json!({"callback": "work"});
    let root = register(&site, json!({"callback": "work", "children": [soon]})).await;
    site.world.pass(SECOND).await;
    work_all(&site).await;
    let path = format!("/v1/tasks/{}/cancel", root["id"].as_str().unwrap());
    let answer = site.post(&path, r#"{"tree": true}"#).await.ok();
    assert_eq!(answer["outcome"], "too_late", "{answer}");
    assert_eq!(answer["reason"], "its tree has ended: it is completed");
    assert_eq!(answer["cancelled"], 0);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_drawn() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let body = json!({"callback": "work", "delay": "1h", "children": [{"callback": "sub.work", "delay": "1h"}]});
    let root = register(&site, body).await;
    let path = format!("/v1/tasks/{}/tree?format=", root["id"].as_str().unwrap());
    for (format, media, parts) in [
        (
            "mermaid",
            "text/plain",
            ["flowchart TD", "n0[\"work<br/>scheduled\"]", "n0 --> n1"],
        ),
        (
            "dot",
            "text/vnd.graphviz",
            [
                "digraph tree",
                "label=\"sub.work\\nscheduled\"",
                "n0 -> n1;",
            ],
        ),
        (
            "svg",
            "image/svg+xml",
            ["<svg ", "sub.work: scheduled</text>", "</svg>"],
        ),
    ] {
        let answer = site.get(&format!("{path}{format}")).await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").starts_with(media));
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        for part in parts {
            assert!(text.contains(part), "{format}: {part} in {text}");
        }
    }
    let refused = site.get(&format!("{path}png")).await;
    assert_eq!(
        (refused.status.as_u16(), refused.problem().errors.len()),
        (400, 1)
    );
    let unknown = site.get(&format!("/v1/tasks/{}/tree", task_id())).await;
    assert_eq!(unknown.problem().code, "task_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_repeated_makes_one_tree() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let child = json!({"callback": "work"});
    let body = json!({"callback": "work", "delay": "1m", "idempotency_key": "k", "children": [child, child]});
    let first = register(&site, body.clone()).await;
    site.world.pass(3 * SECOND).await;
    let again = site.post("/v1/tasks", body.to_string()).await.ok();
    assert_eq!(
        (&again["id"], &again["outcome"]),
        (&first["id"], &json!("existing"))
    );
    let nodes = tree(&site, &first, "").await["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 3, "{nodes}");
    assert_eq!(nodes[1]["start_time"], nodes[0]["start_time"].clone());
}

#[tokio::test(start_paused = true)]
async fn requests_that_fit_no_tree_are_refused() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let single = register(&site, json!({"callback": "work", "delay": "1h"})).await;
    let mut deep = json!({"callback": "work"});
    for _ in 0..TREE_LEVELS_MAX {
        deep = json!({"callback": "work", "children": [deep]});
    }
    let many = vec![json!({"callback": "work"}); TREE_TASKS_MAX];
    for (body, status, code, pointer) in [
        (
            json!({"kafka": {"topic": "t"}, "parent": single["id"]}),
            422,
            "unusable_parent",
            "/parent",
        ),
        (
            json!({"kafka": {"topic": "t"}, "children": []}),
            422,
            "unusable_parent",
            "/children",
        ),
        (
            json!({"callback": "work", "key": "k", "parent": single["id"]}),
            422,
            "unusable_parent",
            "/key",
        ),
        (
            json!({"callback": "work", "parent": task_id()}),
            404,
            "parent_not_found",
            "/parent",
        ),
        (
            json!({"callback": "work", "parent": "x"}),
            400,
            "invalid_request",
            "/parent",
        ),
        (deep, 400, "invalid_request", ""),
        (
            json!({"callback": "work", "children": many}),
            400,
            "invalid_request",
            "/children/999",
        ),
        (
            json!({"callback": "work", "children": [{"callback": "work", "children": [{"callback": "a b"}]}]}),
            400,
            "invalid_request",
            "/children/0/children/0/callback",
        ),
        (
            json!({"callback": "work", "children": [{"callback": "work", "parent": single["id"]}]}),
            400,
            "invalid_request",
            "/children/0/parent",
        ),
    ] {
        let answer = site.post("/v1/tasks", body.to_string()).await;
        let problem = answer.problem();
        assert_eq!(
            (problem.status, &*problem.code),
            (status, code),
            "{problem:?}"
        );
        let at = &problem.errors[0].pointer;
        assert!(at == pointer || pointer.is_empty(), "{at} is not {pointer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_adds_children_and_registers_no_tree() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let root = register(
        &site,
        json!({"callback": "work", "delay": "1h", "children": []}),
    )
    .await;
    let child = json!({"callback": "work", "parent": root["id"], "delay": "1h", "children": []});
    let tree = json!({"callback": "work", "children": [{"callback": "work"}]});
    let body = json!({"tasks": [child, tree, child]});
    let answer = site
        .post("/v1/tasks:batchCreate", body.to_string())
        .await
        .ok();
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["task"]["parent"], root["id"]);
    assert_eq!(results[1]["error"]["errors"][0]["pointer"], "/children");
    let path = format!("/v1/tasks/{}/tree", root["id"].as_str().unwrap());
    let nodes = site.get(&path).await.ok()["nodes"].clone();
    assert_eq!(nodes[0]["children"], json!({"scheduled": 2}));
}

#[tokio::test(start_paused = true)]
async fn children_beyond_the_bound_of_a_view_are_counted_as_open() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let later = json!({"callback": "work", "delay": "1h", "children": []});
    let root = register(&site, later).await;
    let child = json!({"callback": "work", "parent": root["id"], "delay": "1h"});
    for _ in 0..2 {
        let body = json!({"tasks": vec![child.clone(); 600]});
        site.post("/v1/tasks:batchCreate", body.to_string())
            .await
            .ok();
    }
    for (query, shown) in [("", 1000), ("?depth=0", 1)] {
        let nodes = &tree(&site, &root, query).await["nodes"];
        assert_eq!(nodes.as_array().unwrap().len(), shown);
        assert_eq!(nodes[0]["cut"], true);
        assert_eq!(nodes[0]["children"], json!({"scheduled": 999, "open": 201}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_roots_leaves_children_out() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let child = json!({"callback": "work"});
    let labels = json!({"tenant": "acme", "plan": "free"});
    let body = json!({"callback": "work", "delay": "30s", "labels": labels, "children": [child]});
    let root = register(&site, body).await;
    register(
        &site,
        json!({"callback": "work", "delay": "30s", "labels": {"tenant": "other"}}),
    )
    .await;
    let all = site.get("/v1/tasks").await.ok();
    assert_eq!(all["tasks"].as_array().unwrap().len(), 3);
    let roots = site.get("/v1/tasks?roots=true").await.ok();
    assert_eq!(roots["tasks"].as_array().unwrap().len(), 2);
    for labels in ["tenant=acme,plan=free", "tenant:acme", "tenant%3Dacme"] {
        let path = format!("/v1/tasks?roots=true&labels={labels}");
        let roots = site.get(&path).await.ok();
        let roots = roots["tasks"].as_array().unwrap();
        assert_eq!((roots.len(), &roots[0]["id"]), (1, &root["id"]), "{labels}");
    }
    let problem = site.get("/v1/tasks?labels=tenant").await.problem();
    assert_eq!(problem.errors[0].pointer, "?labels");
}

#[tokio::test(start_paused = true)]
async fn a_child_starts_when_the_run_of_its_parent_has_succeeded() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let child =
        |payload: &str| json!({"callback": "work", "payload": payload, "after_parent": true});
    let body = json!({"callback": "work", "payload": "top", "children": [child("a"), child("b")]});
    let root = register(&site, body).await;
    let mut added = child("c");
    added["parent"] = root["id"].clone();
    let added = register(&site, added).await;
    assert_eq!(
        (&added["state"], &added["after_parent"]),
        (&json!("waiting"), &json!(true)),
        "{added}"
    );
    site.world.pass(SECOND).await;
    let shown = tree(&site, &root, "").await;
    let states: Vec<&Value> = shown["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["state"])
        .collect();
    assert_eq!(states.len(), 4, "{shown}");
    assert_eq!(
        states.iter().filter(|state| ***state == "waiting").count(),
        3
    );
    // Only the root runs.
    assert_eq!(work(&site).await, 1);
    site.world.pass(SECOND).await;
    assert_eq!(work(&site).await, 3);
    work_all(&site).await;
    let ended = read(&site, &root).await;
    assert_eq!(ended["tree_state"], "completed", "{ended}");
    let child = read(&site, &added).await;
    assert_eq!(child["state"], "succeeded");
    assert!(
        child["start_time"].as_str() >= ended["end_time"].as_str(),
        "{child}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_ends_with_a_run_that_fails() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let leaf = json!({"callback": "work"});
    let child = json!({"callback": "work", "after_parent": true, "children": [
        {"callback": "work", "after_parent": true}, leaf,
    ]});
    let body = json!({"callback": "work", "payload": "bad", "children": [child]});
    let root = register(&site, body).await;
    work_all(&site).await;
    let ended = read(&site, &root).await;
    assert_eq!(
        (&ended["state"], &ended["tree_state"]),
        (&json!("failed"), &json!("faulted")),
        "{ended}"
    );
    let shown = tree(&site, &root, "").await;
    let mut states: Vec<&str> = Vec::new();
    for node in shown["nodes"].as_array().unwrap() {
        let view = read(&site, node).await;
        states.push(match view["reason"].as_str() {
            Some(reason) => {
                assert_eq!(
                    (reason, &view["state"]),
                    ("parent_failed", &json!("cancelled"))
                );
                "left"
            }
            None => "ran",
        });
    }
    states.sort_unstable();
    assert_eq!(states, ["left", "left", "ran", "ran"], "{shown}");
    let alone = json!({"callback": "work", "after_parent": true});
    let refused = site.post("/v1/tasks", alone.to_string()).await;
    assert_eq!(refused.problem().errors[0].pointer, "/after_parent");
}
