//! A callback has a record of each of its dead tasks published to a topic.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{app::executor::Executor, model::state::Outcome};
use tokio_util::sync::CancellationToken;

use super::Site;
use crate::sim::world::{Behaviour, World};

const SECOND: Duration = Duration::from_secs(1);
const TOPIC: &str = "mail.dlt";

/// A site with an executor and a callback `work` that names the topic. Tasks of `work` fail and are tried once.
async fn site() -> Site {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: None,
    };
    tokio::spawn(executor.run(CancellationToken::new()));
    world.pass(SECOND * 3).await;
    let site = Site::of(world, node);
    let policy = json!({"max_attempts": 1, "dead_letter_topic": TOPIC});
    let answer = site.put("/v1/callbacks/work", &policy).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["dead_letter_topic"], TOPIC);
    site.world.pass(SECOND * 3).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route to 7\nline 2".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    site.world.worker(site.node.service(), fails);
    site
}

async fn registered(site: &Site, body: Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Each record: its key, its value and a header of it.
fn records(site: &Site, header: &str) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let records = site.world.queue.records(TOPIC).into_iter();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    records
        .map(|published| {
            let record = published.record.clone();
            let found = record.headers.iter().find(|(name, _)| name == header);
            let value = found.map(|(_, value)| value.to_vec()).unwrap_or_default();
            (text(&record.key.unwrap()), record.value.to_vec(), value)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_death_has_a_record_with_the_payload_as_it_was_sent() {
    let site = site().await;
    site.world.queue.create_topic(TOPIC, None);
    let small = registered(&site, json!({"callback": "work", "payload": {"user": 7}})).await;
    let large = json!({"callback": "work", "payload": "x".repeat(20_000)});
    let large = registered(&site, large).await;
    let raw = json!({"callback": "work", "payload_base64": "AAH/", "content_type": "image/png"});
    let raw = registered(&site, raw).await;
    let other = registered(&site, json!({"callback": "work", "delay": "1h"})).await;
    site.post(&format!("/v1/tasks/{other}/cancel"), "")
        .await
        .ok();
    site.world.pass(SECOND * 10).await;
    let value = |id: &String| {
        let found = records(&site, "content-type").into_iter();
        let mut found = found.filter(|(key, ..)| key == id);
        let (_, value, kind) = found.next().unwrap();
        assert!(found.next().is_none(), "one record for one death");
        (value, String::from_utf8(kind).unwrap())
    };
    assert_eq!(
        value(&small),
        (b"{\"user\":7}".to_vec(), "application/json".to_owned())
    );
    assert_eq!(value(&large).0.len(), 20_002);
    assert_eq!(value(&raw), (vec![0, 1, 255], "image/png".to_owned()));
    assert_eq!(records(&site, "ce_id").len(), 3, "no record of a cancel");
    let header = |name: &str| {
        let found = records(&site, name).into_iter();
        found
            .filter(|(key, ..)| *key == small)
            .map(|(.., value)| value)
            .next()
            .unwrap()
    };
    let text = |name: &str| String::from_utf8(header(name)).unwrap();
    assert_eq!(text("kafka_dlt-original-topic"), "tickwheel.work.normal");
    assert_eq!(text("kafka_dlt-original-consumer-group"), "tickwheel.work");
    assert_eq!(text("kafka_dlt-exception-fqcn"), "no route to #");
    assert_eq!(text("kafka_dlt-exception-message"), "no route to 7\nline 2");
    assert_eq!(text("tickwheel-callback"), "work");
    assert_eq!(text("tickwheel-attempts"), "1");
    assert_eq!(text("tickwheel-task-id"), small);
    assert_eq!(header("kafka_dlt-original-timestamp").len(), 8);
}

/// The topic appears later, and the task is redriven meanwhile. Each death has its record.
#[tokio::test(start_paused = true)]
async fn a_record_waits_for_its_topic_also_behind_a_redrive() {
    let site = site().await;
    let id = registered(&site, json!({"callback": "work", "payload": 1})).await;
    site.world.pass(SECOND * 10).await;
    site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    site.world.pass(SECOND * 10).await;
    assert!(records(&site, "ce_id").is_empty());
    site.world.queue.create_topic(TOPIC, None);
    site.world.pass(SECOND * 70).await;
    let told = records(&site, "tickwheel-generation");
    let generations: BTreeSet<String> = told
        .iter()
        .map(|(.., generation)| String::from_utf8(generation.clone()).unwrap())
        .collect();
    assert_eq!(generations, ["0".to_owned(), "1".to_owned()].into());
    let names: BTreeSet<_> = records(&site, "ce_id")
        .into_iter()
        .map(|(.., id)| id)
        .collect();
    assert_eq!(names.len(), 2);
    assert!(
        told.iter()
            .all(|(key, value, _)| *key == id && value == b"1")
    );
}

/// A deletion erases the payload, and so the record that has not gone out.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_deleted_before_has_no_record() {
    let site = site().await;
    let id = registered(&site, json!({"callback": "work", "payload": "secret"})).await;
    site.world.pass(SECOND * 10).await;
    let query = "/v1/tasks?callback=tickwheel.dead_letter_topic";
    let tasks = site.get(query).await.ok()["tasks"].clone();
    assert_eq!(tasks.as_array().unwrap().len(), 1, "it tries: {tasks}");
    let delete = axum::http::Request::delete(format!("/v1/dead-letters/{id}"));
    let answer = site
        .send(delete.body(axum::body::Body::empty()).unwrap())
        .await;
    assert_eq!(answer.status, 204);
    site.world.queue.create_topic(TOPIC, None);
    site.world.pass(SECOND * 70).await;
    assert!(records(&site, "ce_id").is_empty());
}

/// The topic that is set when a task dies counts.
#[tokio::test(start_paused = true)]
async fn the_configuration_is_read_at_the_death() {
    let site = site().await;
    site.world.queue.create_topic(TOPIC, None);
    let id = registered(&site, json!({"callback": "work", "delay": "10s"})).await;
    site.put("/v1/callbacks/work", &json!({"max_attempts": 1}))
        .await
        .ok();
    site.world.pass(SECOND * 20).await;
    let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(task["state"], "dead");
    assert!(records(&site, "ce_id").is_empty());
    let policy = json!({"max_attempts": 1, "dead_letter_topic": TOPIC});
    site.put("/v1/callbacks/work", &policy).await.ok();
    site.world.pass(SECOND * 4).await;
    registered(&site, json!({"callback": "work"})).await;
    site.world.pass(SECOND * 10).await;
    assert_eq!(records(&site, "ce_id").len(), 1);
}
