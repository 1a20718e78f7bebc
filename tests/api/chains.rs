//! Chains of tasks over the API: each end is followed, results go along, trees take follow-ups, and bad requests say what to do.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::limits::{THEN_BYTES_MAX, THEN_LEVELS_MAX, THEN_MAX};

use super::Site;

const SECOND: Duration = Duration::from_secs(1);

async fn register(site: &Site, body: Value) -> Value {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn read(site: &Site, id: &Value, query: &str) -> Value {
    let path = format!("/v1/tasks/{}{query}", id.as_str().unwrap());
    site.get(&path).await.ok()
}

/// Polls for one task of a callback.
async fn poll(site: &Site, callback: &str) -> Option<Value> {
    let poll = json!({"worker": "w", "callbacks": [callback], "max_tasks": 1, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    polled["tasks"].as_array().unwrap().first().cloned()
}

async fn settle(site: &Site, task: &Value, report: Value) {
    let mut item = json!({"id": task["id"], "attempt": task["attempt"]});
    for (field, value) in report.as_object().unwrap() {
        item[field] = value.clone();
    }
    let body = json!({"worker": "w", "tasks": [item]});
    let settled = site.post("/v1/worker/settle", body.to_string()).await.ok();
    assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
}

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    site
}

#[tokio::test(start_paused = true)]
async fn a_chain_hands_results_on_from_task_to_task() {
    let site = site().await;
    let report = json!({"task": {"callback": "report", "delay": "20s"}, "with_result": true});
    let load = json!({"callback": "load", "payload": {"table": "a"}, "then": [report]});
    let body = json!({"callback": "fetch", "then": [{"task": load, "with_result": true}]});
    let first = register(&site, body).await;
    assert_eq!(first.get("then"), None, "{first}");
    let before = read(&site, &first["id"], "").await;
    assert_eq!(
        before["then"][0]["states"],
        json!(["succeeded"]),
        "{before}"
    );
    assert_eq!(before["then"][0]["task"].get("payload"), None, "{before}");
    assert_eq!(before["then"][0].get("id"), None, "{before}");
    site.world.pass(SECOND).await;
    let fetch = poll(&site, "fetch").await.unwrap();
    assert_eq!(fetch.get("previous"), None, "{fetch}");
    settle(
        &site,
        &fetch,
        json!({"outcome": "succeeded", "result": {"rows": 7}}),
    )
    .await;
    let after = read(&site, &first["id"], "?view=FULL").await;
    let next = &after["then"][0];
    assert_eq!(next["task"]["payload"], json!({"table": "a"}), "{after}");
    let load = poll(&site, "load").await.unwrap();
    assert_eq!(load["id"], next["id"]);
    assert_eq!(load["payload"], json!({"table": "a"}));
    let previous = json!({"id": first["id"], "state": "succeeded", "result": {"rows": 7}});
    assert_eq!(load["previous"], previous, "{load}");
    // 1 MiB, which is kept apart from the row of its task.
    let large = "r".repeat(1_048_574);
    settle(
        &site,
        &load,
        json!({"outcome": "succeeded", "result": large}),
    )
    .await;
    assert_eq!(poll(&site, "report").await, None, "it is too early");
    let loaded = read(&site, &load["id"], "?view=FULL").await;
    assert_eq!(loaded["previous"], previous);
    let report = read(&site, &loaded["then"][0]["id"], "?view=FULL").await;
    assert_eq!(report["state"], "scheduled", "{}", report["state"]);
    assert_eq!(report["create_time"], loaded["end_time"]);
    site.world.pass(20 * SECOND).await;
    let report = poll(&site, "report").await.unwrap();
    assert_eq!(report["previous"]["id"], load["id"]);
    assert!(
        report["previous"]["result"] == json!(large),
        "another result"
    );
}

#[tokio::test(start_paused = true)]
async fn each_end_is_followed_by_its_own_tasks() {
    let site = site().await;
    let follow =
        |states: Value, callback: &str| json!({"states": states, "task": {"callback": callback}});
    let body = json!({"callback": "work", "max_attempts": 1, "then": [
        follow(json!(["succeeded"]), "well"),
        {"states": ["failed", "dead"], "task": {"callback": "undo"}, "with_result": true},
        follow(json!(["cancelled"]), "gone"),
    ]});
    let first = register(&site, body.clone()).await;
    site.world.pass(SECOND).await;
    let work = poll(&site, "work").await.unwrap();
    settle(
        &site,
        &work,
        json!({"outcome": "retry", "error": "no route"}),
    )
    .await;
    let undo = poll(&site, "undo").await.unwrap();
    let expected = json!({"id": first["id"], "state": "dead", "error": "no route"});
    assert_eq!(undo["previous"], expected);
    assert_eq!(poll(&site, "well").await, None);
    assert_eq!(poll(&site, "gone").await, None);
    let after = read(&site, &first["id"], "").await;
    let ids: Vec<bool> = after["then"]
        .as_array()
        .unwrap()
        .iter()
        .map(|follow| follow["id"].is_string())
        .collect();
    assert_eq!(ids, [false, true, false], "{after}");
    // The end of a second life is followed, too.
    let path = format!("/v1/tasks/{}/run", first["id"].as_str().unwrap());
    site.post(&path, "").await.ok();
    let again = poll(&site, "work").await.unwrap();
    settle(&site, &again, json!({"outcome": "succeeded"})).await;
    let well = poll(&site, "well").await.unwrap();
    assert_eq!(
        well["previous"],
        json!({"id": first["id"], "state": "succeeded"})
    );
    let mut late = body;
    late["delay"] = json!("1h");
    let late = register(&site, late).await;
    let path = format!("/v1/tasks/{}/cancel", late["id"].as_str().unwrap());
    site.post(&path, "").await.ok();
    assert!(poll(&site, "gone").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_tree_waits_for_what_follows_in_it() {
    let site = site().await;
    let follow = |callback: &str| json!({"task": {"callback": callback}, "in_tree": true});
    let child = json!({"callback": "child", "then": [follow("second")]});
    let body = json!({"callback": "root", "children": [child], "then": [
        {"states": ["completed"], "task": {"callback": "after"}},
    ]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    for callback in ["root", "child"] {
        let task = poll(&site, callback).await.unwrap();
        settle(&site, &task, json!({"outcome": "succeeded"})).await;
    }
    site.world.pass(2 * SECOND).await;
    let waiting = read(&site, &root["id"], "").await;
    assert_eq!(waiting["tree_state"], "waiting_for_children", "{waiting}");
    let second = poll(&site, "second").await.unwrap();
    let view = read(&site, &second["id"], "").await;
    assert_eq!(view["parent"], root["id"]);
    assert_eq!(poll(&site, "after").await, None);
    settle(&site, &second, json!({"outcome": "succeeded"})).await;
    site.world.pass(2 * SECOND).await;
    let ended = read(&site, &root["id"], "").await;
    assert_eq!(ended["tree_state"], "completed", "{ended}");
    let after = poll(&site, "after").await.unwrap();
    assert_eq!(after["previous"]["tree_state"], "completed");
    assert_eq!(after["id"], ended["then"][0]["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_sends_the_result_and_a_follow_up_has_the_defaults_of_its_callback() {
    let site = site().await;
    let put = super::request(
        axum::http::Method::PUT,
        "/v1/callbacks/next",
        r#"{"max_attempts": 2, "labels": {"team": "a"}}"#,
    );
    assert_eq!(site.send(put).await.status, 201);
    let body = json!({"callback": "work", "then": [
        {"task": {"http": {"url": "https://a.example/x"}}, "with_result": true},
        {"task": {"callback": "next"}},
    ]});
    let first = register(&site, body).await;
    // A later change of the callback does not reach it.
    let put = super::request(
        axum::http::Method::PUT,
        "/v1/callbacks/next",
        r#"{"max_attempts": 9}"#,
    );
    assert_eq!(site.send(put).await.status, 200);
    site.world.pass(SECOND).await;
    let work = poll(&site, "work").await.unwrap();
    settle(
        &site,
        &work,
        json!({"outcome": "succeeded", "result": {"rows": 7}}),
    )
    .await;
    let after = read(&site, &first["id"], "").await;
    let call = read(&site, &after["then"][0]["id"], "?view=FULL").await;
    assert_eq!(call["payload"], json!({"rows": 7}), "{call}");
    let next = read(&site, &after["then"][1]["id"], "").await;
    assert_eq!(next["max_attempts"], 2, "{next}");
    assert_eq!(next["labels"], json!({"team": "a"}));
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_cannot_be_is_refused_with_its_field() {
    let site = site().await;
    let task = json!({"callback": "next"});
    let with = |field: &str, value: Value| {
        let mut task = task.clone();
        task[field] = value;
        json!([{"task": task}])
    };
    let mut deep = json!({"callback": "next"});
    for _ in 0..=THEN_LEVELS_MAX {
        deep = json!({"callback": "next", "then": [{"task": deep}]});
    }
    let many = vec![json!({"task": task}); THEN_MAX + 1];
    let long = "x".repeat(THEN_BYTES_MAX);
    for (then, pointer) in [
        (json!(many), "/then"),
        (with("payload", json!(long)), "/then"),
        (with("key", json!("k")), "/then/0/task/key"),
        (with("id", json!("x")), "/then/0/task/id"),
        (with("parent", json!("x")), "/then/0/task/parent"),
        (with("children", json!([])), "/then/0/task/children"),
        (
            json!([{"task": {"kafka": {"topic": "t"}}}]),
            "/then/0/task/kafka",
        ),
        (json!([{"task": task, "states": []}]), "/then/0/states"),
        (
            json!([{"task": task, "states": ["completed"]}]),
            "/then/0/states",
        ),
        (json!([{"task": task, "in_tree": true}]), "/then/0/in_tree"),
        (
            json!([{"task": {"http": {"url": "https://a.example"}, "payload": 1}, "with_result": true}]),
            "/then/0/task/payload",
        ),
        (
            with("then", json!([{"task": task, "in_tree": true}])),
            "/then/0/task/then/0/in_tree",
        ),
    ] {
        let body = json!({"callback": "work", "then": then});
        let refused = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(refused.status, 422, "{pointer}: {:?}", refused.body);
        let problem = refused.problem();
        assert_eq!(problem.code, "unusable_then");
        assert_eq!(problem.errors[0].pointer, pointer, "{problem:?}");
    }
    let refused = site.post("/v1/tasks", deep.to_string()).await;
    let problem = refused.problem();
    assert_eq!(problem.code, "unusable_then");
    assert!(problem.errors[0].detail.contains("levels"), "{problem:?}");
    let kafka = json!({"kafka": {"topic": "t"}, "then": [{"task": task}]});
    let refused = site.post("/v1/tasks", kafka.to_string()).await;
    assert!(refused.status == 422 || refused.status == 400);
    for (then, pointer) in [
        (
            json!([{"task": {"callback": "a b"}}]),
            "/then/0/task/callback",
        ),
        (
            json!([{"task": {"callback": "a", "delay": "soon"}}]),
            "/then/0/task/delay",
        ),
    ] {
        let body = json!({"callback": "work", "then": then});
        let refused = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(refused.status, 400, "{:?}", refused.body);
        assert_eq!(refused.problem().errors[0].pointer, pointer);
    }
    let unknown = json!({"callback": "work", "then": [{"task": task, "result": true}]});
    let refused = site.post("/v1/tasks", unknown.to_string()).await;
    assert_eq!(refused.status, 400);
    let reserved =
        json!({"callback": "work", "then": [{"task": {"callback": "tickwheel.notify"}}]});
    let refused = site.post("/v1/tasks", reserved.to_string()).await;
    assert_eq!(refused.status, 403);
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_schedule_are_followed() {
    let site = site().await;
    let task = json!({"callback": "work", "then": [
        {"task": {"callback": "next", "delay": "5s"}, "with_result": true},
    ]});
    let schedule = json!({"every": "1m", "task": task});
    let put = super::request(
        axum::http::Method::PUT,
        "/v1/schedules/minutely",
        schedule.to_string(),
    );
    assert_eq!(site.send(put).await.status, 201);
    let set = site.get("/v1/schedules/minutely").await.ok();
    assert_eq!(set["task"]["then"][0]["task"]["delay"], "5s", "{set}");
    site.world.pass(70 * SECOND).await;
    let run = poll(&site, "work").await.unwrap();
    settle(&site, &run, json!({"outcome": "succeeded", "result": 7})).await;
    site.world.pass(5 * SECOND).await;
    let next = poll(&site, "next").await.unwrap();
    assert_eq!(next["previous"]["result"], 7, "{next}");
    let at = json!([{"task": {"callback": "next", "start_time": "2040-01-01T00:00:00Z"}}]);
    let fixed = json!({"every": "1m", "task": {"callback": "work", "then": at}});
    let put = super::request(
        axum::http::Method::PUT,
        "/v1/schedules/fixed",
        fixed.to_string(),
    );
    let refused = site.send(put).await;
    assert_eq!(
        refused.problem().errors[0].pointer,
        "/task/then/0/task/start_time"
    );
}
