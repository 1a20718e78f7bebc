//! Trees that are held open for children to come, over the API.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Answer, Site,
    retries::{path, read, register, work_all},
    task_id,
};

const SECOND: Duration = Duration::from_secs(1);

async fn held(site: &Site, fields: Value) -> Value {
    site.world.pass(5 * SECOND).await;
    let mut body = json!({"callback": "work", "children": [], "children_within": "1h"});
    let fields = fields.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields.clone());
    let root = register(site, body).await;
    let within = fields.get("children_within").cloned();
    assert_eq!(
        root["children_within"],
        within.unwrap_or_else(|| json!("1h")),
        "{root}"
    );
    site.world.pass(SECOND).await;
    root
}

async fn complete(site: &Site, task: &Value) -> Answer {
    let path = format!("{}/children-complete", path(task));
    site.post(&path, "").await
}

fn refusal(answer: &Answer) -> (u16, String) {
    let problem = answer.problem();
    (problem.status, problem.code)
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[track_caller]
fn ended(task: &Value, reason: Option<&str>) {
    let shown = (
        &task["tree_state"],
        task.get("reason").and_then(Value::as_str),
    );
    assert_eq!(shown, (&json!("completed"), reason), "{task}");
}

#[tokio::test(start_paused = true)]
async fn children_are_added_behind_the_run_until_the_client_says_that_it_was_all() {
    let site = Site::new();
    let root = held(&site, json!({})).await;
    assert_eq!(work_all(&site, false).await, 1);
    let child = json!({"callback": "work", "parent": root["id"]});
    for _ in 0..2 {
        site.world.pass(300 * SECOND).await;
        let open = read(&site, &root).await;
        assert_eq!(open["state"], "waiting_for_children", "{open}");
        register(&site, child.clone()).await;
        assert_eq!(work_all(&site, false).await, 1);
    }
    for _ in 0..2 {
        let told = complete(&site, &root).await.ok();
        assert_eq!(told["id"], root["id"]);
        site.world.pass(SECOND).await;
        ended(&read(&site, &root).await, None);
    }
    let late = site.post("/v1/tasks", child.to_string()).await.problem();
    assert_eq!((late.status, &*late.code), (409, "tree_ended"));
    assert!(late.detail.contains("children_within"), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tree_whose_time_has_passed_ends_by_what_is_in_it() {
    let site = Site::new();
    let root = held(&site, json!({})).await;
    assert_eq!(work_all(&site, false).await, 1);
    // A child that goes on holds it longer than its time.
    let child = json!({"callback": "work", "parent": root["id"], "delay": "2h"});
    register(&site, child).await;
    site.world.pass(2 * 3500 * SECOND).await;
    let open = read(&site, &root).await;
    assert_eq!(open["tree_state"], "waiting_for_children", "{open}");
    site.world.pass(300 * SECOND).await;
    assert_eq!(work_all(&site, false).await, 1);
    ended(&read(&site, &root).await, Some("children_time_passed"));
    assert_eq!(
        refusal(&complete(&site, &root).await),
        is(409, "tree_ended")
    );
    let root = held(&site, json!({"children_within": "10m", "delay": "1s"})).await;
    assert_eq!(work_all(&site, false).await, 1);
    site.world.pass(590 * SECOND).await;
    assert_eq!(
        read(&site, &root).await["tree_state"],
        "waiting_for_children"
    );
    site.world.pass(20 * SECOND).await;
    ended(&read(&site, &root).await, Some("children_time_passed"));
}

#[tokio::test(start_paused = true)]
async fn the_last_child_says_that_it_is_the_last() {
    let site = Site::new();
    let root = held(&site, json!({})).await;
    assert_eq!(work_all(&site, false).await, 1);
    let child =
        |last: bool| json!({"callback": "work", "parent": root["id"], "children_complete": last});
    // The word of the first item counts behind the last one.
    let body = json!({"tasks": [child(true), child(false), child(false)]});
    let made = site
        .post("/v1/tasks:batchCreate", body.to_string())
        .await
        .ok();
    for result in made["results"].as_array().unwrap() {
        assert!(result.get("error").is_none(), "{result}");
    }
    site.world.pass(SECOND).await;
    let open = read(&site, &root).await;
    assert_eq!(open["tree_state"], "waiting_for_children", "{open}");
    assert_eq!(work_all(&site, false).await, 3);
    ended(&read(&site, &root).await, None);
    let root = held(&site, json!({})).await;
    assert_eq!(work_all(&site, false).await, 1);
    let child = json!({"callback": "work", "parent": root["id"], "children_complete": true});
    register(&site, child).await;
    assert_eq!(work_all(&site, false).await, 1);
    ended(&read(&site, &root).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_run_that_adds_the_children_says_that_it_was_all() {
    let site = Site::new();
    let root = held(&site, json!({})).await;
    let poll = json!({"worker": "w", "callbacks": ["work"], "wait": "1s"}).to_string();
    let polled = site.post("/v1/worker/poll", poll).await.ok();
    let attempt = &polled["tasks"][0]["attempt"];
    let settle = |attempt: Value, outcome: &str, all: bool| {
        let item = json!({"id": root["id"], "attempt": attempt, "outcome": outcome, "children_complete": all});
        json!({"worker": "w", "tasks": [item]}).to_string()
    };
    let wrong = site
        .post("/v1/worker/settle", settle(attempt.clone(), "retry", true))
        .await
        .ok();
    let pointer = &wrong["results"][0]["error"]["errors"][0]["pointer"];
    assert_eq!(pointer, "/children_complete", "{wrong}");
    // A report of another attempt says nothing.
    let lost = site
        .post("/v1/worker/settle", settle(json!(7), "succeeded", true))
        .await
        .ok();
    assert_eq!(lost["results"][0]["status"], "lost", "{lost}");
    let child = json!({"callback": "work", "parent": root["id"]});
    register(&site, child).await;
    for _ in 0..2 {
        let done = site.post(
            "/v1/worker/settle",
            settle(attempt.clone(), "succeeded", true),
        );
        assert_eq!(done.await.ok()["results"][0]["status"], "ok");
    }
    let open = read(&site, &root).await;
    assert_eq!(open["tree_state"], "waiting_for_children", "{open}");
    assert_eq!(work_all(&site, false).await, 1);
    ended(&read(&site, &root).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_cancelled_holds_nothing_and_so_does_a_cancelled_tree() {
    let site = Site::new();
    for wish in [json!({}), json!({"tree": true})] {
        let root = held(&site, json!({"delay": "1h"})).await;
        let cancel = format!("{}/cancel", path(&root));
        site.post(&cancel, wish.to_string()).await.ok();
        site.world.pass(2 * SECOND).await;
        let over = read(&site, &root).await;
        let as_whole = wish["tree"] == true;
        let state = if as_whole { "cancelled" } else { "completed" };
        assert_eq!(
            (&over["tree_state"], over.get("reason")),
            (&json!(state), None),
            "{over}"
        );
        if as_whole {
            assert_eq!(
                refusal(&complete(&site, &root).await),
                is(409, "tree_cancelled")
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wishes_that_hold_nothing_are_refused() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    for (body, pointer) in [
        (
            json!({"callback": "work", "children_within": "1h"}),
            "/children_within",
        ),
        (
            json!({"callback": "work", "children": [], "children_within": "31d"}),
            "/children_within",
        ),
        (
            json!({"callback": "work", "children": [], "children_within": "soon"}),
            "/children_within",
        ),
        (
            json!({"callback": "work", "children_complete": true}),
            "/children_complete",
        ),
        (
            json!({"callback": "work", "children": [{"callback": "work", "children_complete": true}]}),
            "/children/0/children_complete",
        ),
    ] {
        let answer = site.post("/v1/tasks", body.to_string()).await;
        let errors = answer.json()["errors"].clone();
        assert_eq!(refusal(&answer), is(400, "invalid_request"));
        assert_eq!(errors[0]["pointer"], pointer, "{errors}");
    }
    let plain = register(&site, json!({"callback": "work", "children": []})).await;
    for (task, expected) in [
        (plain, is(422, "unusable_parent")),
        (json!({"id": task_id()}), is(404, "task_not_found")),
    ] {
        assert_eq!(refusal(&complete(&site, &task).await), expected);
    }
}
