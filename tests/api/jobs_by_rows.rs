//! Jobs delete tasks that have ended in whatever way, find tasks by a label, and tell early how many there are.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::{
    Site,
    jobs::{all_are, counts, created, done, kill, read, site, states, tasks},
};
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);
const JOBS: &str = "/v1/jobs";

/// Tasks that have ended: two of each kind.
struct Ended {
    succeeded: Vec<String>,
    failed: Vec<String>,
    cancelled: Vec<String>,
    dead: Vec<String>,
}

async fn ended(site: &Site) -> Ended {
    let dead = tasks(site, 2, json!({"max_attempts": 1})).await;
    kill(site, &dead).await;
    let failed = tasks(site, 2, json!({})).await;
    end(
        site,
        &failed,
        Outcome::Failed {
            error: "no route to 10".to_owned(),
        },
    )
    .await;
    let labels = json!({"labels": {"tenant": "acme"}, "payload": "x".repeat(5000)});
    let succeeded = tasks(site, 2, labels).await;
    let result = Some(bytes::Bytes::from(vec![b'"'; 20_000]).into());
    end(site, &succeeded, Outcome::Succeeded { result }).await;
    let cancelled = tasks(site, 2, json!({})).await;
    for id in &cancelled {
        let path = format!("/v1/tasks/{id}/cancel");
        site.post(&path, "").await.ok();
    }
    Ended {
        succeeded,
        failed,
        cancelled,
        dead,
    }
}

/// Runs tasks, whose attempts all end so.
pub(super) async fn end(site: &Site, ids: &[String], outcome: Outcome) {
    let behaviour: Behaviour = Arc::new(move |_, _| (SECOND / 10, Some(outcome.clone())));
    let worker = site.world.worker(site.node.service(), behaviour);
    for id in ids {
        site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    }
    for id in ids {
        site.get(&format!("/v1/tasks/{id}?wait=60s")).await.ok();
    }
    site.world.pass(2 * SECOND).await;
    worker.abort();
}

fn delete(filter: Value) -> Value {
    let mut job = json!({"kind": "delete"});
    job["filter"] = filter;
    job
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_ended_are_deleted_and_no_other() {
    let site = site().await;
    let ended = ended(&site).await;
    let waiting = tasks(&site, 2, json!({})).await;
    let foreign = tasks(&site, 1, json!({"callback": "play"})).await;
    for id in &foreign {
        site.post(&format!("/v1/tasks/{id}/cancel"), "").await.ok();
    }
    let dry = json!({"kind": "delete", "filter": {"callback": "work"}, "dry_run": true});
    assert_eq!(done(&site, dry).await["total_estimate"], 8);
    let filter = json!({"callback": "work", "state": "succeeded"});
    let job = done(&site, delete(filter.clone())).await;
    assert_eq!(
        (counts(&job), &job["state"]),
        ([2, 0, 0], &json!("completed"))
    );
    all_are(&states(&site, &ended.succeeded).await, "gone");
    all_are(&states(&site, &ended.failed).await, "failed");
    assert_eq!(counts(&done(&site, delete(filter)).await), [0, 0, 0]);
    let filter = json!({"callback": "work", "error": "no route to 11"});
    assert_eq!(counts(&done(&site, delete(filter)).await), [2, 0, 0]);
    all_are(&states(&site, &ended.failed).await, "gone");
    all_are(&states(&site, &ended.dead).await, "dead");
    let job = done(&site, delete(json!({"callback": "work"}))).await;
    assert_eq!(counts(&job), [4, 0, 0]);
    for gone in [&ended.cancelled, &ended.dead] {
        all_are(&states(&site, gone).await, "gone");
    }
    let letters = site.get("/v1/dead-letters").await.ok();
    assert_eq!(letters["dead_letters"], json!([]), "{letters}");
    all_are(&states(&site, &waiting).await, "scheduled");
    all_are(&states(&site, &foreign).await, "cancelled");
    let listed = site.get("/v1/tasks?callback=work").await.ok();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2);
    // A deleted task does not run again.
    let path = format!("/v1/tasks/{}/run", ended.dead[0]);
    site.post(&path, "").await;
    site.world.pass(5 * SECOND).await;
    all_are(&states(&site, &ended.dead).await, "gone");
    let all = json!({"kind": "delete", "all": true});
    assert_eq!(counts(&done(&site, all).await), [1, 0, 0]);
}

