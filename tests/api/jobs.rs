//! Jobs cancel, move, redrive and delete the tasks of a filter for people, and are paused, resumed and ended by them.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Request};
use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::Site;
use crate::sim::world::{Behaviour, World};

const SECOND: Duration = Duration::from_secs(1);
const JOBS: &str = "/v1/jobs";

/// A node on disk, whose lists have all tasks.
pub(super) async fn site() -> Site {
    let world = World::on_disk(2, 1000);
    let node = world.node(1);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    site
}

async fn task(site: &Site, body: Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Registers so many tasks of a callback that start in an hour.
pub(super) async fn tasks(site: &Site, count: usize, more: Value) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let mut body = json!({"callback": "work", "delay": "1h"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        ids.push(task(site, body).await);
    }
    ids
}

pub(super) async fn states(site: &Site, ids: &[String]) -> Vec<String> {
    let mut states = Vec::new();
    for id in ids {
        let answer = site.get(&format!("/v1/tasks/{id}")).await;
        states.push(if answer.status == 404 {
            "gone".to_owned()
        } else {
            answer.ok()["state"].as_str().unwrap().to_owned()
        });
    }
    states
}

#[track_caller]
pub(super) fn all_are(states: &[String], state: &str) {
    assert!(states.iter().all(|one| one == state), "{states:?}");
}

pub(super) async fn created(site: &Site, body: Value) -> Value {
    let answer = site.post(JOBS, body.to_string()).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    let job = answer.json();
    let location = answer.header("location").to_owned();
    assert_eq!(location, format!("{JOBS}/{}", job["id"].as_str().unwrap()));
    job
}

pub(super) async fn read(site: &Site, job: &Value) -> Value {
    let id = job["id"].as_str().unwrap();
    site.get(&format!("{JOBS}/{id}")).await.ok()
}

async fn order(site: &Site, job: &Value, order: &str) -> super::Answer {
    let id = job["id"].as_str().unwrap();
    site.post(&format!("{JOBS}/{id}/{order}"), "").await
}

/// Registers a job and waits for its end.
pub(super) async fn done(site: &Site, body: Value) -> Value {
    let job = created(site, body).await;
    for _ in 0..200 {
        let job = read(site, &job).await;
        if job.get("end_time").is_some() {
            return job;
        }
        site.world.pass(SECOND / 2).await;
    }
    panic!("it does not end: {}", read(site, &job).await);
}

#[track_caller]
pub(super) fn counts(job: &Value) -> [u64; 3] {
    ["done", "skipped", "failed"].map(|name| job[name].as_u64().unwrap())
}

/// Kills tasks by attempts that all fail.
pub(super) async fn kill(site: &Site, ids: &[String]) {
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no answer after 300 ms".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    let worker = site.world.worker(site.node.service(), fails);
    for id in ids {
        site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    }
    for id in ids {
        let ended = site.get(&format!("/v1/tasks/{id}?wait=60s")).await.ok();
        assert_eq!(ended["state"], "dead", "{ended}");
    }
    site.world.pass(5 * SECOND).await;
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_cancel_job_cancels_the_tasks_of_its_filter_and_no_other() {
    let site = site().await;
    let bulk = tasks(&site, 230, json!({"collection": "bulk"})).await;
    let labelled = tasks(
        &site,
        3,
        json!({"collection": "bulk", "labels": {"tenant": "b"}}),
    )
    .await;
    let large = json!({"labels": {"tenant": "b"}, "payload": "x".repeat(5000)});
    let large = tasks(&site, 2, large).await;
    let others = tasks(&site, 5, json!({"collection": "other"})).await;
    let foreign = tasks(&site, 5, json!({"callback": "play", "collection": "bulk"})).await;
    let body = json!({"kind": "cancel", "filter": {"callback": "work", "labels": {"tenant": "b"}}});
    let job = done(&site, body).await;
    assert_eq!(
        (&job["state"], counts(&job)),
        (&json!("completed"), [5, 0, 0])
    );
    all_are(&states(&site, &labelled).await, "cancelled");
    all_are(&states(&site, &large).await, "cancelled");
    all_are(&states(&site, &bulk[..5]).await, "scheduled");
    let body = json!({"kind": "cancel", "filter": {"callback": "work", "collection": "bulk"}});
    let job = done(&site, body).await;
    assert_eq!(
        (counts(&job), &job["total_estimate"]),
        ([230, 0, 0], &json!(230))
    );
    assert_eq!(
        job["filter"],
        json!({"callback": "work", "collection": "bulk"})
    );
    all_are(&states(&site, &bulk).await, "cancelled");
    all_are(&states(&site, &others).await, "scheduled");
    all_are(&states(&site, &foreign).await, "scheduled");
    let job = done(&site, json!({"kind": "cancel", "all": true})).await;
    assert_eq!(counts(&job), [10, 0, 0]);
    all_are(&states(&site, &foreign).await, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_shows_twenty_and_changes_nothing() {
    let site = site().await;
    let bulk = tasks(&site, 25, json!({"payload": {"secret": 7}})).await;
    tasks(&site, 2, json!({"callback": "play"})).await;
    let filter = json!({"callback": "work", "state": "scheduled"});
    let job = done(
        &site,
        json!({"kind": "cancel", "filter": filter, "dry_run": true}),
    )
    .await;
    assert_eq!(
        (&job["total_estimate"], counts(&job)),
        (&json!(25), [0, 0, 0])
    );
    let sample = job["sample"].as_array().unwrap();
    assert_eq!((sample.len(), &job["dry_run"]), (20, &json!(true)));
    for task in sample {
        assert!(bulk.iter().any(|id| task["id"] == id.as_str()) && task.get("payload").is_none());
    }
    all_are(&states(&site, &bulk).await, "scheduled");
}

#[tokio::test(start_paused = true)]
async fn a_reschedule_job_moves_each_task_once() {
    let site = site().await;
    let near = tasks(&site, 12, json!({})).await;
    let later = tasks(&site, 3, json!({"delay": "20h"})).await;
    let to = site.get(&format!("/v1/tasks/{}", later[0])).await.ok()["start_time"].clone();
    let filter = json!({"callback": "work", "start_time_to": to});
    let body = json!({"kind": "reschedule", "filter": filter, "delay": "10h"});
    let job = done(&site, body).await;
    assert_eq!(counts(&job), [12, 0, 0]);
    for id in &near {
        let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
        assert_eq!(
            (&task["start_time"], &task["generation"]),
            (&job["start_time"], &json!(1))
        );
    }
    for id in &later {
        let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
        assert_eq!(task["generation"], 0);
    }
    // A start that has passed means now, and the tasks that were moved are not moved for ever.
    let body = json!({"kind": "reschedule", "filter": {"callback": "work"}, "start_time": "2020-01-01T00:00:00Z"});
    let job = done(&site, body).await;
    assert_eq!(counts(&job), [15, 0, 0]);
    all_are(&states(&site, &near).await, "enqueued");
}

#[tokio::test(start_paused = true)]
async fn dead_tasks_are_redriven_and_deleted_by_error() {
    let site = site().await;
    let dead = tasks(&site, 7, json!({"max_attempts": 1, "collection": "a"})).await;
    let other = tasks(&site, 3, json!({"max_attempts": 1, "collection": "b"})).await;
    let waiting = tasks(&site, 2, json!({})).await;
    kill(&site, &dead).await;
    kill(&site, &other).await;
    let filter = json!({"error": "another"});
    let job = done(&site, json!({"kind": "redrive", "filter": filter})).await;
    assert_eq!(counts(&job), [0, 0, 0]);
    let filter = json!({"error": "no answer after 17 ms", "collection": "a"});
    let dry = done(
        &site,
        json!({"kind": "redrive", "filter": filter, "dry_run": true}),
    )
    .await;
    assert_eq!(dry["total_estimate"], 7);
    let job = done(&site, json!({"kind": "redrive", "filter": filter})).await;
    assert_eq!(counts(&job), [7, 0, 0]);
    all_are(&states(&site, &dead).await, "enqueued");
    all_are(&states(&site, &other).await, "dead");
    let filter = json!({"callback": "work", "state": "dead"});
    let job = done(&site, json!({"kind": "delete", "filter": filter})).await;
    assert_eq!(counts(&job), [3, 0, 0]);
    all_are(&states(&site, &other).await, "gone");
    all_are(&states(&site, &waiting).await, "scheduled");
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_a_job_is_paused_resumed_and_ended() {
    let site = site().await;
    let bulk = tasks(&site, 40, json!({})).await;
    let filter = json!({"callback": "work"});
    let job = created(
        &site,
        json!({"kind": "cancel", "filter": filter, "rate_per_second": 2}),
    )
    .await;
    site.world.pass(5 * SECOND).await;
    let running = read(&site, &job).await;
    let done = counts(&running)[0];
    assert!((8..=12).contains(&done), "{running}");
    assert_eq!(
        (&running["state"], &running["rate_per_second"]),
        (&json!("running"), &json!(2.0))
    );
    let paused = order(&site, &job, "pause").await.ok();
    assert_eq!(paused["state"], "paused");
    site.world.pass(2 * SECOND).await;
    let stands = counts(&read(&site, &job).await)[0];
    assert!(stands <= done + 4, "a page is finished");
    site.world.pass(60 * SECOND).await;
    assert_eq!(counts(&read(&site, &job).await)[0], stands);
    assert_eq!(order(&site, &job, "pause").await.ok()["state"], "paused");
    assert_eq!(order(&site, &job, "resume").await.ok()["state"], "running");
    site.world.pass(3 * SECOND).await;
    let later = counts(&read(&site, &job).await)[0];
    assert!(later > stands && later <= stands + 9, "{stands} {later}");
    assert_eq!(
        order(&site, &job, "cancel").await.ok()["state"],
        "cancelled"
    );
    assert_eq!(
        order(&site, &job, "cancel").await.ok()["state"],
        "cancelled"
    );
    site.world.pass(60 * SECOND).await;
    let ended = read(&site, &job).await;
    let cancelled = states(&site, &bulk).await;
    let cancelled = cancelled
        .iter()
        .filter(|state| *state == "cancelled")
        .count();
    assert_eq!(
        counts(&ended)[0],
        cancelled as u64,
        "what was done is counted"
    );
    for wrong in ["pause", "resume"] {
        let refused = order(&site, &job, wrong).await;
        assert_eq!(
            (refused.status.as_u16(), refused.problem().code.as_str()),
            (409, "job_ended")
        );
    }
    let unknown = site.post(&format!("{JOBS}/x/pause"), "").await.problem();
    assert_eq!(unknown.code, "job_not_found");
}

#[tokio::test(start_paused = true)]
#[ignore = "days of virtual time: make test-all"]
async fn a_repeated_registration_is_one_job_and_jobs_are_listed_for_days() {
    let site = site().await;
    let body = json!({"kind": "cancel", "filter": {"callback": "work"}});
    let keyed = |body: &Value| {
        let request = Request::builder().method("POST").uri(JOBS);
        let request = request.header("content-type", "application/json");
        let request = request.header("idempotency-key", "\"k-1\"");
        request.body(Body::from(body.to_string())).unwrap()
    };
    let first = site.send(keyed(&body)).await;
    let again = site.send(keyed(&body)).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 200));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = site
        .send(keyed(&json!({"kind": "cancel", "all": true})))
        .await;
    assert_eq!(other.problem().code, "idempotency_key_reused");
    site.world.pass(2 * SECOND).await;
    for _ in 0..3 {
        done(&site, body.clone()).await;
        site.world.pass(SECOND).await;
    }
    let (mut ids, mut token) = (Vec::new(), String::new());
    loop {
        let page = site
            .get(&format!("{JOBS}?page_size=3&page_token={token}"))
            .await
            .ok();
        ids.extend(page["jobs"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(ids.len(), 4);
    assert_eq!(ids[3]["id"], first.json()["id"], "the newest is first");
    site.world.pass(Duration::from_secs(3 * 86_400 + 60)).await;
    assert_eq!(site.get(JOBS).await.ok(), json!({"jobs": []}));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_as_its_author_believes_is_refused() {
    let site = site().await;
    let refused = async |body: Value| site.post(JOBS, body.to_string()).await.problem();
    for (body, pointer) in [
        (json!({"kind": "cancel"}), "/filter"),
        (json!({"kind": "delete", "filter": {}}), "/filter"),
        (
            json!({"kind": "cancel", "filter": {"error": "e"}}),
            "/filter/error",
        ),
        (
            json!({"kind": "cancel", "filter": {"state": "dead"}}),
            "/filter/state",
        ),
        (
            json!({"kind": "cancel", "filter": {"state": "succeeded"}}),
            "/filter/state",
        ),
        (
            json!({"kind": "redrive", "filter": {"state": "failed"}}),
            "/filter/state",
        ),
        (
            json!({"kind": "delete", "filter": {"state": "scheduled"}}),
            "/filter/state",
        ),
        (
            json!({"kind": "reschedule", "delay": "1h", "filter": {"state": "processing"}}),
            "/filter/state",
        ),
    ] {
        let problem = refused(body.clone()).await;
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "unusable_filter"),
            "{body}"
        );
        assert_eq!(problem.errors[0].pointer, pointer, "{body}");
    }
    for (body, pointer) in [
        (
            json!({"kind": "cancel", "filter": {"callback": "a/b"}}),
            "/filter/callback",
        ),
        (
            json!({"kind": "cancel", "filter": {"start_time_to": "tomorrow"}}),
            "/filter/start_time_to",
        ),
        (
            json!({"kind": "cancel", "all": true, "delay": "1h"}),
            "/delay",
        ),
        (json!({"kind": "reschedule", "all": true}), ""),
        (
            json!({"kind": "cancel", "all": true, "rate_per_second": 0}),
            "/rate_per_second",
        ),
        (
            json!({"kind": "cancel", "all": true, "rate_per_second": 1e12}),
            "/rate_per_second",
        ),
        (
            json!({"kind": "cancel", "filter": {"labels": {"": "x"}}}),
            "/filter/labels/",
        ),
    ] {
        let problem = refused(body.clone()).await;
        assert_eq!(problem.code, "invalid_request", "{body}");
        assert_eq!(problem.errors[0].pointer, pointer, "{body}");
    }
    for body in [
        json!({"kind": "sing", "all": true}),
        json!({"kind": "cancel", "filter": {"callbak": "c"}}),
    ] {
        assert_eq!(refused(body.clone()).await.status, 400, "{body}");
    }
    assert_eq!(site.get(JOBS).await.ok(), json!({"jobs": []}));
    // A store whose slots lie apart has no list of all tasks.
    let apart = Site::new();
    apart.world.pass(3 * SECOND).await;
    let body = json!({"kind": "cancel", "filter": {"callback": "work"}});
    let problem = apart.post(JOBS, body.to_string()).await.problem();
    assert_eq!(problem.errors[0].pointer, "/filter/start_time_to");
    let ids = tasks(&apart, 3, json!({})).await;
    let last = tasks(&apart, 1, json!({"delay": "2h"})).await;
    let to = apart.get(&format!("/v1/tasks/{}", last[0])).await.ok()["start_time"].clone();
    let body = json!({"kind": "cancel", "filter": {"callback": "work", "start_time_to": to}});
    assert_eq!(counts(&done(&apart, body).await), [3, 0, 0]);
    all_are(&states(&apart, &ids).await, "cancelled");
    all_are(&states(&apart, &last).await, "scheduled");
}

#[tokio::test(start_paused = true)]
async fn only_so_many_jobs_are_open() {
    let site = site().await;
    tasks(&site, 2, json!({})).await;
    let body = json!({"kind": "cancel", "filter": {"callback": "work"}, "rate_per_second": 0.001});
    for _ in 0..20 {
        let job = created(&site, body.clone()).await;
        order(&site, &job, "pause").await.ok();
    }
    let refused = site.post(JOBS, body.to_string()).await;
    assert_eq!(refused.status, 429);
    assert!(refused.problem().detail.contains("at most 20"));
    assert_eq!(refused.header("retry-after"), "30");
    let jobs = site.get(JOBS).await.ok();
    order(&site, &jobs["jobs"][0], "cancel").await.ok();
    created(&site, body).await;
}
