//! Jobs start tasks that wait, and reopen tasks of trees that have succeeded.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Site,
    jobs::{all_are, counts, done, kill, site, states, tasks},
    retries::{read, register, work_all},
};

const SECOND: Duration = Duration::from_secs(1);
const JOBS: &str = "/v1/jobs";

async fn refusal(site: &Site, job: Value) -> (String, String) {
    let problem = site.post(JOBS, job.to_string()).await.problem();
    let pointer = problem.errors.first().map(|error| error.pointer.clone());
    (problem.code, pointer.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_run_job_starts_what_waits_and_leaves_what_is_due_or_has_ended() {
    let site = site().await;
    let dead = tasks(&site, 2, json!({"max_attempts": 1})).await;
    kill(&site, &dead).await;
    let due = tasks(&site, 3, json!({"delay": "0s"})).await;
    let waiting = tasks(&site, 250, json!({})).await;
    let foreign = tasks(&site, 2, json!({"callback": "play"})).await;
    site.world.pass(2 * SECOND).await;
    let mut wish = json!({"kind": "run", "filter": {"callback": "work"}, "dry_run": true});
    assert_eq!(done(&site, wish.clone()).await["total_estimate"], 250);
    all_are(&states(&site, &waiting).await, "scheduled");
    wish["dry_run"] = json!(false);
    let job = done(&site, wish.clone()).await;
    assert_eq!(
        (&job["state"], counts(&job)),
        (&json!("completed"), [250, 0, 0])
    );
    all_are(&states(&site, &waiting).await, "enqueued");
    all_are(&states(&site, &due).await, "enqueued");
    all_are(&states(&site, &dead).await, "dead");
    all_are(&states(&site, &foreign).await, "scheduled");
    // Nothing waits any more.
    assert_eq!(counts(&done(&site, wish).await), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn fields_that_these_jobs_cannot_honour_are_refused() {
    let site = site().await;
    let job = |kind: &str, filter: Value| json!({"kind": kind, "filter": filter});
    for (wish, pointer) in [
        (
            job("run", json!({"callback": "work", "state": "dead"})),
            "/filter/state",
        ),
        (
            job("run", json!({"callback": "work", "state": "processing"})),
            "/filter/state",
        ),
        (
            job("run", json!({"callback": "work", "error": "no"})),
            "/filter/error",
        ),
        (job("run", json!({})), "/filter"),
        (
            job("reopen", json!({"callback": "work", "state": "dead"})),
            "/filter/state",
        ),
        (
            job("reopen", json!({"callback": "work", "error": "no"})),
            "/filter/error",
        ),
        (job("reopen", json!({})), "/filter"),
    ] {
        let (code, at) = refusal(&site, wish.clone()).await;
        assert_eq!(
            (code.as_str(), at.as_str()),
            ("unusable_filter", pointer),
            "{wish}"
        );
    }
    let start = json!({"kind": "run", "filter": {"callback": "work"}, "delay": "1h"});
    let (code, at) = refusal(&site, start).await;
    assert_eq!((code.as_str(), at.as_str()), ("invalid_request", "/delay"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_reopens_what_its_callback_lists() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let wish = json!({"kind": "reopen", "filter": {"callback": "work"}});
    let refused = ("unusable_filter".to_owned(), "/filter/state".to_owned());
    assert_eq!(refusal(&site, wish.clone()).await, refused);
    site.put("/v1/callbacks/work", &json!({"list_succeeded": true}))
        .await;
    site.world.pass(3 * SECOND).await;
    let body = json!({"callback": "work", "children": [{"callback": "work"}]});
    let root = register(&site, body).await;
    site.world.pass(SECOND).await;
    assert_eq!(work_all(&site, false).await, 2);
    assert_eq!(counts(&done(&site, wish).await), [2, 0, 0]);
    assert_eq!(work_all(&site, false).await, 2);
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
}
