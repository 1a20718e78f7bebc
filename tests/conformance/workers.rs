//! Workers claim, beat, report and die; tasks survive it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::service::{Behaviour, Service, echoes, millis, now, pause, text};

pub(super) async fn a_failed_attempt_is_repeated_and_the_last_one_is_dead(service: Arc<Service>) {
    let callback = service.name("fails");
    let fails: Behaviour = Arc::new(|_: &Value| {
        (
            Duration::ZERO,
            json!({"outcome": "retry", "error": "no route 17"}),
        )
    });
    let runs = service.worker(&callback, &fails);
    let retry = json!({"initial": "200ms", "factor": 1, "max": "200ms", "jitter": "none"});
    let id = service
        .register(json!({"callback": callback, "max_attempts": 3, "retry": retry}))
        .await;
    let task = service.ended(&id).await;
    assert_eq!(
        (&task["state"], &task["error"]),
        (&json!("dead"), &json!("no route 17")),
        "{task}"
    );
    assert_eq!(task["attempts"].as_array().unwrap().len(), 3, "{task}");
    let attempts: Vec<u64> = runs.lock().unwrap().iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let began: Vec<i64> = runs.lock().unwrap().iter().map(|run| run.began).collect();
    assert!(
        began.windows(2).all(|two| two[1] - two[0] >= 200),
        "{began:?}"
    );
}

pub(super) async fn heartbeats_show_progress_and_hear_of_a_cancel(service: Arc<Service>) {
    let callback = service.name("beats");
    let id = service
        .register(json!({"callback": callback, "heartbeat_timeout": "30s"}))
        .await;
    let task = service.handed(&callback).await;
    assert_eq!(
        service.heartbeat(&task, &json!({"done": 3})).await["status"],
        "ok"
    );
    service
        .until("progress is shown", || async {
            let shown = service.task(&id).await;
            shown["state"] == "processing" && shown["progress"]["done"] == 3
        })
        .await;
    let asked = service
        .post(&format!("/v1/tasks/{id}/cancel"), &json!({}))
        .await
        .ok();
    assert_eq!(asked["outcome"], "cancel_requested");
    assert_eq!(
        service.heartbeat(&task, &json!({"done": 4})).await["status"],
        "cancel_requested"
    );
    let other = json!({"id": task["id"], "attempt": 7});
    assert_eq!(service.heartbeat(&other, &json!(1)).await["status"], "lost");
    assert_eq!(
        service
            .settle(&other, &json!({"outcome": "succeeded"}))
            .await["status"],
        "lost"
    );
    assert_eq!(
        service
            .settle(&task, &json!({"outcome": "failed", "error": "stopped"}))
            .await["status"],
        "ok"
    );
    service.ended(&id).await;
}

pub(super) async fn a_lost_worker_costs_one_heartbeat_timeout(service: Arc<Service>) {
    let callback = service.name("dies");
    let body = json!({"callback": callback, "claim_timeout": "5s", "heartbeat_timeout": "5s"});
    let id = service.register(body).await;
    let lost = service.handed(&callback).await;
    let since = now();
    let again = service.handed(&callback).await;
    assert_eq!(
        (text(&again["id"]), again["attempt"].as_u64()),
        (id.clone(), Some(2))
    );
    let waited = now() - since;
    assert!((3000..40_000).contains(&waited), "{waited} ms");
    assert_eq!(
        service
            .settle(&lost, &json!({"outcome": "succeeded"}))
            .await["status"],
        "lost"
    );
    assert_eq!(
        service
            .settle(&again, &json!({"outcome": "succeeded"}))
            .await["status"],
        "ok"
    );
    let task = service.ended(&id).await;
    assert_eq!(
        (&task["state"], &task["attempt"]),
        (&json!("succeeded"), &json!(2))
    );
}

pub(super) async fn an_attempt_has_a_time_limit(service: Arc<Service>) {
    let callback = service.name("limit");
    let body = json!({"callback": callback, "attempt_timeout": "4s", "claim_timeout": "5s",
        "heartbeat_timeout": "30s", "max_attempts": 1});
    let registered = now();
    let id = service.register(body).await;
    let task = service.handed(&callback).await;
    let mut beats = 0;
    while service.heartbeat(&task, &json!(beats)).await["status"] == "ok" {
        beats += 1;
        assert!(beats < 100, "heartbeats go on");
        pause(500).await;
    }
    // A busy machine sends few heartbeats, and each may be late. None is refused within the limit.
    let lasted = now() - registered;
    assert!(lasted >= 4000, "refused after {lasted} ms");
    let ended = service.ended(&id).await;
    assert_eq!(ended["state"], "dead", "{ended}");
}

pub(super) async fn a_snoozed_task_comes_again_and_spends_no_attempt(service: Arc<Service>) {
    let callback = service.name("snoozes");
    let id = service
        .register(json!({"callback": callback, "max_attempts": 1}))
        .await;
    let task = service.handed(&callback).await;
    let since = now();
    let report = json!({"outcome": "snoozed", "delay": "1s"});
    assert_eq!(service.settle(&task, &report).await["status"], "ok");
    let again = service.handed(&callback).await;
    assert!(text(&again["id"]) == id && now() - since >= 1000);
    service
        .settle(&again, &json!({"outcome": "succeeded"}))
        .await;
    assert_eq!(service.ended(&id).await["state"], "succeeded");
}

pub(super) async fn results_are_kept_up_to_a_mebibyte(service: Arc<Service>) {
    let callback = service.name("results");
    let large = "x".repeat(1024 * 1024 - 2);
    let id = service.register(json!({"callback": callback})).await;
    let task = service.handed(&callback).await;
    let refused = service
        .settle(
            &task,
            &json!({"outcome": "succeeded", "result": format!("{large}xx")}),
        )
        .await;
    assert_ne!(refused["status"], "ok", "{refused}");
    let report = json!({"outcome": "succeeded", "result": large});
    assert_eq!(service.settle(&task, &report).await["status"], "ok");
    assert_eq!(service.ended(&id).await["result"], large.as_str());
    let id = service.register(json!({"callback": callback})).await;
    let task = service.handed(&callback).await;
    let report = json!({"outcome": "succeeded", "result_base64": "aGVsbG8=", "result_content_type": "text/plain"});
    service.settle(&task, &report).await;
    let ended = service.ended(&id).await;
    assert_eq!(ended["result_base64"], "aGVsbG8=");
    assert_eq!(ended["result_content_type"], "text/plain");
    service.worker(&callback, &echoes(1));
    let id = service
        .register(json!({"callback": callback, "payload_base64": "AAEC", "content_type": "a/b"}))
        .await;
    let ended = service.ended(&id).await;
    assert!(millis(&ended["end_time"]) >= millis(&ended["start_time"]));
}
