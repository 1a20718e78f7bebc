//! The API answers what its description says to somebody who knows nothing else of the service.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, keys_and_roles::closed};

const SECOND: Duration = Duration::from_secs(1);

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    site
}

async fn register(site: &Site, task: Value) -> Value {
    let answer = site.post("/v1/tasks", task.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn read(site: &Site, task: &Value) -> Value {
    let id = task["id"].as_str().unwrap();
    site.get(&format!("/v1/tasks/{id}")).await.ok()
}

async fn claimed(site: &Site) -> Value {
    let poll = json!({"worker": "w", "callbacks": ["work"], "wait": "3s"});
    let answer = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    answer["tasks"][0].clone()
}

async fn settled(site: &Site, task: &Value, outcome: &str) -> Value {
    let report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
    let body = json!({"worker": "w", "tasks": [report]});
    let answer = site.post("/v1/worker/settle", body.to_string()).await.ok();
    answer["results"][0].clone()
}

/// Each level is read by a call within the call of the level above, so a small request could take all of a stack.
#[tokio::test(start_paused = true)]
async fn tasks_within_tasks_are_refused_beyond_their_levels_however_deep_they_lie() {
    let site = site().await;
    for (begin, end) in [
        (r#""children":[{"callback":"a","#, "}]"),
        (r#""then":[{"task":{"callback":"a","#, "}}]"),
    ] {
        for levels in [42, 60, 1000, 20_000] {
            let (above, below) = (begin.repeat(levels), end.repeat(levels));
            let body = format!(r#"{{"callback":"a",{above}"payload":1{below}}}"#);
            let answer = site.post("/v1/tasks", body).await;
            assert_eq!(answer.status, 400, "{begin} {levels}: {:?}", answer.body);
        }
    }
    let body = format!(
        r#"{{"callback":"a",{}"payload":1{}}}"#,
        r#""children":[{"callback":"a","#.repeat(39),
        "}]".repeat(39)
    );
    assert_eq!(site.post("/v1/tasks", body).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn every_registration_tells_its_outcome_and_that_it_has_no_tree() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work"})).await;
    assert_eq!(
        (&task["outcome"], &task["tree_state"]),
        (&json!("created"), &json!("none"))
    );
    let batch = json!({"tasks": [{"callback": "work"}, {"callback": "work", "key": "k"}, {}]});
    let batch = site
        .post("/v1/tasks:batchCreate", batch.to_string())
        .await
        .ok();
    for place in [0, 1] {
        assert_eq!(batch["results"][place]["outcome"], "created", "{batch}");
        assert!(batch["results"][place]["task"]["id"].is_string(), "{batch}");
    }
    assert_eq!(batch["results"][2]["error"]["status"], 400, "{batch}");
    assert_eq!(batch["results"][2].get("task"), None, "{batch}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_need_not_say_why_it_failed() {
    let site = site().await;
    for (outcome, state) in [("retry", "retrying"), ("failed", "failed")] {
        let task = register(&site, json!({"callback": "work"})).await;
        let claimed = claimed(&site).await;
        assert_eq!(settled(&site, &claimed, outcome).await["status"], "ok");
        let read = read(&site, &task).await;
        assert_eq!(read["state"], state, "{read}");
        assert_eq!(read["error"], "the worker gave no reason", "{read}");
        let id = task["id"].as_str().unwrap();
        site.post(&format!("/v1/tasks/{id}/cancel"), "").await;
    }
}

/// The look that writes the end comes up to a claim timeout later.
#[tokio::test(start_paused = true)]
async fn a_task_reads_expired_when_it_is_of_no_more_use() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work", "expire_after": "5s"})).await;
    site.world.pass(SECOND * 4).await;
    assert_eq!(read(&site, &task).await["state"], "enqueued");
    site.world.pass(SECOND * 2).await;
    let expired = read(&site, &task).await;
    assert_eq!(expired["state"], "expired", "{expired}");
    assert!(expired["end_time"].is_string(), "{expired}");
    assert_eq!(claimed(&site).await, Value::Null, "it runs all the same");
    site.world.pass(SECOND * 90).await;
    assert_eq!(read(&site, &task).await["state"], "expired");
    // A retry that would come too late.
    let task = register(&site, json!({"callback": "work", "expire_after": "5s"})).await;
    let attempt = claimed(&site).await;
    site.world.pass(SECOND * 6).await;
    assert_eq!(read(&site, &task).await["state"], "claimed", "it runs");
    assert_eq!(settled(&site, &attempt, "retry").await["status"], "ok");
    assert_eq!(read(&site, &task).await["state"], "expired");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_no_callback_is_refused() {
    let (site, root) = closed().await;
    let wish = json!({"name": "p", "role": "producer", "callbacks": []});
    let refused = site.post_by(&root, "/v1/api-keys", wish).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.problem().errors[0].pointer, "/callbacks");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_a_registration_does_not_know_is_refused() {
    let site = site().await;
    for query in ["validate_only=true", "foo"] {
        let answer = site
            .post(&format!("/v1/tasks?{query}"), r#"{"callback":"work"}"#)
            .await;
        assert_eq!(answer.status, 400, "{query}: {:?}", answer.body);
    }
    assert_eq!(claimed(&site).await, Value::Null, "nothing was registered");
}

#[tokio::test(start_paused = true)]
async fn times_are_shown_without_a_task() {
    let site = site().await;
    let asked = json!({"cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin"});
    let shown = site
        .post("/v1/schedules:preview?count=2", asked.to_string())
        .await;
    let shown = shown.ok();
    assert_eq!(
        shown["description"], "At 02:30, Monday to Friday",
        "{shown}"
    );
}

/// Its look lies behind the tick, many claim timeouts behind its start.
#[tokio::test(start_paused = true)]
async fn a_task_is_found_by_its_id_in_a_tick_that_is_longer_than_its_claim_timeout() {
    let site = Site::slow();
    site.world.pass(SECOND * 3).await;
    for delay in [1, 30, 62, 90, 119, 121] {
        let asked =
            json!({"callback": "work", "delay": format!("{delay}s"), "claim_timeout": "5s"});
        let task = register(&site, asked).await;
        let id = task["id"].as_str().unwrap();
        assert_eq!(read(&site, &task).await["state"], "scheduled", "{delay}");
        let moved = json!({"delay": "2h"}).to_string();
        let moved = site
            .post(&format!("/v1/tasks/{id}/reschedule"), moved)
            .await;
        assert_eq!(moved.ok()["outcome"], "rescheduled", "{delay}");
        let cancelled = site.post(&format!("/v1/tasks/{id}/cancel"), "").await.ok();
        assert_eq!(cancelled["outcome"], "cancelled", "{delay}");
    }
    let asked = json!({"callback": "work", "delay": "70s", "claim_timeout": "5s"});
    let task = register(&site, asked).await;
    for _ in 0..6 {
        site.world.pass(SECOND * 11).await;
        assert_eq!(read(&site, &task).await["state"], "scheduled");
    }
}

/// The states of all tasks of a list: those that have ended may be on a later page.
async fn listed(site: &Site, query: &str) -> Vec<Value> {
    let (mut states, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/tasks?{query}{token}");
        let page = site.get(&path).await.ok();
        let tasks = page["tasks"].as_array().unwrap().iter();
        states.extend(tasks.map(|task| task["state"].clone()));
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => return states,
        }
    }
}

async fn changed(site: &Site, task: &Value, verb: &str, body: &Value) -> Value {
    let path = format!("/v1/tasks/{}/{verb}", task["id"].as_str().unwrap());
    site.post(&path, body.to_string()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_task_of_no_more_use_is_listed_as_it_reads_and_is_not_moved() {
    let site = site().await;
    let retry = json!({"initial": "10m", "factor": 1, "max": "10m", "jitter": "none"});
    let asked = json!({"callback": "work", "expire_after": "5s", "retry": retry});
    let failed = register(&site, asked.clone()).await;
    let attempt = claimed(&site).await;
    assert_eq!(settled(&site, &attempt, "retry").await["status"], "ok");
    let fresh = register(&site, asked).await;
    site.world.pass(SECOND * 6).await;
    for task in [&failed, &fresh] {
        assert_eq!(read(&site, task).await["state"], "expired", "{task}");
        for (verb, body) in [("reschedule", json!({"delay": "1h"})), ("run", json!({}))] {
            let answer = changed(&site, task, verb, &body).await;
            assert_eq!(answer["outcome"], "too_late", "{answer}");
            assert_eq!(answer["task"]["state"], "expired", "{answer}");
            assert_eq!(answer["reason"], "it has ended: it is expired", "{answer}");
        }
    }
    assert_eq!(listed(&site, "callback=work").await, ["expired", "expired"]);
    for waits in ["enqueued", "retrying"] {
        let found = listed(&site, &format!("callback=work&state={waits}")).await;
        assert_eq!(found, [""; 0], "{waits}");
    }
    site.world.pass(SECOND * 90).await;
    assert_eq!(read(&site, &fresh).await["state"], "expired");
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_change_shows_a_running_task_as_it_reads() {
    let site = site().await;
    let task = register(&site, json!({"callback": "work"})).await;
    let attempt = claimed(&site).await;
    let beat = json!({"id": attempt["id"], "attempt": 1, "progress": "half"});
    let beat = json!({"worker": "w", "tasks": [beat]}).to_string();
    site.post("/v1/worker/heartbeat", beat).await.ok();
    let is_shown = |answer: &Value, outcome: &str| {
        assert_eq!(answer["outcome"], outcome, "{answer}");
        assert_eq!(answer["task"]["state"], "processing", "{answer}");
        assert_eq!(answer["task"]["progress"], "half", "{answer}");
    };
    let delay = json!({"delay": "1h"});
    is_shown(
        &changed(&site, &task, "reschedule", &delay).await,
        "too_late",
    );
    is_shown(&changed(&site, &task, "run", &json!({})).await, "too_late");
    // The tag of a read holds as long as the task reads like that.
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    let tag = site.get(&path).await.header("etag").to_owned();
    let mut moves = super::request(
        axum::http::Method::POST,
        &format!("{path}/reschedule"),
        delay.to_string(),
    );
    moves.headers_mut().insert("if-match", tag.parse().unwrap());
    is_shown(&site.send(moves).await.ok(), "too_late");
    for _ in 0..2 {
        let answer = changed(&site, &task, "cancel", &json!({})).await;
        is_shown(&answer, "cancel_requested");
    }
    let batch = json!({"ids": [task["id"]]}).to_string();
    let batch = site.post("/v1/tasks:batchCancel", batch).await.ok();
    is_shown(&batch["results"][0], "cancel_requested");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_reads_enqueued() {
    let site = site().await;
    let retry = json!({"initial": "10s", "factor": 1, "max": "10s", "jitter": "none"});
    let task = register(&site, json!({"callback": "work", "retry": retry})).await;
    let attempt = claimed(&site).await;
    assert_eq!(settled(&site, &attempt, "retry").await["status"], "ok");
    for (state, wait) in [("retrying", 5), ("retrying", 8), ("enqueued", 0)] {
        assert_eq!(read(&site, &task).await["state"], state);
        assert_eq!(listed(&site, "callback=work").await, [state]);
        site.world.pass(SECOND * wait).await;
    }
    assert_eq!(claimed(&site).await["attempt"], 2);
}

#[tokio::test(start_paused = true)]
async fn problems_of_items_name_the_trace_of_their_request() {
    let site = site().await;
    let id = "x";
    for (path, body) in [
        ("/v1/tasks:batchCreate", json!({"tasks": [{}, {"id": 7}]})),
        (
            "/v1/tasks:batchCancel",
            json!({"ids": [id, super::task_id()]}),
        ),
        ("/v1/dead-letters/redrive", json!({"ids": [id, id]})),
        (
            "/v1/worker/claim",
            json!({"worker": "w", "messages": [{}, {}]}),
        ),
        (
            "/v1/worker/heartbeat",
            json!({"worker": "w", "tasks": [{}, {}]}),
        ),
        (
            "/v1/worker/settle",
            json!({"worker": "w", "tasks": [{}, {}]}),
        ),
    ] {
        let answer = site.post(path, body.to_string()).await.ok();
        let trace = |item: usize| answer["results"][item]["error"]["trace_id"].clone();
        let length = trace(0).as_str().map(str::len);
        assert_eq!(length, Some(32), "{path}: {answer}");
        assert_eq!(trace(0), trace(1), "{path}: {answer}");
        let given = "4bf92f3577b34da6a3ce929d0e0e4736";
        let mut traced = super::request(axum::http::Method::POST, path, body.to_string());
        let parent = format!("00-{given}-00f067aa0ba902b7-01");
        let parent = parent.parse().unwrap();
        traced.headers_mut().insert("traceparent", parent);
        let answer = site.send(traced).await.ok();
        assert_eq!(
            answer["results"][1]["error"]["trace_id"], given,
            "{path}: {answer}"
        );
    }
}

/// No worker asks for tasks of the callback, so the message is never taken.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_lost_counts_as_waiting_until_it_is_taken() {
    let site = site().await;
    let asked = json!({"callback": "work", "claim_timeout": "10s", "heartbeat_timeout": "5s"});
    register(&site, asked).await;
    assert_eq!(claimed(&site).await["attempt"], 1);
    let waiting = async || {
        let stats = site.get("/v1/stats").await.ok();
        stats["unclaimed"]["tasks"].as_u64().unwrap()
    };
    site.world.pass(SECOND * 4).await;
    assert_eq!(waiting().await, 0, "it runs");
    site.world.pass(SECOND * 30).await;
    for _ in 0..30 {
        site.world.pass(SECOND * 4).await;
        assert_eq!(waiting().await, 1);
    }
    assert_eq!(claimed(&site).await["attempt"], 2);
    site.world.pass(SECOND * 4).await;
    assert_eq!(waiting().await, 0, "it runs again");
}
