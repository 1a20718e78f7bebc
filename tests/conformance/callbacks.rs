//! Callbacks have defaults, gates and limits that hold on every node.

use std::{sync::Arc, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use super::service::{Run, Service, echoes, now, pause};

async fn set(service: &Service, callback: &str, body: Value) {
    service
        .put(&format!("/v1/callbacks/{callback}"), &body)
        .await
        .ok();
    pause(2100).await;
}

async fn gate(service: &Service, callback: &str, body: Value) {
    service
        .post(&format!("/v1/callbacks/{callback}/gate"), &body)
        .await
        .ok();
}

pub(super) async fn defaults_are_in_force_within_two_seconds(service: Arc<Service>) {
    let callback = service.name("defaults");
    set(
        &service,
        &callback,
        json!({"max_attempts": 3, "priority": "high", "labels": {"team": "mail"}}),
    )
    .await;
    // Every node knows.
    for _ in 0..3 {
        let id = service
            .register(json!({"callback": callback, "delay": "1h"}))
            .await;
        let task = service.task(&id).await;
        assert_eq!(
            (&task["max_attempts"], &task["priority"]),
            (&json!(3), &json!("high")),
            "{task}"
        );
        assert_eq!(task["labels"]["team"], "mail");
    }
    let id = service
        .register(json!({"callback": callback, "delay": "1h", "max_attempts": 5}))
        .await;
    assert_eq!(service.task(&id).await["max_attempts"], 5);
    let listed = service.get("/v1/callbacks").await.ok();
    assert!(listed.to_string().contains(&callback), "{listed}");
    let path = format!("/v1/callbacks/{callback}");
    let removed = service.send(Method::DELETE, &path, &[], None).await;
    assert!((200..300).contains(&removed.status), "{removed:?}");
}

pub(super) async fn a_stale_etag_changes_nothing(service: Arc<Service>) {
    let path = format!("/v1/callbacks/{}", service.name("etags"));
    let none = [("if-none-match", "*")];
    let created = service
        .send(Method::PUT, &path, &none, Some(&json!({"max_attempts": 2})))
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    let etag = created.headers["etag"].to_str().unwrap().to_owned();
    service
        .send(Method::PUT, &path, &none, Some(&json!({"max_attempts": 3})))
        .await
        .problem(412);
    let matching = [("if-match", etag.as_str())];
    service
        .send(
            Method::PUT,
            &path,
            &matching,
            Some(&json!({"max_attempts": 4})),
        )
        .await
        .ok();
    service
        .send(
            Method::PUT,
            &path,
            &matching,
            Some(&json!({"max_attempts": 5})),
        )
        .await
        .problem(412);
    assert_eq!(service.get(&path).await.ok()["max_attempts"], 4);
    service
        .put(&path, &json!({"max_attempts": 0}))
        .await
        .problem(400);
    service
        .put(&path, &json!({"retry": {"factor": 0.5}}))
        .await
        .problem(400);
    service
        .put(&path, &json!({"rate": {"per_second": 0}}))
        .await
        .problem(400);
}

pub(super) async fn a_paused_callback_starts_nothing_until_it_opens(service: Arc<Service>) {
    let callback = service.name("paused");
    let runs = service.worker(&callback, &echoes(1));
    gate(
        &service,
        &callback,
        json!({"gate": "paused", "reason": "repair"}),
    )
    .await;
    pause(2000).await;
    let paused = now();
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(
            service
                .register(json!({"callback": callback, "delay": format!("{}ms", number * 200)}))
                .await,
        );
    }
    pause(4000).await;
    assert!(
        runs.lock().unwrap().iter().all(|run| run.began < paused),
        "nothing starts"
    );
    let shown = service.get(&format!("/v1/callbacks/{callback}")).await.ok();
    assert_eq!(shown["gate"], "paused");
    assert!(shown.to_string().contains("repair"), "{shown}");
    gate(&service, &callback, json!({"gate": "open"})).await;
    for id in &ids {
        assert_eq!(service.ended(id).await["state"], "succeeded");
    }
}

