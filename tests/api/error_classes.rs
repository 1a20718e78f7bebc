//! Classes of errors hold hosts and statuses of requests over HTTP, and all that filters by a class agrees about them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::{
    Site,
    dead_letters::{GROUPS, by_job, dead, escaped, listed},
};
use crate::sim::world::{Behaviour, World};

const SECOND: Duration = Duration::from_secs(1);

/// Errors, each with its class. Those of one class come one after the other.
const ERRORS: [(&str, &str); 11] = [
    (
        "10.0.0.7:8080 answered 500: db 7 down",
        "10.0.0.7:8080 answered 500: db # down",
    ),
    (
        "10.0.0.7:8080 answered 500: db 8 down\nline 2",
        "10.0.0.7:8080 answered 500: db # down",
    ),
    (
        "10.0.0.8:8080 answered 500: db 7 down",
        "10.0.0.8:8080 answered 500: db # down",
    ),
    (
        "10.0.0.7:8081 answered 500: db 7 down",
        "10.0.0.7:8081 answered 500: db # down",
    ),
    ("10.0.0.7:8080 answered 401", "10.0.0.7:8080 answered 401"),
    (
        "[2001:db8::7]:8443 answered 404: no page",
        "[2001:db8::7]:8443 answered 404: no page",
    ),
    (
        "[2001:db8::8]:8443 answered 404: no page",
        "[2001:db8::8]:8443 answered 404: no page",
    ),
    (
        "api-7.example.com answered 503",
        "api-7.example.com answered 503",
    ),
    (
        "the request to api-7.example.com failed: peer 10.0.0.1:443 is away",
        "the request to api-7.example.com failed: peer #.#.#.#:# is away",
    ),
    (
        "the request to api-7.example.com failed: peer 10.0.0.2:443 is away",
        "the request to api-7.example.com failed: peer #.#.#.#:# is away",
    ),
    ("worker 7 answered 500", "worker # answered #"),
];

/// The errors, one behind the other.
fn fails() -> Behaviour {
    let next = AtomicUsize::new(0);
    Arc::new(move |_, _| {
        let (error, _) = ERRORS[next.fetch_add(1, Relaxed) % ERRORS.len()];
        let outcome = Outcome::Retry {
            error: error.to_owned(),
            after: None,
        };
        (SECOND / 10, Some(outcome))
    })
}

fn sorted(mut ids: Vec<&str>) -> Vec<&str> {
    ids.sort_unstable();
    ids
}

/// Every page of a list of tasks. A page may have no tasks and not be the last.
async fn tasks(site: &Site, query: &str) -> Vec<Value> {
    let (mut tasks, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/tasks?{query}&page_token={token}");
        let page = site.get(&path).await.ok();
        tasks.extend(page["tasks"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return tasks,
        }
    }
}

async fn check(world: World) {
    let node = world.node(1);
    let site = Site::of(world, node);
    let worker = site.world.worker(site.node.service(), fails());
    site.world.pass(3 * SECOND).await;
    let ids = dead(&site, "work", ERRORS.len(), json!({})).await;
    worker.abort();
    let groups = site.get(&format!("{GROUPS}?callback=work")).await.ok();
    let groups = groups.as_array().unwrap();
    assert_eq!(groups.len(), 9, "{groups:?}");
    for (error, class) in ERRORS {
        let of_class = ids.iter().zip(ERRORS).filter(|(_, (_, of))| *of == class);
        let wanted = sorted(of_class.map(|(id, _)| id.as_str()).collect());
        let group = groups.iter().find(|group| group["error"] == class);
        assert_eq!(group.unwrap()["tasks"], wanted.len(), "{class}");
        for filter in [error, class] {
            let query = format!("callback=work&error={}", escaped(filter));
            let letters = listed(&site, &query).await;
            let found = letters.iter().map(|letter| letter["id"].as_str().unwrap());
            assert_eq!(sorted(found.collect()), wanted, "{filter}");
            let tasks = tasks(&site, &query).await;
            let found = tasks.iter().map(|task| task["id"].as_str().unwrap());
            assert_eq!(sorted(found.collect()), wanted, "{filter}");
            let dry: Value = json!({"callback": "work", "error": filter, "dry_run": true});
            let job = by_job(&site, dry).await;
            assert_eq!(job["total_estimate"], wanted.len(), "{filter}: {job}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_filters_by_a_class_agree() {
    check(World::new(2, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn all_filters_by_a_class_agree_on_disk() {
    check(World::on_disk(2, 1000)).await;
}
