//! `Service` calls a running service for promises: it sends requests, waits for ends, and works as a worker does.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;
use tokio::task::AbortHandle;

use super::topics::Topics;

/// One attempt as a worker of a promise has seen it.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) attempt: u64,
    pub(crate) began: i64,
    pub(crate) ended: i64,
    pub(crate) task: Value,
}

/// The time that a worker takes for a task, and its report.
pub(crate) type Behaviour = Arc<dyn Fn(&Value) -> (Duration, Value) + Send + Sync>;

/// The nodes of a service.
pub(crate) struct Service {
    urls: Vec<String>,
    next: AtomicUsize,
    http: reqwest::Client,
    run: String,
    workers: Mutex<Vec<AbortHandle>>,
    /// Topics that exist and can be read: absent where the service has its queue inside.
    pub(crate) topics: Option<Topics>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// The code of a problem with this status.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        for field in ["type", "title", "detail", "code"] {
            assert!(self.body[field].is_string(), "{field}: {self:?}");
        }
        text(&self.body["code"])
    }
}

impl Service {
    pub(crate) fn new(urls: Vec<String>, topics: Option<Topics>) -> Self {
        Self {
            urls,
            next: AtomicUsize::new(0),
            http: reqwest::Client::new(),
            run: format!("{:08x}", TimeSource::real().random() & 0xffff_ffff),
            workers: Mutex::default(),
            topics,
        }
    }

    /// A name that no other run of the suite uses.
    pub(crate) fn name(&self, of: &str) -> String {
        format!("{of}_{}", self.run)
    }

    /// Sends a request to the next node.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let node = self.next.fetch_add(1, Ordering::Relaxed) % self.urls.len();
        self.send_to(node, method, path, headers, body).await
    }

    async fn send_to(
        &self,
        node: usize,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.urls[node]));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            let body = body.to_string();
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.bytes().await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Reply {
            status,
            headers,
            body,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, &[], Some(body)).await
    }

    /// Registers a task; returns its id.
    pub(crate) async fn register(&self, body: Value) -> String {
        let reply = self.post("/v1/tasks", &body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        text(&reply.body["id"])
    }

    /// The task as it is now.
    pub(crate) async fn task(&self, id: &str) -> Value {
        self.get(&format!("/v1/tasks/{id}")).await.ok()
    }

    /// The task once it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        loop {
            let task = self.get(&format!("/v1/tasks/{id}?wait=20s")).await.ok();
            let state = text(&task["state"]);
            if ["succeeded", "failed", "cancelled", "expired", "dead"].contains(&state.as_str()) {
                return task;
            }
        }
    }

    /// Waits until a condition holds. A message that was lost comes again after a claim timeout, so the limit is wide.
    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        condition: impl Fn() -> F,
    ) {
        let until = TimeSource::real().moment().after(Duration::from_secs(150));
        while !condition().await {
            assert!(TimeSource::real().moment() < until, "not in 150 s: {what}");
            pause(100).await;
        }
    }

    /// Polls once; returns the tasks.
    pub(crate) async fn poll(&self, callback: &str, most: usize, wait: &str) -> Vec<Value> {
        let body = json!({"worker": "conformance", "callbacks": [callback], "max_tasks": most, "wait": wait});
        let reply = self.post("/v1/worker/poll", &body).await;
        reply.ok()["tasks"].as_array().unwrap().clone()
    }

    /// Polls until a task comes.
    pub(crate) async fn handed(&self, callback: &str) -> Value {
        loop {
            if let Some(task) = self.poll(callback, 1, "10s").await.pop() {
                return task;
            }
        }
    }

    /// Reports an attempt; returns the status of the item.
    pub(crate) async fn settle(&self, task: &Value, report: &Value) -> Value {
        self.settle_as("conformance", task, report).await
    }

    async fn settle_as(&self, worker: &str, task: &Value, report: &Value) -> Value {
        let mut item = report.clone();
        item["id"] = task["id"].clone();
        item["attempt"] = task["attempt"].clone();
        let body = json!({"worker": worker, "tasks": [item]});
        self.post("/v1/worker/settle", &body).await.ok()["results"][0].clone()
    }

    pub(crate) async fn heartbeat(&self, task: &Value, progress: &Value) -> Value {
        let item = json!({"id": task["id"], "attempt": task["attempt"], "progress": progress});
        let body = json!({"worker": "conformance", "tasks": [item]});
        self.post("/v1/worker/heartbeat", &body).await.ok()["results"][0].clone()
    }

    /// Works on a callback at each node until the test ends; returns what was run so far.
    pub(crate) fn worker(
        self: &Arc<Self>,
        callback: &str,
        behaviour: &Behaviour,
    ) -> Arc<Mutex<Vec<Run>>> {
        let runs: Arc<Mutex<Vec<Run>>> = Arc::default();
        for node in 0..self.urls.len() {
            let work = Arc::clone(self).work(
                node,
                callback.to_owned(),
                Arc::clone(behaviour),
                Arc::clone(&runs),
            );
            let working = tokio::spawn(work);
            self.workers.lock().unwrap().push(working.abort_handle());
        }
        runs
    }

    /// Polls one node, and reports to any.
    async fn work(
        self: Arc<Self>,
        node: usize,
        callback: String,
        behaviour: Behaviour,
        seen: Arc<Mutex<Vec<Run>>>,
    ) {
        let poll = json!({"worker": format!("conformance-{node}"), "callbacks": [callback],
            "max_tasks": 50, "wait": "5s"});
        loop {
            let polled = self
                .send_to(node, Method::POST, "/v1/worker/poll", &[], Some(&poll))
                .await;
            for task in polled.ok()["tasks"].as_array().unwrap().clone() {
                let (service, seen) = (Arc::clone(&self), Arc::clone(&seen));
                let (takes, report) = behaviour(&task);
                tokio::spawn(async move {
                    let began = now();
                    TimeSource::real().sleep(takes).await;
                    let ended = now();
                    let (id, attempt) = (text(&task["id"]), task["attempt"].as_u64().unwrap());
                    let run = Run {
                        id,
                        attempt,
                        began,
                        ended,
                        task: task.clone(),
                    };
                    seen.lock().unwrap().push(run);
                    let worker = format!("conformance-{node}");
                    service.settle_as(&worker, &task, &report).await;
                });
            }
        }
    }

    /// Stops all workers, before the service ends.
    pub(crate) fn stop_workers(&self) {
        for worker in self.workers.lock().unwrap().drain(..) {
            worker.abort();
        }
    }
}

/// A worker that succeeds after a time, with the payload as its result.
pub(crate) fn echoes(millis: u64) -> Behaviour {
    Arc::new(move |task| {
        let report = json!({"outcome": "succeeded", "result": task["payload"]});
        (Duration::from_millis(millis), report)
    })
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

/// Milliseconds since 1970 of a time in an answer.
#[track_caller]
pub(crate) fn millis(value: &Value) -> i64 {
    text(value)
        .parse::<jiff::Timestamp>()
        .unwrap()
        .as_millisecond()
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    TimeSource::real().now().0
}

pub(crate) async fn pause(millis: u64) {
    TimeSource::real()
        .sleep(Duration::from_millis(millis))
        .await;
}
