//! Tasks of one ordering key run one at a time over the API: they show the key, bad keys are refused, and claims wait.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::{
    limits::ORDERING_KEY_CHARS_MAX,
    model::task::Priority,
    queue::{
        Consumer as _,
        message::{TaskMessage, group, topic},
    },
};

use super::{Site, worker::claim};

const SECOND: Duration = Duration::from_secs(1);

async fn register(site: &Site, key: &str) -> Value {
    let body = json!({"callback": "work", "ordering_key": key});
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201);
    answer.json()
}

async fn polled(site: &Site) -> Vec<Value> {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 10, "wait": "1s"});
    let answer = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    answer["tasks"].as_array().unwrap().clone()
}

async fn settle(site: &Site, task: &Value, rest: Value) {
    let mut item = json!({"id": task["id"], "attempt": task["attempt"]});
    item.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let body = json!({"worker": "w", "tasks": [item]});
    let settled = site.post("/v1/worker/settle", body.to_string()).await.ok();
    assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
}

fn ids(tasks: &[Value]) -> Vec<&Value> {
    tasks.iter().map(|task| &task["id"]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_poll_gets_one_task_of_a_key_at_a_time_in_order() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(register(&site, "account-3").await);
        site.world.pass(SECOND / 100).await;
    }
    let other = register(&site, "account-4").await;
    assert_eq!(tasks[0]["ordering_key"], "account-3");
    let path = format!("/v1/tasks/{}", tasks[2]["id"].as_str().unwrap());
    assert_eq!(site.get(&path).await.ok()["ordering_key"], "account-3");
    site.world.pass(SECOND).await;
    let first = polled(&site).await;
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(ids(&first).contains(&&tasks[0]["id"]) && ids(&first).contains(&&other["id"]));
    let one = first.iter().find(|task| task["id"] == tasks[0]["id"]);
    let one = one.unwrap();
    assert_eq!(one["ordering_key"], "account-3");
    assert_eq!(polled(&site).await, Vec::<Value>::new(), "the others wait");
    // A task that waits for its next attempt holds back its key.
    settle(
        &site,
        one,
        json!({"outcome": "retry", "delay": "5s", "error": "no"}),
    )
    .await;
    assert_eq!(polled(&site).await, Vec::<Value>::new());
    site.world.pass(5 * SECOND).await;
    let again = polled(&site).await;
    assert_eq!(ids(&again), [&tasks[0]["id"]]);
    settle(&site, &again[0], json!({"outcome": "succeeded"})).await;
    let second = polled(&site).await;
    assert_eq!(ids(&second), [&tasks[1]["id"]]);
    settle(
        &site,
        &second[0],
        json!({"outcome": "failed", "error": "no"}),
    )
    .await;
    assert_eq!(ids(&polled(&site).await), [&tasks[2]["id"]]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_task_that_is_not_its_turn_is_answered_behind() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let subscribe = r#"{"worker":"w","callbacks":["work"]}"#;
    site.post("/v1/worker/subscribe", subscribe).await.ok();
    for _ in 0..2 {
        register(&site, "a").await;
        site.world.pass(SECOND / 10).await;
    }
    let topics = [topic("work", Priority::Normal)];
    let mut consumer = site.world.queue.consumer(&group("work"), &topics);
    let mut messages = Vec::new();
    while messages.len() < 2 {
        for delivery in consumer.receive(2, SECOND).await.unwrap() {
            messages.push(TaskMessage::decode(delivery.value).unwrap());
        }
    }
    messages.sort_by_key(|message| message.dispatch.start);
    let [first, second] = &messages[..] else {
        panic!("{messages:?}");
    };
    let (first, second) = (first.clone(), second.clone());
    assert_eq!(claim(&site, &second, "").await["status"], "behind");
    let claimed = claim(&site, &first, "").await;
    assert_eq!(claimed["status"], "claimed", "{claimed}");
    assert_eq!(claim(&site, &second, "").await["status"], "behind");
    settle(&site, &claimed["task"], json!({"outcome": "succeeded"})).await;
    assert_eq!(claim(&site, &second, "").await["status"], "claimed");
}

#[tokio::test(start_paused = true)]
async fn a_batch_runs_in_its_order() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let task = json!({"callback": "work", "ordering_key": "a"});
    let body = json!({"tasks": vec![task; 10]});
    let answer = site.post("/v1/tasks:batchCreate", body.to_string()).await;
    let results = answer.ok()["results"].clone();
    let registered: Vec<Value> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["task"].clone())
        .collect();
    site.world.pass(SECOND).await;
    let mut ran = Vec::new();
    for _ in 0..10 {
        let tasks = polled(&site).await;
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        settle(&site, &tasks[0], json!({"outcome": "succeeded"})).await;
        ran.push(tasks[0]["id"].clone());
    }
    assert_eq!(ran.iter().collect::<Vec<_>>(), ids(&registered));
}

