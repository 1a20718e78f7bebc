//! A loss of power takes answers that were not synced, and breaks no promise to clients.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::{Moment, TimeSource};

use crate::server::{Server, post};

/// The lease of an attempt: a worker that got the answer `ok` works on for this long.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The number of written bytes of a journal.
fn used(journal: &Path) -> usize {
    let bytes = fs::read(journal).expect("a journal");
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// Removes the bytes that were written behind a place; no caller has waited until they were on the disk.
fn lose_behind(journal: &Path, place: usize) {
    let mut bytes = fs::read(journal).expect("a journal");
    assert!(used(journal) > place, "nothing was written since");
    bytes[place..].fill(0);
    fs::write(journal, bytes).expect("it can be cut");
}

async fn poll(server: &Server, worker: &str, wait: &str) -> Vec<Value> {
    let poll = json!({"worker": worker, "callbacks": ["long"], "wait": wait});
    let answer = post(&server.url, "/v1/worker/poll", &poll).await;
    answer["tasks"].as_array().expect("tasks").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_whose_heartbeats_were_lost_keeps_its_lease() {
    let directory = TempDir::new().expect("a directory");
    let time = TimeSource::real();
    let mut server = Server::start(directory.path(), &[]).await;
    let timeout = format!("{}s", TIMEOUT.as_secs());
    let task = json!({"callback": "long", "heartbeat_timeout": timeout, "claim_timeout": "5s"});
    post(&server.url, "/v1/tasks", &task).await;
    let claimed = poll(&server, "first", "20s").await.remove(0);
    let journal = server.store().join("0.jnl");
    let synced = used(&journal);
    let mut last: Option<Moment> = None;
    // This takes longer than the lease of the claim itself.
    for _ in 0..5 {
        time.sleep(TIMEOUT / 4).await;
        let beat = json!({"worker": "first", "tasks": [{"id": claimed["id"], "attempt": claimed["attempt"]}]});
        let sent = time.moment();
        let answer = post(&server.url, "/v1/worker/heartbeat", &beat).await;
        assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
        last = Some(sent);
    }
    server.kill();
    lose_behind(&journal, synced);

    let server = Server::start(directory.path(), &[]).await;
    let again = poll(&server, "second", "30s").await;
    assert_eq!(again[0]["id"], claimed["id"], "{again:?}");
    let lease_end = last.expect("it was answered").after(TIMEOUT);
    assert!(
        time.moment() >= lease_end,
        "it ran twice at once, {:?} too early",
        lease_end.since(time.moment())
    );
}
