//! Schedules start tasks at the times of a clock, and are paused, changed, previewed and listed by people.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, Request},
};
use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::Site;
use crate::sim::world::{Behaviour, World, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn site() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    site
}

pub(super) fn every(interval: &str) -> Value {
    json!({"every": interval, "overlap": "allow", "task": {"callback": "work", "payload": {"n": 1}}})
}

pub(super) async fn set(site: &Site, name: &str, body: Value) -> Value {
    let answer = site.put(&format!("/v1/schedules/{name}"), &body).await;
    assert!(answer.status.is_success(), "{:?}", answer.body);
    answer.json()
}

pub(super) async fn runs(site: &Site, name: &str) -> Vec<Value> {
    let page = site.get(&format!("/v1/schedules/{name}/runs")).await.ok();
    page["runs"].as_array().unwrap().clone()
}

/// The starts of the executions so far, in seconds since the world began.
pub(super) fn executed(site: &Site) -> Vec<i64> {
    let executions = site.world.executions.lock().unwrap();
    let mut began: Vec<i64> = executions.iter().map(|one| one.began.0).collect();
    began.sort_unstable();
    began
}

pub(super) fn millis(text: &Value) -> i64 {
    text.as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap()
        .as_millisecond()
}

#[tokio::test(start_paused = true)]
async fn a_schedule_starts_its_task_at_each_of_its_times_to_the_millisecond() {
    let site = site().await;
    let worker = site.world.worker(site.node.service(), succeeds(SECOND));
    let created = set(&site, "ping", every("20s")).await;
    assert_eq!(
        (&created["state"], &created["generation"]),
        (&json!("live"), &json!(1))
    );
    assert_eq!(created["description"], "Every 20 seconds");
    let next = created["next_run_times"].as_array().unwrap();
    assert_eq!(next.len(), 5, "{created}");
    let begin = millis(&created["create_time"]);
    assert_eq!(millis(&next[0]), begin + 20_000);
    site.world.pass(5 * MINUTE).await;
    let began = executed(&site);
    assert!((14..=15).contains(&began.len()), "{began:?}");
    for (number, began) in (1..).zip(&began) {
        assert_eq!(*began, begin + 20_000 * number);
    }
    let runs = runs(&site, "ping").await;
    let ended = runs
        .iter()
        .filter(|run| run["state"] == "succeeded")
        .count();
    assert!(ended >= began.len() - 1, "{ended} of {}", began.len());
    let task = &runs.last().unwrap()["task"];
    assert_eq!(
        (&task["schedule"], &task["target"]["name"]),
        (&json!("ping"), &json!("work"))
    );
    assert_eq!(
        task["scheduled_time"],
        runs.last().unwrap()["scheduled_time"]
    );
    assert!(
        runs.iter().any(|run| run["state"] == "scheduled"),
        "runs to come are listed"
    );
    let other = json!({"callback": "work", "delay": "1h"});
    assert_eq!(site.post("/v1/tasks", other.to_string()).await.status, 201);
    let listed = site.get("/v1/tasks?schedule=ping").await.ok();
    let listed = listed["tasks"].as_array().unwrap();
    assert!(!listed.is_empty() && listed.iter().all(|task| task["schedule"] == "ping"));
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_change_withdraws_the_runs_to_come_and_a_pause_starts_none() {
    let site = site().await;
    let worker = site
        .world
        .worker(site.node.service(), succeeds(SECOND / 10));
    set(&site, "ping", every("10s")).await;
    site.world.pass(MINUTE).await;
    let before = executed(&site).len();
    let body = json!({"reason": "holidays", "who": "ann"}).to_string();
    let paused = site.post("/v1/schedules/ping/pause", body).await.ok();
    assert_eq!(paused["state"], "paused");
    assert_eq!(
        (&paused["pause"]["reason"], &paused["pause"]["who"]),
        (&json!("holidays"), &json!("ann"))
    );
    assert!(paused["runs_cancelled"].as_u64().unwrap() > 0, "{paused}");
    assert_eq!(paused["next_run_times"], json!([]));
    site.world.pass(5 * MINUTE).await;
    assert_eq!(
        executed(&site).len(),
        before,
        "no run begins behind the answer"
    );
    let again = site.post("/v1/schedules/ping/pause", "{}").await.ok();
    assert_eq!(
        again["pause"]["reason"], "holidays",
        "it was paused already"
    );
    let since = paused["pause"]["since"].clone();
    let body = json!({"reason": "the holidays are longer", "who": "bob"}).to_string();
    let longer = site.post("/v1/schedules/ping/pause", body).await.ok();
    assert_eq!(
        longer["pause"],
        json!({"reason": "the holidays are longer", "who": "bob", "since": since})
    );
    let read = site.get("/v1/schedules/ping").await.ok();
    assert_eq!(read["pause"], longer["pause"]);
    assert_eq!(read["generation"], paused["generation"]);
    let resumed = site.post("/v1/schedules/ping/resume", "").await.ok();
    assert_eq!(
        (&resumed["state"], &resumed["runs_missed"]),
        (&json!("live"), &json!(0))
    );
    site.world.pass(MINUTE).await;
    let after = executed(&site).len() - before;
    assert!((5..=7).contains(&after), "{after}");
    // Other settings: nothing of the old ones begins.
    let changed = set(&site, "ping", every("1h")).await;
    assert_eq!(changed["generation"], json!(4));
    let count = executed(&site).len();
    site.world.pass(10 * MINUTE).await;
    assert_eq!(executed(&site).len(), count);
    let same = set(&site, "ping", every("1h")).await;
    assert_eq!(
        same["generation"],
        json!(4),
        "the same settings change nothing"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_deleted_and_its_name_is_free() {
    let site = site().await;
    let worker = site
        .world
        .worker(site.node.service(), succeeds(SECOND / 10));
    set(&site, "ping", every("10s")).await;
    site.world.pass(30 * SECOND).await;
    let deleted = site.delete("/v1/schedules/ping").await.ok();
    assert_eq!(deleted["generation"], 2, "{deleted}");
    assert!(deleted["runs_cancelled"].is_u64() && deleted["runs_started"].is_u64());
    let count = executed(&site).len();
    site.world.pass(2 * MINUTE).await;
    assert_eq!(executed(&site).len(), count);
    for answer in [
        site.get("/v1/schedules/ping").await,
        site.delete("/v1/schedules/ping").await,
        site.get("/v1/schedules/ping/runs").await,
        site.post("/v1/schedules/ping/trigger", "").await,
    ] {
        assert_eq!(
            (answer.status.as_u16(), answer.problem().code.as_str()),
            (404, "schedule_not_found")
        );
    }
    assert_eq!(site.get("/v1/schedules").await.ok()["schedules"], json!([]));
    let again = site.put("/v1/schedules/ping", &every("10s")).await;
    assert_eq!(again.status, 201);
    site.world.pass(30 * SECOND).await;
    assert!(executed(&site).len() > count);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn runs_do_not_overlap_unless_they_may() {
    for (overlap, least, most, skipped) in [
        ("skip", 3, 5, true),
        ("buffer_one", 3, 5, true),
        ("allow", 8, 9, false),
    ] {
        let site = site().await;
        let worker = site
            .world
            .worker(site.node.service(), succeeds(45 * SECOND));
        let mut body = every("20s");
        body["overlap"] = json!(overlap);
        set(&site, "slow", body).await;
        site.world.pass(3 * MINUTE).await;
        let began = executed(&site);
        assert!(
            (least..=most).contains(&began.len()),
            "{overlap}: {began:?}"
        );
        let read = site.get("/v1/schedules/slow").await.ok();
        assert_eq!(
            read["runs_skipped"].as_u64().unwrap() > 0,
            skipped,
            "{overlap}: {read}"
        );
        if overlap != "allow" {
            assert!(
                began.windows(2).all(|two| two[1] - two[0] >= 45_000),
                "{overlap}: {began:?}"
            );
            let listed = runs(&site, "slow").await;
            let skips = listed
                .iter()
                .filter(|run| run["reason"] == "skipped")
                .count();
            assert_eq!(
                skips as u64,
                read["runs_skipped"].as_u64().unwrap(),
                "{overlap}"
            );
        }
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_the_one_before_to_stop_and_a_failure_pauses() {
    let site = site().await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND, Some(Outcome::Failed { error }))
    });
    let worker = site.world.worker(site.node.service(), fails);
    let mut body = every("30s");
    body["pause_on_failure"] = json!(true);
    set(&site, "fragile", body).await;
    site.world.pass(2 * MINUTE).await;
    let read = site.get("/v1/schedules/fragile").await.ok();
    assert_eq!(
        (&read["state"], &read["pause"]["who"]),
        (&json!("paused"), &json!("tickwheel"))
    );
    assert!(
        read["pause"]["reason"].as_str().unwrap().contains("failed"),
        "{read}"
    );
    let count = executed(&site).len();
    assert!(count <= 2, "{count}");
    site.world.pass(5 * MINUTE).await;
    assert_eq!(executed(&site).len(), count);
    worker.abort();

    let site = self::site().await;
    let worker = site
        .world
        .worker(site.node.service(), succeeds(50 * SECOND));
    let mut body = every("30s");
    body["overlap"] = json!("cancel_other");
    set(&site, "latest", body).await;
    site.world.pass(65 * SECOND).await;
    let listed = runs(&site, "latest").await;
    let stopped = |run: &&Value| run["task"]["cancel_requested"] == json!(true);
    assert_eq!(listed.iter().filter(stopped).count(), 1, "{listed:?}");
    site.world.pass(3 * MINUTE).await;
    let began = executed(&site);
    // Each is stopped before its 50 seconds are over, and the next one begins when it has ended.
    let stopped = |two: &[i64]| (30_000..50_000).contains(&(two[1] - two[0]));
    assert!(
        began.len() >= 4 && began.windows(2).all(stopped),
        "{began:?}"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_trigger_starts_a_run_now_once_for_each_key() {
    let site = site().await;
    let worker = site
        .world
        .worker(site.node.service(), succeeds(SECOND / 10));
    let mut body = every("1h");
    body["paused"] = json!(true);
    body["start_time"] = json!("2030-01-01T00:00:00Z");
    let created = set(&site, "later", body).await;
    assert_eq!(created["state"], "paused");
    let keyed = || {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/schedules/later/trigger");
        request
            .header("idempotency-key", "k1")
            .body(Body::empty())
            .unwrap()
    };
    let first = site.send(keyed()).await;
    assert_eq!(first.status, 201, "{:?}", first.body);
    let again = site.send(keyed()).await;
    assert_eq!(
        (again.status.as_u16(), &again.json()["id"]),
        (200, &first.json()["id"])
    );
    assert_eq!(
        site.post("/v1/schedules/later/trigger", "").await.status,
        201
    );
    site.world.pass(5 * SECOND).await;
    assert_eq!(executed(&site).len(), 2);
    let listed = runs(&site, "later").await;
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(
        listed
            .iter()
            .all(|run| run["cause"] == "trigger" && run["state"] == "succeeded")
    );
    let read = site.get("/v1/schedules/later").await.ok();
    assert_eq!(read["runs"], json!(0), "it is not counted");
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_key_of_a_request_that_comes_with_other_settings_is_refused() {
    let site = site().await;
    let put = |hours: &str| {
        let request = Request::builder()
            .method(Method::PUT)
            .uri("/v1/schedules/keyed")
            .header("content-type", "application/json")
            .header("idempotency-key", "k1");
        request.body(Body::from(every(hours).to_string())).unwrap()
    };
    assert_eq!(site.send(put("1h")).await.status, 201);
    assert_eq!(site.send(put("1h")).await.status, 200);
    let other = site.send(put("2h")).await;
    assert_eq!(other.status, 422, "{:?}", other.body);
    let read = site.get("/v1/schedules/keyed").await.ok();
    assert_eq!(read["every"], "1h");
}

/// Runs are decided on before their times. The last of a limited schedule are no reason to call it ended.
#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_until_its_last_run_and_can_be_paused_until_then() {
    let site = site().await;
    let worker = site.world.worker(site.node.service(), succeeds(SECOND));
    let mut body = every("2s");
    body["limit"] = json!(10);
    set(&site, "ten", body).await;
    site.world.pass(5 * SECOND).await;
    let path = "/v1/schedules/ten";
    let read = async || site.get(path).await.ok();
    let there = read().await;
    assert_eq!(
        (&there["state"], &there["runs"]),
        (&json!("live"), &json!(10))
    );
    let pause = site
        .post(&format!("{path}/pause"), r#"{"reason":"wait"}"#)
        .await
        .ok();
    assert_eq!(pause["state"], "paused");
    let begun = 10 - pause["runs_cancelled"].as_u64().unwrap();
    assert!((1..5).contains(&begun), "{pause}");
    site.world.pass(20 * SECOND).await;
    assert_eq!(executed(&site).len() as u64, begun);
    for verb in ["resume", "pause", "resume"] {
        site.post(&format!("{path}/{verb}"), "{}").await.ok();
    }
    assert_eq!(read().await["state"], "live");
    site.world.pass(30 * SECOND).await;
    let over = read().await;
    assert_eq!(
        (&over["state"], &over["runs"]),
        (&json!("ended"), &json!(10))
    );
    assert_eq!(executed(&site).len(), 10);
    let refused = site.post(&format!("{path}/pause"), "{}").await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (reqwest::StatusCode::CONFLICT, &json!("schedule_ended"))
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn limits_and_missed_times_are_kept_over_an_outage() {
    let world = World::new(1, 1000);
    let first = world.node(1);
    world.pass(3 * SECOND).await;
    let site = Site::of(world.clone(), first);
    let mut body = every("60s");
    body["missed"] = json!("all");
    body["catch_up_window"] = json!("5m");
    body["limit"] = json!(8);
    set(&site, "ping", body).await;
    site.world.pass(20 * SECOND).await;
    site.node.crash();
    // The service is away for ten minutes.
    world.pass(10 * MINUTE).await;
    let site = Site::of(world.clone(), world.node(2));
    let worker = world.worker(site.node.service(), succeeds(SECOND / 10));
    world.pass(5 * MINUTE).await;
    let read = site.get("/v1/schedules/ping").await.ok();
    assert_eq!(
        (&read["state"], &read["runs"]),
        (&json!("ended"), &json!(8)),
        "{read}"
    );
    let missed = read["runs_missed"].as_u64().unwrap();
    assert!((3..=5).contains(&missed), "{read}");
    assert_eq!(executed(&site).len(), 8);
    let pause = site.post("/v1/schedules/ping/pause", "{}").await;
    assert_eq!(
        (pause.status.as_u16(), pause.problem().code.as_str()),
        (409, "schedule_ended")
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn all_missed_runs_follow_each_other_unless_the_user_says_otherwise() {
    for overlap in [None, Some("skip")] {
        let world = World::new(1, 1000);
        let first = world.node(1);
        world.pass(3 * SECOND).await;
        let site = Site::of(world.clone(), first);
        let mut body = every("10m");
        body["missed"] = json!("all");
        body["overlap"] = json!(overlap);
        let shown = set(&site, "ping", body).await;
        assert_eq!(
            shown.get("overlap").and_then(Value::as_str),
            overlap,
            "{shown}"
        );
        site.world.pass(20 * SECOND).await;
        site.node.crash();
        world.pass(34 * MINUTE).await;
        let site = Site::of(world.clone(), world.node(2));
        let worker = world.worker(site.node.service(), succeeds(SECOND * 20));
        world.pass(4 * MINUTE).await;
        let read = site.get("/v1/schedules/ping").await.ok();
        let (runs, skipped) = if overlap.is_none() { (3, 0) } else { (1, 2) };
        assert_eq!(
            (&read["runs"], &read["runs_skipped"], &read["runs_missed"]),
            (&json!(runs), &json!(skipped), &json!(0)),
            "{read}"
        );
        let began = executed(&site);
        let apart = began.windows(2).all(|two| two[1] - two[0] >= 20_000);
        assert!(began.len() == runs && apart, "{began:?}");
        worker.abort();
    }
}
