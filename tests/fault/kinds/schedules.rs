//! Schedules that run every few seconds, set before the first fault and paused behind the last one.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tickwheel::model::time::Millis;
use tokio_util::sync::CancellationToken;

use super::task;
use crate::{
    calls::{Caller, instant},
    site::CALLBACK,
};

const TRIES: usize = 300;

/// Sets the schedules, and pauses them at the end.
pub(super) async fn keep(calls: Caller, stop: CancellationToken) {
    // A whole second, so that each time is one.
    let from = Millis((calls.time.now().0 / 1000 + 6) * 1000);
    let all = [("every-5", 5), ("every-7", 7)];
    for (name, seconds) in all {
        let schedule = json!({
            "every": format!("{seconds}s"),
            "start_time": instant(from),
            "overlap": "allow",
            "missed": "all",
            "task": task(CALLBACK, calls.number(), calls.draw(30), 0),
        });
        let of = json!({"name": name, "from": from.0, "every": seconds * 1000});
        change(&calls, &of, "set", &schedule).await;
    }
    stop.cancelled().await;
    // Runs of the last moments begin before the pause withdraws them.
    calls.time.sleep(Duration::from_secs(5)).await;
    for (name, _) in all {
        change(&calls, &json!({"name": name}), "pause", &json!({})).await;
    }
}

async fn change(calls: &Caller, of: &Value, did: &str, body: &Value) {
    let note = |what: &str, told: &str| {
        let mut line = of.clone();
        for (name, text) in [
            ("what", what),
            ("op", "schedule"),
            ("did", did),
            ("told", told),
        ] {
            line[name] = text.into();
        }
        calls.journal.note(line);
    };
    let name = of["name"].as_str().expect("a name");
    let (method, path) = match did {
        "set" => (Method::PUT, format!("/v1/schedules/{name}")),
        _ => (Method::POST, format!("/v1/schedules/{name}/{did}")),
    };
    let mark = format!("drill-{name}-{did}");
    note("ask", "");
    let answer = calls
        .until_known(TRIES, (method, &path), Some(&mark), body)
        .await;
    match answer {
        Some(answer) if answer.is_success() => note("told", "ok"),
        Some(answer) => panic!("a schedule: {}: {}", answer.status, answer.body),
        None => note("told", "unknown"),
    }
}
