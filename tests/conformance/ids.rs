//! Repeated registrations are one task, keys are one live task, and sequences keep their order.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use super::service::{Run, Service, echoes, text};

pub(super) async fn a_repeated_request_is_one_task(service: Arc<Service>) {
    let (callback, key) = (service.name("repeats"), service.name("request"));
    let headers = [("idempotency-key", key.as_str())];
    let body = json!({"callback": callback, "delay": "1h", "payload": 1});
    let first = service
        .send(Method::POST, "/v1/tasks", &headers, Some(&body))
        .await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = service
        .send(Method::POST, "/v1/tasks", &headers, Some(&body))
        .await;
    assert_eq!(
        (again.status, &again.body["outcome"]),
        (200, &json!("existing")),
        "{again:?}"
    );
    assert_eq!(again.body["id"], first.body["id"]);
    let other = json!({"callback": callback, "delay": "2h", "payload": 1});
    service
        .send(Method::POST, "/v1/tasks", &headers, Some(&other))
        .await
        .problem(422);
}

pub(super) async fn a_key_is_one_live_task(service: Arc<Service>) {
    let callback = service.name("keyed");
    let body = |conflict: &str| json!({"callback": callback, "key": "k", "on_conflict": conflict, "delay": "1h"});
    // Many at once leave one.
    let (one, two, three) = (body("reject"), body("reject"), body("reject"));
    let (one, two, three) = tokio::join!(
        service.post("/v1/tasks", &one),
        service.post("/v1/tasks", &two),
        service.post("/v1/tasks", &three)
    );
    let mut statuses = [one.status, two.status, three.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409]);
    let created = [&one, &two, &three]
        .into_iter()
        .find(|reply| reply.status == 201)
        .unwrap();
    let refused = [&one, &two, &three]
        .into_iter()
        .find(|reply| reply.status == 409)
        .unwrap();
    let id = text(&created.body["id"]);
    assert_eq!(refused.body["existing"], id.as_str(), "{refused:?}");
    let existing = service.post("/v1/tasks", &body("ignore")).await;
    assert_eq!(
        (existing.status, &existing.body["outcome"]),
        (200, &json!("existing"))
    );
    let replaced = service.post("/v1/tasks", &body("replace")).await;
    assert_eq!(
        (replaced.status, &replaced.body["outcome"]),
        (201, &json!("replaced")),
        "{replaced:?}"
    );
    let live = text(&replaced.body["id"]);
    assert_ne!(live, id);
    let old = service.ended(&id).await;
    assert_eq!(
        (&old["state"], &old["reason"]),
        (&json!("cancelled"), &json!("replaced")),
        "{old}"
    );
    let found = service
        .get(&format!("/v1/tasks?callback={callback}&key=k"))
        .await
        .ok();
    assert_eq!(found["tasks"][0]["id"], live.as_str(), "{found}");
    let of_key = json!({"callback": callback, "key": "k"});
    assert_eq!(
        service.post("/v1/tasks:cancel", &of_key).await.ok()["outcome"],
        "cancelled"
    );
    let free = service.post("/v1/tasks", &body("reject")).await;
    assert_eq!(
        free.status, 201,
        "a key of a task that has ended is free: {free:?}"
    );
    let unknown = json!({"callback": callback, "key": "unknown"});
    service
        .post("/v1/tasks:cancel", &unknown)
        .await
        .problem(404);
}

pub(super) async fn an_ordering_key_runs_one_at_a_time_in_order(service: Arc<Service>) {
    let callback = service.name("ordered");
    let mut ids = Vec::new();
    for number in 0..6 {
        let body = json!({"callback": callback, "ordering_key": "order-1", "delay": format!("{}ms", 3000 + number * 10),
            "payload": number});
        ids.push(service.register(body).await);
    }
    let beside = service
        .register(json!({"callback": callback, "ordering_key": "order-2", "delay": "3s"}))
        .await;
    let runs = service.worker(&callback, &echoes(200));
    for id in ids.iter().chain([&beside]) {
        assert_eq!(service.ended(id).await["state"], "succeeded");
    }
    let runs = runs.lock().unwrap().clone();
    let mut own: Vec<&Run> = runs.iter().filter(|run| run.id != beside).collect();
    own.sort_by_key(|run| run.began);
    let order: Vec<&Value> = own.iter().map(|run| &run.task["payload"]).collect();
    assert_eq!(
        order,
        [0, 1, 2, 3, 4, 5]
            .map(Value::from)
            .iter()
            .collect::<Vec<_>>()
    );
    assert!(
        own.windows(2).all(|two| two[0].ended <= two[1].began),
        "two run at once: {own:?}"
    );
}
