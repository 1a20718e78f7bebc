//! A key names at most one live task of a callback, and stands for it in calls of clients.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tickwheel::{doubles::store::faulty::Fate, limits::KEY_CHARS_MAX, model::ids::TaskId};

use super::{Answer, Site, request};
use crate::sim::world::published;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn body(key: &str, wish: Option<&str>) -> String {
    let mut body = json!({"callback": "work", "key": key, "delay": "60s"});
    if let Some(wish) = wish {
        body["on_conflict"] = json!(wish);
    }
    body.to_string()
}

async fn register(site: &Site, key: &str, wish: Option<&str>) -> Answer {
    site.post("/v1/tasks", body(key, wish)).await
}

fn id_of(answer: &Answer) -> String {
    answer.json()["id"].as_str().unwrap().to_owned()
}

async fn by_key(site: &Site, verb: &str, more: Value) -> Answer {
    let mut body = json!({"callback": "work", "key": "k"});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    site.post(&format!("/v1/tasks:{verb}"), body.to_string())
        .await
}

#[tokio::test(start_paused = true)]
async fn a_live_task_keeps_its_key_and_an_ended_one_gives_it_up() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let first = register(&site, "k", None).await;
    assert_eq!(
        (first.status.as_u16(), &first.json()["outcome"]),
        (201, &json!("created"))
    );
    assert_eq!(first.json()["key"], "k");
    let id = id_of(&first);
    for wish in [None, Some("reject")] {
        let refused = register(&site, "k", wish).await;
        let problem = refused.problem();
        assert_eq!((problem.status, problem.code.as_str()), (409, "key_taken"));
        assert_eq!(refused.json()["existing"], json!(id));
    }
    let ignored = register(&site, "k", Some("ignore")).await;
    assert_eq!(
        (ignored.status.as_u16(), id_of(&ignored)),
        (200, id.clone())
    );
    assert_eq!(ignored.json()["outcome"], "existing");
    // Another callback, and another key, are other names.
    let other = json!({"callback": "other", "key": "k"}).to_string();
    assert_eq!(site.post("/v1/tasks", other).await.status, 201);
    assert_eq!(register(&site, "k2", None).await.status, 201);
    // Also while it waits for a worker, which asking does not send it once more.
    site.world.pass(70 * SECOND).await;
    let task: TaskId = id.parse().unwrap();
    let before = published(&site.world, task).len();
    for _ in 0..5 {
        assert_eq!(register(&site, "k", Some("ignore")).await.status, 200);
    }
    site.world.pass(2 * SECOND).await;
    assert_eq!(published(&site.world, task).len(), before);
    let cancel = by_key(&site, "cancel", json!({})).await.ok();
    assert_eq!(
        (&cancel["outcome"], &cancel["task"]["id"]),
        (&json!("cancelled"), &json!(id))
    );
    let next = register(&site, "k", Some("ignore")).await;
    assert_eq!(next.status, 201);
    assert_ne!(id_of(&next), id);
}

