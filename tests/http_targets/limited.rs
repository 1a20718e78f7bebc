//! A host that is limited delays no other host, and has no more requests at once than its callback says.

use std::time::Duration;

use tickwheel::{
    client::{CallbackRequest, HttpDefaults, Task, TaskState},
    time_source::TimeSource,
};

use super::{LIMIT, LOOPBACK, Receiver, clock, ended};
use crate::local::Local;

/// More due tasks than a node receives at once, of a callback that runs two a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_host_with_many_due_tasks_delays_no_other() {
    let local = Local::executing(LOOPBACK).await;
    let (limited, other) = (Receiver::start(), Receiver::start());
    let two_a_second = serde_json::json!({"rate": {"per_second": 2, "burst": 2}});
    let configuration: CallbackRequest = serde_json::from_value(two_a_second).unwrap();
    let name = format!("http:{}", limited.host);
    let set = local.client.set_callback(&name, &configuration).await;
    set.unwrap();
    // In force two seconds later.
    TimeSource::real().sleep(Duration::from_secs(2)).await;
    for _ in 0..2 {
        let many: Vec<Task> = (0..750).map(|_| limited.task("/ok")).collect();
        for registered in local.client.register_batch(many).await.unwrap() {
            registered.unwrap();
        }
    }
    TimeSource::real().sleep(Duration::from_secs(1)).await;
    let (time, began) = clock();
    for _ in 0..10 {
        let task = ended(&local.client, other.task("/ok")).await;
        assert_eq!(task.state, TaskState::Succeeded);
    }
    let took = time.moment().since(began);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let called = limited.seen().len();
    assert!((2..=22).contains(&called), "{called}");
    local.stop().await;
}

/// The receiver answers with the number of requests that it has at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_has_as_many_requests_at_once_as_its_callback_says() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let client = &local.client;
    let http = HttpDefaults {
        max_in_flight: Some(2),
        ..HttpDefaults::default()
    };
    let configuration = CallbackRequest {
        http: Some(http),
        ..CallbackRequest::default()
    };
    let name = format!("http:{}", receiver.host);
    let set = client.set_callback(&name, &configuration).await.unwrap();
    let http = set.configuration.http.unwrap();
    assert_eq!(http.max_in_flight, Some(2));
    let tasks: Vec<Task> = (0..8).map(|_| receiver.task("/busy")).collect();
    let mut most = 0;
    for registered in client.register_batch(tasks).await.unwrap() {
        let id = registered.unwrap().id;
        let task = client.wait(id, LIMIT).await.unwrap();
        assert_eq!(task.state, TaskState::Succeeded);
        let at_once: u32 = task.result.unwrap().get().parse().unwrap();
        most = most.max(at_once);
    }
    assert_eq!(most, 2);
    local.stop().await;
}
