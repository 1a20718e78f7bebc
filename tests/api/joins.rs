//! Tasks that wait for others, over the API: they start behind them, end with them, and bad requests say what to do.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::limits::AFTER_IDS_MAX;

use super::{Site, task_id};

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

/// Runs what is due; tasks whose payload is "bad" fail. Returns the payloads.
async fn work(site: &Site) -> Vec<Value> {
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
    site.world.pass(SECOND / 2).await;
    tasks.iter().map(|task| task["payload"].clone()).collect()
}

fn task(payload: &str) -> Value {
    json!({"callback": "work", "payload": payload})
}

fn after(payload: &str, after: Value) -> Value {
    let mut task = task(payload);
    task["after"] = after;
    task
}

#[tokio::test(start_paused = true)]
async fn tasks_run_in_the_order_of_their_waits() {
    let site = site().await;
    let fetch = [
        register(&site, task("a")).await,
        register(
            &site,
            json!({"callback": "work", "payload": "b", "delay": "4s"}),
        )
        .await,
    ];
    let both = json!({"ids": [fetch[0]["id"], fetch[1]["id"]], "condition": "all_succeeded"});
    let join = register(&site, after("join", both.clone())).await;
    assert_eq!(join["state"], "waiting", "{join}");
    assert_eq!(
        (&join["after"]["ids"], &join["after"]["tasks"]),
        (&both["ids"], &json!(2))
    );
    let last = register(&site, after("last", json!({"ids": [join["id"]]}))).await;
    assert_eq!(work(&site).await, ["a"]);
    let waits = read(&site, &join).await;
    assert_eq!(
        (&waits["state"], &waits["after"]["open"]),
        (&json!("waiting"), &json!(1)),
        "{waits}"
    );
    assert_eq!(waits["after"]["open_ids"], json!([both["ids"][1]]));
    let listed = site.get("/v1/tasks?state=waiting").await.ok();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed["tasks"][0]["after"].get("ids"), None);
    site.world.pass(4 * SECOND).await;
    assert_eq!(work(&site).await, ["b"]);
    assert_eq!(work(&site).await, ["join"]);
    assert_eq!(work(&site).await, ["last"]);
    let ended = read(&site, &last).await;
    assert_eq!(
        (&ended["state"], &ended["after"]["open"]),
        (&json!("succeeded"), &json!(0)),
        "{ended}"
    );
    let [first, second] = [read(&site, &fetch[1]).await, read(&site, &join).await];
    assert!(
        second["start_time"].as_str() >= first["end_time"].as_str(),
        "{second}"
    );
    // All have ended before.
    let late = register(&site, after("late", both)).await;
    assert_eq!(work(&site).await, ["late"], "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_what_waits_for_success_and_nothing_else() {
    let site = site().await;
    let bad = register(&site, task("bad")).await;
    let open = register(
        &site,
        json!({"callback": "work", "payload": "open", "delay": "1h"}),
    )
    .await;
    let wants = register(
        &site,
        after("never", json!({"ids": [bad["id"], open["id"]]})),
    )
    .await;
    let behind = register(&site, after("never", json!({"ids": [wants["id"]]}))).await;
    let any = json!({"ids": [bad["id"]], "condition": "all_ended"});
    register(&site, after("any", any)).await;
    assert_eq!(work(&site).await, ["bad"]);
    assert_eq!(work(&site).await, ["any"]);
    for (task, of, how) in [(&wants, &bad, "failed"), (&behind, &wants, "cancelled")] {
        let view = read(&site, task).await;
        assert_eq!(
            (&view["state"], &view["reason"], &view["attempt"]),
            (&json!("cancelled"), &json!("dependency_failed"), &json!(0)),
            "{view}"
        );
        let error = view["error"].as_str().unwrap();
        assert!(error.contains(of["id"].as_str().unwrap()), "{error}");
        assert!(error.ends_with(how), "{error}");
    }
    // It had failed before.
    let late = register(&site, after("never", json!({"ids": [bad["id"]]}))).await;
    site.world.pass(SECOND).await;
    assert_eq!(read(&site, &late).await["reason"], "dependency_failed");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_wait_and_tasks_may_come_later() {
    let site = site().await;
    let start = site.world.time.now().after(60 * SECOND);
    let id = tickwheel::model::client_id::make(start, 60 * SECOND, 1, 7);
    let later = |deadline: &str| {
        let ids = json!([id.to_string()]);
        after(
            "then",
            json!({"ids": ids, "later": true, "deadline": deadline}),
        )
    };
    let in_time = register(&site, later("10m")).await;
    let missed = register(&site, later("2s")).await;
    let slow = json!({"callback": "work", "payload": "slow", "delay": "1h"});
    let slow = register(&site, slow).await;
    let late = json!({"ids": [slow["id"]], "deadline": "3s"});
    let late = register(&site, after("never", late)).await;
    let actual = json!({
        "id": id.to_string(), "callback": "work", "payload": "first",
        "start_time": tickwheel::model::time::rfc3339(start),
    });
    site.world.pass(SECOND).await;
    for waits in [&in_time, &missed, &late] {
        assert_eq!(read(&site, waits).await["state"], "waiting");
    }
    site.world.pass(5 * SECOND / 2).await;
    for (task, reason, error) in [
        (
            &missed,
            "dependency_missing",
            format!("dependency missing: {id}"),
        ),
        (
            &late,
            "deadline_passed",
            format!(
                "deadline passed: {} has not ended",
                slow["id"].as_str().unwrap()
            ),
        ),
    ] {
        let view = read(&site, task).await;
        assert_eq!(
            (&view["state"], &view["reason"], &view["error"]),
            (&json!("failed"), &json!(reason), &json!(error)),
            "{view}"
        );
    }
    register(&site, actual).await;
    site.world.pass(60 * SECOND).await;
    assert_eq!(work(&site).await, ["first"]);
    assert_eq!(work(&site).await, ["then"]);
    assert_eq!(read(&site, &in_time).await["state"], "succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_parent_has_ended_when_its_tree_has() {
    let site = site().await;
    let root = json!({"callback": "work", "payload": "root", "children": [
        {"callback": "work", "payload": "one"}, {"callback": "work", "payload": "bad", "delay": "4s"},
    ]});
    let root = register(&site, root).await;
    let condition = json!({"ids": [root["id"]], "condition": "all_ended"});
    let joined = register(&site, after("joined", condition)).await;
    let wants = register(&site, after("never", json!({"ids": [root["id"]]}))).await;
    assert_eq!(work(&site).await.len(), 2);
    assert_eq!(read(&site, &joined).await["state"], "waiting");
    site.world.pass(4 * SECOND).await;
    assert_eq!(work(&site).await, ["bad"]);
    site.world.pass(SECOND).await;
    assert_eq!(work(&site).await, ["joined"]);
    let left = read(&site, &wants).await;
    assert_eq!(left["reason"], "dependency_failed", "{left}");
    let error = left["error"].as_str().unwrap();
    assert!(error.ends_with("its tree is faulted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn children_wait_for_their_siblings() {
    let site = site().await;
    let root = register(
        &site,
        json!({"callback": "work", "payload": "root", "children": []}),
    )
    .await;
    let child = |payload: &str, ids: &[&Value]| {
        let mut child = task(payload);
        child["parent"] = root["id"].clone();
        if !ids.is_empty() {
            child["after"] = json!({"ids": ids});
        }
        child
    };
    let one = register(&site, child("one", &[])).await;
    let two = register(&site, child("two", &[&one["id"]])).await;
    let mut nested = child("nested", &[&one["id"], &two["id"]]);
    nested["children"] = json!([]);
    let nested = register(&site, nested).await;
    for (ids, pointer) in [
        (vec![&one["id"], &root["id"]], "/after/ids/1"),
        (vec![&nested["id"]], "/after/ids/0"),
    ] {
        let refused = site.post("/v1/tasks", child("x", &ids).to_string()).await;
        assert_eq!(refused.status, 422, "{:?}", refused.body);
        let problem = refused.problem();
        assert_eq!(problem.code, "unusable_after");
        assert_eq!(problem.errors[0].pointer, pointer, "{problem:?}");
    }
    let mut ran = Vec::new();
    for _ in 0..5 {
        ran.extend(work(&site).await);
    }
    assert_eq!(ran[2..], ["two", "nested"], "{ran:?}");
    let ended = read(&site, &root).await;
    assert_eq!(ended["tree_state"], "completed", "{ended}");
    let counts = site
        .get(&format!("/v1/tasks/{}/tree", root["id"].as_str().unwrap()))
        .await
        .ok();
    assert_eq!(counts["nodes"].as_array().unwrap().len(), 4, "{counts}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_be_is_refused() {
    let site = site().await;
    let known = register(&site, json!({"callback": "work", "delay": "1h"})).await;
    let unknown = after("x", json!({"ids": [known["id"], task_id()]}));
    let refused = site.post("/v1/tasks", unknown.to_string()).await;
    let problem = refused.problem();
    assert_eq!(
        (refused.status.as_u16(), &*problem.code),
        (404, "dependency_not_found")
    );
    assert_eq!(problem.errors[0].pointer, "/after/ids/1", "{problem:?}");
    let body = json!({"tasks": [unknown, after("y", json!({"ids": [known["id"]]}))]});
    let results = site
        .post("/v1/tasks:batchCreate", body.to_string())
        .await
        .ok();
    assert_eq!(
        results["results"][0]["error"]["code"],
        "dependency_not_found"
    );
    assert_eq!(
        results["results"][1]["task"]["state"], "waiting",
        "{results}"
    );
    let kafka = json!({"kafka": {"topic": "t"}, "after": {"ids": [known["id"]]}});
    let twice = json!({"ids": [known["id"], known["id"]]});
    let many: Vec<Value> = vec![known["id"].clone(); AFTER_IDS_MAX + 1];
    let within = after("x", json!({"ids": [known["id"]]}));
    let then = json!({"callback": "work", "then": [{"task": within}]});
    for (body, pointer) in [
        (after("x", json!({"ids": []})), "/after/ids"),
        (after("x", twice), "/after/ids/1"),
        (after("x", json!({"ids": many})), "/after/ids"),
        (
            after("x", json!({"ids": [task_id()], "later": true})),
            "/after/deadline",
        ),
        (kafka, "/after"),
        (then, "/then/0/task/after"),
    ] {
        let refused = site.post("/v1/tasks", body.to_string()).await;
        let problem = refused.problem();
        assert_eq!(problem.errors[0].pointer, pointer, "{problem:?}");
        assert!(matches!(refused.status.as_u16(), 400 | 422), "{problem:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tasks_are_waited_for() {
    let site = site().await;
    let mut ids: Vec<Value> = Vec::new();
    let tasks: Vec<Value> = (0..AFTER_IDS_MAX).map(|_| task("part")).collect();
    let body = json!({"tasks": tasks}).to_string();
    let made = site.post("/v1/tasks:batchCreate", body).await.ok();
    for result in made["results"].as_array().unwrap() {
        ids.push(result["task"]["id"].clone());
    }
    let join = register(&site, after("join", json!({"ids": ids}))).await;
    let mut ran = 0;
    while ran < AFTER_IDS_MAX {
        let done = work(&site).await;
        assert!(!done.is_empty(), "{ran} ran");
        assert!(done.iter().all(|payload| payload == "part"), "{done:?}");
        ran += done.len();
    }
    assert_eq!(work(&site).await, ["join"]);
    let shown = read(&site, &join).await;
    assert_eq!(
        shown["after"]["ids"].as_array().unwrap().len(),
        AFTER_IDS_MAX
    );
    assert_eq!(shown["after"]["open"], 0);
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_one_request_wait_for_ten_thousand_together() {
    let site = site().await;
    let tasks: Vec<Value> = (0..AFTER_IDS_MAX)
        .map(|_| json!({"callback": "work", "delay": "1h"}))
        .collect();
    let body = json!({"tasks": tasks}).to_string();
    let made = site.post("/v1/tasks:batchCreate", body).await.ok();
    let made = made["results"].as_array().unwrap().iter();
    let ids: Vec<Value> = made.map(|result| result["task"]["id"].clone()).collect();
    let mut tasks = vec![after("x", json!({"ids": ids})); 11];
    tasks.push(task("plain"));
    let body = json!({"tasks": tasks}).to_string();
    let results = site.post("/v1/tasks:batchCreate", body).await.ok();
    let results = results["results"].as_array().unwrap();
    let is_refused = |result: &&Value| result["error"]["code"] == "unusable_after";
    assert_eq!(results.iter().filter(is_refused).count(), 1);
    let refused = &results[10]["error"]["errors"][0];
    assert_eq!(refused["pointer"], "/after/ids", "{refused}");
    assert_eq!(results[9]["task"]["state"], "waiting");
    assert!(results[11]["task"].is_object(), "{}", results[11]);
}

/// A client that got no answer repeats its request. The task that it waits for is forgotten by then.
#[tokio::test(start_paused = true)]
async fn a_repeated_registration_finds_its_task_behind_the_life_of_a_dependency() {
    let site = site().await;
    let first = json!({"callback": "work", "payload": "first", "retention": "2s"});
    let first = register(&site, first).await;
    let start = site.world.time.now().after(3600 * SECOND);
    let id = tickwheel::model::client_id::make(start, 60 * SECOND, 1, 7);
    let mut waiter = after("then", json!({"ids": [first["id"]]}));
    waiter["id"] = json!(id.to_string());
    waiter["start_time"] = json!(tickwheel::model::time::rfc3339(start));
    let made = register(&site, waiter.clone()).await;
    assert_eq!(made["state"], "waiting", "{made}");
    assert_eq!(work(&site).await, ["first"]);
    site.world.pass(10 * SECOND).await;
    let gone = format!("/v1/tasks/{}", first["id"].as_str().unwrap());
    assert_eq!(site.get(&gone).await.status, 404);
    let again = site.post("/v1/tasks", waiter.to_string()).await;
    assert!(again.status.is_success(), "{:?}", again.body);
    // Another one cannot wait for it any more.
    let other = after("x", json!({"ids": [first["id"]]}));
    let other = site.post("/v1/tasks", other.to_string()).await;
    assert_eq!(other.problem().code, "dependency_not_found");
    site.world.pass(3600 * SECOND).await;
    assert_eq!(work(&site).await, ["then"]);
}
