//! The figures show people what is pending, what has fired and what waits for a worker, over
//! moves, cancels and kills.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::{Moment, TimeSource};

use crate::server::{Server, post};

/// The longest wait for an event that comes by itself.
const SOON: Duration = Duration::from_secs(20);

async fn text(url: &str, path: &str) -> String {
    let answer = reqwest::get(format!("{url}{path}"))
        .await
        .expect("an answer");
    answer.text().await.expect("a whole answer")
}

async fn stats(url: &str) -> Value {
    serde_json::from_str(&text(url, "/v1/stats").await).expect("JSON")
}

fn pending(stats: &Value) -> u64 {
    let counts = stats["pending"].as_array().expect("counts");
    let tasks = counts.iter().map(|count| count["tasks"].as_u64());
    tasks.map(|tasks| tasks.expect("a number")).sum()
}

/// The count of one horizon.
fn within(stats: &Value, horizon: &str) -> u64 {
    let counts = stats["pending"].as_array().expect("counts");
    let found = counts.iter().find(|count| count["horizon"] == horizon);
    found.expect("the horizon")["tasks"]
        .as_u64()
        .expect("a number")
}

/// Sums the values of a metric over all labels that are not given.
async fn metric(url: &str, name: &str) -> f64 {
    let metrics = text(url, "/metrics").await;
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Reads the figures until they are as expected, or until the time is up.
async fn settled(url: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let time = TimeSource::real();
    let until: Moment = time.moment().after(SOON);
    loop {
        let seen = stats(url).await;
        if is_so(&seen) || time.moment() > until {
            return seen;
        }
        time.sleep(Duration::from_millis(200)).await;
    }
}

async fn register(url: &str, callback: &str, delays: impl Iterator<Item = String>) -> Vec<String> {
    let task = |delay| json!({"callback": callback, "delay": delay, "max_attempts": 1});
    let tasks: Vec<Value> = delays.map(task).collect();
    let answer = post(url, "/v1/tasks:batchCreate", &json!({"tasks": tasks})).await;
    let results = answer["results"].as_array().expect("results");
    let id = |result: &Value| result["task"]["id"].as_str().expect("an id").to_owned();
    results.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_counts_once_however_often_it_is_moved_and_not_at_all_when_it_is_cancelled() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let url = &server.url;
    let settle = |seen: &Value| seen["exact"] == true;
    assert_eq!(pending(&settled(url, settle).await), 0);
    let far = register(url, "work", ["1h".to_owned()].into_iter())
        .await
        .remove(0);
    // The places of this task are a few seconds ahead; entries that were left there would fire below.
    let near = register(url, "work", ["3s".to_owned()].into_iter())
        .await
        .remove(0);
    for step in 0..5 {
        let moved = json!({"delay": format!("{}h", 30 + step)});
        post(url, &format!("/v1/tasks/{far}/reschedule"), &moved).await;
        let moved = json!({"delay": format!("{}ms", 3000 + 400 * step)});
        post(url, &format!("/v1/tasks/{near}/reschedule"), &moved).await;
    }
    let seen = settled(url, |seen| pending(seen) == 2).await;
    assert_eq!((pending(&seen), within(&seen, "later")), (2, 1), "{seen}");
    for id in [&far, &near] {
        let answer = post(url, &format!("/v1/tasks/{id}/cancel"), &json!({})).await;
        assert_eq!(answer["outcome"], "cancelled");
    }
    TimeSource::real().sleep(Duration::from_secs(6)).await;
    let seen = stats(url).await;
    assert_eq!(pending(&seen), 0, "{seen}");
    assert_eq!(seen["unclaimed"]["tasks"], 0, "{seen}");
    assert_eq!(metric(url, "tickwheel_tasks_fired_total").await, 0.0);
    assert_eq!(metric(url, "tickwheel_fire_lag_seconds_count").await, 0.0);
    let ended = metric(
        url,
        r#"tickwheel_tasks_ended_total{outcome="cancelled",callback="work"}"#,
    );
    assert_eq!(ended.await, 2.0);
    let page = text(url, "/").await;
    assert!(
        page.contains("Register a first task") && page.contains(&format!("{url}/v1/tasks")),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pending_is_counted_exactly_also_over_kill_9() {
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &[]).await;
    let url = server.url.clone();
    let mut ids = Vec::new();
    for batch in 0..12 {
        let delays = (0..1000).map(|task| format!("{}s", 7000 + (batch * 1000 + task) % 200));
        ids.extend(register(&url, "work", delays).await);
    }
    let day = |seen: &Value| (seen["exact"].clone(), within(seen, "day"), pending(seen));
    let expected = (Value::Bool(true), 12_000, 12_000);
    let seen = settled(&url, |seen| day(seen) == expected).await;
    assert_eq!(day(&seen), expected, "{seen}");
    for ids in ids[..2000].chunks(1000) {
        post(&url, "/v1/tasks:batchCancel", &json!({"ids": ids})).await;
    }
    for id in &ids[2000..2010] {
        let moved = json!({"delay": "50h"});
        post(&url, &format!("/v1/tasks/{id}/reschedule"), &moved).await;
    }
    server.kill();
    let server = Server::start(directory.path(), &[]).await;
    // New tasks come and old ones go while the server counts the tasks that it has found.
    register(&server.url, "work", (0..100).map(|_| "2h".to_owned())).await;
    let gone = json!({"ids": ids[2010..2110]});
    post(&server.url, "/v1/tasks:batchCancel", &gone).await;
    let expected = (Value::Bool(true), 9990, 10_000);
    let seen = settled(&server.url, |seen| day(seen) == expected).await;
    assert_eq!(day(&seen), expected, "{seen}");
    // The forecast counts the same tasks, by callback, also those of before the kill: the last hour has those that were moved.
    let forecast = text(&server.url, "/v1/forecast?callback=work&step=1h&count=51").await;
    let forecast: Value = serde_json::from_str(&forecast).expect("JSON");
    let (exact, total) = (&forecast["exact"], &forecast["total"]);
    assert_eq!((exact, total), (&json!(true), &json!(10_000)));
    let last = &forecast["steps"].as_array().expect("steps")[49..];
    let moved: u64 = last.iter().filter_map(|step| step["tasks"].as_u64()).sum();
    assert_eq!(moved, 10, "{last:?}");
    let within = r#"tickwheel_due_within{callback="work",horizon="1d"}"#;
    assert_eq!(metric(&server.url, within).await, 9990.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_tasks_that_no_worker_takes_are_seen() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let url = &server.url;
    let ids = register(url, "nobody", (0..7).map(|_| "0s".to_owned())).await;
    let of = |seen: &Value| {
        let first = &seen["unclaimed"]["callbacks"][0];
        (
            first["callback"].clone(),
            first["tasks"].clone(),
            seen["unclaimed"]["exact"].clone(),
        )
    };
    let expected = (json!("nobody"), json!(7), json!(true));
    let seen = settled(url, |seen| of(seen) == expected).await;
    assert_eq!(of(&seen), expected, "{seen}");
    assert!(text(url, "/").await.contains("/callbacks/nobody"));
    // One task is cancelled, the others are taken; the only attempt of one fails.
    post(url, &format!("/v1/tasks/{}/cancel", ids[0]), &json!({})).await;
    let poll = json!({"worker": "w", "callbacks": ["nobody"], "max_tasks": 10, "wait": "5s"});
    let polled = post(url, "/v1/worker/poll", &poll).await;
    let tasks = polled["tasks"].as_array().expect("tasks");
    assert_eq!(tasks.len(), 6, "{polled}");
    let settles = json!({"worker": "w", "tasks": [{
        "id": tasks[0]["id"], "attempt": 1, "outcome": "retry", "error": "no"}]});
    post(url, "/v1/worker/settle", &settles).await;
    let seen = settled(url, |seen| seen["unclaimed"]["tasks"] == 0).await;
    assert_eq!(seen["unclaimed"]["tasks"], 0, "{seen}");
    let dead = r#"tickwheel_tasks_ended_total{outcome="dead",callback="nobody"}"#;
    assert_eq!(metric(url, dead).await, 1.0);
    assert_eq!(
        metric(url, r#"tickwheel_settles_total{outcome="dead"}"#).await,
        1.0
    );
    assert_eq!(
        metric(
            url,
            r#"tickwheel_callback_claimed_total{callback="nobody"}"#
        )
        .await,
        6.0
    );
    assert_eq!(
        metric(url, r#"tickwheel_callback_fired_total{callback="nobody"}"#).await,
        7.0
    );
}