/// A node whose store cannot list the tasks that have ended itself.
async fn apart() -> Site {
    let apart = Site::new();
    apart.world.pass(3 * SECOND).await;
    apart
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_list_of_tasks_deletes_those_that_are_filed() {
    let site = apart().await;
    let ended = ended(&site).await;
    for (filter, pointer) in [
        (json!({"state": "failed"}), "/filter/callback"),
        (json!({"callback": "work"}), "/filter/state"),
        (
            json!({"callback": "work", "state": "succeeded"}),
            "/filter/state",
        ),
    ] {
        let refused = site.post(JOBS, delete(filter.clone()).to_string()).await;
        let problem = refused.problem();
        assert_eq!(
            (problem.code.as_str(), problem.errors[0].pointer.as_str()),
            ("unusable_filter", pointer),
            "{filter}"
        );
    }
    let filter = json!({"callback": "work", "state": "failed"});
    assert_eq!(counts(&done(&site, delete(filter)).await), [2, 0, 0]);
    all_are(&states(&site, &ended.failed).await, "gone");
    let dead = json!({"state": "dead"});
    assert_eq!(counts(&done(&site, delete(dead)).await), [2, 0, 0]);
    site.put("/v1/callbacks/work", &json!({"list_succeeded": true}))
        .await;
    site.world.pass(3 * SECOND).await;
    let later = tasks(&site, 2, json!({})).await;
    end(&site, &later, Outcome::Succeeded { result: None }).await;
    let filter = json!({"callback": "work"});
    assert_eq!(counts(&done(&site, delete(filter)).await), [4, 0, 0]);
    for gone in [&ended.cancelled, &later] {
        all_are(&states(&site, gone).await, "gone");
    }
    // These ended before their callback asked for a list of them.
    all_are(&states(&site, &ended.succeeded).await, "succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_a_callback_names_stands_for_the_end_of_the_starts() {
    let site = apart().await;
    let indexed = json!({"indexed_labels": ["tenant"]});
    site.put("/v1/callbacks/work", &indexed).await;
    site.world.pass(3 * SECOND).await;
    let far = json!({"delay": "400d", "labels": {"tenant": "acme", "tier": "gold"}});
    let acme = tasks(&site, 3, far).await;
    let other = json!({"delay": "400d", "labels": {"tenant": "b", "tier": "gold"}});
    let other = tasks(&site, 2, other).await;
    let cancel =
        |labels: Value| json!({"kind": "cancel", "filter": {"callback": "work", "labels": labels}});
    let refused = site
        .post(JOBS, cancel(json!({"tier": "gold"})).to_string())
        .await
        .problem();
    assert_eq!(refused.errors[0].pointer, "/filter/start_time_to");
    let job = done(&site, cancel(json!({"tenant": "acme", "tier": "tin"}))).await;
    assert_eq!(counts(&job), [0, 0, 0]);
    let job = done(&site, cancel(json!({"tenant": "acme"}))).await;
    assert_eq!(counts(&job), [3, 0, 0]);
    all_are(&states(&site, &acme).await, "cancelled");
    all_are(&states(&site, &other).await, "scheduled");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_dead_tasks_is_told_while_they_are_worked_on() {
    let site = site().await;
    let dead = tasks(&site, 25, json!({"max_attempts": 1})).await;
    kill(&site, &dead).await;
    let body = json!({"kind": "redrive", "filter": {"callback": "work"}, "rate_per_second": 1});
    let job = created(&site, body).await;
    site.world.pass(5 * SECOND).await;
    let read = read(&site, &job).await;
    assert_eq!(
        (&read["state"], &read["total_estimate"]),
        (&json!("running"), &json!(25)),
        "{read}"
    );
}
