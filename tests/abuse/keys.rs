//! Callers without a key, and those with a stolen one, get nothing and cost the others little.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::{Moment, TimeSource};
use tokio::task::JoinSet;

use super::{ALONE, Line, REST_BYTES, memory_bytes, server};
use crate::server::{Server, post};

const FLOOD: Duration = Duration::from_secs(4);
const CONNECTIONS: usize = 64;

/// A refusal takes no work; the rest is for a debug build on busy cores.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);

/// A revocation is in force everywhere after this time.
const IN_FORCE: Duration = Duration::from_secs(2);

/// A server with a first key; returns that key.
async fn closed() -> (TempDir, Server, String) {
    let (directory, server) = server().await;
    let wish = json!({"name": "root", "role": "admin"});
    let made = post(&server.url, "/v1/api-keys", &wish).await;
    let key = made["key"].as_str().unwrap().to_owned();
    (directory, server, key)
}

async fn call(server: &Server, key: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut line = Line::open(&server.url).await;
    let header = format!("authorization: Bearer {key}\r\n");
    line.send_post_with(path, &header, body.to_string().as_bytes())
        .await;
    let answer = line.answer().await;
    let body = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status, body)
}

/// Makes a key; returns its id and its text.
async fn key(server: &Server, root: &str, role: &str) -> (String, String) {
    let wish = json!({"name": role, "role": role});
    let (status, made) = call(server, root, "/v1/api-keys", &wish).await;
    assert_eq!(status, 201, "{made}");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("key"))
}

/// The holder of a key registers a task that is due now, and gets and settles it.
async fn the_holder_is_served(server: &Server, root: &str) {
    let task = json!({"callback": "own", "delay": "0s", "payload": 1});
    let (status, task) = call(server, root, "/v1/tasks", &task).await;
    assert_eq!(status, 201, "{task}");
    let poll = json!({"worker": "w", "callbacks": ["own"], "max_tasks": 1, "wait": "30s"});
    let (status, polled) = call(server, root, "/v1/worker/poll", &poll).await;
    assert_eq!(status, 200, "{polled}");
    let task = &polled["tasks"][0];
    let item = json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
    let settle = json!({"worker": "w", "tasks": [item]});
    let (status, settled) = call(server, root, "/v1/worker/settle", &settle).await;
    assert_eq!(
        (status, &settled["results"][0]["status"]),
        (200, &json!("ok"))
    );
}

