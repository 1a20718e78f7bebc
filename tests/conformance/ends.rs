//! Tasks go to URLs and topics, and their ends are told there.

use std::sync::Arc;

use serde_json::json;

use super::{
    receiver::Receiver,
    service::{Service, echoes},
};

pub(super) async fn ends_are_told_to_a_topic_and_a_url(service: Arc<Service>) {
    let callback = service.name("told");
    let receiver = Receiver::start(&[500]).await;
    service.worker(&callback, &echoes(1));
    let notify = json!({"http": {"url": receiver.url()}});
    let id = service
        .register(json!({"callback": callback, "payload": 7, "notify": notify}))
        .await;
    let silent = json!({"http": {"url": receiver.url()}, "states": ["dead"]});
    let other = service
        .register(json!({"callback": callback, "notify": silent}))
        .await;
    service.ended(&other).await;
    service
        .until("the end is told", || async { receiver.sent().len() >= 2 })
        .await;
    let sent = receiver.sent();
    assert!(
        sent.iter()
            .all(|one| one.body["data"]["task_id"] == id.as_str()),
        "{sent:?}"
    );
    assert_eq!(sent[0].body["type"], "task.succeeded");
    assert_eq!(
        sent[0].headers["webhook-id"], sent[1].headers["webhook-id"],
        "it is the same message"
    );
    assert_eq!(sent[1].body["data"]["task"]["result"], 7);
    let Some(topics) = &service.topics else {
        return;
    };
    let topic = service.name("ends");
    topics.create(&topic).await;
    let notify = json!({"kafka": {"topic": topic}});
    let id = service
        .register(json!({"callback": callback, "notify": notify}))
        .await;
    let record = topics.first(&topic).await;
    assert_eq!(record.key.as_deref(), Some(id.as_bytes()));
    assert_eq!(
        record.header("ce_type").as_deref(),
        Some("tickwheel.task.succeeded")
    );
}

pub(super) async fn http_tasks_are_delivered_signed(service: Arc<Service>) {
    let callback = service.name("hooks");
    let receiver = Receiver::start(&[503]).await;
    // Bytes 0 to 31.
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let configured = json!({"http": {"secrets": [secret]},
        "retry": {"initial": "200ms", "factor": 1, "max": "200ms"}});
    let set = service
        .put(&format!("/v1/callbacks/{callback}"), &configured)
        .await
        .ok();
    assert!(!set.to_string().contains(secret), "{set}");
    super::service::pause(2100).await;
    let http = json!({"url": receiver.url(), "headers": {"x-tenant": "acme"}});
    let id = service
        .register(json!({"callback": callback, "http": http, "payload": {"user": 7}}))
        .await;
    let task = service.ended(&id).await;
    assert_eq!(
        (&task["state"], &task["attempt"]),
        (&json!("succeeded"), &json!(2)),
        "{task}"
    );
    assert_eq!(task["result"], json!({"received": true}), "{task}");
    let sent = receiver.sent();
    assert_eq!(sent.len(), 2);
    for one in &sent {
        assert_eq!(one.body, json!({"user": 7}));
        assert_eq!(one.headers["webhook-id"], id.as_str());
        assert_eq!(one.headers["x-tenant"], "acme");
        assert!(
            one.headers["webhook-signature"]
                .to_str()
                .unwrap()
                .starts_with("v1,")
        );
    }
    let metadata = json!({"http": {"url": "http://169.254.169.254/latest"}, "max_attempts": 1});
    let refused = service.post("/v1/tasks", &metadata).await;
    if refused.status == 201 {
        let id = super::service::text(&refused.body["id"]);
        assert_ne!(service.ended(&id).await["state"], "succeeded");
    }
    service
        .post("/v1/tasks", &json!({"http": {"url": "ftp://a.example"}}))
        .await
        .problem(400);
    service
        .post(
            "/v1/tasks",
            &json!({"http": {"url": "http://u:p@a.example"}}),
        )
        .await
        .problem(400);
}

pub(super) async fn a_kafka_task_is_a_record_in_its_topic(service: Arc<Service>) {
    let topic = service.name("records");
    let kafka = json!({"topic": topic, "key": "k", "headers": {"a": "b"}});
    let Some(topics) = &service.topics else {
        // It says so at once, and not when the task is due.
        let refused = service
            .post("/v1/tasks", &json!({"kafka": kafka, "delay": "1h"}))
            .await;
        assert_eq!(refused.problem(400), "unsupported");
        return;
    };
    topics.create(&topic).await;
    let id = service
        .register(json!({"kafka": kafka, "delay": "1s", "payload": {"n": 1}}))
        .await;
    let record = topics.first(&topic).await;
    assert_eq!(record.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(record.value, br#"{"n":1}"#);
    assert_eq!(record.header("tickwheel-task-id"), Some(id));
    assert_eq!(record.header("a").as_deref(), Some("b"));
}
