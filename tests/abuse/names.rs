//! These tests poll more callbacks than anybody has, most of them invented, and show that a node
//! still serves others.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ALONE, Line, REST_BYTES, memory_bytes, server, somebody_is_served};
use crate::server::post;

const POLLS: usize = 100;
const NAMES: usize = 100;

fn name(poll: usize, number: usize) -> String {
    format!("made-up-{poll}-{number}")
}

async fn polls(url: &str, from: usize) -> Vec<Line> {
    let mut waiting = Vec::new();
    for poll in from..from + POLLS {
        let names: Vec<String> = (0..NAMES).map(|number| name(poll, number)).collect();
        let body = json!({"worker": "w", "callbacks": names, "max_tasks": 1, "wait": "60s"});
        let mut line = Line::open(url).await;
        line.send_post("/v1/worker/poll", body.to_string().as_bytes())
            .await;
        waiting.push(line);
    }
    waiting
}

#[tokio::test]
#[ignore = "makes ten thousand callbacks: make test-all"]
async fn ten_thousand_callbacks_are_polled_and_served_and_made_up_ones_cost_little() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let mut waiting = polls(&server.url, 0).await;
    somebody_is_served(&server).await;
    // Each poll is answered with the task of one of its callbacks.
    for poll in 0..POLLS {
        let callback = name(poll, poll % NAMES);
        let task = json!({"callback": callback, "delay": "0s", "payload": poll});
        post(&server.url, "/v1/tasks", &task).await;
    }
    for (poll, line) in waiting.iter_mut().enumerate() {
        let answer = line.answer().await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer["tasks"][0]["payload"], poll, "{answer}");
    }
    // Polls for as many other callbacks, several times: some are refused with 429, and other
    // clients are still served.
    let mut more = Vec::new();
    for round in 1..4 {
        more.extend(polls(&server.url, round * POLLS).await);
        somebody_is_served(&server).await;
        let memory = memory_bytes(server.id());
        assert!(memory < 2 * REST_BYTES, "{memory} in round {round}");
    }
    let mut refused = 0;
    for line in &mut more {
        if let Some(answer) = line.answer_within(Duration::from_millis(10)).await {
            assert_eq!(answer.status, 429, "{}", answer.head);
            refused += 1;
        }
    }
    assert!(refused > 0 && refused < more.len(), "{refused}");
}
