//! Answers and requests at the edges of HTTP: a resource that is gone, credentials over clear text, no body, many headers.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tickwheel::{
    client::{CallbackRequest, GateState, Task, TaskState},
    time_source::TimeSource,
};

use super::{LIMIT, LOOPBACK, Receiver, SECRET, ended};
use crate::local::Local;

async fn set(local: &Local, name: &str, http: Value) {
    let configuration: CallbackRequest = serde_json::from_value(json!({"http": http})).unwrap();
    let set = local.client.set_callback(name, &configuration).await;
    set.unwrap();
}

fn task(request: Value) -> Task {
    Task::from(serde_json::from_value::<tickwheel::client::TaskRequest>(request).unwrap())
}

/// A status 410 is about one resource (RFC 9110, 15.5.11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_is_gone_pauses_its_callback_only_if_it_is_the_url_of_that() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let client = &local.client;
    let name = format!("http:{}", receiver.host);
    let own = format!("{}/gone", receiver.url);
    set(&local, &name, json!({"timeout": "5s"})).await;
    set(&local, "gone", json!({"url": own})).await;
    let elsewhere = format!("{}/gone?other", receiver.url);
    let other = json!({"callback": "gone", "http": {"url": elsewhere}});
    for one in [receiver.task("/gone"), task(other)] {
        let gone = ended(client, one).await;
        assert_eq!((gone.state, gone.attempt), (TaskState::Failed, 1));
    }
    for name in [&*name, "gone"] {
        let gate = client.callback(name).await.unwrap().gate;
        assert_eq!(gate, GateState::Open, "{name}");
    }
    let gone = ended(client, Task::callback("gone")).await;
    assert_eq!((gone.state, gone.attempt), (TaskState::Failed, 1));
    let callback = client.callback("gone").await.unwrap();
    assert_eq!(callback.gate, GateState::Paused);
    let reason = callback.gates[0].reason.as_deref().unwrap();
    assert!(reason.contains("410 Gone"), "{reason}");
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_of_a_callback_over_https_are_not_sent_in_clear_text() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let secure = format!("https://{}/ok", receiver.host);
    let clear = format!("{}/ok", receiver.url);
    let call = |name: &str| {
        task(json!({"callback": name, "http": {"url": clear}, "payload": 7, "max_attempts": 1}))
    };
    for (name, credentials) in [
        ("signed", json!({"url": secure, "secrets": [SECRET]})),
        (
            "known",
            json!({"url": secure, "headers": {"authorization": "Bearer x"}}),
        ),
    ] {
        set(&local, name, credentials).await;
        let task = ended(&local.client, call(name)).await;
        assert_eq!(task.state, TaskState::Dead, "{task:?}");
        let error = task.error.unwrap();
        assert!(error.contains("are for https"), "{error}");
    }
    assert_eq!(receiver.seen(), Vec::<Value>::new());
    // Without credentials, or where the callback says so, or on this machine, it is sent.
    set(
        &local,
        "plain",
        json!({"url": secure, "headers": {"x-tenant": "acme"}}),
    )
    .await;
    set(&local, "clear", json!({"url": clear, "secrets": [SECRET]})).await;
    set(&local, "here", json!({"secrets": [SECRET]})).await;
    for name in ["plain", "clear", "here"] {
        let task = ended(&local.client, call(name)).await;
        assert_eq!(task.state, TaskState::Succeeded, "{name}: {task:?}");
    }
    let seen = receiver.told(3).await;
    let verified: Vec<_> = seen.iter().map(|one| one["verified"] == true).collect();
    assert_eq!(verified, [false, true, true]);
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_body_names_no_media_type() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let url = format!("{}/ok", receiver.url);
    for (method, payload) in [("POST", Value::Null), ("GET", json!(7)), ("POST", json!(7))] {
        let mut request = json!({"http": {"url": url, "method": method}, "max_attempts": 1});
        if !payload.is_null() {
            request["payload"] = payload;
        }
        let task = ended(&local.client, task(request)).await;
        assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    }
    let seen = receiver.told(3).await;
    let types: Vec<_> = seen
        .iter()
        .map(|one| one["headers"].get("content-type"))
        .collect();
    assert_eq!(types, [None, None, Some(&json!("application/json"))]);
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_with_too_many_headers_fails_with_the_limit() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let task = receiver.task("/headers").max_attempts(1);
    let task = ended(&local.client, task.delay(Duration::ZERO)).await;
    let error = task.error.unwrap();
    assert!(error.contains("more than 100 headers"), "{error}");
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_one_host_are_divided_by_status_and_hosts_from_each_other() {
    let (local, receiver, other) = (
        Local::executing(LOOPBACK).await,
        Receiver::start(),
        Receiver::start(),
    );
    let client = &local.client;
    let mut tasks = BTreeMap::new();
    for (receiver, path) in [
        (&receiver, "/bad?user=1"),
        (&receiver, "/bad?user=2"),
        (&other, "/bad?user=1"),
        (&receiver, "/moved"),
        (&receiver, "/hangs-up"),
        (&other, "/hangs-up"),
    ] {
        let url = format!("{}{path}", receiver.url);
        let call = json!({"callback": "calls", "http": {"url": url}, "max_attempts": 1});
        let task = ended(client, task(call)).await;
        assert_eq!(task.state, TaskState::Dead, "{task:?}");
        let host = receiver.host.clone();
        let path = path.split('?').next().unwrap();
        *tasks.entry((host, path)).or_insert(0) += 1;
    }
    let groups = async || client.dead_letter_groups(Some("calls")).await.unwrap();
    let began = TimeSource::real().moment();
    let mut found = groups().await;
    // The letters come behind the answers.
    while found.iter().map(|group| group.tasks).sum::<u64>() < 6 {
        assert!(TimeSource::real().moment().since(began) < LIMIT);
        TimeSource::real().sleep(Duration::from_millis(20)).await;
        found = groups().await;
    }
    assert_eq!(found.len(), tasks.len(), "{found:?}");
    for ((host, path), count) in tasks {
        let begin = match path {
            "/bad" => format!("{host} answered 400: no such user"),
            "/moved" => format!("{host} answered 302"),
            _ => format!("the request to {host} failed: "),
        };
        let group = found.iter().find(|group| group.error.starts_with(&begin));
        assert_eq!(group.unwrap().tasks, count, "{begin}: {found:?}");
    }
    local.stop().await;
}
