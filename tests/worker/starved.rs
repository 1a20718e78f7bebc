//! The heartbeats' own thread keeps leases for a busy worker, over HTTP and in real time, since virtual time
//! cannot show it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use axum::{Json, Router, http::Uri};
use serde_json::{Value, json};
use tickwheel::{
    doubles::queue::memory::{Keep, MemoryQueue},
    model::task::Priority,
    queue::{
        Publisher as _,
        message::{TimeTexts, group, topic},
    },
    time_source::TimeSource,
    worker::{Job, Outcome, Raw, Source, Worker},
};
use tokio::{net::TcpListener, sync::Notify};

use super::message;

#[derive(Debug, Default)]
struct Seen {
    heartbeats: AtomicUsize,
    settled: Notify,
}

/// Answers every item of a worker's call favourably.
fn answer(seen: &Seen, uri: &Uri, body: &Value) -> Value {
    let items = |field: &str| body[field].as_array().cloned().unwrap_or_default();
    let all = |field: &str, result: &dyn Fn(&Value) -> Value| {
        let results: Vec<Value> = items(field).iter().map(result).collect();
        json!({"results": results})
    };
    match uri.path() {
        "/v1/worker/subscribe" => json!({"topics": [], "groups": {}}),
        "/v1/worker/claim" => all("messages", &|message| {
            let at = "2030-01-01T00:00:00Z";
            let task = json!({
                "id": message["id"], "attempt": 1, "generation": 0, "callback": "c", "start_time": at,
                "claim_expire_time": at, "heartbeat_timeout": "3s", "max_attempts": 5,
            });
            json!({"status": "claimed", "task": task})
        }),
        "/v1/worker/heartbeat" => {
            seen.heartbeats.fetch_add(1, Ordering::SeqCst);
            all("tasks", &|_| json!({"status": "ok"}))
        }
        _ => {
            seen.settled.notify_one();
            all("tasks", &|_| json!({"status": "ok"}))
        }
    }
}

/// Serves on a thread of its own; returns the address.
fn serve(seen: Arc<Seen>) -> String {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            sender
                .send(format!("http://{address}"))
                .expect("the test waits");
            let router =
                Router::new().fallback(move |uri: Uri, Json(body): Json<Value>| async move {
                    Json(answer(&seen, &uri, &body))
                });
            axum::serve(listener, router).await.expect("a server");
        });
    });
    receiver.recv().expect("the server starts")
}

#[tokio::test]
async fn a_callback_that_blocks_its_runtime_keeps_its_heartbeats() {
    let seen = Arc::new(Seen::default());
    let server = serve(Arc::clone(&seen));
    let time = TimeSource::real();
    let queue = MemoryQueue::new(time.clone(), 1, Keep::Everything);
    let topics = Priority::ALL.map(|priority| topic("c", priority));
    let consumer = queue.consumer(&group("c"), &topics);
    let mut due = message(1, time.now(), "{}");
    due.spec.heartbeat_timeout = Duration::from_secs(3);
    let published = queue
        .handle()
        .publish(vec![
            due.outgoing()
                .unwrap()
                .to_record("c", &mut TimeTexts::default()),
        ])
        .await;
    assert!(published.iter().all(Result::is_ok), "{published:?}");
    let beats = Arc::clone(&seen);
    let worker = Worker::builder()
        .callback("c", move |_: Job<Raw>, _| {
            let beats = Arc::clone(&beats);
            async move {
                // This runtime has one thread, and the callback holds it until two heartbeats have arrived by
                // the other thread.
                while beats.heartbeats.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
                Ok(Outcome::Done)
            }
        })
        .source(Source::consumers(vec![(
            "c".to_owned(),
            Box::new(consumer),
        )]))
        .server(server)
        .build()
        .expect("the worker is complete");
    let ended = worker.run_until(seen.settled.notified()).await;
    assert!(ended.is_ok(), "{ended:?}");
}
