//! An action and a check send payloads of their own, with facts about the task in their texts.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::{
    client::{Action, Check, Deed, EndState, Task},
    model::time::rfc3339,
    time_source::TimeSource,
};

use super::{LOOPBACK, Receiver};
use crate::local::Local;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_and_checks_send_payloads_of_their_own() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let url = |path: &str| format!("{}{path}", receiver.url);
    let of_action =
        json!({"text": "{{task.id}} of {{task.payload.user}} is {{task.state}}", "n": [1.5]});
    let action = Action::http(url("/action")).payload(of_action);
    let check = Check::succeeded(rfc3339(TimeSource::real().now()));
    let of_check = Deed::http(url("/check")).payload(json!(["{{task.callback}}"]));
    let task = Task::callback("work")
        .delay(Duration::from_secs(3600))
        .json(&json!({"user": "Ada \"}"}))
        .unwrap()
        .action(action.at([EndState::Cancelled]))
        .check(check.otherwise(of_check));
    let id = local.client.register(task).await.unwrap().id;
    local.client.cancel(id).await.unwrap();
    let told = receiver.told(2).await;
    let body = |path: &str| -> Value {
        let request = told.iter().find(|request| request["path"] == path).unwrap();
        assert_eq!(request["headers"]["content-type"], "application/json");
        serde_json::from_str(request["body"].as_str().unwrap()).unwrap()
    };
    let text = format!("{id} of Ada \"}} is cancelled");
    assert_eq!(body("/action"), json!({"text": text, "n": [1.5]}));
    assert_eq!(body("/check"), json!(["work"]));
    local.stop().await;
}
