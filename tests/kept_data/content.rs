//! The content of kept data is one of everything that the service keeps.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tickwheel::{model::time::rfc3339, time_source::TimeSource};

use super::Site;

const HOUR: Duration = Duration::from_secs(3600);

/// Writes one of everything; returns the ids by name. The site has a key afterwards.
pub(crate) async fn fill(site: &mut Site, has_kafka: bool) -> Value {
    let mut ids = json!({});
    let root = json!({"name": "root", "role": "admin"});
    let made = site.done("POST", "/v1/api-keys", root).await;
    made["key"].as_str().unwrap().clone_into(&mut site.key);
    let wish = json!({"name": "shop", "role": "producer", "callbacks": ["work"],
        "rate": {"per_second": 5, "burst": 9}, "expire_time": "2090-01-01T00:00:00Z"});
    let made = site.done("POST", "/v1/api-keys", wish).await;
    ids["producer"] = made["id"].clone();
    configure(site).await;
    waiting_tasks(site, &mut ids, has_kafka).await;
    related_tasks(site, &mut ids).await;
    ended_tasks(site, &mut ids).await;
    schedules_and_jobs(site).await;
    ids
}

async fn configure(site: &Site) {
    let work = json!({"description": "all kinds", "max_attempts": 4, "labels": {"team": "billing"},
        "indexed_labels": ["tenant"], "list_succeeded": true, "retention": "90d",
        "dead_retention": "90d", "retry": {"initial": "1h", "factor": 2.0, "jitter": "none"}});
    site.done("PUT", "/v1/callbacks/work", work).await;
    let paced = json!({"rate": {"per_second": 50, "burst": 10}, "max_in_flight": 2});
    site.done("PUT", "/v1/callbacks/paced", paced).await;
    site.done("PUT", "/v1/callbacks/held", json!({})).await;
    let gate = json!({"gate": "paused", "reason": "kept"});
    site.done("POST", "/v1/callbacks/held/gate", gate).await;
}

async fn register(site: &Site, ids: &mut Value, name: &str, task: Value) -> Value {
    let task = site.done("POST", "/v1/tasks", task).await;
    ids[name] = task["id"].clone();
    task["id"].clone()
}

async fn waiting_tasks(site: &Site, ids: &mut Value, has_kafka: bool) {
    let later = json!({"callback": "work", "delay": "1h", "payload": {"n": [1, 2.5, null]},
        "labels": {"tenant": "acme"}, "collection": "bulk", "key": "order-7", "priority": "high",
        "expire_after": "30d", "max_attempts": 7});
    register(site, ids, "later", later).await;
    let large = json!({"callback": "work", "delay": "1h", "payload": "large ".repeat(700)});
    register(site, ids, "large", large).await;
    let told = json!({"callback": "work", "delay": "1h",
        "notify": {"http": {"url": "https://told.invalid/"}, "states": ["succeeded", "dead"]}});
    register(site, ids, "told", told).await;
    let called = json!({"http": {"url": "https://called.invalid/", "method": "PUT",
        "headers": {"x-kept": "1"}, "timeout": "5s"}, "delay": "40d", "payload": "body"});
    register(site, ids, "called", called).await;
    if has_kafka {
        let record = json!({"kafka": {"topic": "kept", "key": "k"}, "delay": "40d", "payload": 7});
        register(site, ids, "record", record).await;
    }
    let twice = json!({"callback": "work", "delay": "1h", "idempotency_key": "once"});
    let batch = json!({"tasks": [twice, {"callback": "work", "delay": "1h"}]});
    let made = site.done("POST", "/v1/tasks:batchCreate", batch).await;
    for (at, name) in ["twice", "beside"].into_iter().enumerate() {
        ids[name] = made["results"][at]["task"]["id"].clone();
    }
    for name in ["paced-1", "paced-2", "paced-3"] {
        register(site, ids, name, json!({"callback": "paced", "delay": "1h"})).await;
    }
    for name in ["held-1", "held-2"] {
        register(
            site,
            ids,
            name,
            json!({"callback": "held", "payload": name}),
        )
        .await;
    }
}

async fn related_tasks(site: &Site, ids: &mut Value) {
    for name in ["lane-1", "lane-2", "lane-3"] {
        let task = json!({"callback": "lane", "ordering_key": "account-3", "payload": name});
        register(site, ids, name, task).await;
    }
    let first = one(site, "lane").await;
    assert_eq!(first["payload"], "lane-1", "{first}");
    site.settle(&first, &json!({"outcome": "succeeded"})).await;
    let leaf = json!({"callback": "work", "delay": "1h", "payload": "leaf"});
    let tree = json!({"callback": "tree", "children": [leaf,
        {"callback": "work", "delay": "1h", "children": [{"callback": "work", "delay": "90m"}]}]});
    register(site, ids, "tree", tree).await;
    let root = one(site, "tree").await;
    site.settle(
        &root,
        &json!({"outcome": "succeeded", "result": {"ran": true}}),
    )
    .await;
    let then = json!([{"task": {"callback": "next", "payload": 1}, "with_result": true}]);
    let chain = json!({"callback": "work", "delay": "1h", "then": then});
    let chain = register(site, ids, "chain", chain).await;
    let after = json!({"ids": [ids["later"], chain], "condition": "all_succeeded"});
    register(
        site,
        ids,
        "join",
        json!({"callback": "joined", "after": after}),
    )
    .await;
}

