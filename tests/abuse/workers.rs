//! These tests show that a node bears workers that take tasks and never settle them.

use std::time::Duration;

use serde_json::json;
use tickwheel::time_source::TimeSource;

use super::{ALONE, server, somebody_is_served};
use crate::server::post;

#[tokio::test]
#[ignore = "waits for a minute: make test-all"]
async fn a_worker_that_never_settles_and_one_that_dies_in_a_loop_hold_up_nobody() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let task = json!({"callback": "bad", "delay": "0s", "payload": 1, "max_attempts": 3,
        "heartbeat_timeout": "3s", "claim_timeout": "5s"});
    let batch = json!({"tasks": vec![task; 500]});
    post(&server.url, "/v1/tasks:batchCreate", &batch).await;
    let time = TimeSource::real();
    let until = time.moment().after(Duration::from_secs(8));
    let mut taken = 0;
    for life in 0.. {
        if time.moment() >= until {
            break;
        }
        // The worker takes all it can, settles nothing, and returns a moment later under another name.
        let poll = json!({"worker": format!("life-{life}"), "callbacks": ["bad"], "max_tasks": 100,
            "wait": "0s"});
        let handed = post(&server.url, "/v1/worker/poll", &poll).await;
        taken += handed["tasks"].as_array().unwrap().len();
        somebody_is_served(&server).await;
    }
    assert!(taken >= 500, "{taken} were handed out");
}
