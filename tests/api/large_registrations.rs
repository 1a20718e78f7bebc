//! Large registrations that wait for a slow store are bounded in bytes, and keep out neither small ones nor workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    limits::REGISTERING_BYTES_MAX,
};
use tokio::task::JoinHandle;

use super::{Answer, Site, request};

const SECOND: Duration = Duration::from_secs(1);

/// How long the store takes for contents.
const TAKES: Duration = Duration::from_secs(20);

/// A node whose store is slow for contents while it is told to be, and the contents that it was given then.
async fn slow_for_contents() -> (Site, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (slow, contents) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let (is_slow, given): (Arc<AtomicBool>, Arc<AtomicUsize>) =
        (Arc::clone(&slow), Arc::clone(&contents));
    let site = Site::with_fates(Arc::new(move |_, call: Call| {
        if call.operation != "put_bodies" || !is_slow.load(Ordering::SeqCst) {
            return Fate::Go;
        }
        given.fetch_add(call.rows, Ordering::SeqCst);
        Fate::Delay(TAKES)
    }));
    site.world.pass(3 * SECOND).await;
    (site, slow, contents)
}

fn batch(tasks: usize, bytes: usize) -> String {
    let task = json!({"callback": "work", "delay": "1h", "payload": "x".repeat(bytes)});
    json!({"tasks": vec![task; tasks]}).to_string()
}

/// Sends a batch without waiting for its answer.
fn sent(site: &Site, body: &str) -> JoinHandle<Answer> {
    let request = request(Method::POST, "/v1/tasks:batchCreate", body.to_owned());
    tokio::spawn(Answer::of(site.router.clone(), request))
}

#[track_caller]
fn all_registered(answer: &Answer, tasks: usize) {
    let results = answer.ok()["results"].clone();
    let results = results.as_array().unwrap();
    assert!(
        results.len() == tasks && results.iter().all(|one| one["task"] != Value::Null),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn large_registrations_that_wait_for_the_store_are_bounded_and_small_ones_pass() {
    const PAYLOAD: usize = 1_000_000;
    let (site, slow, contents) = slow_for_contents().await;
    let large = batch(15, PAYLOAD);
    let sent_at_once: Vec<_> = (0..6).map(|_| sent(&site, &large)).collect();
    site.world.pass(SECOND).await;
    let held = contents.load(Ordering::SeqCst) * PAYLOAD;
    assert!(
        (PAYLOAD..=REGISTERING_BYTES_MAX).contains(&held),
        "{held} bytes wait for the store"
    );

    // Requests that are not large have room of their own, and small ones need none.
    let usual = sent(&site, &batch(10, 50_000));
    let asked = site.world.time.now();
    let small = r#"{"callback":"work","delay":"1h","payload":"small"}"#;
    assert_eq!(site.post("/v1/tasks", small).await.status, 201);
    let waited = site.world.time.now().since(asked);
    assert!(waited < SECOND, "{waited:?}");

    let mut refused = 0;
    for answer in sent_at_once {
        let answer = answer.await.unwrap();
        if answer.status == 200 {
            all_registered(&answer, 15);
            continue;
        }
        refused += 1;
        let problem = answer.problem();
        assert_eq!(
            (problem.status, &*problem.code, answer.header("retry-after")),
            (429, "too_many_requests", "1")
        );
        assert!(
            problem.detail.contains("wait for the store"),
            "{}",
            problem.detail
        );
    }
    assert_eq!(refused, 3);
    all_registered(&usual.await.unwrap(), 10);

    // All of it was given back.
    slow.store(false, Ordering::SeqCst);
    let again: Vec<_> = (0..3).map(|_| sent(&site, &large)).collect();
    for answer in again {
        all_registered(&answer.await.unwrap(), 15);
    }
}