#[tokio::test(start_paused = true)]
async fn many_at_once_create_one_task() {
    for wish in ["ignore", "reject"] {
        let site = Site::new();
        site.world.pass(5 * SECOND).await;
        let answers = join_all((0..12).map(|_| register(&site, "k", Some(wish)))).await;
        let created: Vec<&Answer> = answers
            .iter()
            .filter(|answer| answer.status == 201)
            .collect();
        assert_eq!(created.len(), 1, "{wish}");
        let id = id_of(created[0]);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            let (status, name) = match wish {
                "ignore" => (200, "id"),
                _ => (409, "existing"),
            };
            assert_eq!(
                (answer.status.as_u16(), &answer.json()[name]),
                (status, &json!(id))
            );
        }
        // The key of a task that has ended is taken by one of many as well.
        by_key(&site, "cancel", json!({})).await.ok();
        let answers = join_all((0..12).map(|_| register(&site, "k", Some("ignore")))).await;
        let ids: BTreeSet<String> = answers.iter().map(id_of).collect();
        assert_eq!(ids.len(), 1);
        assert!(!ids.contains(&id));
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "passes weeks of virtual time: make test-all"]
async fn a_key_stands_for_its_task() {
    let site = Site::slow();
    site.world.pass(300 * SECOND).await;
    for verb in ["cancel", "run", "reschedule"] {
        let more = if verb == "reschedule" {
            json!({"delay": "1s"})
        } else {
            json!({})
        };
        let problem = by_key(&site, verb, more).await.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (404, "key_not_found"),
            "{verb}"
        );
    }
    let list = "/v1/tasks?callback=work&key=k";
    assert_eq!(site.get(list).await.ok()["tasks"], json!([]));
    let id = id_of(&register(&site, "k", None).await);
    let found = site.get(list).await.ok();
    assert_eq!(found["tasks"][0]["id"], json!(id));
    assert!(found["tasks"].as_array().unwrap().len() == 1 && found["next_page_token"].is_null());
    let moved = by_key(&site, "reschedule", json!({"delay": "8d"}))
        .await
        .ok();
    assert_eq!(moved["outcome"], "rescheduled");
    // The record of the key lives as long as the task that was moved.
    site.world.pass(7 * DAY).await;
    assert_eq!(register(&site, "k", None).await.status, 409);
    let run = by_key(&site, "run", json!({})).await.ok();
    assert_eq!(
        (&run["outcome"], &run["task"]["id"]),
        (&json!("rescheduled"), &json!(id))
    );
    let stale = {
        let body = json!({"callback": "work", "key": "k", "delay": "1h"}).to_string();
        let mut request = request(Method::POST, "/v1/tasks:reschedule", body);
        request
            .headers_mut()
            .insert("if-match", "\"0-0-scheduled\"".parse().unwrap());
        site.send(request).await
    };
    assert_eq!(stale.status, 412);
    by_key(&site, "cancel", json!({})).await.ok();
    assert_eq!(
        site.get(list).await.ok()["tasks"][0]["state"],
        "cancelled",
        "the last one"
    );
    for wrong in ["&state=scheduled", "&page_size=5"] {
        assert_eq!(site.get(&format!("{list}{wrong}")).await.status, 400);
    }
    assert_eq!(site.get("/v1/tasks?key=k").await.status, 400);
}

#[tokio::test(start_paused = true)]
#[ignore = "passes two weeks of virtual time: make test-all"]
async fn a_key_lives_with_a_task_that_waits_for_weeks() {
    let site = Site::slow();
    site.world.pass(300 * SECOND).await;
    let id = id_of(&register(&site, "k", None).await);
    // No worker comes. Its looks renew the record.
    for _ in 0..2 {
        site.world.pass(4 * DAY).await;
        let found = site.get("/v1/tasks?callback=work&key=k").await.ok();
        assert_eq!(found["tasks"][0]["id"], json!(id));
        assert_eq!(register(&site, "k", None).await.status, 409);
    }
    by_key(&site, "cancel", json!({})).await.ok();
    // Once it has ended, the record goes before the row of the task could.
    site.world.pass(6 * DAY + Duration::from_secs(3600)).await;
    assert_eq!(
        site.get("/v1/tasks?callback=work&key=k").await.ok()["tasks"],
        json!([])
    );
    assert_eq!(register(&site, "k", None).await.status, 201);
}

/// Found by a reading: the record of a near task had the long life of the far one before it, outlived the row of its task, and
/// the next registration ran that task once more.
#[tokio::test(start_paused = true)]
#[ignore = "passes ten days of virtual time: make test-all"]
async fn a_task_that_follows_a_far_one_does_not_run_again_when_its_row_is_gone() {
    let site = Site::slow();
    site.world.pass(300 * SECOND).await;
    let far = json!({"callback": "work", "key": "k", "delay": "30d"}).to_string();
    assert_eq!(site.post("/v1/tasks", far).await.status, 201);
    by_key(&site, "cancel", json!({})).await.ok();
    let near = id_of(&now(&site).await);
    let task = handed(&site).await;
    assert_eq!(task["id"], json!(near));
    settle(&site, &task, json!({"outcome": "succeeded"})).await;
    site.world.pass(10 * DAY).await;
    let next = register(&site, "k", None).await;
    assert_eq!(next.status, 201);
    assert_ne!(id_of(&next), near);
}

/// Found by a reading: nothing renewed the record while its task waited for a retry that was weeks away.
#[tokio::test(start_paused = true)]
#[ignore = "passes ten days of virtual time: make test-all"]
async fn a_task_that_is_snoozed_for_weeks_keeps_its_key() {
    let site = Site::slow();
    site.world.pass(300 * SECOND).await;
    let id = id_of(&now(&site).await);
    let task = handed(&site).await;
    settle(&site, &task, json!({"outcome": "snoozed", "delay": "20d"})).await;
    site.world.pass(10 * DAY).await;
    let taken = register(&site, "k", None).await;
    assert_eq!(
        (taken.status.as_u16(), &taken.json()["existing"]),
        (409, &json!(id))
    );
}

