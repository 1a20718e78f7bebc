//! The service delivers tasks over HTTP to a receiver in another language, which does not always behave.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::{
    api::TaskId,
    client::{
        CallbackRequest, Client, HttpDefaults, HttpTarget, RescheduleOutcome, RetryPolicy, Task,
        TaskRequest, TaskResponse, TaskState,
    },
    time_source::{Moment, TimeSource},
};

use crate::local::Local;

mod answers;
mod follow_ups;
mod limited;
mod payloads;

const LIMIT: Duration = Duration::from_secs(30);
const LOOPBACK: &[&str] = &["127.0.0.0/8", "::1"];
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OLD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAAA";

/// The clock, and what it shows now.
fn clock() -> (TimeSource, Moment) {
    let time = TimeSource::real();
    let now = time.moment();
    (time, now)
}

/// A receiver, ended when it is dropped.
struct Receiver {
    child: Child,
    url: String,
    host: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("receiver.py"), SECRET])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noted = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let request = serde_json::from_str(&line).unwrap();
                noted.lock().unwrap().push(request);
            }
        });
        let host = format!("127.0.0.1:{port}");
        Self {
            child,
            url: format!("http://{host}"),
            host,
            seen,
        }
    }

    fn task(&self, path: &str) -> Task {
        let wait = Duration::from_millis(20);
        Task::http(format!("{}{path}", self.url))
            .max_attempts(5)
            .retry(RetryPolicy::fixed(wait))
    }

    fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many requests were told: what the receiver prints may come behind its answer.
    async fn told(&self, count: usize) -> Vec<Value> {
        let (time, began) = clock();
        while self.seen().len() < count {
            assert!(time.moment().since(began) < LIMIT, "{:?}", self.seen());
            time.sleep(Duration::from_millis(10)).await;
        }
        self.seen()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().ok();
    }
}

async fn ended(client: &Client, task: Task) -> TaskResponse {
    let id = client.register(task).await.unwrap().id;
    client.wait(id, LIMIT).await.unwrap()
}

fn id_of(task: &TaskResponse) -> TaskId {
    task.id.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_is_delivered_signed_and_its_answer_is_the_result() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let http = HttpDefaults {
        secrets: Some(vec![OLD_SECRET.to_owned(), SECRET.to_owned()]),
        headers: Some([("x-tenant".to_owned(), "acme".to_owned())].into()),
        ..HttpDefaults::default()
    };
    let configuration = CallbackRequest {
        http: Some(http),
        ..CallbackRequest::default()
    };
    let name = format!("http:{}", receiver.host);
    let set = local
        .client
        .set_callback(&name, &configuration)
        .await
        .unwrap();
    assert_eq!(
        set.configuration.http.unwrap().secrets,
        Some(vec!["AAAA".to_owned(), "b7oD".to_owned()])
    );
    let payload = json!({"user": 7});
    let task = ended(
        &local.client,
        receiver.task("/ok?a=1").json(&payload).unwrap(),
    )
    .await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.result.unwrap().get(), r#"{"ok":true}"#);
    let request = &receiver.told(1).await[0];
    assert_eq!(
        (&request["method"], &request["path"]),
        (&json!("POST"), &json!("/ok?a=1"))
    );
    assert_eq!(request["body"], payload.to_string());
    assert_eq!(request["verified"], true, "{request}");
    let headers = &request["headers"];
    assert_eq!(headers["webhook-id"], task.id);
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(
        (&headers["x-tenant"], &headers["tickwheel-attempt"]),
        (&json!("acme"), &json!("1"))
    );
    assert_eq!(
        headers["webhook-signature"]
            .as_str()
            .unwrap()
            .split(' ')
            .count(),
        2
    );
    let text = ended(&local.client, receiver.task("/text")).await;
    assert_eq!(
        text.result_content_type.as_deref(),
        Some("text/plain; charset=utf-8")
    );
    local.stop().await;
}

