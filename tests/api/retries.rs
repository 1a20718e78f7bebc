//! The failed part of a tree runs again over the API, and requests that fit nothing are refused.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::{
    limits::TREE_RETRIES_MAX,
    model::{client_id, family::BUCKETS, ids::TaskId},
    schema::children_partition,
    store::{
        IndexStore,
        index::{IndexKind, IndexRange, Partition},
    },
};

use super::{
    Site,
    keys_and_roles::{closed, code},
    task_id,
};

const SECOND: Duration = Duration::from_secs(1);

pub(super) async fn register(site: &Site, body: Value) -> Value {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

pub(super) fn path(task: &Value) -> String {
    format!("/v1/tasks/{}", task["id"].as_str().unwrap())
}

pub(super) async fn read(site: &Site, task: &Value) -> Value {
    site.get(&path(task)).await.ok()
}

pub(super) async fn tree(site: &Site, root: &Value) -> Vec<Value> {
    let tree = site.get(&format!("{}/tree", path(root))).await.ok();
    tree["nodes"].as_array().unwrap().clone()
}

pub(super) async fn retry(site: &Site, task: &Value, body: Value) -> super::Answer {
    let path = format!("{}/retry-failed", path(task));
    site.post(&path, body.to_string()).await
}

/// Runs what is due; tasks whose payload is "bad" fail if `fails` says so.
async fn work(site: &Site, fails: bool) -> usize {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    let tasks = polled["tasks"].as_array().unwrap();
    let items: Vec<Value> = tasks
        .iter()
        .map(|task| {
            let mut item =
                json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
            if fails && task["payload"] == "bad" {
                item["outcome"] = json!("failed");
                item["error"] = json!("no");
            }
            item
        })
        .collect();
    let body = json!({"worker": "w", "tasks": items});
    if !items.is_empty() {
        site.post("/v1/worker/settle", body.to_string()).await.ok();
    }
    items.len()
}

/// Works until nothing is left; returns how many tasks ran.
pub(super) async fn work_all(site: &Site, fails: bool) -> usize {
    let (mut ran, mut idle) = (0, 0);
    while idle < 3 {
        let some = work(site, fails).await;
        site.world.pass(SECOND / 2).await;
        ran += some;
        idle = if some == 0 { idle + 1 } else { 0 };
    }
    ran
}

/// A tree of two levels below its root, in which two leaves fail. Returns it with the nodes of its view.
async fn faulted(site: &Site) -> (Value, Vec<Value>) {
    site.world.pass(5 * SECOND).await;
    let leaf = |payload: &str| json!({"callback": "work", "payload": payload});
    let branch = json!({"callback": "work", "children": [leaf("good"), leaf("bad")]});
    let body = json!({"callback": "work", "children": [branch, leaf("bad")]});
    let root = register(site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(site, true).await, 5);
    assert_eq!(read(site, &root).await["tree_state"], "faulted");
    let nodes = tree(site, &root).await;
    (root, nodes)
}

#[tokio::test(start_paused = true)]
async fn the_failed_part_of_a_tree_runs_again_and_nothing_else() {
    let site = Site::new();
    let (root, _) = faulted(&site).await;
    let before = read(&site, &root).await;
    let done = retry(&site, &root, json!({})).await.ok();
    assert_eq!(
        (&done["retried"], &done["left"], &done["complete"]),
        (&json!(2), &json!(0), &json!(true)),
        "{done}"
    );
    assert_eq!(done["task"]["tree_state"], "waiting_for_children");
    assert_eq!(done["task"]["state"], "waiting_for_children");
    // The same request again finds nothing more.
    let again = retry(&site, &root, json!({})).await.ok();
    assert_eq!(again["retried"], 0, "{again}");
    assert_eq!(work_all(&site, false).await, 2);
    let after = read(&site, &root).await;
    assert_eq!(
        (&after["state"], &after["tree_state"]),
        (&json!("succeeded"), &json!("completed")),
        "{after}"
    );
    assert_eq!(after["end_time"], before["end_time"], "its own run stays");
    assert!(after["tree_end_time"].as_str() > before["tree_end_time"].as_str());
    for node in tree(&site, &root).await {
        assert_eq!(node["state"], "succeeded", "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_again_can_be_retried_again() {
    let site = Site::new();
    let (root, nodes) = faulted(&site).await;
    let bad = nodes.iter().find(|node| node["state"] == "failed").unwrap();
    for round in 2..=3 {
        retry(&site, &root, json!({})).await.ok();
        assert_eq!(work_all(&site, true).await, 2);
        let ended = read(&site, &root).await;
        assert_eq!(ended["tree_state"], "faulted", "{ended}");
        let bad = read(&site, bad).await;
        assert_eq!(
            (&bad["state"], &bad["attempt"]),
            (&json!("failed"), &json!(round))
        );
        assert_eq!(bad["attempts"].as_array().unwrap().len(), round, "{bad}");
    }
    retry(&site, &root, json!({})).await.ok();
    assert_eq!(work_all(&site, false).await, 2);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn the_trees_above_a_task_go_on_with_it() {
    let site = Site::new();
    let (root, nodes) = faulted(&site).await;
    let branch = nodes
        .iter()
        .find(|node| node["parent"] == root["id"] && node["tree_state"] == "faulted");
    let branch = branch.unwrap();
    let done = retry(&site, branch, json!({})).await.ok();
    assert_eq!(
        (&done["retried"], &done["task"]["id"]),
        (&json!(1), &branch["id"])
    );
    for task in [branch, &root] {
        let view = read(&site, task).await;
        assert_eq!(view["tree_state"], "waiting_for_children", "{view}");
    }
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, branch).await["tree_state"], "completed");
    let ended = read(&site, &root).await;
    assert_eq!(ended["tree_state"], "faulted", "its other leaf has failed");
    // A leaf alone.
    let leaf = nodes
        .iter()
        .find(|node| node["parent"] == root["id"] && node["state"] == "failed");
    let done = retry(&site, leaf.unwrap(), json!({})).await.ok();
    assert_eq!(done["retried"], 1);
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn children_that_were_left_with_their_parent_wait_for_it_again() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let last = json!({"callback": "work", "after_parent": true});
    let child = json!({"callback": "work", "after_parent": true, "children": [last]});
    let body = json!({"callback": "work", "payload": "bad", "children": [child]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, true).await, 1);
    let done = retry(&site, &root, json!({})).await.ok();
    assert_eq!(done["retried"], 3, "{done}");
    for node in &tree(&site, &root).await[1..] {
        assert_eq!(node["state"], "waiting", "{node}");
    }
    // It fails once more.
    assert_eq!(work_all(&site, true).await, 1);
    let nodes = tree(&site, &root).await;
    let left = read(&site, &nodes[2]).await;
    assert_eq!(
        (&left["state"], &left["reason"]),
        (&json!("cancelled"), &json!("parent_failed")),
        "{left}"
    );
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    retry(&site, &root, json!({})).await.ok();
    assert_eq!(work_all(&site, false).await, 3);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    let ends = tree(&site, &root).await;
    let end = |place: usize| ends[place]["end_time"].as_str().unwrap().to_owned();
    assert!(end(0) <= end(1) && end(1) <= end(2), "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_retry_takes_several_requests_and_leaves_what_fails_meanwhile() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let root = register(&site, json!({"callback": "work", "children": []})).await;
    let child = json!({"callback": "work", "payload": "bad", "parent": root["id"]});
    for count in [TREE_RETRIES_MAX, 5] {
        let body = json!({"tasks": vec![child.clone(); count]});
        let made = site.post("/v1/tasks:batchCreate", body.to_string()).await;
        made.ok();
    }
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, true).await, TREE_RETRIES_MAX + 6);
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    let first = retry(&site, &root, json!({})).await;
    assert_eq!(first.status, 202);
    let first = first.json();
    assert_eq!(first["retried"], TREE_RETRIES_MAX, "{first}");
    // They fail at once, and the tree ends before the next request.
    assert_eq!(work_all(&site, true).await, TREE_RETRIES_MAX);
    let next = json!({"failed_before": first["failed_before"]});
    let rest = retry(&site, &root, next.clone()).await.ok();
    assert_eq!(
        (&rest["retried"], &rest["complete"]),
        (&json!(5), &json!(true))
    );
    assert_eq!(work_all(&site, true).await, 5);
    let done = retry(&site, &root, next).await.ok();
    assert_eq!(
        (&done["retried"], &done["complete"]),
        (&json!(0), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_can_run_nothing_again_are_refused() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let refusal = |answer: super::Answer| {
        let problem = answer.problem();
        (problem.status, problem.code)
    };
    let expect = |status, code: &str| (status, code.to_owned());
    let plain = register(&site, json!({"callback": "work", "payload": "bad"})).await;
    let good = register(
        &site,
        json!({"callback": "work", "children": [{"callback": "work"}]}),
    )
    .await;
    let open = json!({"callback": "work", "payload": "bad", "children": [{"callback": "work", "delay": "1h"}]});
    let open = register(&site, open).await;
    site.world.pass(SECOND).await;
    work_all(&site, true).await;
    let unknown = json!({"id": task_id()});
    for (task, status, code) in [
        (&plain, 422, "not_in_a_tree"),
        (&good, 409, "nothing_failed"),
        (&open, 409, "tree_not_ended"),
        (&unknown, 404, "task_not_found"),
    ] {
        let answer = retry(&site, task, json!({})).await;
        assert_eq!(refusal(answer), expect(status, code));
    }
    let waits = tree(&site, &open).await[1].clone();
    let answer = retry(&site, &waits, json!({})).await;
    assert_eq!(refusal(answer), expect(409, "tree_not_ended"));
    for body in [json!({"failed_before": "soon"}), json!({"tree": true})] {
        let answer = retry(&site, &good, body).await;
        assert_eq!(refusal(answer), expect(400, "invalid_request"));
    }
    let run = site.post(&format!("{}/run", path(&plain)), "").await.ok();
    assert_eq!(run["outcome"], "too_late", "it has failed, and is not dead");
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_of_a_tree_says_how_it_runs_again() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let child = json!({"callback": "work", "max_attempts": 1, "claim_timeout": "30s"});
    let root = register(&site, json!({"callback": "work", "children": [child]})).await;
    site.world.pass(SECOND).await;
    let nodes = tree(&site, &root).await;
    for _ in 0..2 {
        let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 9, "wait": "1s"});
        let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
        for task in polled["tasks"].as_array().unwrap() {
            let outcome = if task["id"] == root["id"] {
                "succeeded"
            } else {
                "retry"
            };
            let item = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome, "error": "no"});
            let item = if outcome == "retry" {
                item
            } else {
                json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome})
            };
            let body = json!({"worker": "w", "tasks": [item]});
            site.post("/v1/worker/settle", body.to_string()).await.ok();
        }
    }
    site.world.pass(3 * SECOND).await;
    let run = site.post(&format!("{}/run", path(&nodes[1])), "").await;
    let run = run.problem();
    assert_eq!((run.status, &*run.code), (409, "in_a_tree"), "{run:?}");
    assert!(run.detail.contains("retry-failed"), "{run:?}");
    // One of many says so at its place, and so does a job.
    let ids = json!({"ids": [nodes[1]["id"]]});
    let redriven = site.post("/v1/dead-letters/redrive", ids.to_string());
    let redriven = redriven.await.ok();
    assert_eq!(redriven["redriven"], 0, "{redriven}");
    let refused = &redriven["results"][0]["error"];
    assert_eq!(refused["code"], "in_a_tree", "{redriven}");
    let job = json!({"kind": "redrive", "filter": {"callback": "work"}});
    let job = super::jobs::done(&site, job).await;
    assert_eq!(super::jobs::counts(&job), [0, 0, 1], "{job}");
    let error = job["error"].as_str().unwrap();
    assert!(error.contains("retry-failed"), "{error}");
    let letters = || async {
        let letters = site.get("/v1/dead-letters?callback=work").await.ok();
        letters["dead_letters"].as_array().unwrap().len()
    };
    assert_eq!(letters().await, 1);
    assert_eq!(retry(&site, &root, json!({})).await.ok()["retried"], 1);
    assert_eq!(letters().await, 0);
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_limited_to_callbacks_retries_no_tree() {
    let (site, root) = closed().await;
    let wish = json!({"name": "p", "role": "producer", "callbacks": ["work"]});
    let (_, limited) = site.key(&root, wish).await;
    let (_, worker) = site
        .key(&root, json!({"name": "w", "role": "worker"}))
        .await;
    let body = json!({"callback": "work", "delay": "1h", "children": [{"callback": "other"}]});
    let task = site.post_by(&root, "/v1/tasks", body).await.json();
    let path = format!("{}/retry-failed", path(&task));
    let denied = (403, "access_denied".to_owned());
    for key in [&limited, &worker] {
        let answer = site.post_by(key, &path, json!({})).await;
        assert_eq!(code(&answer), denied);
    }
    let answer = site.post_by(&root, &path, json!({})).await;
    assert_eq!(code(&answer), (409, "tree_not_ended".to_owned()));
}