/// Found by a reading: the row of a task that was told to stop does not tell two replacements apart, and both were accepted.
#[tokio::test(start_paused = true)]
async fn of_many_replacements_of_a_stopping_task_one_is_live_at_the_end() {
    // Each write of a record takes a while, so that all have judged the first task before one is done.
    let site = Site::with_fates(Arc::new(|_, call| match call.operation {
        "swap_record" => Fate::Delay(Duration::from_millis(20)),
        _ => Fate::Go,
    }));
    site.world.pass(5 * SECOND).await;
    now(&site).await;
    handed(&site).await;
    let stopped = by_key(&site, "cancel", json!({})).await.ok();
    assert_eq!(stopped["outcome"], "cancel_requested");
    let later = json!({"callback": "work", "key": "k", "delay": "1h", "on_conflict": "replace"});
    let later = later.to_string();
    let at_once = (0..8).map(|_| site.post("/v1/tasks", later.clone()));
    let answers = join_all(at_once).await;
    let mut live = 0;
    for answer in &answers {
        let task = site.get(&format!("/v1/tasks/{}", id_of(answer))).await.ok();
        live += usize::from(task["state"] == "scheduled");
    }
    assert_eq!(live, 1);
}

/// Registers a task with the key that is due at once.
async fn now(site: &Site) -> Answer {
    let task = json!({"callback": "work", "key": "k"}).to_string();
    site.post("/v1/tasks", task).await
}

/// Hands the task that is due to a worker.
async fn handed(site: &Site) -> Value {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 1, "wait": "60s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    assert!(polled["tasks"][0]["id"].is_string(), "{polled}");
    polled["tasks"][0].clone()
}

async fn settle(site: &Site, task: &Value, mut report: Value) {
    report["id"] = task["id"].clone();
    report["attempt"] = task["attempt"].clone();
    let call = json!({"worker": "w", "tasks": [report]}).to_string();
    let settled = site.post("/v1/worker/settle", call).await.ok();
    assert_eq!(settled["results"][0]["status"], "ok");
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_runs_again_only_while_its_key_is_its_own() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let task = json!({"callback": "work", "key": "k", "max_attempts": 1}).to_string();
    let id = id_of(&site.post("/v1/tasks", task.clone()).await);
    die(&site, &id).await;
    let run = by_key(&site, "run", json!({})).await.ok();
    assert_eq!(run["outcome"], "rescheduled");
    assert_eq!(
        register(&site, "k", None).await.status,
        409,
        "it is live again"
    );
    die(&site, &id).await;
    let other = id_of(&register(&site, "k", None).await);
    let late = site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    assert_eq!(late["outcome"], "too_late");
    assert!(
        late["reason"]
            .as_str()
            .unwrap()
            .contains("its key names no other live task")
    );
    let ids = json!({"ids": [id]}).to_string();
    let redrive = site.post("/v1/dead-letters/redrive", ids).await.ok();
    assert_eq!(redrive["results"][0]["outcome"], "blocked");
    assert_eq!(
        (&redrive["redriven"], &redrive["failed"]),
        (&json!(0), &json!(1))
    );
    let cancel = by_key(&site, "cancel", json!({})).await.ok();
    assert_eq!(cancel["task"]["id"], json!(other));
    let run = site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    assert_eq!(run["outcome"], "rescheduled");
    let found = site.get("/v1/tasks?callback=work&key=k").await.ok();
    assert_eq!(found["tasks"][0]["id"], json!(id));
}

/// Lets the last attempt of a task fail.
async fn die(site: &Site, id: &str) {
    let task = handed(site).await;
    assert_eq!(task["id"], json!(id));
    settle(site, &task, json!({"outcome": "retry", "error": "no"})).await;
    let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(task["state"], "dead");
}