/// An answer that no report may hold as it is does not hold up the reports of its node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_answer_is_kept_as_bytes_and_delays_no_report() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    for path in ["/odd", "/deep"] {
        let odd = ended(&local.client, receiver.task(path)).await;
        assert_eq!((odd.state, odd.attempt), (TaskState::Succeeded, 1));
        let bytes = "application/octet-stream";
        assert_eq!(odd.result_content_type.as_deref(), Some(bytes), "{path}");
    }
    let plain = ended(&local.client, receiver.task("/fine")).await;
    assert_eq!(plain.state, TaskState::Succeeded);
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_decides_what_becomes_of_the_task() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let client = &local.client;
    let flaky = ended(client, receiver.task("/flaky")).await;
    assert_eq!(
        (flaky.state, flaky.attempt),
        (TaskState::Succeeded, 3),
        "{flaky:?}"
    );
    let errors: Vec<_> = flaky
        .attempts
        .iter()
        .map(|attempt| attempt.error.clone())
        .collect();
    assert!(
        errors[0]
            .as_ref()
            .unwrap()
            .ends_with("answered 500: out of order"),
        "{errors:?}"
    );

    let answers: Vec<_> = flaky
        .attempts
        .iter()
        .map(|attempt| (attempt.status, attempt.response.as_deref()))
        .collect();
    let out_of_order = (Some(500), Some("out of order"));
    let fine = (Some(200), Some(r#"{"ok": true}"#));
    assert_eq!(answers, [out_of_order, out_of_order, fine]);

    let (time, began) = clock();
    let later = ended(client, receiver.task("/later")).await;
    assert_eq!((later.state, later.attempt), (TaskState::Succeeded, 2));
    assert!(
        time.moment().since(began) >= Duration::from_secs(1),
        "{:?}",
        time.moment().since(began)
    );

    let moved = ended(client, receiver.task("/moved").max_attempts(1)).await;
    assert_eq!(moved.state, TaskState::Dead);
    assert!(moved.error.unwrap().contains("answered 302"));
    let bad = ended(client, receiver.task("/bad").max_attempts(2)).await;
    assert_eq!((bad.state, bad.attempt), (TaskState::Dead, 2));
    for attempt in &bad.attempts {
        let response = attempt.response.as_deref().unwrap();
        assert!(response.starts_with("no such user") && response.len() <= 1024);
        assert_eq!(attempt.status, Some(400));
    }
    let earlier = bad.attempts[0].error.as_deref().unwrap();
    assert!(earlier.len() <= 256, "{earlier}");
    let error = bad.error.unwrap();
    assert!(
        error.contains("answered 400: no such user") && error.len() < 1200,
        "{error}"
    );
    assert!(!error.contains('\u{1b}'), "{error:?}");
    assert!(
        receiver
            .seen()
            .iter()
            .all(|request| request["path"] != "/ok")
    );

    let name = format!("http:{}", receiver.host);
    let final_4xx = CallbackRequest {
        http: Some(HttpDefaults {
            retry_4xx: Some(false),
            ..HttpDefaults::default()
        }),
        ..CallbackRequest::default()
    };
    client.set_callback(&name, &final_4xx).await.unwrap();
    let bad = ended(client, receiver.task("/bad")).await;
    assert_eq!((bad.state, bad.attempt), (TaskState::Failed, 1));
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_delivered_again_under_its_first_id() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let client = &local.client;
    let task = receiver.task("/ok").label("tenant", "acme");
    let first = ended(client, task.json(&json!({"user": 7})).unwrap()).await;
    let mut last = id_of(&first);
    for times in 2..=3 {
        let again = client.redeliver(last).await.unwrap();
        assert_eq!(again.outcome, RescheduleOutcome::Rescheduled, "{again:?}");
        assert_ne!(id_of(&again.task), last, "what has succeeded stays");
        let copy = client.wait(id_of(&again.task), LIMIT).await.unwrap();
        assert_eq!(copy.state, TaskState::Succeeded, "{copy:?}");
        assert_eq!(copy.labels, first.labels);
        let seen = receiver.told(times).await;
        let request = seen.last().unwrap();
        assert_eq!((seen.len(), &request["times"]), (times, &json!(times)));
        assert_eq!(request["headers"]["webhook-id"], first.id);
        assert_eq!(request["body"], json!({"user": 7}).to_string());
        last = id_of(&copy);
    }
    // A dead one is run again itself.
    let dead = ended(client, receiver.task("/bad").max_attempts(1)).await;
    assert_eq!(dead.state, TaskState::Dead);
    let again = client.redeliver(id_of(&dead)).await.unwrap();
    assert_eq!(again.task.id, dead.id);
    let dead = client.wait(id_of(&dead), LIMIT).await.unwrap();
    assert_eq!((dead.state, dead.attempt), (TaskState::Dead, 2), "{dead:?}");
    // A task of a worker is not delivered, and an unknown one is not there.
    let other = Task::callback("send_email").delay(Duration::from_secs(3600));
    let other = client.register(other).await.unwrap();
    let refused = client.redeliver(other.id).await.unwrap_err().to_string();
    assert!(refused.contains("not delivered over HTTP"), "{refused}");
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_misbehaves_costs_its_own_task_only() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let client = &local.client;
    let limited = |path: &str| {
        let mut request = receiver.task(path).max_attempts(1).request().clone();
        request.http = Some(HttpTarget {
            timeout: Some(Duration::from_millis(500).into()),
            ..request.http.unwrap()
        });
        Task::from(request)
    };
    for (path, error) in [
        ("/slow", "no answer in time"),
        ("/drips", "no answer in time"),
        ("/garbage", ""),
        ("/hangs-up", ""),
    ] {
        let (time, began) = clock();
        let task = ended(client, limited(path)).await;
        assert_eq!(task.state, TaskState::Dead, "{path}: {task:?}");
        let said = task.error.unwrap();
        let begin = format!("the request to {} failed: ", receiver.host);
        assert!(
            said.starts_with(&begin) && said.contains(error),
            "{path}: {said}"
        );
        assert!(
            time.moment().since(began) < Duration::from_secs(4),
            "{path}"
        );
    }
    let endless = ended(client, limited("/endless")).await;
    assert_eq!(endless.state, TaskState::Succeeded, "{endless:?}");
    assert!(endless.result.is_none() && endless.result_base64.is_none());
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_the_machine_are_not_connected_to() {
    let (local, receiver) = (Local::executing(&[]).await, Receiver::start());
    let (_, port) = receiver.host.rsplit_once(':').unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let task = Task::http(format!("http://{host}:{port}/ok")).max_attempts(1);
        let task = ended(&local.client, task).await;
        assert_eq!(task.state, TaskState::Dead, "{host}: {task:?}");
        let error = task.error.unwrap();
        assert!(error.contains("--http-allow"), "{host}: {error}");
    }
    assert_eq!(receiver.seen(), Vec::<Value>::new());
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_delays_no_other() {
    let local = Local::executing(LOOPBACK).await;
    let (dead, alive) = (Receiver::start(), Receiver::start());
    let slow: Vec<Task> = (0..100).map(|_| dead.task("/slow")).collect();
    for registered in local.client.register_batch(slow).await.unwrap() {
        registered.unwrap();
    }
    TimeSource::real().sleep(Duration::from_millis(500)).await;
    let (time, began) = clock();
    for _ in 0..10 {
        let task = ended(&local.client, alive.task("/ok")).await;
        assert_eq!(task.state, TaskState::Succeeded);
    }
    assert!(
        time.moment().since(began) < Duration::from_secs(4),
        "{:?}",
        time.moment().since(began)
    );
    assert!(dead.seen().len() <= 16, "{}", dead.seen().len());
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_with_a_url_is_delivered_there_and_not_to_workers() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let configuration = CallbackRequest {
        http: Some(HttpDefaults {
            url: Some(format!("{}/ok", receiver.url)),
            ..HttpDefaults::default()
        }),
        ..CallbackRequest::default()
    };
    local
        .client
        .set_callback("greet", &configuration)
        .await
        .unwrap();
    let task = ended(&local.client, Task::callback("greet").json(&7).unwrap()).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    assert_eq!(task.target.to_string(), format!("url {}/ok", receiver.url));
    assert_eq!(receiver.told(1).await[0]["body"], "7");
    local.stop().await;
}

/// The command of docs/http.md, with the address of a receiver of this test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_of_the_page_has_a_payload_sent() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let command = crate::readme_block::block_of(include_str!("../../docs/http.md"), "http");
    let command = command.replace("http://localhost:8000", &receiver.url);
    let (_, body) = command.split_once("-d '").unwrap();
    let request: TaskRequest = serde_json::from_str(body.trim().trim_end_matches('\'')).unwrap();
    let task = ended(&local.client, Task::from(request)).await;
    assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
    let request = &receiver.told(1).await[0];
    assert_eq!(
        (&request["path"], &request["body"]),
        (&json!("/hooks"), &json!(r#"{"user": 7}"#))
    );
    assert_eq!(request["headers"]["x-tenant"], "acme");
    local.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_told_by_a_signed_request() {
    let (local, receiver) = (Local::executing(LOOPBACK).await, Receiver::start());
    let configuration = CallbackRequest {
        http: Some(HttpDefaults {
            secrets: Some(vec![SECRET.to_owned()]),
            ..HttpDefaults::default()
        }),
        ..CallbackRequest::default()
    };
    let name = format!("http:{}", receiver.host);
    local
        .client
        .set_callback(&name, &configuration)
        .await
        .unwrap();
    let told = format!("{}/flaky", receiver.url);
    let task = Task::callback("greet")
        .delay(Duration::from_secs(3600))
        .notify_http(&told);
    let id = local.client.register(task).await.unwrap().id;
    local.client.cancel(id).await.unwrap();
    let (time, began) = clock();
    while receiver.seen().len() < 3 && time.moment().since(began) < LIMIT {
        TimeSource::real().sleep(Duration::from_millis(100)).await;
    }
    let requests = receiver.seen();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert!(
        requests.iter().all(|request| request["verified"] == true),
        "{requests:?}"
    );
    let message: Value = serde_json::from_str(requests[2]["body"].as_str().unwrap()).unwrap();
    assert_eq!(message["type"], "task.cancelled");
    assert_eq!(message["data"]["task_id"], id.to_string());
    assert_eq!(message["id"], requests[0]["headers"]["webhook-id"]);
    local.stop().await;
}
