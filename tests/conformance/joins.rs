//! Tasks wait for others, and start behind them or end with them.

use std::sync::Arc;

use serde_json::json;

use super::service::{Service, echoes};

pub(super) async fn a_task_waits_for_others(service: Arc<Service>) {
    let callback = service.name("join");
    let runs = service.worker(&callback, &echoes(10));
    let first = [
        json!({"callback": callback, "delay": "1s"}),
        json!({"callback": callback, "delay": "2s"}),
    ];
    let [one, two] = first.map(|body| service.register(body));
    let ids = [one.await, two.await];
    let join = service
        .register(json!({"callback": callback, "after": {"ids": ids}}))
        .await;
    let last = service
        .register(json!({"callback": callback, "after": {"ids": [join]}}))
        .await;
    assert_eq!(service.ended(&last).await["state"], "succeeded");
    assert_eq!(runs.lock().unwrap().len(), 4, "each has run once");
    let (join, two) = (service.task(&join).await, service.task(&ids[1]).await);
    assert!(
        join["start_time"].as_str() >= two["end_time"].as_str(),
        "{join} behind {two}"
    );
    let open = service
        .register(json!({"callback": callback, "delay": "1h"}))
        .await;
    let wants = service
        .register(json!({"callback": callback, "after": {"ids": [open]}}))
        .await;
    let late = service
        .register(json!({"callback": callback, "after": {"ids": [open], "deadline": "1s"}}))
        .await;
    let late = service.ended(&late).await;
    assert_eq!(
        (&late["state"], &late["reason"]),
        (&json!("failed"), &json!("deadline_passed")),
        "{late}"
    );
    let cancel = format!("/v1/tasks/{open}/cancel");
    service.post(&cancel, &json!({})).await.ok();
    assert_eq!(service.ended(&wants).await["reason"], "dependency_failed");
}
