//! Labels that a callback names let clients find its tasks quickly, over their whole retention.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    store::index::{IndexKind, IndexRange, IndexStore as _, Partition},
};

use super::{
    Site,
    callbacks::{PATH, ready},
    worker::call,
};
use crate::sim::world::World;

const SECOND: Duration = Duration::from_secs(1);
const ACME: &str = "callback=send_email&label.tenant=acme";

fn task(tenant: &str, delay: &str) -> Value {
    json!({"callback": "send_email", "delay": delay, "labels": {"tenant": tenant, "tier": "gold"}})
}

async fn indexed() -> Site {
    let site = ready().await;
    let policy = json!({"indexed_labels": ["tenant", "user"], "retention": "24h"});
    let set = site.put(PATH, &policy).await.json();
    assert_eq!(set["indexed_labels"], json!(["tenant", "user"]));
    site.world.pass(3 * SECOND).await;
    site
}

/// Every page of a list: ids and states, by id.
async fn listed(site: &Site, query: &str) -> Vec<(String, String)> {
    let (mut found, mut token) = (Vec::new(), String::new());
    for _ in 0..100 {
        let page = site
            .get(&format!("/v1/tasks?{query}&page_token={token}"))
            .await
            .ok();
        found.extend(page["tasks"].as_array().unwrap().iter().map(|task| {
            let text = |name: &str| task[name].as_str().unwrap().to_owned();
            (text("id"), text("state"))
        }));
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return found,
        }
    }
    panic!("the list does not end");
}

async fn ids(site: &Site, query: &str) -> BTreeSet<String> {
    let found = listed(site, query).await;
    let ids: BTreeSet<String> = found.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), found.len(), "listed twice: {found:?}");
    ids
}

