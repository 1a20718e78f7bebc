//! Tasks start at their times, are moved, cancelled and found.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use super::service::{Service, echoes, millis, now, text};

pub(super) async fn tasks_start_at_their_times_and_once(service: Arc<Service>) {
    let callback = service.name("starts");
    let runs = service.worker(&callback, &echoes(10));
    let mut ids = Vec::new();
    for delay in [0, 300, 900, 1500, 4000, 9000] {
        let delay = format!("{delay}ms");
        ids.push(
            service
                .register(json!({"callback": callback, "delay": delay, "payload": {"n": delay}}))
                .await,
        );
    }
    for id in &ids {
        let task = service.ended(id).await;
        assert_eq!(task["state"], "succeeded", "{task}");
        assert!(task["result"]["n"].is_string(), "{task}");
        let mine: Vec<_> = runs
            .lock()
            .unwrap()
            .iter()
            .filter(|run| run.id == *id)
            .cloned()
            .collect();
        assert_eq!(mine.len(), 1, "{mine:?}");
        assert!(
            mine[0].began >= millis(&task["start_time"]),
            "early: {task} at {}",
            mine[0].began
        );
    }
}

pub(super) async fn one_bad_task_fails_only_itself(service: Arc<Service>) {
    let callback = service.name("batch");
    let tasks = json!({"tasks": [{"callback": callback, "delay": "1h"}, {"callback": "", "delay": "1h"},
        {"callback": callback, "delay": "1h"}]});
    let answer = service.post("/v1/tasks:batchCreate", &tasks).await.ok();
    let results = answer["results"].as_array().unwrap();
    assert!(
        results[0]["task"]["id"].is_string() && results[2]["task"]["id"].is_string(),
        "{answer}"
    );
    assert!(results[1]["error"]["code"].is_string(), "{answer}");
    let refused = service
        .post("/v1/tasks", &json!({"callback": callback, "dely": "1h"}))
        .await;
    refused.problem(400);
    assert!(
        refused.body.to_string().contains("`delay`"),
        "it names the nearest field: {refused:?}"
    );
}

pub(super) async fn a_cancel_says_who_won(service: Arc<Service>) {
    let callback = service.name("cancels");
    let id = service
        .register(json!({"callback": callback, "delay": "1h"}))
        .await;
    let path = format!("/v1/tasks/{id}/cancel");
    let first = service.post(&path, &json!({})).await.ok();
    assert_eq!(
        (&first["outcome"], &first["task"]["state"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert_eq!(
        service.post(&path, &json!({})).await.ok()["outcome"],
        "already_cancelled"
    );
    service.worker(&callback, &echoes(10));
    let id = service.register(json!({"callback": callback})).await;
    service.ended(&id).await;
    let late = service
        .post(&format!("/v1/tasks/{id}/cancel"), &json!({}))
        .await
        .ok();
    assert_eq!(late["outcome"], "too_late");
    service
        .post(
            "/v1/tasks/00000000-0000-8000-8000-000000000000/cancel",
            &json!({}),
        )
        .await
        .problem(404);
}

pub(super) async fn a_reschedule_moves_a_task_and_honours_if_match(service: Arc<Service>) {
    let callback = service.name("moves");
    let runs = service.worker(&callback, &echoes(10));
    let registered = service
        .post("/v1/tasks", &json!({"callback": callback, "delay": "1h"}))
        .await;
    let etag = registered.headers["etag"].to_str().unwrap().to_owned();
    let id = text(&registered.ok()["id"]);
    let path = format!("/v1/tasks/{id}/reschedule");
    let matching = [("if-match", etag.as_str())];
    let moved = service
        .send(
            Method::POST,
            &path,
            &matching,
            Some(&json!({"delay": "30m"})),
        )
        .await;
    assert_eq!(moved.ok()["outcome"], "rescheduled");
    let stale = service
        .send(
            Method::POST,
            &path,
            &matching,
            Some(&json!({"delay": "0s"})),
        )
        .await;
    stale.problem(412);
    let asked = now();
    service.post(&path, &json!({"delay": "1s"})).await.ok();
    let task = service.ended(&id).await;
    assert_eq!(task["state"], "succeeded");
    let runs = runs.lock().unwrap().clone();
    assert!(runs.len() == 1 && runs[0].began >= asked + 1000, "{runs:?}");
}

pub(super) async fn run_starts_a_task_now(service: Arc<Service>) {
    let callback = service.name("runs");
    service.worker(&callback, &echoes(10));
    let id = service
        .register(json!({"callback": callback, "delay": "1h"}))
        .await;
    service
        .post(&format!("/v1/tasks/{id}/run"), &json!({}))
        .await
        .ok();
    assert_eq!(service.ended(&id).await["state"], "succeeded");
}

pub(super) async fn a_task_that_is_too_late_expires(service: Arc<Service>) {
    let callback = service.name("expires");
    let id = service
        .register(json!({"callback": callback, "expire_after": "1s"}))
        .await;
    super::service::pause(1500).await;
    assert_eq!(
        service.poll(&callback, 1, "2s").await,
        Vec::<Value>::new(),
        "it comes too late"
    );
    let task = service.ended(&id).await;
    assert_eq!(
        (&task["state"], &task["attempt"]),
        (&json!("expired"), &json!(0))
    );
}

pub(super) async fn lists_find_tasks_by_label_and_state(service: Arc<Service>) {
    let callback = service.name("lists");
    service
        .put(
            &format!("/v1/callbacks/{callback}"),
            &json!({"indexed_labels": ["tenant"]}),
        )
        .await
        .ok();
    super::service::pause(2100).await;
    let mut ids = Vec::new();
    for tenant in ["a", "b", "a"] {
        let body = json!({"callback": callback, "delay": "1h", "labels": {"tenant": tenant}});
        ids.push(service.register(body).await);
    }
    service
        .post(&format!("/v1/tasks/{}/cancel", ids[2]), &json!({}))
        .await
        .ok();
    let found = |query: String| {
        let (service, callback) = (Arc::clone(&service), callback.clone());
        async move {
            let page = service
                .get(&format!("/v1/tasks?callback={callback}&{query}"))
                .await
                .ok();
            let tasks = page["tasks"].as_array().unwrap().clone();
            tasks
                .iter()
                .map(|task| text(&task["id"]))
                .collect::<Vec<_>>()
        }
    };
    let mut labelled = found("label.tenant=a".to_owned()).await;
    labelled.sort();
    let mut wanted = vec![ids[0].clone(), ids[2].clone()];
    wanted.sort();
    assert_eq!(labelled, wanted);
    assert_eq!(
        found("label.tenant=b&state=scheduled".to_owned()).await,
        [ids[1].clone()]
    );
    assert_eq!(
        found("label.tenant=c".to_owned()).await,
        Vec::<String>::new()
    );
}
