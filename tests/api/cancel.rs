//! A batch of cancels answers each id at its place for the client, and needs few calls of the store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::doubles::store::faulty::Fate;

use super::{
    Site, task_id,
    worker::{claim, due},
};

const SECOND: Duration = Duration::from_secs(1);
const PATH: &str = "/v1/tasks:batchCancel";

async fn registered(site: &Site, tasks: &[Value]) -> Vec<String> {
    let body = json!({"tasks": tasks}).to_string();
    let answer = site.post("/v1/tasks:batchCreate", body).await.ok();
    let results = answer["results"].as_array().unwrap().clone();
    let id = |result: &Value| result["task"]["id"].as_str().unwrap().to_owned();
    results.iter().map(id).collect()
}

async fn cancelled(site: &Site, ids: &[&str]) -> Vec<Value> {
    let body = json!({"ids": ids}).to_string();
    let answer = site.post(PATH, body).await.ok();
    answer["results"].as_array().unwrap().clone()
}

fn outcomes(results: &[Value]) -> Vec<&str> {
    let results = results.iter();
    results
        .map(|result| result["outcome"].as_str().unwrap_or("error"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_id_is_answered_at_its_place() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let message = due(&site, r#"{"callback":"work","payload":1}"#).await;
    let running = message.dispatch.id.to_string();
    assert_eq!(claim(&site, &message, "").await["status"], "claimed");
    let kafka = json!({"kafka": {"topic": "users"}, "payload": 1, "delay": "1h"});
    let soon = json!({"kafka": {"topic": "users"}, "payload": 1, "delay": "0s"});
    let waiting = json!({"callback": "work", "delay": "1h"});
    let large = json!({"callback": "work", "delay": "1h", "payload": "x".repeat(9000)});
    let ids = registered(&site, &[waiting, kafka, soon, large]).await;
    site.world.pass(5 * SECOND).await;
    let (waiting, kafka, soon, large) = (&*ids[0], &*ids[1], &*ids[2], &*ids[3]);
    let stranger = task_id();
    let asked = [
        waiting, "no id", kafka, &stranger, &running, soon, waiting, large, kafka,
    ];
    let results = cancelled(&site, &asked).await;
    let (yes, again, error) = ("cancelled", "already_cancelled", "error");
    assert_eq!(
        outcomes(&results),
        [
            yes,
            error,
            yes,
            error,
            "cancel_requested",
            "too_late",
            again,
            yes,
            again
        ]
    );
    for (id, result) in asked.iter().zip(&results) {
        let path = format!("/v1/tasks/{}/cancel", id.replace(' ', "%20"));
        let single = site.post(&path, "").await.json();
        if result["outcome"].is_null() {
            for field in ["code", "detail", "status"] {
                assert_eq!(result["error"][field], single[field], "{id}");
            }
            assert!(result.get("task").is_none(), "{result}");
        } else {
            assert_eq!(result["task"]["id"], *id);
            assert_eq!(result["task"], single["task"], "as a single cancel says");
        }
    }
    assert_eq!(results[2]["task"]["state"], "cancelled");
    let results = cancelled(&site, &[kafka, large, waiting]).await;
    assert_eq!(outcomes(&results), [again; 3]);
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_by_a_batch_never_comes_out() {
    let site = Site::new();
    site.world.queue.create_topic("users", None);
    site.world.pass(3 * SECOND).await;
    let callback = json!({"callback": "work", "delay": "20s"});
    let kafka = json!({"kafka": {"topic": "users"}, "payload": 1, "delay": "20s"});
    let tasks: Vec<Value> = (0..60)
        .map(|n| if n % 3 == 0 { &kafka } else { &callback }.clone())
        .collect();
    let ids = registered(&site, &tasks).await;
    let doomed: Vec<&str> = ids.iter().skip(2).map(String::as_str).collect();
    let results = cancelled(&site, &doomed).await;
    assert_eq!(outcomes(&results), ["cancelled"; 58]);
    site.world.pass(40 * SECOND).await;
    let state = async |id: &str| site.get(&format!("/v1/tasks/{id}")).await.ok()["state"].clone();
    assert_eq!(state(&ids[0]).await, "published");
    assert_eq!(state(&ids[1]).await, "enqueued");
    for id in doomed {
        assert_eq!(state(id).await, "cancelled");
    }
    assert_eq!(site.world.queue.records("users").len(), 1);
}

/// Names of the calls of the store that change or read tasks, with how often each was made.
type Calls = Arc<Mutex<BTreeMap<&'static str, usize>>>;

#[tokio::test(start_paused = true)]
async fn a_batch_costs_few_calls_of_the_store() {
    let calls = Calls::default();
    let noted = Arc::clone(&calls);
    let site = Site::with_fates(Arc::new(move |_, call| {
        *noted.lock().unwrap().entry(call.operation).or_default() += 1;
        Fate::Go
    }));
    site.world.pass(3 * SECOND).await;
    let callback = json!({"callback": "work", "delay": "1h"});
    let kafka = json!({"kafka": {"topic": "users"}, "payload": 1, "delay": "1h"});
    for (task, writes) in [(callback, 1), (kafka, 1)] {
        let ids = registered(&site, &vec![task; 200]).await;
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        calls.lock().unwrap().clear();
        let results = cancelled(&site, &ids).await;
        assert_eq!(outcomes(&results), ["cancelled"; 200]);
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        assert_eq!(calls["tasks"], 1, "{calls:?}");
        assert_eq!(calls["put_entries"], writes, "{calls:?}");
        // One wheel and at most two ticks: groups of 64.
        assert!(calls["swap_tasks"] <= 8, "{calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_an_error_of_each() {
    let site = Site::with_fates(Arc::new(|_, call| {
        if call.operation == "tasks" {
            Fate::Fail
        } else {
            Fate::Go
        }
    }));
    site.world.pass(3 * SECOND).await;
    let body = json!({"ids": [task_id(), "x", 7]}).to_string();
    let results = site.post(PATH, body).await.ok()["results"].clone();
    assert_eq!(results[2]["error"]["code"], "invalid_request");
    assert_eq!(results[0]["error"]["code"], "unavailable");
    assert_eq!(results[0]["error"]["retryable"], true);
    assert_eq!(results[1]["error"]["code"], "invalid_task_id");
}
