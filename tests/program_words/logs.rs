//! The log of a service tells operators how it begins and what happens to tasks, leaves other
//! things out, and can be JSON.

use std::{path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use crate::server::{Server, free_port, post, program};

/// The longest wait for a line.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits for a line with all of these words.
async fn line_with(server: &Server, words: &[&str]) -> String {
    let time = TimeSource::real();
    let until = time.moment().after(LIMIT);
    loop {
        let log = server.log();
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        if let Some(line) = log.lines().find(has_all) {
            return line.to_owned();
        }
        assert!(time.moment() < until, "no line with {words:?}: {log}");
        time.sleep(Duration::from_millis(20)).await;
    }
}

fn with_variable(directory: &Path, name: &str, value: &str, more: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command.env(name, value);
    let data = directory.join("data");
    Server::spawn_by(command, directory, &data, free_port(), more)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_says_what_is_started_and_a_mistyped_variable_is_named() {
    let directory = TempDir::new().expect("a directory");
    let mut server = with_variable(directory.path(), "TICKWHEEL_STOER", "cassandra", &[]);
    server.ready().await;
    let log = server.log();
    // Warnings come behind it: who reads them has to know of what.
    let mut lines = log.lines();
    let first = lines.next().expect("a line");
    let unknown = lines.next().expect("a warning");
    assert!(
        unknown.contains("did you mean TICKWHEEL_STORE?"),
        "{unknown}"
    );
    let address = server.url.trim_start_matches("http://");
    let data = directory.path().join("data");
    for word in [
        "tickwheel starts",
        env!("CARGO_PKG_VERSION"),
        "embedded",
        address,
        data.to_str().expect("a path is text"),
    ] {
        assert!(first.contains(word), "{word}: {first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_a_task_is_logged_with_its_id() {
    let directory = TempDir::new().expect("a directory");
    let log = ["--log", "info,tickwheel::task=debug,tickwheel::http=debug"];
    let server = Server::start(directory.path(), &log).await;
    let url = &server.url;
    let far = post(
        url,
        "/v1/tasks",
        &json!({"callback": "c", "delay": "3600s"}),
    )
    .await;
    let far = far["id"].as_str().expect("an id");
    let later = json!({"delay": "7200s"});
    post(url, &format!("/v1/tasks/{far}/reschedule"), &later).await;
    line_with(&server, &[far, "reschedule", "Rescheduled"]).await;
    post(url, &format!("/v1/tasks/{far}/cancel"), &json!({})).await;
    line_with(&server, &[far, "cancel", "Cancelled"]).await;

    let once = json!({"callback": "once", "max_attempts": 1});
    let once = post(url, "/v1/tasks", &once).await;
    let poll = json!({"worker": "w", "callbacks": ["once"], "max_tasks": 1, "wait": "20s"});
    let polled = post(url, "/v1/worker/poll", &poll).await;
    let id = once["id"].as_str().expect("an id");
    assert_eq!(polled["tasks"][0]["id"], id);
    let report = json!({"id": id, "attempt": 1, "outcome": "retry", "error": "no such user"});
    let settle = json!({"worker": "w", "tasks": [report]});
    post(url, "/v1/worker/settle", &settle).await;
    line_with(&server, &[id, "WARN", "dead", "no such user"]).await;

    // The task is too late to be useful before a worker polls.
    let late = json!({"callback": "late", "expire_after": "1ms"});
    let late = post(url, "/v1/tasks", &late).await;
    TimeSource::real().sleep(Duration::from_millis(50)).await;
    let poll = json!({"worker": "w", "callbacks": ["late"], "max_tasks": 1, "wait": "1s"});
    post(url, "/v1/worker/poll", &poll).await;
    line_with(&server, &[late["id"].as_str().expect("an id"), "expired"]).await;

    let refused = reqwest::get(format!("{url}/v1/tasks?labl=x")).await;
    let refused = refused.expect("an answer").text().await.expect("a text");
    let refused: Value = serde_json::from_str(&refused).expect("a problem is JSON");
    let trace = refused["trace_id"].as_str().expect("a trace id");
    line_with(&server, &[trace, "request refused", "labl"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_that_no_call_has_brought_and_errors_of_retries_are_logged() {
    let directory = TempDir::new().expect("a directory");
    let log = ["--log", "info,tickwheel::task=debug"];
    let server = Server::start(directory.path(), &log).await;
    let url = &server.url;
    let register = async |task: Value| {
        let task = post(url, "/v1/tasks", &task).await;
        task["id"].as_str().expect("an id").to_owned()
    };
    let poll = async |callback: &str| {
        let poll = json!({"worker": "w", "callbacks": [callback], "max_tasks": 1, "wait": "20s"});
        post(url, "/v1/worker/poll", &poll).await["tasks"][0]["id"].clone()
    };
    let settle = async |id: &str, outcome: &str, error: &str| {
        let report = json!({"id": id, "attempt": 1, "outcome": outcome, "error": error});
        let settle = json!({"worker": "w", "tasks": [report]});
        post(url, "/v1/worker/settle", &settle).await;
    };

    let keyed = json!({"callback": "k", "key": "a", "delay": "1h", "on_conflict": "replace"});
    let (old, new) = (register(keyed.clone()).await, register(keyed).await);
    line_with(&server, &[&old, "cancelled", &new]).await;

    let gate = json!({"gate": "dropping", "reason": "old mail"});
    post(url, "/v1/callbacks/d/gate", &gate).await;
    let dropped = register(json!({"callback": "d"})).await;
    line_with(&server, &[&dropped, "cancelled", "old mail"]).await;

    let parent = register(json!({"callback": "p", "children": []})).await;
    let child = json!({"callback": "q", "parent": parent, "after_parent": true});
    let child = register(child).await;
    assert_eq!(poll("p").await, *parent);
    settle(&parent, "failed", "no such user").await;
    line_with(&server, &[&child, "cancelled", "own run of its parent"]).await;

    let tried = register(json!({"callback": "r"})).await;
    assert_eq!(poll("r").await, *tried);
    let error = format!("no route to host {}", "x".repeat(1000));
    settle(&tried, "retry", &error).await;
    let line = line_with(&server, &[&tried, "settled", "no route to host"]).await;
    assert!(line.len() < 700, "{line}");
}

#[test]
fn a_refusal_of_settings_is_json_where_json_was_asked_for() {
    let refused = |format: &[&str], variable: Option<&str>| {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        serve.args(["serve", "--listen", "nowhere"]).args(format);
        serve.envs(variable.map(|value| ("TICKWHEEL_LOG_FORMAT", value)));
        let output = serve.output().expect("the program can be run");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let json = ["--log-format", "json"];
    for text in [
        refused(&json, None),
        refused(&[], Some("json")),
        refused(&json, Some("text")),
    ] {
        let line: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
        let message = line["message"].as_str().expect("a sentence");
        assert!(
            line["level"] == "ERROR" && message.starts_with("--listen: "),
            "{line}"
        );
    }
    for text in [
        refused(&[], None),
        refused(&["--log-format", "jsn"], Some("json")),
    ] {
        assert!(text.starts_with("error: "), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_json_is_json_from_the_first_line_to_the_last() {
    let directory = TempDir::new().expect("a directory");
    let json = ["--log-format", "json"];
    let mut server = Server::start(directory.path(), &json).await;
    // The directory is in use, and the sentence that says so is JSON, too.
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path is text");
    let refused = program(
        &[
            &["serve", "--listen", "127.0.0.1:0", "--data-dir", data],
            &json[..],
        ]
        .concat(),
    );
    assert_eq!(refused.status.code(), Some(2));
    server.terminate();
    assert!(server.ended().success());
    let parsed = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect()
    };
    let lines = parsed(&server.log());
    let ready = format!("ready on {}", server.url);
    let is_ready = |line: &&Value| line["message"] == ready.as_str();
    assert_eq!(lines.iter().filter(is_ready).count(), 1);
    let refusal = parsed(&String::from_utf8_lossy(&refused.stderr));
    let last = refusal.last().expect("a reason");
    let message = last["message"].as_str().expect("a sentence");
    assert!(
        last["level"] == "ERROR" && message.contains("in use by process"),
        "{last}"
    );
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_for_cassandra_says_so_and_its_driver_does_not_go_on_for_ever() {
    let directory = TempDir::new().expect("a directory");
    let away = [
        "--store",
        "cassandra",
        "--cassandra",
        "127.0.0.1:1",
        "--kafka",
        "127.0.0.1:1",
    ];
    let server = Server::spawn(directory.path(), free_port(), &away);
    line_with(&server, &["waiting for the store"]).await;
    TimeSource::real().sleep(Duration::from_secs(4)).await;
    let log = server.log();
    let driver = log.lines().filter(|line| line.contains(" scylla")).count();
    // The driver logs two to four lines a second without a limit; each place in it may log once.
    assert!((1..=5).contains(&driver), "{driver} lines: {log}");
}

#[test]
fn a_service_that_could_never_fire_is_refused() {
    let output = program(&["serve", "--listen", "127.0.0.1:0", "--roles", "api"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("without the role scanner nobody fires"),
        "{text}"
    );
}
