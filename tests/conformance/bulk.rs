//! Dead letters are found and run again, and jobs change many tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};

use super::service::{Behaviour, Service, text};

pub(super) async fn dead_tasks_are_grouped_and_run_again(service: Arc<Service>) {
    let callback = service.name("dead");
    let healthy = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&healthy);
    service.worker(
        &callback,
        &(Arc::new(move |_: &Value| {
            let report = if well.load(Ordering::SeqCst) {
                json!({"outcome": "succeeded"})
            } else {
                json!({"outcome": "retry", "error": "timeout after 30 ms"})
            };
            (Duration::ZERO, report)
        }) as Behaviour),
    );
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(
            service
                .register(json!({"callback": callback, "max_attempts": 1}))
                .await,
        );
    }
    for id in &ids {
        assert_eq!(service.ended(id).await["state"], "dead");
    }
    let of_callback = format!("/v1/dead-letters?callback={callback}");
    service
        .until("all are listed", || async {
            service.get(&of_callback).await.ok()["dead_letters"]
                .as_array()
                .unwrap()
                .len()
                == 4
        })
        .await;
    let groups = service
        .get(&format!("/v1/dead-letters:groups?callback={callback}"))
        .await
        .ok();
    let groups = groups
        .as_array()
        .or_else(|| groups["groups"].as_array())
        .unwrap()
        .clone();
    assert_eq!(
        (groups.len(), &groups[0]["tasks"]),
        (1, &json!(4)),
        "{groups:?}"
    );
    assert_eq!(groups[0]["error"], "timeout after # ms");
    let removed = service
        .send(
            Method::DELETE,
            &format!("/v1/dead-letters/{}", ids[3]),
            &[],
            None,
        )
        .await;
    assert!((200..300).contains(&removed.status), "{removed:?}");
    service
        .get(&format!("/v1/tasks/{}", ids[3]))
        .await
        .problem(404);
    healthy.store(true, Ordering::SeqCst);
    let one = service
        .post("/v1/dead-letters/redrive", &json!({"ids": [ids[0]]}))
        .await
        .ok();
    assert!(one.to_string().contains("redriven"), "{one}");
    let rest = json!({"callback": callback});
    let job = ended_job(&service, "/v1/dead-letters/redrive", &rest).await;
    assert_eq!(
        (&job["done"], &job["failed"]),
        (&json!(2), &json!(0)),
        "{job}"
    );
    for id in &ids[..3] {
        let task = service.ended(id).await;
        assert_eq!(
            (&task["state"], &task["attempt"]),
            (&json!("succeeded"), &json!(2)),
            "{task}"
        );
    }
    service
        .until("none is listed", || async {
            service.get(&of_callback).await.ok()["dead_letters"] == json!([])
        })
        .await;
}

/// Registers a job by this call, and returns it at its end.
async fn ended_job(service: &Service, call: &str, body: &Value) -> Value {
    let reply = service.post(call, body).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let path = format!("/v1/jobs/{}", text(&reply.body["id"]));
    service
        .until("the job has ended", || async {
            service.get(&path).await.ok()["state"] == "completed"
        })
        .await;
    service.get(&path).await.ok()
}

pub(super) async fn a_job_cancels_what_its_filter_finds(service: Arc<Service>) {
    let callback = service.name("job");
    let mut ids = Vec::new();
    for number in 0..6 {
        let tenant = if number < 4 { "acme" } else { "other" };
        ids.push(
            service
                .register(
                    json!({"callback": callback, "delay": "5m", "labels": {"tenant": tenant}}),
                )
                .await,
        );
    }
    let until = jiff::Timestamp::from_millisecond(super::service::now() + 600_000).unwrap();
    let filter = json!({"callback": callback, "labels": {"tenant": "acme"}, "start_time_to": until.to_string()});
    let finished = async |body: Value| ended_job(&service, "/v1/jobs", &body).await;
    let dry = finished(json!({"kind": "cancel", "filter": filter, "dry_run": true})).await;
    assert_eq!(dry["sample"].as_array().unwrap().len(), 4, "{dry}");
    assert_eq!(service.task(&ids[0]).await["state"], "scheduled");
    let done = finished(json!({"kind": "cancel", "filter": filter})).await;
    assert_eq!(
        (&done["done"], &done["failed"]),
        (&json!(4), &json!(0)),
        "{done}"
    );
    for (number, id) in ids.iter().enumerate() {
        let wanted = if number < 4 { "cancelled" } else { "scheduled" };
        assert_eq!(service.task(id).await["state"], wanted);
    }
    service
        .post("/v1/jobs", &json!({"kind": "cancel", "filter": {}}))
        .await
        .problem(422);
}

pub(super) async fn a_dead_task_is_a_record_in_the_topic_of_its_callback(service: Arc<Service>) {
    let Some(topics) = &service.topics else {
        return;
    };
    let (callback, topic) = (service.name("letters"), service.name("letters.dlt"));
    topics.create(&topic).await;
    let configured = json!({"dead_letter_topic": topic, "max_attempts": 1});
    let path = format!("/v1/callbacks/{callback}");
    service.put(&path, &configured).await.ok();
    super::service::pause(2100).await;
    let id = service
        .register(json!({"callback": callback, "payload": {"n": 7}}))
        .await;
    let task = service.handed(&callback).await;
    let report = json!({"outcome": "retry", "error": "no route"});
    service.settle(&task, &report).await;
    assert_eq!(service.ended(&id).await["state"], "dead");
    let record = topics.first(&topic).await;
    assert_eq!(record.value, br#"{"n":7}"#);
    assert_eq!(record.key.as_deref(), Some(id.as_bytes()));
}
