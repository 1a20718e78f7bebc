//! The first page of a list by what is indexed takes no longer when there are many tasks.
//!
//! The same lists are read among few tasks and then among many, so that the speed of the machine does not count.
//! `TICKWHEEL_LIST_TASKS` says how many these are, and `TICKWHEEL_LIST_MS` how many milliseconds a list may take then; without it
//! the times are only compared. With ten million tasks and a release build: `TICKWHEEL_LIST_MS=50 TICKWHEEL_LIST_TASKS=10000000
//! cargo test --release --features testing --test integration first_page -- --ignored --nocapture`.

use std::{ops::Range, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{model::state::Outcome, time_source::TimeSource};

use super::{Site, jobs::site};
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);
const BATCH: usize = 1000;
const FAILED: usize = 1000;
const ROUNDS: usize = 21;

/// Tasks of the first readings. Each label has a page of them.
const FEW: usize = 2000;

/// Labels that the tasks have in turn.
const TENANTS: usize = 20;

/// A list that grows with the tasks takes ten times as long among ten times as many.
const LONGER_MAX: u128 = 4;

/// The lists, and how many tasks each shows at least.
const LISTS: [(&str, usize); 5] = [
    ("/v1/tasks?callback=work&label.tenant=t7", 100),
    ("/v1/tasks?callback=work", 100),
    ("/v1/tasks?callback=work&state=failed", 100),
    ("/v1/tasks?callback=work&key=one", 1),
    ("/v1/tasks", 100),
];

fn setting(name: &str) -> Option<usize> {
    let value = std::env::var(name).ok();
    value.map(|text| text.parse().expect("a number"))
}

async fn batch(site: &Site, tasks: Vec<Value>) {
    let count = tasks.len();
    let body = json!({"tasks": tasks}).to_string();
    let answer = site.post("/v1/tasks:batchCreate", body).await.ok();
    let results = answer["results"].as_array().expect("results");
    let made = results.iter().filter(|one| one.get("task").is_some());
    assert_eq!(made.count(), count);
}

/// A site where one task has a key and some have failed.
async fn filled() -> Site {
    let site = site().await;
    let set = json!({"indexed_labels": ["tenant"]});
    site.put("/v1/callbacks/work", &set).await;
    site.world.pass(3 * SECOND).await;
    let failed = (0..FAILED).map(|_| json!({"callback": "work"}));
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 100, Some(Outcome::Failed { error }))
    });
    let worker = site.world.worker(site.node.service(), fails);
    batch(&site, failed.collect()).await;
    site.world.pass(30 * SECOND).await;
    worker.abort();
    batch(
        &site,
        vec![json!({"callback": "work", "delay": "10h", "key": "one"})],
    )
    .await;
    site
}

/// Registers the tasks of these numbers.
async fn add(site: &Site, numbers: Range<usize>) {
    let last = numbers.end;
    for first in numbers.step_by(BATCH) {
        let task = |number: usize| {
            let delay = format!("{}s", 3600 + number % 86_400);
            let labels = json!({"tenant": format!("t{}", number % TENANTS)});
            json!({"callback": "work", "delay": delay, "labels": labels})
        };
        let tasks = first..last.min(first + BATCH);
        batch(site, tasks.map(task).collect()).await;
    }
}

/// Returns the shortest time of each list, in microseconds: other programs can only make it longer.
async fn timed(site: &Site) -> Vec<u128> {
    // The clock of the world is simulated; this one is not.
    let clock = TimeSource::real();
    let mut shortest = Vec::new();
    for (path, least) in LISTS {
        let mut taken = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = clock.moment();
            let page = site.get(path).await.ok();
            taken.push(clock.moment().since(began).as_micros());
            let tasks = page["tasks"].as_array().expect("tasks");
            assert!(tasks.len() >= least, "{path}: {} tasks", tasks.len());
        }
        shortest.push(taken.into_iter().min().unwrap_or_default());
    }
    shortest
}

#[tokio::test(start_paused = true)]
#[ignore = "registers many tasks: make test-all"]
async fn the_first_page_by_an_index_takes_no_longer_among_many_tasks() {
    let many = setting("TICKWHEEL_LIST_TASKS").unwrap_or(10 * FEW);
    let limit = setting("TICKWHEEL_LIST_MS").map(|limit| limit as u128 * 1000);
    let site = filled().await;
    add(&site, 0..FEW).await;
    let among_few = timed(&site).await;
    add(&site, FEW..many).await;
    let among_many = timed(&site).await;
    for (((path, _), few), many) in LISTS.iter().zip(among_few).zip(among_many) {
        println!("{path}: {few} us among few tasks, {many} us among many");
        assert!(many <= LONGER_MAX * few, "{path}: {few} us, then {many} us");
        assert!(limit.is_none_or(|limit| many <= limit), "{path}: {many} us");
    }
}