/// Polls for one task and ends its attempt.
async fn settle(site: &Site, outcome: &str) {
    site.world.pass(SECOND).await;
    let poll = json!({"worker": "w", "callbacks": ["send_email"], "max_tasks": 1, "wait": "5s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    let task = &polled["tasks"][0];
    let mut report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
    if outcome != "succeeded" {
        report["error"] = json!("no");
    }
    assert_eq!(
        call(site, "/v1/worker/settle", report).await["status"],
        "ok"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_with_a_label_are_listed_in_pages_however_far_ahead() {
    let site = indexed().await;
    let mut wanted = BTreeSet::new();
    for number in 0..30 {
        // Beyond the day that a walk over the wheels covers on such a store.
        let task = task("acme", &format!("{}h", 1 + number * 50));
        wanted.insert(
            site.registered(task).await["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        site.registered(self::task("other", "2h")).await;
    }
    for size in [1, 7, 30, 1000] {
        let query = format!("{ACME}&page_size={size}");
        assert_eq!(ids(&site, &query).await, wanted, "{size}");
    }
    assert_eq!(ids(&site, &format!("{ACME}&label.tier=gold")).await, wanted);
    assert_eq!(
        ids(&site, &format!("{ACME}&label.tier=x")).await,
        BTreeSet::new()
    );
    let soon = format!("{ACME}&start_time_to=2027-01-16T08:00:00Z");
    assert_eq!(ids(&site, &soon).await.len(), 1);
    let first = site
        .get(&format!("/v1/tasks?{ACME}&page_size=5"))
        .await
        .ok();
    let starts = first["tasks"].as_array().unwrap().iter();
    let starts: Vec<&str> = starts
        .map(|task| task["start_time"].as_str().unwrap())
        .collect();
    assert!(starts.len() == 5 && starts.is_sorted(), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_is_found_as_long_as_it_can_be_read() {
    let site = indexed().await;
    site.registered(task("acme", "1s")).await;
    settle(&site, "succeeded").await;
    let states = async |query: &str| -> Vec<String> {
        let found = listed(&site, query).await;
        found.into_iter().map(|(_, state)| state).collect()
    };
    assert_eq!(states(ACME).await, ["succeeded"]);
    site.world.pass(20 * 3600 * SECOND).await;
    assert_eq!(states(ACME).await, ["succeeded"]);
    assert_eq!(
        states(&format!("{ACME}&ended=false")).await,
        Vec::<String>::new()
    );
    site.world.pass(5 * 3600 * SECOND).await;
    assert_eq!(states(ACME).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
#[ignore = "passes days of virtual time: make test-all"]
async fn a_task_that_is_redriven_is_found_beyond_the_retention_of_its_death() {
    let site = indexed().await;
    site.put(
        PATH,
        &json!({"indexed_labels": ["tenant"], "retention": "24h", "dead_retention": "24h", "max_attempts": 1}),
    )
    .await;
    site.world.pass(3 * SECOND).await;
    let id = site.registered(task("acme", "1s")).await["id"].clone();
    let id = id.as_str().unwrap();
    settle(&site, "retry").await;
    assert_eq!(
        listed(&site, ACME).await,
        [(id.to_owned(), "dead".to_owned())]
    );
    site.post(&format!("/v1/tasks/{id}/run"), "{}").await.ok();
    site.post(&format!("/v1/tasks/{id}/reschedule"), r#"{"delay":"720h"}"#)
        .await;
    site.world.pass(40 * 3600 * SECOND).await;
    let found = listed(&site, ACME).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let erased = site.post(&format!("/v1/tasks/{id}/cancel"), "{}").await;
    assert_eq!(erased.status, 200, "{:?}", erased.body);
    assert_eq!(
        listed(&site, ACME).await,
        [(id.to_owned(), "cancelled".to_owned())]
    );
}

/// A node stops between the row of a label and the entry: nobody was told of the task.
#[tokio::test(start_paused = true)]
#[ignore = "passes days of virtual time: make test-all"]
async fn a_row_without_a_task_shows_nothing_and_goes_away() {
    let world = World::new(2, 1000);
    let node = world.node_with(
        1,
        std::sync::Arc::new(|_, call: Call| match call.operation {
            "put_entries" => Fate::Fail,
            _ => Fate::Go,
        }),
    );
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    site.put(PATH, &json!({"indexed_labels": ["tenant"]})).await;
    site.world.pass(3 * SECOND).await;
    let answer = site.post("/v1/tasks", task("acme", "1h").to_string()).await;
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert_eq!(rows(&site).await, 1, "the row came before the entry");
    assert_eq!(ids(&site, ACME).await, BTreeSet::new());
    assert_eq!(rows(&site).await, 1, "its registration may still go on");
    site.world.pass(26 * 3600 * SECOND).await;
    assert_eq!(ids(&site, ACME).await, BTreeSet::new());
    assert_eq!(rows(&site).await, 0);
}

/// How many rows the label has.
async fn rows(site: &Site) -> usize {
    let mut text = Vec::new();
    for part in ["send_email", "tenant", "acme"] {
        text.extend_from_slice(part.as_bytes());
        text.push(0xff);
    }
    let hash = xxhash_rust::xxh3::xxh3_128(&text).to_be_bytes();
    let partition = Partition::new(IndexKind::Label, hash.to_vec()).unwrap();
    let range = IndexRange {
        partition,
        after: None,
        rows_max: 100,
    };
    site.world
        .store
        .index_range(&range)
        .await
        .unwrap()
        .rows
        .len()
}

#[tokio::test(start_paused = true)]
async fn labels_that_cannot_be_indexed_are_refused_in_words() {
    let site = ready().await;
    for (labels, pointer) in [
        (json!(["a", "b", "c", "d", "e"]), "/indexed_labels"),
        (json!(["a", ""]), "/indexed_labels/1"),
        (json!(["x".repeat(300)]), "/indexed_labels/0"),
    ] {
        let problem = site
            .put(PATH, &json!({"indexed_labels": labels}))
            .await
            .problem();
        assert_eq!(
            (problem.status, &*problem.errors[0].pointer),
            (400, pointer)
        );
    }
}