#[tokio::test(start_paused = true)]
async fn a_marked_request_with_a_key_names_the_task_that_it_was_told() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let send = async |mark: &str, wish: &str| {
        let mut request = request(Method::POST, "/v1/tasks", body("k", Some(wish)));
        request
            .headers_mut()
            .insert("idempotency-key", mark.parse().unwrap());
        site.send(request).await
    };
    let first = send("a", "ignore").await;
    assert_eq!(first.status, 201);
    let id = id_of(&first);
    assert_eq!(
        (
            send("a", "ignore").await.status.as_u16(),
            id_of(&send("a", "ignore").await)
        ),
        (200, id.clone())
    );
    let second = send("b", "ignore").await;
    assert_eq!((second.status.as_u16(), id_of(&second)), (200, id.clone()));
    assert_eq!(send("c", "reject").await.status, 409);
    by_key(&site, "cancel", json!({})).await.ok();
    // The repetition gets the task of its first answer, though the key is free.
    for mark in ["a", "b"] {
        let again = send(mark, "ignore").await;
        assert_eq!(
            (again.status.as_u16(), id_of(&again)),
            (200, id.clone()),
            "{mark}"
        );
        assert_eq!(again.json()["state"], "cancelled");
    }
    // One that was refused may take the key now.
    assert_eq!(send("c", "reject").await.status, 201);
    assert_eq!(send("c", "reject").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn large_contents_of_keyed_tasks_are_there_and_losers_leave_none() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let large = json!({"callback": "work", "key": "k", "delay": "1h", "payload": "x".repeat(9000), "on_conflict": "ignore"});
    let answers = join_all((0..4).map(|_| site.post("/v1/tasks", large.to_string()))).await;
    let ids: BTreeSet<String> = answers.iter().map(id_of).collect();
    let id = ids.first().unwrap();
    assert_eq!(ids.len(), 1);
    let task = site.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok();
    assert_eq!(task["payload"].as_str().map(str::len), Some(9000));
    assert_eq!(site.world.store.body_ids().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_takes_the_place_of_the_live_one() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let first = register(&site, "k", Some("replace")).await;
    assert_eq!(
        (first.status.as_u16(), &first.json()["outcome"]),
        (201, &json!("created"))
    );
    let old = id_of(&first);
    let second = register(&site, "k", Some("replace")).await;
    assert_eq!(
        (second.status.as_u16(), &second.json()["outcome"]),
        (201, &json!("replaced"))
    );
    let new = id_of(&second);
    assert_ne!(old, new);
    let task = site.get(&format!("/v1/tasks/{old}")).await.ok();
    assert_eq!(
        (&task["state"], &task["reason"]),
        (&json!("cancelled"), &json!("replaced"))
    );
    let found = site.get("/v1/tasks?callback=work&key=k").await.ok();
    assert_eq!(
        (&found["tasks"][0]["id"], &found["tasks"][0]["state"]),
        (&json!(new), &json!("scheduled"))
    );
    assert_eq!(
        register(&site, "k", None).await.json()["existing"],
        json!(new)
    );
    // A repetition that is marked replaces once.
    let send = async || {
        let mut request = request(Method::POST, "/v1/tasks", body("k", Some("replace")));
        request
            .headers_mut()
            .insert("idempotency-key", "once".parse().unwrap());
        site.send(request).await
    };
    let third = send().await;
    assert_eq!(
        (third.status.as_u16(), &third.json()["outcome"]),
        (201, &json!("replaced"))
    );
    let again = send().await;
    assert_eq!((again.status.as_u16(), id_of(&again)), (200, id_of(&third)));
    site.world.pass(70 * SECOND).await;
    for replaced in [old, new] {
        let id: TaskId = replaced.parse().unwrap();
        assert!(
            published(&site.world, id).is_empty(),
            "nobody is sent what was replaced"
        );
    }
    assert_eq!(
        published(&site.world, id_of(&third).parse().unwrap()).len(),
        1
    );
}

#[tokio::test]
async fn keys_that_cannot_be_are_refused_with_the_reason() {
    let site = Site::new();
    for (body, status, code, pointer) in [
        (
            json!({"kafka": {"topic": "t"}, "key": "k"}),
            422,
            "unusable_key",
            "/key",
        ),
        (
            json!({"callback": "c", "on_conflict": "ignore"}),
            400,
            "invalid_request",
            "/on_conflict",
        ),
        (
            json!({"callback": "c", "key": ""}),
            400,
            "invalid_request",
            "/key",
        ),
        (
            json!({"callback": "c", "key": "a\u{7}"}),
            400,
            "invalid_request",
            "/key",
        ),
        (
            json!({"callback": "c", "key": "k".repeat(KEY_CHARS_MAX + 1)}),
            400,
            "invalid_request",
            "/key",
        ),
    ] {
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        let got = (
            problem.status,
            problem.code.as_str(),
            problem.errors[0].pointer.as_str(),
        );
        assert_eq!(got, (status, code, pointer), "{body}");
    }
    let widest = json!({"callback": "c".repeat(128), "key": "\u{1f600}".repeat(KEY_CHARS_MAX)});
    assert_eq!(site.post("/v1/tasks", widest.to_string()).await.status, 201);
}
