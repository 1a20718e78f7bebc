//! Follow-ups over HTTP send what their clients gave them, and the results of the tasks before them.

use serde_json::{Value, json};
use tickwheel::client::{CallbackRequest, FollowUp, HttpDefaults, Task, TaskState};

use super::{LOOPBACK, Receiver, ended};
use crate::local::Local;

/// Where the callback of a follow-up is delivered over HTTP, its client need not know it: payload and result go along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follow_up_of_a_callback_sends_its_payload_and_the_result_before_it() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let configuration = CallbackRequest {
        http: Some(HttpDefaults {
            url: Some(format!("{}/ok", receiver.url)),
            ..HttpDefaults::default()
        }),
        ..CallbackRequest::default()
    };
    let set = local.client.set_callback("greet", &configuration);
    set.await.unwrap();
    let greet = |payload| Task::callback("greet").json(&payload).unwrap();
    let first = receiver
        .task("/first")
        .then(FollowUp::from(greet(json!({"n": 1}))).with_result())
        .then(FollowUp::from(greet(json!({"n": 2}))))
        .then(FollowUp::from(Task::callback("greet")).with_result());
    let first = ended(&local.client, first).await;
    assert_eq!(first.state, TaskState::Succeeded, "{first:?}");
    let seen = receiver.told(4).await;
    let bodies = seen[1..].iter().map(|request| {
        let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        (request["headers"].get("tickwheel-previous").cloned(), body)
    });
    let previous = json!({"id": first.id, "state": "succeeded", "result": {"ok": true}});
    let expected = [
        (
            Some(json!(first.id)),
            json!({"payload": {"n": 1}, "previous": previous}),
        ),
        (None, json!({"n": 2})),
        (None, json!({"ok": true})),
    ];
    let bodies: Vec<_> = bodies.collect();
    for one in expected {
        assert!(bodies.contains(&one), "{one:?} is not among {bodies:?}");
    }
    local.stop().await;
}