pub(super) async fn a_gate_that_drops_ends_due_tasks(service: Arc<Service>) {
    let callback = service.name("dropped");
    service.worker(&callback, &echoes(1));
    gate(
        &service,
        &callback,
        json!({"gate": "dropping", "collection": "bulk"}),
    )
    .await;
    pause(2100).await;
    let dropped = service
        .register(json!({"callback": callback, "collection": "bulk"}))
        .await;
    let other = service.register(json!({"callback": callback})).await;
    let task = service.ended(&dropped).await;
    assert_eq!(
        (&task["state"], &task["reason"]),
        (&json!("cancelled"), &json!("dropped")),
        "{task}"
    );
    assert_eq!(service.ended(&other).await["state"], "succeeded");
}

pub(super) async fn a_rate_is_kept(service: Arc<Service>) {
    let callback = service.name("rate");
    set(
        &service,
        &callback,
        json!({"rate": {"per_second": 10, "burst": 5}}),
    )
    .await;
    let runs = service.worker(&callback, &echoes(1));
    let tasks: Vec<Value> = (0..80).map(|_| json!({"callback": callback})).collect();
    service
        .post("/v1/tasks:batchCreate", &json!({"tasks": tasks}))
        .await
        .ok();
    service
        .until("all have run", || async {
            runs.lock().unwrap().len() == 80
        })
        .await;
    let mut began: Vec<i64> = runs.lock().unwrap().iter().map(|run| run.began).collect();
    began.sort_unstable();
    // In any second eleven tenths of the rate and the burst, and what a slow machine lets come together.
    let took = began[79] - began[0];
    assert!(
        took >= 6500,
        "80 tasks of 10/s with a burst of 5 took {took} ms"
    );
}

/// Most attempts that ran at one moment.
fn most_at_once(runs: &[Run]) -> usize {
    let at_once = |run: &Run| {
        runs.iter()
            .filter(|other| other.began <= run.began && run.began < other.ended)
            .count()
    };
    runs.iter().map(at_once).max().unwrap_or(0)
}

pub(super) async fn no_more_attempts_run_than_allowed(service: Arc<Service>) {
    let callback = service.name("in_flight");
    set(&service, &callback, json!({"max_in_flight": 3})).await;
    let runs = service.worker(&callback, &echoes(500));
    let tasks: Vec<Value> = (0..15).map(|_| json!({"callback": callback})).collect();
    service
        .post("/v1/tasks:batchCreate", &json!({"tasks": tasks}))
        .await
        .ok();
    service
        .until("all have run", || async {
            runs.lock().unwrap().len() == 15
        })
        .await;
    let most = most_at_once(&runs.lock().unwrap());
    assert!((2..=3).contains(&most), "{most} at once");
}

pub(super) async fn a_flood_of_another_callback_delays_little(service: Arc<Service>) {
    let (flood, calm) = (service.name("flood"), service.name("calm"));
    for _ in 0..5 {
        let tasks: Vec<Value> = (0..1000)
            .map(|_| json!({"callback": flood, "priority": "low"}))
            .collect();
        service
            .post("/v1/tasks:batchCreate", &json!({"tasks": tasks}))
            .await
            .ok();
    }
    let runs = service.worker(&calm, &echoes(1));
    // The first task makes the topics of the callback, and a consumer at each node.
    let first = service.register(json!({"callback": calm})).await;
    service.ended(&first).await;
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let id = service.register(json!({"callback": calm})).await;
        service.ended(&id).await;
        let run = runs
            .lock()
            .unwrap()
            .iter()
            .find(|run| run.id == id)
            .cloned()
            .unwrap();
        let start = super::service::millis(&run.task["start_time"]);
        worst = worst.max(Duration::from_millis(
            u64::try_from(run.began - start).unwrap(),
        ));
    }
    // No worker takes the flood, so it waits all the time. The bound is wide: other promises run beside this one.
    assert!(worst < Duration::from_secs(10), "{worst:?}");
}
