//! A dead task that runs again appears right in the figures and the lists, and survives a kill.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use crate::server::{Server, post};

const SOON: Duration = Duration::from_secs(30);

async fn read(url: &str, path: &str) -> String {
    let answer = reqwest::get(format!("{url}{path}")).await;
    let answer = answer.expect("an answer");
    answer.text().await.expect("a whole answer")
}

async fn json_of(url: &str, path: &str) -> Value {
    serde_json::from_str(&read(url, path).await).expect("JSON")
}

/// Sums the values of a metric, over all labels that are not given.
async fn metric(url: &str, name: &str) -> f64 {
    let metrics = read(url, "/metrics").await;
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

fn pending(stats: &Value) -> u64 {
    let counts = stats["pending"].as_array().expect("counts");
    let tasks = counts.iter().map(|count| count["tasks"].as_u64());
    tasks.map(|tasks| tasks.expect("a number")).sum()
}

/// Polls the task's only attempt and reports that it failed, or succeeded.
async fn attempt(url: &str, number: u64, outcome: &str) -> Value {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 1, "wait": "30s"});
    let polled = post(url, "/v1/worker/poll", &poll).await;
    let task = polled["tasks"][0].clone();
    assert_eq!(task["attempt"], number, "{polled}");
    let mut settle = json!({"id": task["id"], "attempt": number, "outcome": outcome});
    if outcome == "retry" {
        settle["error"] = json!("no");
    }
    let settles = json!({"worker": "w", "tasks": [settle]});
    post(url, "/v1/worker/settle", &settles).await;
    task
}

async fn ended(url: &str, outcome: &str) -> f64 {
    let name = format!(r#"tickwheel_tasks_ended_total{{outcome="{outcome}",callback="work"}}"#);
    metric(url, &name).await
}

async fn listed(url: &str, state: &str) -> usize {
    let page = json_of(url, &format!("/v1/tasks?state={state}")).await;
    page["tasks"].as_array().expect("tasks").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_that_is_run_counts_and_lists_as_one_that_waits_also_over_kill_9() {
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &[]).await;
    let url = server.url.clone();
    let payload = "x".repeat(5000);
    let task = json!({"callback": "work", "max_attempts": 1, "payload": payload});
    let task = post(&url, "/v1/tasks", &task).await;
    let path = format!("/v1/tasks/{}", task["id"].as_str().expect("an id"));
    attempt(&url, 1, "retry").await;
    assert_eq!(json_of(&url, &path).await["state"], "dead");
    assert_eq!(
        (ended(&url, "dead").await, listed(&url, "dead").await),
        (1.0, 1)
    );

    let again = post(&url, &format!("{path}/run"), &json!({})).await;
    assert_eq!(again["outcome"], "rescheduled", "{again}");
    assert_eq!(again["task"]["attempt"], 1);
    assert!(again["task"]["end_time"].is_null(), "{again}");
    assert_eq!(listed(&url, "dead").await, 0);
    let time = TimeSource::real();
    let until = time.moment().after(SOON);
    loop {
        let stats = json_of(&url, "/v1/stats").await;
        if pending(&stats) == 0 && stats["unclaimed"]["tasks"] == 1 {
            break;
        }
        assert!(time.moment() < until, "{stats}");
        time.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(metric(&url, "tickwheel_tasks_redriven_total").await, 1.0);
    assert_eq!(metric(&url, "tickwheel_tasks_fired_total").await, 2.0);
    assert_eq!(metric(&url, "tickwheel_tasks_registered_total").await, 1.0);

    server.kill();
    let server = Server::start(directory.path(), &[]).await;
    let url = server.url.clone();
    let polled = attempt(&url, 2, "succeeded").await;
    assert_eq!(
        (&polled["generation"], &polled["payload"]),
        (&json!(1), &json!(payload))
    );
    assert_eq!(json_of(&url, &path).await["state"], "succeeded");
    assert_eq!(
        (ended(&url, "succeeded").await, listed(&url, "dead").await),
        (1.0, 0)
    );
    let late = post(&url, &format!("{path}/run"), &json!({})).await;
    assert_eq!(late["outcome"], "too_late");
}
