//! The client commands run against a node in this process, over TCP, as a person or a script uses them.

mod callbacks;
mod configuration;
mod dead_letters;
mod export;
mod hostile;
mod jobs;
mod large_files;
mod reads;
mod schedules;
mod settings;
mod usage;

use std::{
    io::Write as _,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use tickwheel::{
    doubles::{
        queue::memory::{Keep, MemoryQueue},
        store::memory::MemoryStore,
    },
    flow::{base::context::Context, stages::node::Node},
    http::{Options, router, serve},
    model::{clock::Rules, ids::NodeId, time::TickLength, wheel::Shape},
    time_source::TimeSource,
};

const SECOND: Duration = Duration::from_secs(1);

/// A node on real time.
pub(crate) struct Site {
    pub(crate) url: String,
    stop: CancellationToken,
    _node: Node,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Site {
    pub(crate) async fn start() -> Self {
        let time = TimeSource::real();
        let shape = Shape::new(2, TickLength::new(SECOND).unwrap(), 100_000_000).unwrap();
        let context = Context::new(
            NodeId(time.random_uuid()),
            MemoryStore::new(shape, time.clone()).handle(),
            Arc::new(MemoryQueue::new(time.clone(), 4, Keep::Everything).handle()),
            time.clone(),
            Rules {
                shape,
                look_ahead: 2,
                lease: 5 * SECOND,
                grace: 3 * SECOND,
                skew_max: SECOND,
                stall_max: 15 * SECOND,
            },
        );
        let node = Node::start(context, SECOND);
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = router(node.service(), Options::new(time, stop.clone()));
        tokio::spawn(serve(listener, router, stop.clone()));
        Self {
            url,
            stop,
            _node: node,
        }
    }
}

fn program(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command
        .args(arguments)
        .env("TICKWHEEL_SERVER", server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command with this input; the runtime goes on meanwhile.
pub(crate) async fn run(server: &str, arguments: &[&str], input: impl Into<Vec<u8>>) -> Output {
    let (mut command, input) = (program(server, arguments), input.into());
    let running = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writing = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        // A program that does not read its input closes it.
        drop(writing.join());
        output
    });
    running.await.unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json_lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_exported_can_be_imported() {
    let (site, other) = (Site::start().await, Site::start().await);
    let start = "2036-01-15T08:00:00.000Z";
    let tasks = [
        json!({"callback": "a", "start_time": start, "payload": {"n": 1.50}, "labels": {"tenant": "acme"},
            "priority": "high", "collection": "c", "max_attempts": 3, "claim_timeout": "1m 30s", "heartbeat_timeout": "20s",
            "expire_after": "1h", "retention": "2h",
            "retry": {"initial": "2s", "factor": 1.5, "max": "1m", "jitter": "none"}}),
        json!({"callback": "b", "start_time": start, "payload_base64": "/w==", "content_type": "image/png"}),
        json!({"callback": "b", "start_time": start, "payload": "x".repeat(5000), "labels": {"large": "yes"}}),
        json!({"kafka": {"topic": "t", "key": "k", "partition": 1,
            "headers": [{"name": "h", "value": "v"}, {"name": "h", "value_base64": "/w=="}]},
            "start_time": start, "payload": [1]}),
    ];
    let lines: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let imported = run(&site.url, &["task", "import", "-"], lines).await;
    assert!(imported.status.success(), "{}", err(&imported));
    assert_eq!(out(&imported), "registered 4, failed 0\n");
    let range = [
        "--from",
        "2036-01-15T07:59:59Z",
        "--to",
        "2036-01-15T08:00:01Z",
    ];
    let export = [&["task", "export"], &range[..]].concat();
    let exported = run(&site.url, &export, "").await;
    assert!(
        err(&exported).starts_with("exported 4 tasks that have not ended, starting at or after")
            && err(&exported).lines().count() == 1,
        "{}",
        err(&exported)
    );
    let sorted = |output: &Output| {
        let mut lines: Vec<String> = out(output).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for task in &tasks {
        let same = |line: &Value| {
            let fields = task.as_object().unwrap().iter();
            fields.into_iter().all(|(name, value)| line[name] == *value)
        };
        let found = json_lines(&out(&exported))
            .iter()
            .filter(|line| same(line))
            .count();
        assert_eq!(found, 1, "{task} in {}", out(&exported));
    }
    let imported = run(
        &other.url,
        &["task", "import", "-"],
        exported.stdout.clone(),
    )
    .await;
    assert!(imported.status.success(), "{}", err(&imported));
    let again = run(&other.url, &export, "").await;
    assert_eq!(sorted(&again), sorted(&exported));

    let listed = run(
        &site.url,
        &[&["task", "list", "-o", "jsonl"], &range[..]].concat(),
        "",
    )
    .await;
    assert_eq!(json_lines(&out(&listed)).len(), 4);
    let listed = [
        &[
            "task",
            "list",
            "--callback",
            "b",
            "--limit",
            "1",
            "-o",
            "json",
        ],
        &range[..],
    ]
    .concat();
    let listed: Value = serde_json::from_slice(&run(&site.url, &listed, "").await.stdout).unwrap();
    assert_eq!(
        (
            listed.as_array().unwrap().len(),
            listed[0]["target"]["name"].as_str()
        ),
        (1, Some("b"))
    );
    let table = run(&site.url, &[&["task", "list"], &range[..]].concat(), "").await;
    let table = out(&table);
    assert!(
        table.starts_with("ID ")
            && table.contains("scheduled   2036-01-15T08:00:00.000Z  0/10     topic t"),
        "{table}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tasks_are_cancelled_and_the_one_that_is_none_is_named() {
    let site = Site::start().await;
    let lines = r#"{"callback":"a","delay":"3600s"}
{"callback":"b","delay":"3600s"}"#;
    let imported = run(&site.url, &["task", "import", "-"], lines).await;
    assert!(imported.status.success(), "{}", err(&imported));
    let listed = ["task", "list", "--to", "2h", "-o", "jsonl"];
    let listed = json_lines(&out(&run(&site.url, &listed, "").await));
    let ids: Vec<&str> = listed
        .iter()
        .filter_map(|task| task["id"].as_str())
        .collect();
    let stranger = "018bcfe5-6800-8000-8000-000000000001";
    let cancel = ["task", "cancel", "-o", "jsonl", ids[0], stranger, ids[1]];
    let cancelled = run(&site.url, &cancel, "").await;
    assert_eq!(cancelled.status.code(), Some(3), "{}", err(&cancelled));
    let answers = json_lines(&out(&cancelled));
    let said = answers.iter().map(|one| (&one["id"], &one["outcome"]));
    let said = json!(said.collect::<Vec<_>>());
    assert_eq!(said, json!([[ids[0], "cancelled"], [ids[1], "cancelled"]]));
    let named = format!("{stranger}: not found:");
    assert!(err(&cancelled).starts_with(&named), "{}", err(&cancelled));
    let again = run(&site.url, &["task", "cancel", ids[1], ids[0]], "").await;
    assert!(again.status.success(), "{}", err(&again));
    assert_eq!(
        out(&again).matches("already cancelled").count(),
        2,
        "{}",
        out(&again)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_may_be_empty_and_a_wrong_one_is_refused() {
    let site = Site::start().await;
    let none = run(
        &site.url,
        &["task", "list", "--to", "30s", "-o", "json"],
        "",
    )
    .await;
    assert_eq!((out(&none).as_str(), none.status.code()), ("[]\n", Some(0)));
    let none = run(
        &site.url,
        &["task", "list", "--from=-1m", "--to", "30s"],
        "",
    )
    .await;
    assert_eq!((out(&none).as_str(), none.status.code()), ("", Some(0)));
    let wrong = run(&site.url, &["task", "list", "--state", "done"], "").await;
    assert!(err(&wrong).contains("scheduled, enqueued") && wrong.status.code() == Some(2));
    let wrong = run(&site.url, &["task", "list", "--callback", "a/b"], "").await;
    assert!(
        err(&wrong).contains("--callback") && wrong.status.code() == Some(2),
        "{}",
        err(&wrong)
    );
    let away = run("http://127.0.0.1:1", &["task", "list"], "").await;
    assert_eq!(away.status.code(), Some(4), "{}", err(&away));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_fail_are_named_and_spoil_no_others() {
    let site = Site::start().await;
    let mut lines = String::new();
    for number in 1..=2500 {
        lines += match number {
            700 => "{\"callbak\":\"a\"}\n",
            1300 => "not json\n",
            1301 => "\n",
            2400 => "{\"callback\":\"a\",\"delay\":\"soon\"}\n",
            _ => "{\"callback\":\"a\",\"delay\":\"1h\"}\n",
        };
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &lines).unwrap();
    let path = file.path().to_str().unwrap();
    let checked = run(&site.url, &["task", "import", path, "--dry-run"], "").await;
    assert_eq!(out(&checked), "2497 lines can be read, 2 cannot\n");
    let imported = run(&site.url, &["task", "import", path, "--batch", "300"], "").await;
    assert_eq!(
        (out(&imported).as_str(), imported.status.code()),
        ("registered 2496, failed 3\n", Some(1))
    );
    let mut reported: Vec<String> = err(&imported).lines().map(str::to_owned).collect();
    reported.sort();
    for (line, (number, words)) in reported.iter().zip([
        (1300, "expected"),
        (2400, "/delay: `soon` is not a duration"),
        (700, "did you mean `callback`?"),
    ]) {
        assert!(
            line.starts_with(&format!("{path}:{number}: ")) && line.contains(words),
            "{line}"
        );
    }
    assert_eq!(reported.len(), 3);
    let errors = tempfile::NamedTempFile::new().unwrap();
    let skipping = [
        "task",
        "import",
        path,
        "--skip",
        "2399",
        "--errors",
        errors.path().to_str().unwrap(),
        "-o",
        "jsonl",
    ];
    let imported = run(&site.url, &skipping, "").await;
    let summary = json!({"registered": 100, "failed": 1, "lines": 2500, "interrupted": false});
    assert_eq!(
        (json_lines(&out(&imported)), err(&imported)),
        (vec![summary], String::new())
    );
    let report = json_lines(&std::fs::read_to_string(errors.path()).unwrap());
    assert_eq!(
        (report[0]["line"].as_u64(), &report[0]["task"]["delay"]),
        (Some(2400), &json!("soon"))
    );
    let missing = run(&site.url, &["task", "import", "/nowhere/at/all"], "").await;
    assert!(err(&missing).contains("cannot read") && missing.status.code() == Some(2));
}

/// A server that answers batches as it is told, and counts them.
async fn scripted(
    answer: impl Fn(usize, usize) -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let router = Router::new().fallback(move |body: String| async move {
        if body.is_empty() {
            return StatusCode::NOT_FOUND.into_response();
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        let call = counted.fetch_add(1, Ordering::SeqCst);
        answer(call, body["tasks"].as_array().unwrap().len())
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls)
}

fn task() -> Value {
    let at = "2030-01-01T00:00:00.000Z";
    json!({
        "id": "018bcfe5-6800-8000-8000-000000000001", "target": {"type": "callback", "name": "c"},
        "state": "scheduled", "start_time": at, "effective_start_time": at, "create_time": at, "attempt": 0,
        "max_attempts": 5, "priority": "normal", "generation": 0,
    })
}

fn problem(status: StatusCode, retryable: bool) -> Value {
    json!({"type": "/p", "title": "T", "status": status.as_u16(), "detail": "not now", "code": "c", "retryable": retryable})
}

fn registered(count: usize) -> Response {
    Json(json!({"results": vec![json!({"task": task()}); count]})).into_response()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_service_cannot_take_now_is_sent_again() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    let (url, calls) = scripted(move |call, count| {
        seen.lock().unwrap().push(count);
        let busy = |status: StatusCode| {
            let body = problem(status, true).to_string();
            (status, [(header::RETRY_AFTER, "0")], body).into_response()
        };
        match call {
            0 => busy(StatusCode::SERVICE_UNAVAILABLE),
            1 => busy(StatusCode::TOO_MANY_REQUESTS),
            2 => {
                let mut results = vec![json!({"task": task()}); count - 1];
                results.push(json!({"error": problem(StatusCode::SERVICE_UNAVAILABLE, true)}));
                Json(json!({"results": results})).into_response()
            }
            _ => registered(count),
        }
    })
    .await;
    let lines = "{\"callback\":\"a\"}\n".repeat(5);
    let imported = run(&url, &["task", "import", "-"], lines).await;
    assert_eq!(
        out(&imported),
        "registered 5, failed 0\n",
        "{}",
        err(&imported)
    );
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    assert_eq!(*sizes.lock().unwrap(), [5, 5, 5, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_registered_is_not_sent_again() {
    let (url, calls) = scripted(|_, _| {
        let body = problem(StatusCode::GATEWAY_TIMEOUT, false).to_string();
        (StatusCode::GATEWAY_TIMEOUT, body).into_response()
    })
    .await;
    let imported = run(&url, &["task", "import", "-"], "{\"callback\":\"a\"}\n").await;
    assert_eq!(
        (calls.load(Ordering::SeqCst), imported.status.code()),
        (1, Some(1))
    );
    assert!(err(&imported).contains("stdin:1: "), "{}", err(&imported));
}

/// Sends SIGINT.
fn interrupt(child: &Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_says_how_to_go_on() {
    let (url, calls) = scripted(|_, count| registered(count)).await;
    let mut child = program(&url, &["task", "import", "-", "--batch", "100"])
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // These lines are three batches, and some lines of a fourth.
    let lines = "{\"callback\":\"a\"}\n".repeat(350);
    stdin.write_all(lines.as_bytes()).unwrap();
    let time = TimeSource::real();
    while calls.load(Ordering::SeqCst) < 3 {
        time.sleep(SECOND / 20).await;
    }
    time.sleep(SECOND / 5).await;
    interrupt(&child);
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = output.await.unwrap();
    drop(stdin);
    assert_eq!(
        (out(&output).as_str(), output.status.code()),
        ("registered 300, failed 0\n", Some(1))
    );
    assert!(
        err(&output).contains("300 lines handled; to go on: --skip 300"),
        "{}",
        err(&output)
    );
}
