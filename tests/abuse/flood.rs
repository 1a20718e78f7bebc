//! These tests show that a node stays up and serves others when more registrations arrive than it can make.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::{limits, time_source::TimeSource};
use tokio::task::JoinSet;

use super::{ALONE, Line, REST_BYTES, id_of, memory_bytes, server, somebody_is_served};
use crate::server::{Server, post};

const FLOOD: Duration = Duration::from_secs(8);

/// The answers that clients saw.
#[derive(Default)]
struct Seen {
    accepted: Vec<(String, Duration)>,
    refused: usize,
}

impl Seen {
    fn p99(&mut self) -> Duration {
        self.accepted.sort_by_key(|(_, took)| *took);
        self.accepted[self.accepted.len() * 99 / 100].1
    }
}

/// Registers on a connection, one after the other, without regard for refusals.
async fn hammer(url: String, body: Arc<Vec<u8>>, stop: Arc<AtomicBool>) -> Seen {
    let time = TimeSource::real();
    let mut line = Line::open(&url).await;
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = time.moment();
        line.send_post("/v1/tasks:batchCreate", &body).await;
        let answer = line.answer().await;
        match answer.status {
            200 => {
                let took = time.moment().since(begun);
                let answer: Value = serde_json::from_slice(&answer.body).unwrap();
                let task = &answer["results"][0]["task"];
                seen.accepted.push((id_of(task), took));
            }
            429 => {
                assert!(answer.has("retry-after: 1"), "{}", answer.head);
                seen.refused += 1;
            }
            other => panic!("status {other}: {}", String::from_utf8_lossy(&answer.body)),
        }
    }
    seen
}

async fn flood(server: &Server, connections: usize, batch: usize) -> Seen {
    let task = json!({"callback": "flood", "delay": "1h", "payload": "x".repeat(200)});
    let body = Arc::new(json!({"tasks": vec![task; batch]}).to_string().into_bytes());
    let stop = Arc::new(AtomicBool::new(false));
    let mut hammers = JoinSet::new();
    for _ in 0..connections {
        hammers.spawn(hammer(
            server.url.clone(),
            Arc::clone(&body),
            Arc::clone(&stop),
        ));
    }
    let time = TimeSource::real();
    let until = time.moment().after(FLOOD);
    let (served, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
    while time.moment() < until {
        // Due tasks are handed out and settled meanwhile.
        somebody_is_served_patiently(server).await;
        served.fetch_add(1, Ordering::Relaxed);
        peak.fetch_max(memory_bytes(server.id()), Ordering::Relaxed);
    }
    stop.store(true, Ordering::Relaxed);
    let mut seen = Seen::default();
    while let Some(one) = hammers.join_next().await {
        let one = one.unwrap();
        seen.accepted.extend(one.accepted);
        seen.refused += one.refused;
    }
    let (served, peak) = (served.into_inner(), peak.into_inner());
    let bound = REST_BYTES + limits::BODIES_BYTES_MAX;
    assert!(peak < bound, "{peak} bytes of {bound}");
    assert!(served > 0);
    let (p99, accepted, refused) = (seen.p99(), seen.accepted.len(), seen.refused);
    writeln!(
        std::io::stdout().lock(),
        "{connections} connections, batches of {batch}: {accepted} accepted, p99 {p99:?}, {refused} refused, \
         {served} others served, {} MiB",
        peak / 1024 / 1024
    )
    .unwrap();
    seen
}

/// Registers as the SDK does: it repeats a refused registration after the time that the answer names.
async fn somebody_is_served_patiently(server: &Server) {
    let task = json!({"callback": "other", "delay": "0s", "payload": 1}).to_string();
    loop {
        let mut line = Line::open(&server.url).await;
        line.send_post("/v1/tasks", task.as_bytes()).await;
        match line.answer().await.status {
            201 => break,
            429 => TimeSource::real().sleep(Duration::from_millis(100)).await,
            other => panic!("status {other}"),
        }
    }
    let poll = json!({"worker": "w", "callbacks": ["other"], "max_tasks": 10, "wait": "30s"});
    let handed = post(&server.url, "/v1/worker/poll", &poll).await;
    let tasks = handed["tasks"].as_array().unwrap();
    assert!(!tasks.is_empty());
    let done = |task: &Value| json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
    let settle = json!({"worker": "w", "tasks": tasks.iter().map(done).collect::<Vec<_>>()});
    post(&server.url, "/v1/worker/settle", &settle).await;
}

#[tokio::test]
#[ignore = "floods for twenty seconds: make test-all"]
async fn a_flood_is_refused_in_part_and_what_was_accepted_is_there() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let calm = flood(&server, 4, 100).await;
    // So many tasks at once are more than a node registers at a time.
    let stormy = flood(&server, limits::REGISTERING_TASKS_MAX / 200, 1000).await;
    assert!(stormy.refused > 0 && !stormy.accepted.is_empty());
    for (id, _) in calm.accepted.iter().chain(&stormy.accepted).step_by(17) {
        let found = reqwest::get(format!("{}/v1/tasks/{id}", server.url)).await;
        let found = found.unwrap().bytes().await.unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["state"], "scheduled", "{found}");
    }
    somebody_is_served(&server).await;
}