/// Calls without a key, with an invented one, or with a damaged one, each on its connection; returns the longest wait and how
/// many there were.
async fn hammer(
    url: String,
    damaged: String,
    number: usize,
    stop: Arc<AtomicBool>,
) -> (Duration, usize) {
    let time = TimeSource::real();
    let mut line = Line::open(&url).await;
    let body = json!({"callback": "own", "delay": "1h", "payload": "x".repeat(4096)}).to_string();
    let (mut longest, mut calls) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        let invented = format!("twk_{:016x}_{:064x}", time.random(), time.random());
        let header = match (number + calls) % 3 {
            0 => String::new(),
            1 => format!("authorization: Bearer {invented}\r\n"),
            _ => format!("authorization: Bearer {damaged}\r\n"),
        };
        let begun = time.moment();
        line.send_post_with("/v1/tasks", &header, body.as_bytes())
            .await;
        let answer = line.answer().await;
        assert_eq!(answer.status, 401, "{}", answer.head);
        longest = longest.max(time.moment().since(begun));
        calls += 1;
        if answer.has("connection: close") {
            line = Line::open(&url).await;
        }
    }
    (longest, calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_without_a_key_are_refused_at_once_and_its_holder_is_served() {
    let _alone = ALONE.lock().await;
    let (_directory, server, root) = closed().await;
    // The last digit is another one.
    let last = if root.ends_with('0') { '1' } else { '0' };
    let damaged = format!("{}{last}", &root[..root.len() - 1]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut hammers = JoinSet::new();
    for number in 0..CONNECTIONS {
        hammers.spawn(hammer(
            server.url.clone(),
            damaged.clone(),
            number,
            Arc::clone(&stop),
        ));
    }
    let time = TimeSource::real();
    let until = time.moment().after(FLOOD);
    let (mut served, mut peak) = (0, 0);
    while time.moment() < until {
        the_holder_is_served(&server, &root).await;
        served += 1;
        peak = peak.max(memory_bytes(server.id()));
    }
    stop.store(true, Ordering::Relaxed);
    let (mut longest, mut calls) = (Duration::ZERO, 0);
    while let Some(one) = hammers.join_next().await {
        let (took, made) = one.unwrap();
        longest = longest.max(took);
        calls += made;
    }
    writeln!(
        std::io::stdout().lock(),
        "{calls} refused, the longest after {longest:?}; {served} served; {} MiB",
        peak / 1024 / 1024
    )
    .unwrap();
    assert!(longest < REFUSED_WITHIN, "{longest:?}");
    assert!(calls > CONNECTIONS && served > 0, "{calls} {served}");
    assert!(peak < REST_BYTES, "{peak}");
}

#[tokio::test]
async fn nothing_of_a_body_is_awaited_from_a_caller_without_a_key() {
    let _alone = ALONE.lock().await;
    let (_directory, server, root) = closed().await;
    let before = memory_bytes(server.id());
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut line = Line::open(&server.url).await;
        let head = "POST /v1/tasks:batchCreate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 1000000\r\n\r\n{";
        line.send(head.as_bytes()).await;
        waiting.push(line);
    }
    for line in &mut waiting {
        assert_eq!(line.answer().await.status, 401);
    }
    the_holder_is_served(&server, &root).await;
    let after = memory_bytes(server.id());
    assert!(after < before + 64 * 1024 * 1024, "{before} {after}");
}

/// Uses a stolen key without a pause; returns when each call began, and its status.
async fn steal(url: String, stolen: String, stop: Arc<AtomicBool>) -> Vec<(Moment, u16)> {
    let time = TimeSource::real();
    let mut line = Line::open(&url).await;
    let header = format!("authorization: Bearer {stolen}\r\n");
    let body = json!({"callback": "stolen", "delay": "1h"}).to_string();
    let mut calls = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let begun = time.moment();
        line.send_post_with("/v1/tasks", &header, body.as_bytes())
            .await;
        let answer = line.answer().await;
        calls.push((begun, answer.status));
        if answer.has("connection: close") {
            line = Line::open(&url).await;
        }
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_key_is_worth_nothing_two_seconds_after_it_was_revoked() {
    let _alone = ALONE.lock().await;
    let (directory, mut server, root) = closed().await;
    let (id, stolen) = key(&server, &root, "producer").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut thieves = JoinSet::new();
    for _ in 0..16 {
        thieves.spawn(steal(server.url.clone(), stolen.clone(), Arc::clone(&stop)));
    }
    let time = TimeSource::real();
    time.sleep(Duration::from_millis(500)).await;
    let client = reqwest::Client::new();
    let revoke = client.delete(format!("{}/v1/api-keys/{id}", server.url));
    let revoked = revoke.bearer_auth(&root).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    let in_force = time.moment().after(IN_FORCE);
    time.sleep(IN_FORCE + Duration::from_secs(1)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut before, mut after) = (0, 0);
    while let Some(calls) = thieves.join_next().await {
        for (begun, status) in calls.unwrap() {
            if begun >= in_force {
                assert_eq!(status, 401, "after it was in force");
                after += 1;
            } else if status == 201 {
                before += 1;
            }
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
    the_holder_is_served(&server, &root).await;

    // Nor does a crash bring it back.
    server.kill();
    let mut server = Server::spawn(directory.path(), crate::server::free_port(), &[]);
    server.ready().await;
    let task = json!({"callback": "stolen", "delay": "1h"});
    let (status, answer) = call(&server, &stolen, "/v1/tasks", &task).await;
    assert_eq!((status, &answer["code"]), (401, &json!("key_invalid")));
    the_holder_is_served(&server, &root).await;
}
