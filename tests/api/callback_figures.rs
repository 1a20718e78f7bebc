//! Figures of a callback tell operators what is going on with its tasks.

use std::time::Duration;

use serde_json::{Value, json};

use tickwheel::flow::stages::poll::PollRequest;

use super::{
    Site,
    callbacks::{PATH, ready},
    worker::call,
};
use crate::sim::world::World;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_callback_shows_what_is_going_on() {
    let site = ready().await;
    site.put(PATH, &json!({})).await;
    let idle = site.get(PATH).await.ok();
    assert_eq!(
        (&idle["ready"], &idle["running"], &idle["partial"]),
        (&json!(0), &json!(0), &json!(true))
    );
    let zero = json!(0);
    for count in ["retrying", "held", "dead"] {
        assert_eq!(idle[count], zero, "{count}");
    }
    assert!(idle.get("lateness").is_none(), "none was handed over");
    site.registered(json!({"callback": "send_email"})).await;
    site.world.pass(SECOND).await;
    let poll = json!({"worker": "w-1", "callbacks": ["send_email"], "max_tasks": 1, "wait": "5s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    assert_eq!(polled["tasks"].as_array().unwrap().len(), 1);
    let busy = site.get(PATH).await.ok();
    assert_eq!(
        (&busy["running"], &busy["workers"][0]["name"]),
        (&json!(1), &json!("w-1"))
    );
    assert!(busy["workers"][0]["last_poll_ms"].as_u64().is_some());
    assert!(
        busy["lateness"]["max_ms"].as_i64().unwrap() < 1000,
        "{busy}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_nothing_is_set_for_shows_what_is_going_on() {
    let site = ready().await;
    let unknown = site.get(PATH).await.problem();
    assert_eq!(
        (unknown.status, &*unknown.code),
        (404, "callback_not_found")
    );
    site.registered(json!({"callback": "send_email"})).await;
    site.world.pass(SECOND).await;
    let answer = site.get(PATH).await;
    assert!(
        !answer.headers.contains_key("etag"),
        "it has no configuration"
    );
    let callback = answer.ok();
    assert_eq!(
        (&callback["name"], &callback["gate"]),
        (&json!("send_email"), &json!("open"))
    );
    assert!(callback["lateness"]["max_ms"].is_u64(), "{callback}");
    assert!(callback.get("max_attempts").is_none(), "{callback}");
    let list = site.get("/v1/callbacks").await.ok();
    assert_eq!(list["callbacks"], json!([]), "lists show what is set");
    // A client that wants to be the first to set it still is.
    let new = [("if-none-match", "*")];
    let mails = json!({"description": "mails"});
    assert_eq!(site.put_if(PATH, &mails, &new).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_nothing_is_set_for_is_known_by_its_tasks_of_later() {
    let site = ready().await;
    let other = json!({"callback": "other", "delay": "10m"});
    site.registered(other).await;
    assert_eq!(site.get(PATH).await.status, 404);
    let later = json!({"callback": "send_email", "delay": "20m"});
    let id = site.registered(later).await["id"].clone();
    let callback = site.get(PATH).await.ok();
    assert_eq!(
        (&callback["name"], &callback["ready"]),
        (&json!("send_email"), &json!(0))
    );
    let id = id.as_str().unwrap();
    site.post(&format!("/v1/tasks/{id}/cancel"), "{}").await;
    assert_eq!(site.get(PATH).await.status, 404, "none is left");
}

#[tokio::test(start_paused = true)]
async fn a_callback_counts_tasks_that_wait_for_a_retry_that_are_held_and_that_are_dead() {
    let site = ready().await;
    site.put(PATH, &json!({})).await;
    let retry = json!({"initial": "60s", "factor": 1, "max": "60s", "jitter": "none"});
    let task = json!({"callback": "send_email", "max_attempts": 2, "retry": retry.clone()});
    let id = site.registered(task).await["id"].clone();
    let path = |id: &Value| format!("/v1/tasks/{}", id.as_str().unwrap());
    let counts = async || {
        let callback = site.get(PATH).await.ok();
        ["retrying", "held", "dead"].map(|name| callback[name].as_u64().unwrap())
    };
    let fail = async || {
        site.world.pass(SECOND).await;
        let poll =
            json!({"worker": "w", "callbacks": ["send_email"], "max_tasks": 1, "wait": "5s"});
        let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
        let task = &polled["tasks"][0];
        let report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": "retry", "error": "no"});
        let settled = call(&site, "/v1/worker/settle", report).await;
        assert_eq!(settled["status"], "ok", "{polled} {settled}");
    };
    fail().await;
    assert_eq!(counts().await, [1, 0, 0]);
    // One that is cancelled waits no more.
    let other = site
        .registered(json!({"callback": "send_email", "retry": retry}))
        .await["id"]
        .clone();
    fail().await;
    assert_eq!(counts().await, [2, 0, 0]);
    site.post(&format!("{}/cancel", path(&other)), "{}").await;
    assert_eq!(counts().await, [1, 0, 0]);
    site.world.pass(60 * SECOND).await;
    fail().await;
    assert_eq!(site.get(&path(&id)).await.ok()["state"], "dead");
    assert_eq!(counts().await, [0, 0, 1]);
    let gate = format!("{PATH}/gate");
    site.post(&gate, r#"{"gate":"paused"}"#).await.ok();
    site.world.pass(3 * SECOND).await;
    for _ in 0..3 {
        site.registered(json!({"callback": "send_email"})).await;
    }
    site.world.pass(3 * SECOND).await;
    assert_eq!(counts().await, [0, 3, 1]);
    site.post(&gate, r#"{"gate":"open"}"#).await.ok();
    assert_eq!(counts().await, [0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn each_node_shows_what_all_nodes_know_of_a_callback() {
    let world = World::new(4, 1000);
    let (first, second) = (world.node(1), world.node(2));
    let site = Site::of(world, second);
    site.world.pass(5 * SECOND).await;
    site.put(PATH, &json!({})).await;
    let worker = |name: &str| PollRequest {
        worker: name.to_owned(),
        callbacks: vec!["send_email".to_owned()],
        max: 10,
        wait: 5 * SECOND,
        version: Some("1.2".to_owned()),
    };
    for _ in 0..3 {
        site.registered(json!({"callback": "send_email"})).await;
    }
    site.world.pass(SECOND).await;
    let (mut running, mut names) = (0, Vec::new());
    for (node, name) in [(&first, "w-1"), (&site.node, "w-2")] {
        if let Ok(handout) = node.service().poll(worker(name)).await {
            running += handout.accept().len();
        }
        names.push(name);
    }
    assert_eq!(running, 3);
    site.world.pass(3 * SECOND).await;
    let shown = site.get(PATH).await.ok();
    let seen = shown["workers"].as_array().unwrap();
    let workers: Vec<&str> = seen
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(workers, names, "{shown}");
    assert!(seen.iter().all(|one| one["version"] == "1.2"), "{shown}");
    assert_eq!(shown["running"], 3, "{shown}");
    assert!(shown["lateness"]["max_ms"].is_u64(), "{shown}");
    let other = first.service().activity("send_email").await.unwrap();
    assert_eq!((other.running, other.workers.len()), (3, 2));
    // The share of a node that has died is left out, once nobody can hope for it any more.
    first.crash();
    site.world.pass(45 * SECOND).await;
    let left = site.get(PATH).await.ok();
    let workers = left["workers"].as_array().unwrap();
    assert_eq!(
        (workers.len(), &workers[0]["name"]),
        (1, &json!("w-2")),
        "{left}"
    );
}