/// A tree whose root and leaf have failed.
async fn failed(site: &Site) -> Value {
    site.world.pass(5 * SECOND).await;
    let leaf = json!({"callback": "work", "payload": "bad"});
    let body = json!({"callback": "work", "payload": "bad", "children": [leaf]});
    let root = register(site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(site, true).await, 2);
    root
}

/// A removal is final against all earlier writes of a row, so the child needs a later one.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_refused_is_added_once_the_tree_goes_on() {
    for (waits, rounds) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let site = Site::new();
        let root = failed(&site).await;
        let start = site.world.time.now().after(600 * SECOND);
        let id = client_id::make(start, 60 * SECOND, 1, 77);
        let at = tickwheel::model::time::rfc3339(id.first_start());
        let mut child = json!({
            "callback": "work", "id": id.to_string(), "start_time": at, "parent": root["id"],
        });
        if waits {
            child["after_parent"] = json!(true);
        }
        for round in 1..=rounds {
            let refused = site.post("/v1/tasks", child.to_string()).await;
            assert_eq!(refused.problem().code, "tree_ended");
            retry(&site, &root, json!({})).await.ok();
            if round < rounds {
                assert_eq!(work_all(&site, true).await, 2);
            }
        }
        let added = register(&site, child).await;
        let nodes = tree(&site, &root).await;
        assert!(
            nodes.iter().any(|node| node["id"] == added["id"]),
            "{nodes:?}"
        );
        assert_eq!(work_all(&site, false).await, 2);
        let open = read(&site, &root).await;
        assert_eq!(open["tree_state"], "waiting_for_children", "{open}");
        assert_eq!(read(&site, &added).await["state"], "scheduled");
        site.world.pass(600 * SECOND).await;
        assert_eq!(work_all(&site, false).await, 1);
        assert_eq!(read(&site, &root).await["tree_state"], "completed");
    }
}

