//! Jobs count the tasks that they cannot understand as failed, and name one: a person has to look at these.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::{
    Site,
    jobs::{all_are, counts, done, kill, states, tasks},
    jobs_by_rows::end,
};
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);

/// Behind the starts of all tasks here but far ones: this store has no list of all tasks.
const TO: &str = "2027-01-16T09:00:00Z";

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    site
}

/// Makes the row of a task one that nobody understands.
fn spoil(site: &Site, id: &str) {
    site.world.store.spoil_row(id.parse().unwrap());
}

/// Runs a job that meets one such task among others.
async fn job_fails_at(site: &Site, job: Value, bad: &str, done_count: u64) {
    let job = done(site, job).await;
    assert_eq!(
        (&job["state"], counts(&job)),
        (&json!("completed"), [done_count, 0, 1]),
        "{job}"
    );
    let error = job["error"].as_str().unwrap();
    assert!(error.contains(bad), "{error}");
    assert!(error.contains("cannot be understood"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_their_start_are_counted_once() {
    let site = site().await;
    let ids = tasks(&site, 230, json!({})).await;
    let foreign = tasks(&site, 2, json!({"callback": "play"})).await;
    spoil(&site, &ids[7]);
    spoil(&site, &foreign[0]);
    let filter = json!({"callback": "work", "start_time_to": TO});
    let dry = json!({"kind": "cancel", "filter": filter, "dry_run": true});
    let dry = done(&site, dry).await;
    assert_eq!(
        (counts(&dry), &dry["total_estimate"]),
        ([0, 0, 1], &json!(230)),
        "{dry}"
    );
    let job = json!({"kind": "cancel", "filter": filter});
    job_fails_at(&site, job, &ids[7], 229).await;
    all_are(&states(&site, &ids[..7]).await, "cancelled");
    all_are(&states(&site, &foreign[1..]).await, "scheduled");
}

/// A task that runs has its entry at its start behind it, and its look ahead.
#[tokio::test(start_paused = true)]
async fn tasks_that_run_are_counted_once() {
    let site = site().await;
    let ids = tasks(
        &site,
        4,
        json!({"heartbeat_timeout": "10m", "delay": "20s"}),
    )
    .await;
    let behaviour: Behaviour = Arc::new(|_, _| (SECOND * 600, None));
    site.world.worker(site.node.service(), behaviour);
    site.world.pass(SECOND * 25).await;
    all_are(&states(&site, &ids).await, "claimed");
    spoil(&site, &ids[2]);
    let job = json!({"kind": "cancel", "filter": {"callback": "work", "start_time_to": TO}});
    job_fails_at(&site, job, &ids[2], 3).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_that_a_label_names_are_counted() {
    let site = site().await;
    let indexed = json!({"indexed_labels": ["tenant"]});
    let configured = axum::http::Request::put("/v1/callbacks/work")
        .header("content-type", "application/json")
        .body(axum::body::Body::from(indexed.to_string()))
        .unwrap();
    assert_eq!(site.send(configured).await.status, 201);
    site.world.pass(3 * SECOND).await;
    let acme = json!({"delay": "400d", "labels": {"tenant": "acme"}});
    let ids = tasks(&site, 4, acme).await;
    spoil(&site, &ids[3]);
    let filter = json!({"callback": "work", "labels": {"tenant": "acme"}});
    let job = json!({"kind": "cancel", "filter": filter});
    job_fails_at(&site, job, &ids[3], 3).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_ended_and_dead_ones_are_counted() {
    let site = site().await;
    let dead = tasks(&site, 3, json!({"max_attempts": 1})).await;
    kill(&site, &dead).await;
    let failed = tasks(&site, 3, json!({})).await;
    let error = "no route".to_owned();
    end(&site, &failed, Outcome::Failed { error }).await;
    spoil(&site, &dead[0]);
    spoil(&site, &failed[1]);
    let filter = json!({"callback": "work", "state": "failed"});
    let job = json!({"kind": "delete", "filter": filter});
    job_fails_at(&site, job, &failed[1], 2).await;
    let job = json!({"kind": "redrive", "filter": {"callback": "work"}});
    job_fails_at(&site, job, &dead[0], 2).await;
}