/// Items with an idempotency key or a key of their own stand in the same line as the others.
#[tokio::test(start_paused = true)]
async fn a_batch_of_all_kinds_runs_in_its_order() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let task = |number: usize| {
        let mut task = json!({"callback": "work", "ordering_key": "a"});
        match number % 3 {
            0 => task["idempotency_key"] = json!(format!("request-{number}")),
            1 => task["key"] = json!(format!("key-{number}")),
            _ => {}
        }
        task
    };
    let tasks: Vec<Value> = (0..60).map(task).collect();
    let body = json!({"tasks": tasks}).to_string();
    let registered = async || {
        let answer = site.post("/v1/tasks:batchCreate", body.clone()).await;
        let results = answer.ok()["results"].clone();
        results.as_array().unwrap().clone()
    };
    let first = registered().await;
    assert!(first.iter().all(|one| one["outcome"] == "created"));
    site.world.pass(SECOND).await;
    let again = registered().await;
    for number in (0..60).step_by(3) {
        assert_eq!(again[number]["outcome"], "existing");
        assert_eq!(again[number]["task"]["id"], first[number]["task"]["id"]);
    }
    site.world.pass(SECOND).await;
    let mut ran = Vec::new();
    for _ in 0..60 {
        let tasks = polled(&site).await;
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        settle(&site, &tasks[0], json!({"outcome": "succeeded"})).await;
        ran.push(tasks[0]["id"].clone());
    }
    let ids: Vec<Value> = first.iter().map(|one| one["task"]["id"].clone()).collect();
    assert_eq!(ran, ids);
}

#[tokio::test(start_paused = true)]
async fn bad_ordering_keys_are_refused_with_what_to_do() {
    let site = Site::new();
    let longest = "ä".repeat(ORDERING_KEY_CHARS_MAX);
    register(&site, &longest).await;
    for key in ["", "a\u{7}", &format!("{longest}x")] {
        let body = json!({"callback": "work", "ordering_key": key});
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "invalid_request")
        );
        assert_eq!(problem.errors[0].pointer, "/ordering_key");
    }
    let body = json!({"kafka": {"topic": "t"}, "ordering_key": "a"});
    let problem = site.post("/v1/tasks", body.to_string()).await.problem();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (422, "unusable_key")
    );
    assert_eq!(problem.errors[0].pointer, "/ordering_key");
    assert!(
        problem.errors[0].detail.contains("leave the key out"),
        "{problem:?}"
    );
}

/// With `on_retry: skip` the others go on while the first one waits for its next attempt, which then comes first again.
#[tokio::test(start_paused = true)]
async fn a_sequence_that_skips_goes_on_while_its_first_task_waits_for_a_retry() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let answer = site
        .put("/v1/callbacks/work", &json!({"on_retry": "skip"}))
        .await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["on_retry"], "skip");
    site.world.pass(3 * SECOND).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(register(&site, "account-3").await["id"].clone());
        site.world.pass(SECOND / 100).await;
    }
    site.world.pass(SECOND).await;
    let first = polled(&site).await;
    assert_eq!(ids(&first), [&tasks[0]]);
    let retry = json!({"outcome": "retry", "delay": "20s", "error": "no"});
    settle(&site, &first[0], retry.clone()).await;
    let second = polled(&site).await;
    assert_eq!(ids(&second), [&tasks[1]], "it goes on at once");
    assert_eq!(polled(&site).await, Vec::<Value>::new(), "one at a time");
    // The retry comes due while the second one runs: it waits for the turn, and goes before the third one.
    site.world.pass(20 * SECOND).await;
    assert_eq!(polled(&site).await, Vec::<Value>::new());
    settle(&site, &second[0], json!({"outcome": "succeeded"})).await;
    let again = polled(&site).await;
    assert_eq!(ids(&again), [&tasks[0]]);
    assert_eq!(again[0]["attempt"], 2);
    settle(&site, &again[0], retry).await;
    for id in &tasks[2..] {
        let next = polled(&site).await;
        assert_eq!(ids(&next), [id]);
        settle(&site, &next[0], json!({"outcome": "succeeded"})).await;
    }
    assert_eq!(polled(&site).await, Vec::<Value>::new());
    site.world.pass(20 * SECOND).await;
    let last = polled(&site).await;
    assert_eq!(
        (ids(&last), &last[0]["attempt"]),
        (vec![&tasks[0]], &json!(3))
    );
}
