//! A task of a tree that has succeeded begins a new round over the API, and requests that fit nothing are refused.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Answer, Site,
    keys_and_roles::{closed, code},
    retries::{path, read, register, retry, tree, work_all},
    task_id,
};

const SECOND: Duration = Duration::from_secs(1);

async fn reopen(site: &Site, task: &Value, wish: Value) -> Answer {
    site.post(&format!("{}/reopen", path(task)), wish.to_string())
        .await
}

async fn reopen_own(site: &Site, worker: &str, task: &Value, attempt: u32) -> Answer {
    let wish = json!({"worker": worker, "id": task["id"], "attempt": attempt});
    site.post("/v1/worker/reopen", wish.to_string()).await
}

fn refusal(answer: &Answer) -> (u16, String) {
    let problem = answer.problem();
    (problem.status, problem.code)
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// A root with a child, which have succeeded.
async fn ended(site: &Site, fields: Value) -> (Value, Value) {
    site.world.pass(5 * SECOND).await;
    let mut body = json!({"callback": "work", "children": [{"callback": "work"}]});
    let fields = fields.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    let root = register(site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(site, false).await, 2);
    assert_eq!(read(site, &root).await["tree_state"], "completed");
    let child = tree(site, &root).await[1].clone();
    (root, child)
}

#[tokio::test(start_paused = true)]
async fn a_child_that_has_succeeded_runs_again_and_its_tree_goes_on_with_it() {
    let site = Site::new();
    let (root, child) = ended(&site, json!({})).await;
    let before = read(&site, &root).await;
    for _ in 0..2 {
        // The second finds it open.
        let open = reopen(&site, &child, json!({"attempt": 1})).await.ok();
        let task = &open["task"];
        assert_eq!((&task["id"], &task["attempt"]), (&child["id"], &json!(1)));
        assert!(
            task["state"] == "enqueued" && task.get("end_time").is_none(),
            "{task}"
        );
        let above = read(&site, &root).await;
        assert_eq!(above["tree_state"], "waiting_for_children", "{above}");
    }
    assert_eq!(work_all(&site, false).await, 1);
    let after = read(&site, &root).await;
    assert_eq!(
        (&after["tree_state"], &after["attempt"]),
        (&json!("completed"), &json!(1)),
        "{after}"
    );
    assert_eq!(after["end_time"], before["end_time"], "its own run stays");
    assert!(after["tree_end_time"].as_str() > before["tree_end_time"].as_str());
    let child = read(&site, &child).await;
    assert_eq!(child["attempts"].as_array().unwrap().len(), 2, "{child}");
    // One round may follow another, and without an attempt none is asked for.
    reopen(&site, &child, json!({})).await.ok();
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &child).await["attempt"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_parent_is_reopened_while_its_tree_goes_on_and_when_it_has_ended() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let late = json!({"callback": "work", "delay": "1h"});
    let root = register(&site, json!({"callback": "work", "children": [late]})).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["state"], "waiting_for_children");
    let open = reopen(&site, &root, json!({"attempt": 1})).await.ok();
    assert_eq!(open["task"]["state"], "enqueued", "{open}");
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["state"], "waiting_for_children");
    site.world.pass(3600 * SECOND).await;
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    reopen(&site, &root, json!({"attempt": 2})).await.ok();
    let open = read(&site, &root).await;
    assert_eq!(
        (&open["state"], &open["tree_state"]),
        (&json!("enqueued"), &json!("waiting_for_children"))
    );
    // A child of the new round.
    let child = json!({"callback": "work", "parent": root["id"]});
    register(&site, child).await;
    assert_eq!(work_all(&site, false).await, 2);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_in_its_new_round_has_no_result_and_faults_its_tree() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let body = json!({"callback": "work", "children": [{"callback": "work", "payload": "bad"}]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, false).await, 2);
    let child = tree(&site, &root).await[1].clone();
    reopen(&site, &child, json!({})).await.ok();
    assert_eq!(work_all(&site, true).await, 1);
    assert_eq!(read(&site, &child).await["state"], "failed");
    assert_eq!(read(&site, &root).await["tree_state"], "faulted");
    assert_eq!(
        refusal(&reopen(&site, &child, json!({})).await),
        is(409, "not_succeeded")
    );
    assert_eq!(retry(&site, &root, json!({})).await.ok()["retried"], 1);
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_up_its_own_task_and_no_other() {
    let site = Site::new();
    let (_, child) = ended(&site, json!({})).await;
    for (worker, attempt) in [("w", 2), ("other", 1)] {
        let refused = reopen_own(&site, worker, &child, attempt).await;
        assert_eq!(refusal(&refused), is(409, "other_attempt"));
    }
    let open = reopen_own(&site, "w", &child, 1).await.ok();
    assert_eq!(open["task"]["id"], child["id"]);
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(
        refusal(&reopen_own(&site, "w", &child, 1).await),
        is(409, "other_attempt")
    );
    let nameless = reopen_own(&site, "", &child, 2).await;
    assert_eq!(refusal(&nameless), is(400, "invalid_request"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waited_for_it_stays_as_it_was_let_go() {
    let site = Site::new();
    let (_, child) = ended(&site, json!({})).await;
    let waits = json!({"callback": "work", "after": {"ids": [child["id"]]}});
    let first = register(&site, waits.clone()).await;
    site.world.pass(2 * SECOND).await;
    assert_eq!(work_all(&site, false).await, 1);
    reopen(&site, &child, json!({})).await.ok();
    // It waits for the next end.
    let second = register(&site, waits).await;
    assert_eq!(read(&site, &second).await["state"], "waiting");
    assert_eq!(work_all(&site, false).await, 2);
    assert_eq!(read(&site, &first).await["attempt"], 1);
    assert_eq!(read(&site, &second).await["state"], "succeeded");
}

#[tokio::test(start_paused = true)]
async fn requests_that_can_reopen_nothing_are_refused() {
    let site = Site::new();
    let (root, child) = ended(&site, json!({})).await;
    let plain = register(&site, json!({"callback": "work"})).await;
    let cancelled = json!({"callback": "work", "children": [{"callback": "work", "delay": "1h"}]});
    let cancelled = register(&site, cancelled).await;
    let live = json!({"callback": "work", "delay": "1h", "children": []});
    let live = register(&site, live).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, false).await, 2);
    let tree = json!({"tree": true}).to_string();
    site.post(&format!("{}/cancel", path(&cancelled)), tree)
        .await;
    site.world.pass(3 * SECOND).await;
    let unknown = json!({"id": task_id()});
    for (task, wish, expected) in [
        (&plain, json!({}), is(422, "not_in_a_tree")),
        (&child, json!({"attempt": 2}), is(409, "other_attempt")),
        (&root, json!({"attempt": 0}), is(409, "other_attempt")),
        (&cancelled, json!({}), is(409, "tree_cancelled")),
        (&live, json!({}), is(409, "not_succeeded")),
        (&unknown, json!({}), is(404, "task_not_found")),
        (&root, json!({"attempts": 1}), is(400, "invalid_request")),
    ] {
        assert_eq!(
            refusal(&reopen(&site, task, wish).await),
            expected,
            "{task}"
        );
    }
}

/// A tree that goes on again is live, so it needs its key for that.
#[tokio::test(start_paused = true)]
async fn a_tree_whose_key_another_task_has_does_not_go_on() {
    let site = Site::new();
    let (root, child) = ended(&site, json!({"key": "k"})).await;
    let other = json!({"callback": "work", "key": "k", "delay": "1h"});
    let taken = register(&site, other.clone()).await;
    for task in [&root, &child] {
        let refused = reopen(&site, task, json!({})).await;
        assert_eq!(refusal(&refused), is(409, "key_taken"));
        assert_eq!(read(&site, &root).await["tree_state"], "completed");
    }
    let cancelled = site.post(&format!("{}/cancel", path(&taken)), "").await;
    assert_eq!(cancelled.ok()["outcome"], "cancelled");
    reopen(&site, &child, json!({})).await.ok();
    let refused = site.post("/v1/tasks", other.to_string()).await;
    assert_eq!(refused.json()["existing"], root["id"]);
    assert_eq!(refusal(&refused), is(409, "key_taken"));
    assert_eq!(work_all(&site, false).await, 1);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    register(&site, other).await;
}

#[tokio::test(start_paused = true)]
async fn keys_reopen_what_their_roles_allow() {
    let (site, admin) = closed().await;
    let body = json!({"callback": "work", "delay": "1h", "children": []});
    let task = site.post_by(&admin, "/v1/tasks", body).await.json();
    let limited = json!({"name": "p", "role": "producer", "callbacks": ["work"]});
    let (_, limited) = site.key(&admin, limited).await;
    let own = |role: &str, of: &str| json!({"name": of, "role": role, "callbacks": [of]});
    let (_, worker) = site.key(&admin, own("worker", "work")).await;
    let (_, stranger) = site.key(&admin, own("worker", "other")).await;
    let for_clients = format!("{}/reopen", path(&task));
    let call = json!({"worker": "w", "id": task["id"], "attempt": 0});
    for (key, path, body, expected) in [
        (&limited, &*for_clients, json!({}), (403, "access_denied")),
        (&worker, &*for_clients, json!({}), (403, "access_denied")),
        (&admin, &*for_clients, json!({}), (409, "not_succeeded")),
        (
            &stranger,
            "/v1/worker/reopen",
            call.clone(),
            (403, "access_denied"),
        ),
        (&worker, "/v1/worker/reopen", call, (409, "not_succeeded")),
    ] {
        let answer = site.post_by(key, path, body).await;
        assert_eq!(code(&answer), (expected.0, expected.1.to_owned()), "{path}");
    }
}