/// Polls a task that is due.
async fn one(site: &Site, callback: &str) -> Value {
    let mut polled = site.poll(&[callback], 1, "20s").await;
    assert_eq!(polled.len(), 1, "{callback}");
    polled.remove(0)
}

async fn ended_tasks(site: &Site, ids: &mut Value) {
    let result = json!({"outcome": "succeeded", "result": {"sum": 7}});
    let retry = json!({"outcome": "retry", "error": "no route to 10.0.0.7"});
    for (name, more, outcome) in [
        ("done", json!({}), &result),
        (
            "failed",
            json!({}),
            &json!({"outcome": "failed", "error": "no such user"}),
        ),
        ("dead", json!({"max_attempts": 1}), &retry),
        ("dead-2", json!({"max_attempts": 1}), &retry),
        ("retrying", json!({}), &retry),
    ] {
        let mut task = json!({"callback": "work", "payload": name, "labels": {"tenant": "acme"}});
        for (field, value) in more.as_object().unwrap() {
            task[field] = value.clone();
        }
        register(site, ids, name, task).await;
        let polled = one(site, "work").await;
        assert_eq!(polled["payload"], name, "{polled}");
        let settled = site.settle(&polled, outcome).await;
        assert_eq!(settled["status"], "ok", "{settled}");
    }
    let cancelled = json!({"callback": "work", "delay": "1h"});
    let id = register(site, ids, "cancelled", cancelled).await;
    let path = format!("/v1/tasks/{}/cancel", id.as_str().unwrap());
    site.done("POST", &path, Value::Null).await;
    let held = json!({"callback": "work", "payload": "claimed", "heartbeat_timeout": "5m",
        "claim_timeout": "20s", "retry": {"initial": "1s", "factor": 1.0, "jitter": "none"}});
    register(site, ids, "claimed", held).await;
    assert_eq!(one(site, "work").await["payload"], "claimed");
}

async fn schedules_and_jobs(site: &Site) {
    let yearly = json!({"cron": "0 3 1 1 *", "time_zone": "Europe/Berlin", "jitter": "5m",
        "overlap": "buffer_one", "missed": "all", "catch_up_window": "1h", "note": "kept",
        "task": {"callback": "work", "payload": "yearly"}});
    site.done("PUT", "/v1/schedules/yearly", yearly).await;
    let often = json!({"every": "1h", "task": {"callback": "often"}, "overlap": "allow",
        "missed": "all", "catch_up_window": "1d"});
    site.done("PUT", "/v1/schedules/often", often).await;
    let paused = json!({"every": "1h", "paused": true, "task": {"callback": "often"}});
    site.done("PUT", "/v1/schedules/resting", paused).await;
    for _ in 0..2 {
        let task = json!({"callback": "swept", "delay": "3h"});
        site.done("POST", "/v1/tasks", task).await;
    }
    // A cluster reads its wheels up to there.
    let to = TimeSource::real().now().after(4 * HOUR);
    let filter = json!({"callback": "swept", "start_time_to": rfc3339(to)});
    let job = json!({"kind": "cancel", "filter": filter});
    let job = site.done("POST", "/v1/jobs", job).await;
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let time = TimeSource::real();
    for _ in 0..200 {
        let job = site.get(&path).await;
        if job["state"] == "done" || job["state"] == "completed" || job["end_time"].is_string() {
            assert_eq!(job["done"], 2, "{job}");
            return;
        }
        time.sleep(Duration::from_millis(100)).await;
    }
    panic!("the job does not end");
}

/// Reads everything, by path.
pub(crate) async fn read_all(site: &Site, ids: &Value) -> BTreeMap<String, Value> {
    let mut paths: Vec<String> = ids
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "producer")
        .map(|(_, id)| format!("/v1/tasks/{}?view=FULL", id.as_str().unwrap()))
        .collect();
    let id = |name: &str| ids[name].as_str().unwrap().to_owned();
    paths.push(format!("/v1/tasks/{}/tree", id("tree")));
    paths.push(format!("/v1/tasks?parent={}", id("tree")));
    for path in [
        "/v1/api-keys",
        "/v1/callbacks/work",
        "/v1/callbacks/paced",
        "/v1/callbacks/held",
        "/v1/schedules/yearly",
        "/v1/schedules/often",
        "/v1/schedules/resting",
        "/v1/schedules:export",
        "/v1/jobs",
        "/v1/dead-letters",
        "/v1/dead-letters:groups",
        "/v1/dead-letters?callback=work",
        "/v1/tasks?callback=work&state=succeeded",
        "/v1/tasks?callback=work&label.tenant=acme",
        "/v1/audit",
    ] {
        paths.push(path.to_owned());
    }
    let mut answers = BTreeMap::new();
    for path in paths {
        let answer = site.get(&path).await;
        answers.insert(path, answer);
    }
    answers
}
