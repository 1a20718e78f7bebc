//! Jobs: a batch of tasks that one job cancels before they start.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{mark_of, plain};
use crate::calls::{Caller, PAUSE, TRIES, instant};

const BATCH: usize = 4;

pub(super) async fn one(calls: &Caller) {
    let first = calls.time.now().after(Duration::from_secs(20));
    let group = format!("batch-{}", calls.number());
    for _ in 0..BATCH {
        let start = first.after(Duration::from_millis(calls.draw(5_000)));
        let piece = calls.piece("batch", &group, start);
        let mut body = plain(&piece, 0, 0);
        body["collection"] = json!(group);
        calls.try_register(&piece, None, &body).await;
    }
    let note = |what: &str, told: &str| {
        calls
            .journal
            .note(json!({"what": what, "op": "job", "group": group, "told": told}));
    };
    let until = first.after(Duration::from_secs(10));
    let body = json!({"kind": "cancel", "filter": {"callback": crate::site::CALLBACK,
        "collection": group, "start_time_to": instant(until)}});
    let mark = mark_of(calls.number());
    note("ask", "");
    let job = calls
        .until_known(TRIES, (Method::POST, "/v1/jobs"), Some(&mark), &body)
        .await;
    let Some(job) = job else {
        note("told", "unknown");
        return;
    };
    assert!(job.is_success(), "a job: {}: {}", job.status, job.body);
    let path = format!("/v1/jobs/{}", job.body["id"].as_str().expect("an id"));
    let mut state = "unknown".to_owned();
    for _ in 0..2 * TRIES {
        let read = calls.get(&path).await.map(|answer| answer.body);
        let read = read.unwrap_or_default();
        state = read["state"].as_str().unwrap_or("unknown").to_owned();
        if ["completed", "cancelled", "failed"].contains(&state.as_str()) {
            break;
        }
        calls.time.sleep(PAUSE).await;
    }
    note("told", &state);
}