async fn rows(site: &Site, parent: &Value) -> usize {
    let parent: TaskId = parent["id"].as_str().unwrap().parse().unwrap();
    let mut rows = 0;
    for bucket in 0..BUCKETS {
        let name = children_partition(parent, bucket);
        let range = IndexRange {
            partition: Partition::new(IndexKind::Child, name).unwrap(),
            after: None,
            rows_max: 9,
        };
        rows += site
            .world
            .store
            .index_range(&range)
            .await
            .unwrap()
            .rows
            .len();
    }
    rows
}

/// The look at a child repeats its end steps when the rows of its tree have an end of life already.
#[tokio::test(start_paused = true)]
#[ignore = "days of virtual time: make test-all"]
async fn the_rows_of_a_tree_that_has_ended_go() {
    let day = Duration::from_secs(24 * 3600);
    let site = Site::slow();
    site.world.pass(600 * SECOND).await;
    let body = json!({"callback": "work", "children": [{"callback": "work"}]});
    let root = register(&site, body).await;
    let mut ran = 0;
    while ran < 2 {
        ran += work(&site, false).await;
        site.world.pass(20 * SECOND).await;
    }
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    assert_eq!(rows(&site, &root).await, 1);
    site.world.pass(2 * day).await;
    assert_eq!(rows(&site, &root).await, 1);
    site.world.pass(16 * day).await;
    assert_eq!(rows(&site, &root).await, 0);
}
