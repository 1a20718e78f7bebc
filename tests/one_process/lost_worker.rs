//! A task runs again at the heartbeat timeout when its worker process is killed, and reads as
//! `retrying` meanwhile. One that the service delivers itself runs again when its call must have ended.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{model::state::WORKER_LOST, time_source::TimeSource};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};

use crate::server::{Server, post};

/// The longest wait for any event.
const LIMIT: Duration = Duration::from_secs(60);

/// The promise for a heartbeat timeout of five seconds.
const NOTICED: Duration = Duration::from_secs(8);

/// A worker process; killed when it is dropped, as `kill -9` does.
struct Worker(Child);

impl Worker {
    /// Runs a command that does not end in its first attempt.
    fn start(url: &str) -> Self {
        const SCRIPT: &str = r#"[ "$TICKWHEEL_ATTEMPT" -gt 1 ] || exec sleep 30"#;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command
            .args(["worker", "--callback", "work", "--server", url])
            .args(["--", "sh", "-c", SCRIPT]);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(
            quiet
                .stderr(Stdio::null())
                .spawn()
                .expect("the program can be run"),
        )
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.kill().expect("the worker can be killed");
        self.0.wait().expect("the worker can be waited for");
    }
}

/// Reads the task until it is as expected.
async fn once(url: &str, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let time = TimeSource::real();
    let until = time.moment().after(LIMIT);
    loop {
        let answer = reqwest::get(format!("{url}/v1/tasks/{id}")).await;
        let text = answer.expect("an answer").text().await.expect("a text");
        let task: Value = serde_json::from_str(&text).expect("JSON");
        if is_so(&task) {
            return task;
        }
        assert!(time.moment() < until, "{task}");
        time.sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_process_is_noticed_at_the_heartbeat_timeout() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let (url, time) = (server.url.as_str(), TimeSource::real());
    let worker = Worker::start(url);
    let task = json!({
        "callback": "work", "delay": "0s", "heartbeat_timeout": "5s", "claim_timeout": "600s"});
    let task = post(url, "/v1/tasks", &task).await;
    let id = task["id"].as_str().expect("an id");
    // The worker has given a second sign of life, so the lease does not end where the claim says.
    once(url, id, |task| task["state"] == "processing").await;
    drop(worker);
    let killed = time.moment();
    let _other = Worker::start(url);
    let task = once(url, id, |task| task["attempt"] == 2).await;
    let waited = time.moment().since(killed);
    assert!(waited <= NOTICED, "{waited:?}: {task}");
    once(url, id, |task| task["state"] == "succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_lost_its_worker_reads_retrying_until_another_comes() {
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &[]).await;
    let url = server.url.clone();
    let worker = Worker::start(&url);
    let task = json!({
        "callback": "work", "delay": "0s", "heartbeat_timeout": "3s", "claim_timeout": "600s"});
    let task = post(&url, "/v1/tasks", &task).await;
    let id = task["id"].as_str().expect("an id");
    once(&url, id, |task| task["attempt"] == 1).await;
    drop(worker);
    let task = once(&url, id, |task| task["state"] == "retrying").await;
    assert_eq!(task["error"], WORKER_LOST, "{task}");
    // After an outage of the service the task does not wait for its look either: a waiting worker
    // gets it soon.
    server.kill();
    let server = Server::start(directory.path(), &[]).await;
    let _other = Worker::start(&server.url);
    once(&server.url, id, |task| task["state"] == "succeeded").await;
}

/// Accepts a connection, and waits until its request comes.
async fn call(receiver: &TcpListener) -> TcpStream {
    let time = TimeSource::real();
    let accepted = time.within(LIMIT, receiver.accept()).await;
    let (mut connection, _) = accepted.expect("a call").expect("a connection");
    let mut first = [0; 4];
    connection
        .read_exact(&mut first)
        .await
        .expect("the request");
    assert_eq!(&first, b"POST");
    connection
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_died_with_the_service_is_repeated_when_its_time_has_passed() {
    // Three seconds are the shortest lease; a worker's is 45.
    const LEASE: Duration = Duration::from_secs(3);
    const OF_WORKERS: Duration = Duration::from_secs(45);
    let receiver = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = receiver.local_addr().expect("an address").port();
    let directory = TempDir::new().expect("a directory");
    let allowed = ["--http-allow", "127.0.0.0/8"];
    let mut server = Server::start(directory.path(), &allowed).await;
    let target = json!({"url": format!("http://127.0.0.1:{port}/"), "timeout": "1s"});
    let task = json!({"http": target, "claim_timeout": "600s", "max_attempts": 2});
    let task = post(&server.url, "/v1/tasks", &task).await;
    let id = task["id"].as_str().expect("an id");
    let _first = call(&receiver).await;
    server.kill();
    let time = TimeSource::real();
    let began = time.moment();
    let server = Server::start(directory.path(), &allowed).await;
    // The receiver of the first call may still be at work, so the second one waits.
    let _second = call(&receiver).await;
    let waited = time.moment().since(began);
    assert!(waited >= LEASE && waited < OF_WORKERS, "{waited:?}");
    let task = once(&server.url, id, |task| task["attempt"] == 2).await;
    assert_eq!(task["error"], WORKER_LOST, "{task}");
}
