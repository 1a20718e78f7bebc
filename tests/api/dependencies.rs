//! A task that waited for others learns at its claim how they ended and with which results, and so does who reads a tree.

use std::time::Duration;

use serde_json::{Value, json};

use super::Site;

const SECOND: Duration = Duration::from_secs(1);

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    site
}

async fn register(site: &Site, body: Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Claims what is due, and settles each task as its payload says.
async fn work(site: &Site) -> Vec<Value> {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    let tasks = polled["tasks"].as_array().unwrap().clone();
    let reports = tasks.iter().map(|task| {
        let mut report = task["payload"].clone();
        report["id"] = task["id"].clone();
        report["attempt"] = task["attempt"].clone();
        report
    });
    let body = json!({"worker": "w", "tasks": reports.collect::<Vec<_>>()});
    site.post("/v1/worker/settle", body.to_string()).await.ok();
    site.world.pass(SECOND).await;
    tasks
}

/// A task whose worker is to report this.
fn task(report: &Value) -> Value {
    json!({"callback": "work", "max_attempts": 1, "payload": report})
}

fn done(result: &Value) -> Value {
    task(&json!({"outcome": "succeeded", "result": result}))
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_results_of_its_dependencies() {
    let site = site().await;
    let (large, bytes) = (
        "x".repeat(5000),
        json!({"outcome": "succeeded", "result_base64": "/w=="}),
    );
    let fails = json!({"outcome": "retry", "error": "no"});
    let mut expected = Vec::new();
    for (report, shown) in [
        (
            done(&json!({"rows": 7})),
            json!({"state": "succeeded", "result": {"rows": 7}}),
        ),
        (
            done(&json!(large)),
            json!({"state": "succeeded", "result_bytes": 5002}),
        ),
        (
            task(&bytes),
            json!({"state": "succeeded", "result_base64": "/w==",
                "result_content_type": "application/octet-stream"}),
        ),
        (
            task(&json!({"outcome": "succeeded"})),
            json!({"state": "succeeded"}),
        ),
        (task(&fails), json!({"state": "dead"})),
        (
            task(&json!({"outcome": "failed", "error": "no"})),
            json!({"state": "failed"}),
        ),
    ] {
        let id = register(&site, report).await;
        let mut shown = shown;
        shown["id"] = json!(id);
        expected.push(shown);
    }
    let ids: Vec<Value> = expected.iter().map(|one| one["id"].clone()).collect();
    let after = json!({"ids": ids, "condition": "all_ended"});
    let mut waiter = task(&json!({"outcome": "retry", "error": "again", "delay": "1s"}));
    waiter["max_attempts"] = json!(2);
    waiter["after"] = after;
    waiter["delay"] = json!("20s");
    register(&site, waiter).await;
    assert_eq!(work(&site).await.len(), 6);
    site.delete(&format!("/v1/dead-letters/{}", ids[4].as_str().unwrap()))
        .await;
    expected[4]["gone"] = json!(true);
    expected.sort_by_key(|one| one["id"].as_str().map(str::to_owned));
    // At each of its attempts.
    for _ in 0..2 {
        site.world.pass(20 * SECOND).await;
        let claimed = work(&site).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        assert_eq!(claimed[0]["dependencies"], json!(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn the_results_of_many_dependencies_are_bounded_together() {
    let site = site().await;
    let mut ids = Vec::new();
    for _ in 0..70 {
        ids.push(register(&site, done(&json!("x".repeat(4000)))).await);
    }
    let mut waiter = done(&json!(1));
    waiter["after"] = json!({"ids": ids});
    register(&site, waiter).await;
    assert_eq!(work(&site).await.len(), 70);
    site.world.pass(10 * SECOND).await;
    let claimed = work(&site).await;
    let dependencies = claimed[0]["dependencies"].as_array().unwrap();
    assert_eq!(dependencies.len(), 70);
    let (with, without): (Vec<&Value>, _) = dependencies
        .iter()
        .partition(|one| one.get("result").is_some());
    assert_eq!((with.len(), without.len()), (65, 5));
    assert!(
        without.iter().all(|one| one["result_bytes"] == 4002),
        "{without:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tree_can_be_read_with_results() {
    let site = site().await;
    let mut root = done(&json!({"sum": 3}));
    root["children"] = json!([done(&json!([1, 2])), done(&json!("x".repeat(5000)))]);
    let root = register(&site, root).await;
    while !work(&site).await.is_empty() {}
    let tree = async |query: &str| {
        let tree = site
            .get(&format!("/v1/tasks/{root}/tree{query}"))
            .await
            .ok();
        tree["nodes"].as_array().unwrap().clone()
    };
    let nodes = tree("?view=FULL").await;
    assert_eq!(nodes[0]["result"], json!({"sum": 3}));
    let mut told: Vec<(Value, Value)> = nodes[1..]
        .iter()
        .map(|node| (node["result"].clone(), node["result_bytes"].clone()))
        .collect();
    told.sort_by_key(|(result, _)| result.is_null());
    assert_eq!(
        told,
        [(json!([1, 2]), Value::Null), (Value::Null, json!(5002))]
    );
    for node in tree("").await {
        assert!(
            node.get("result").is_none() && node.get("result_bytes").is_none(),
            "{node}"
        );
    }
    let wrong = site
        .get(&format!("/v1/tasks/{root}/tree?view=ALL"))
        .await
        .problem();
    assert!(wrong.detail.contains("BASIC or FULL"), "{wrong:?}");
}
