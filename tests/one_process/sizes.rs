//! The largest accepted content goes all the way: to the queue, to a worker, over `kill -9`.

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::limits::CONTENT_BYTES_MAX;

use crate::server::{Server, post, program};

/// Registers a task with a payload of so many letters; returns the id, or the text of the refusal.
async fn register(server: &Server, delay: &str, letters: usize) -> Result<String, String> {
    let labels: Value = (0..32)
        .map(|n| (format!("label-{n}"), json!("x".repeat(200))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let task = json!({"callback": "c".repeat(100), "delay": delay, "labels": labels, "payload": "p".repeat(letters)});
    let answer = reqwest::Client::new()
        .post(format!("{}/v1/tasks", server.url))
        .header("content-type", "application/json")
        .body(task.to_string())
        .send()
        .await
        .expect("an answer");
    let is_taken = answer.status().as_u16() == 201;
    let body = answer.bytes().await.expect("a whole answer");
    let body: Value = serde_json::from_slice(&body).expect("it is JSON");
    if is_taken {
        Ok(body["id"].as_str().expect("an id").to_owned())
    } else {
        Err(body.to_string())
    }
}

async fn poll(server: &Server) -> Vec<Value> {
    let poll =
        json!({"worker": "w", "callbacks": ["c".repeat(100)], "max_tasks": 10, "wait": "20s"});
    let answer = post(&server.url, "/v1/worker/poll", &poll).await;
    answer["tasks"].as_array().expect("tasks").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_content_that_is_accepted_is_delivered_and_survives_kill_9() {
    let directory = TempDir::new().expect("a directory");
    let limit = CONTENT_BYTES_MAX.to_string();
    let more = ["--content-bytes-max", &limit];
    let mut server = Server::start(directory.path(), &more).await;
    let says = register(&server, "1s", CONTENT_BYTES_MAX).await;
    let says = says.expect_err("it is too large with its labels");
    assert!(says.contains(&format!("the limit is {limit}")), "{says}");
    let bytes = says
        .split_once(" are ")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<usize>().ok());
    let letters = 2 * CONTENT_BYTES_MAX - bytes.expect("it says how large");
    register(&server, "1s", letters + 1)
        .await
        .expect_err("one more is too many");
    let now = register(&server, "1s", letters).await.expect("it fits");
    let later = register(&server, "6s", letters).await.expect("it fits");
    let first = poll(&server).await;
    assert_eq!(
        first.iter().map(|task| &task["id"]).collect::<Vec<_>>(),
        [&json!(now)]
    );
    assert_eq!(first[0]["payload"].as_str().map(str::len), Some(letters));

    server.kill();
    let server = Server::start(directory.path(), &more).await;
    let second = poll(&server).await;
    let second = second
        .iter()
        .find(|task| task["id"] == json!(later))
        .expect("it is delivered");
    assert_eq!(second["payload"].as_str().map(str::len), Some(letters));
}

#[test]
fn a_content_that_no_queue_takes_cannot_be_allowed() {
    let more = (CONTENT_BYTES_MAX + 1).to_string();
    let output = program(&["serve", "--content-bytes-max", &more]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains(&format!("from 1 to {CONTENT_BYTES_MAX}")),
        "{said}"
    );
}
