//! A host that is limited delays no other host.

use std::time::Duration;

use tickwheel::{
    client::{CallbackRequest, Task, TaskState},
    time_source::TimeSource,
};

use super::{LOOPBACK, Receiver, clock, ended};
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
