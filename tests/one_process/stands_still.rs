//! A disk without a free byte: nothing is begun, the node says why it is not ready, operators are served from the space that was
//! set aside for them, the log is short, and all goes on once there is room.

use std::{
    io::Write as _,
    process::{Command, Output},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{store::embedded::RESERVE_BYTES_DEFAULT, time_source::TimeSource};

use super::small_disk::SmallDisk;

const DISK_MIB: u64 = (RESERVE_BYTES_DEFAULT >> 20) + 200;

/// A loaded machine may need this long for work of a second; the store tries again every ten seconds.
const SOON: Duration = Duration::from_secs(60);

/// The client of a service, with the key of its administrator.
struct Client {
    http: reqwest::Client,
    url: String,
    time: TimeSource,
    key: String,
}

impl Client {
    /// Sends a request with a key; returns the status and the answer.
    async fn by(&self, key: &str, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = method.parse().expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            let typed = request.header("content-type", "application/json");
            request = typed.body(body.to_string());
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.bytes().await.expect("a whole answer");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        self.by(&self.key, method, path, body).await
    }

    /// Makes a key; returns its id and the key.
    async fn make_key(&self, name: &str, role: &str) -> (String, String) {
        let body = json!({"name": name, "role": role});
        let (status, made) = self.call("POST", "/v1/api-keys", Some(body)).await;
        assert_eq!(status, 201, "{made}");
        let text = |field: &str| made[field].as_str().expect("text").to_owned();
        (text("id"), text("key"))
    }

    async fn register(&self, callback: &str, delay: &str) -> String {
        let task = json!({"callback": callback, "delay": delay, "max_attempts": 1});
        let (status, made) = self.call("POST", "/v1/tasks", Some(task)).await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn state(&self, id: &str) -> String {
        let (_, task) = self.call("GET", &format!("/v1/tasks/{id}"), None).await;
        task["state"].as_str().unwrap_or("none").to_owned()
    }

    /// Polls once and reports everything with an outcome.
    async fn work(&self, callback: &str, outcome: &str) {
        let poll =
            json!({"worker": "w", "callbacks": [callback], "max_tasks": 50, "wait": "500ms"});
        let (_, polled) = self.call("POST", "/v1/worker/poll", Some(poll)).await;
        for task in polled["tasks"].as_array().into_iter().flatten() {
            let mut item =
                json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
            if outcome == "retry" {
                item["error"] = json!("x");
            }
            let settle = json!({"worker": "w", "tasks": [item]});
            self.call("POST", "/v1/worker/settle", Some(settle)).await;
        }
    }

    /// Waits until all these tasks are in a state, while a worker works.
    async fn becomes(&self, ids: &[String], state: &str, (callback, outcome): (&str, &str)) {
        let until = self.time.moment().after(SOON);
        for id in ids {
            while self.state(id).await != state {
                assert!(self.time.moment() < until, "{id}: {}", self.state(id).await);
                self.work(callback, outcome).await;
            }
        }
    }

    /// The checks of readiness that do not hold, once the node is ready, or not.
    async fn problems(&self, is_ready: bool) -> Vec<String> {
        let until = self.time.moment().after(SOON);
        loop {
            let (status, found) = self.by("", "GET", "/readyz?verbose", None).await;
            if (status == 200) == is_ready {
                let checks = found["checks"].as_array().expect("checks").iter();
                let problems = checks.filter_map(|check| check["problem"].as_str());
                return problems.map(str::to_owned).collect();
            }
            assert!(self.time.moment() < until, "{status} {found}");
            self.time.sleep(Duration::from_millis(100)).await;
        }
    }

    fn program(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command.args(arguments).env("TICKWHEEL_API_KEY", &self.key);
        command.env("TICKWHEEL_SERVER", &self.url);
        command.output().expect("the program can be run")
    }
}

/// Everything that an operator does to stop work, and to close a door.
async fn operate(client: &Client, disk: &SmallDisk, tasks: &[String], dead: &str, key: &str) {
    for task in tasks {
        // Another program takes all that is given back.
        disk.fill();
        let (status, answer) = client
            .call("POST", &format!("/v1/tasks/{task}/cancel"), None)
            .await;
        assert_eq!(status, 200, "{answer}");
    }
    for (method, path, body, wanted) in [
        ("DELETE", format!("/v1/api-keys/{key}"), None, 204),
        ("DELETE", format!("/v1/dead-letters/{dead}"), None, 204),
        (
            "POST",
            "/v1/callbacks/c/gate".to_owned(),
            Some(json!({"gate": "paused", "reason": "the disk is full"})),
            200,
        ),
    ] {
        disk.fill();
        let (status, answer) = client.call(method, &path, body).await;
        assert_eq!(status, wanted, "{method} {path}: {answer}");
    }
}

/// The worker of an attempt gives a sign of life, and reports its end.
async fn end(client: &Client, disk: &SmallDisk, mut attempt: Value) {
    for path in ["/v1/worker/heartbeat", "/v1/worker/settle"] {
        disk.fill();
        let report = json!({"worker": "w", "tasks": [attempt]});
        let (status, answer) = client.call("POST", path, Some(report)).await;
        let is_taken = status == 200 && answer["results"][0]["status"] == "ok";
        assert!(is_taken, "{path}: {status} {answer}");
        attempt["outcome"] = json!("succeeded");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_served_on_a_disk_without_a_free_byte_and_the_node_says_why_it_stands_still()
{
    let disk = match SmallDisk::mount(DISK_MIB) {
        Ok(disk) => disk,
        Err(why) => {
            writeln!(
                std::io::stderr().lock(),
                "skipped: no disk can be mounted here: {why}"
            )
            .expect("standard error is open");
            return;
        }
    };
    let log = TempDir::new().expect("a directory");
    let mut server = disk.serve(log.path());
    server.ready().await;
    let mut client = Client {
        http: reqwest::Client::new(),
        url: server.url.clone(),
        time: TimeSource::real(),
        key: String::new(),
    };
    client.key = client.make_key("root", "admin").await.1;
    let (stolen_id, stolen) = client.make_key("stolen", "operator").await;
    let dead = client.register("d", "0s").await;
    client
        .becomes(std::slice::from_ref(&dead), "dead", ("d", "retry"))
        .await;
    let mut unwanted = Vec::new();
    for _ in 0..20 {
        unwanted.push(client.register("c", "1h").await);
    }

    // An attempt that runs, and a disk that is full before the others are due.
    let running = client.register("r", "0s").await;
    let until = client.time.moment().after(SOON);
    let attempt = loop {
        let poll = json!({"worker": "w", "callbacks": ["r"], "max_tasks": 1, "wait": "500ms"});
        let (_, polled) = client.call("POST", "/v1/worker/poll", Some(poll)).await;
        let attempt = &polled["tasks"][0]["attempt"];
        if attempt.is_number() {
            break json!({"id": running, "attempt": attempt});
        }
        assert!(client.time.moment() < until, "{polled}");
    };
    let mut due = Vec::new();
    for _ in 0..5 {
        due.push(client.register("e", "4s").await);
    }
    let said = server.log().len();
    disk.fill();
    let problems = client.problems(false).await;
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("the disk is full at")
                && problem.contains("free some space")),
        "{problems:?}"
    );
    let status = client.program(&["cluster", "status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("not ready"), "{status}");
    let until = client.time.moment().after(Duration::from_secs(8));
    while client.time.moment() < until {
        disk.fill();
        client.work("e", "succeeded").await;
    }
    for id in &due {
        assert_ne!(client.state(id).await, "succeeded", "nothing fires");
    }
    operate(&client, &disk, &unwanted, &dead, &stolen_id).await;
    end(&client, &disk, attempt).await;
    assert_eq!(client.state(&running).await, "succeeded");
    let new = server.log().split_off(said);
    assert!(new.contains("the service stands still"), "{new}");
    assert!(new.lines().count() < 40, "{new}");

    // The changes hold, also for a process that starts on the full disk.
    for is_restarted in [false, true] {
        if is_restarted {
            disk.fill();
            server.kill();
            server = disk.serve(log.path());
            server.answers().await;
            client.url.clone_from(&server.url);
        }
        let until = client.time.moment().after(SOON);
        while client.by(&stolen, "GET", "/v1/whoami", None).await.0 != 401 {
            assert!(client.time.moment() < until, "the key is taken");
            client.time.sleep(Duration::from_millis(100)).await;
        }
        for task in &unwanted {
            assert_eq!(client.state(task).await, "cancelled");
        }
        assert_eq!(client.state(&dead).await, "none");
    }
    disk.relieve();
    assert_eq!(client.problems(true).await, Vec::<String>::new());
    client.becomes(&due, "succeeded", ("e", "succeeded")).await;
    let until = client.time.moment().after(SOON);
    while !server
        .log()
        .contains("there is space again: the service goes on")
    {
        assert!(client.time.moment() < until, "{}", server.log());
        client.time.sleep(Duration::from_millis(100)).await;
    }
}
