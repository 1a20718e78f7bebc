//! Backfills start the runs of a schedule beside each other, one after the other, or instead of each other, as people ask.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::doubles::store::faulty::{Call, Fate};

use super::{
    Site,
    schedules::{runs, set},
};
use crate::sim::world::{World, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(7);

async fn begun(site: &Site, more: Value) -> Value {
    let mut body = json!({"from": "2027-01-14T00:00:00Z", "to": "2027-01-14T04:00:00Z"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let path = "/v1/schedules/hourly/backfill";
    let answer = site.post(path, body.to_string()).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    answer.json()
}

async fn ended(site: &Site, job: &Value) -> Value {
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    for _ in 0..200 {
        let job = site.get(&path).await.ok();
        if job.get("end_time").is_some() {
            return job;
        }
        site.world.pass(SECOND).await;
    }
    panic!("it does not end");
}

fn hourly() -> Value {
    json!({"cron": "0 * * * *", "task": {"callback": "work"}})
}

/// The beginnings and ends of the executions, by their beginnings, in milliseconds.
fn executed(site: &Site) -> Vec<(i64, i64)> {
    let executions = site.world.executions.lock().unwrap();
    let mut all: Vec<(i64, i64)> = executions
        .iter()
        .map(|one| (one.began.0, one.ended.0))
        .collect();
    all.sort_unstable();
    all
}

#[track_caller]
fn run_one_at_a_time(executions: &[(i64, i64)]) {
    let apart = executions.windows(2).all(|two| two[0].1 <= two[1].0);
    assert!(apart, "{executions:?}");
}

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    set(&site, "hourly", hourly()).await;
    site
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_backfill_follow_each_other_and_none_is_left_out() {
    let site = site().await;
    site.world.worker(site.node.service(), succeeds(LONG));
    let job = begun(&site, json!({"overlap": "buffer_one"})).await;
    assert_eq!(
        (&job["overlap"], &job["total_estimate"]),
        (&json!("buffer_one"), &json!(5)),
        "its times are counted when it is registered"
    );
    let job = ended(&site, &job).await;
    assert_eq!((&job["done"], &job["skipped"]), (&json!(5), &json!(0)));
    site.world.pass(20 * SECOND).await;
    let executions = executed(&site);
    assert_eq!(executions.len(), 5);
    run_one_at_a_time(&executions);
    let listed = runs(&site, "hourly").await;
    let times = listed.iter().filter(|run| run["cause"] == "backfill");
    assert!(times.clone().is_sorted_by_key(|run| {
        std::cmp::Reverse(run["scheduled_time"].as_str().unwrap().to_owned())
    }));
    assert_eq!(times.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_turn_comes_too_soon_is_left_out_or_ends_the_other() {
    let site = site().await;
    let worker = site.world.worker(site.node.service(), succeeds(LONG));
    let skips = json!({"overlap": "skip", "rate_per_second": 0.25});
    let job = ended(&site, &begun(&site, skips).await).await;
    let (done, skipped) = (
        job["done"].as_u64().unwrap(),
        job["skipped"].as_u64().unwrap(),
    );
    assert_eq!(done + skipped, 5, "{job}");
    assert!(done >= 2 && skipped >= 2, "{job}");
    site.world.pass(20 * SECOND).await;
    let executions = executed(&site);
    assert_eq!(executions.len() as u64, done);
    run_one_at_a_time(&executions);
    let listed = runs(&site, "hourly").await;
    let left_out = listed.iter().filter(|run| run["reason"] == "skipped");
    assert_eq!(left_out.count() as u64, skipped, "{listed:?}");
    // No worker takes these: each but the last is told to stop by the one behind it.
    worker.abort();
    let job = begun(&site, json!({"overlap": "cancel_other"})).await;
    let job = ended(&site, &job).await;
    assert_eq!((&job["done"], &job["skipped"]), (&json!(5), &json!(0)));
    let listed = runs(&site, "hourly").await;
    // Beside those that the first backfill has left out.
    let is = |run: &&Value, state: &str| run["state"] == state && run["reason"] != "skipped";
    let count = |state: &str| listed.iter().filter(|run| is(run, state)).count();
    assert_eq!(
        (count("cancelled"), count("enqueued")),
        (4, 1),
        "{listed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_has_no_end_that_a_backfill_could_wait_for() {
    let site = site().await;
    let body = json!({"cron": "0 * * * *", "task": {"kafka": {"topic": "events"}}});
    set(&site, "records", body).await;
    let body =
        json!({"from": "2027-01-14T00:00:00Z", "to": "2027-01-14T04:00:00Z", "overlap": "skip"});
    let path = "/v1/schedules/records/backfill";
    let problem = site.post(path, body.to_string()).await.problem();
    assert_eq!(
        (problem.code.as_str(), problem.errors[0].pointer.as_str()),
        ("invalid_request", "/overlap")
    );
}

/// Two nodes, of which the first dies at its n-th write; the second one is asked.
async fn crashed(nth: usize) {
    let world = World::new(1, 1000);
    let (armed, seen) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let watched = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        let dies = call.writes && watched.load(SeqCst) && seen.fetch_add(1, SeqCst) == nth;
        match dies {
            true if nth.is_multiple_of(2) => Fate::StopBefore,
            true => Fate::StopAfter,
            false => Fate::Go,
        }
    };
    let _first = world.node_with(1, Arc::new(fates));
    let node = world.node(2);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    set(&site, "hourly", hourly()).await;
    site.world.worker(site.node.service(), succeeds(3 * SECOND));
    armed.store(true, SeqCst);
    let job = begun(&site, json!({"overlap": "buffer_one"})).await;
    let job = ended(&site, &job).await;
    assert_eq!(job["done"], 5, "{nth}: {job}");
    site.world.pass(60 * SECOND).await;
    let executions = executed(&site);
    assert_eq!(executions.len(), 5, "{nth}");
    run_one_at_a_time(&executions);
}

#[test]
fn a_backfill_in_turn_survives_a_node_at_its_writes() {
    for nth in [0, 1, 2, 3, 4, 5, 6, 8, 11, 14] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(crashed(nth));
    }
}
