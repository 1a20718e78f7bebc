//! Client commands and workers tell a user each refusal once, in the words of the command line,
//! and each end by exit code.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::client::Client;

use crate::server::{Server, post, program};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Checks that a command was refused in one line that names the flag once.
fn names_once(output: &Output, flag: &str) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.matches(flag).count(), 1, "{text}");
    let field = flag.trim_start_matches("--").replace('-', "_");
    assert!(!text.contains(&format!("/{field}")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_said_once_and_names_the_flag() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let register = [
        "task",
        "register",
        "--server",
        &server.url,
        "--callback",
        "c",
    ];
    let with = |more: &[&str]| program(&[&register[..], more].concat());
    // An unreadable value is refused before the request is sent.
    let unread = with(&["--delay", "soon"]);
    let text = said(&unread);
    assert!(
        text.contains("'--delay <DURATION>'") && text.contains("90s"),
        "{text}"
    );
    assert_eq!(
        (text.matches("soon").count(), unread.status.code()),
        (1, Some(2))
    );
    let unread = with(&["--at", "tomorrow"]);
    assert!(
        said(&unread).contains("2030-01-31T09:00:00Z"),
        "{}",
        said(&unread)
    );
    // A refusal by the service names the flag that the value came from.
    names_once(&with(&["--claim-timeout", "1s"]), "--claim-timeout");
    names_once(&with(&["--retry-factor", "0.5"]), "--retry-factor");
    let list = ["task", "list", "--server", &server.url, "--callback", "a/b"];
    names_once(&program(&list), "--callback");
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_relative_times_and_a_server_without_a_scheme_are_taken() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let bare = server.url.trim_start_matches("http://");
    let on = ["--server", bare, "-o", "json"];
    let run = |arguments: &[&str]| program(&[arguments, &on[..]].concat());
    let registered = run(&[
        "task",
        "register",
        "--callback",
        "c",
        "--at",
        "2h",
        "--retry-initial",
        "10s",
        "--retry-factor",
        "5",
        "--retry-max",
        "12h",
        "--retry-jitter",
        "none",
    ]);
    assert!(registered.status.success(), "{}", said(&registered));
    let task = answer(&registered);
    let ahead = |task: &Value, from: &str| {
        let at = |name: &str| {
            let text = task[name].as_str().expect("a time");
            text.parse::<jiff::Timestamp>()
                .expect("RFC 3339")
                .as_second()
        };
        at("start_time") - at(from)
    };
    assert!(
        (7199..=7201).contains(&ahead(&task, "create_time")),
        "{task}"
    );
    let id = task["id"].as_str().expect("an id");
    let rule = json!({"initial": "10s", "factor": 5.0, "max": "43200s", "jitter": "none"});
    let read = answer(&run(&["task", "get", id, "--wait", "200ms"]));
    assert_eq!(read["retry"]["factor"], rule["factor"], "{read}");
    assert_eq!(read["retry"]["jitter"], rule["jitter"], "{read}");
    let moved = answer(&run(&["task", "reschedule", id, "--at", "3h"]));
    assert!(
        (10_799..=10_860).contains(&ahead(&moved, "create_time")),
        "{moved}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_comes_too_late_has_its_own_exit_code() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let task = post(&server.url, "/v1/tasks", &json!({"callback": "c"})).await;
    let id = task["id"].as_str().expect("an id");
    let poll = json!({"worker": "w", "callbacks": ["c"], "max_tasks": 1, "wait": "20s"});
    let polled = post(&server.url, "/v1/worker/poll", &poll).await;
    let attempt = &polled["tasks"][0]["attempt"];
    let report = json!({"id": id, "attempt": attempt, "outcome": "succeeded"});
    let settle = json!({"worker": "w", "tasks": [report]});
    post(&server.url, "/v1/worker/settle", &settle).await;
    for change in [
        &["task", "cancel", id][..],
        &["task", "cancel", id, id],
        &["task", "cancel", "--tree", id],
        &["task", "reschedule", id, "--delay", "1h"],
        &["task", "run", id],
    ] {
        let output = program(&[change, &["--server", &server.url]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(5), "{change:?}: {text}");
        assert!(text.contains("too late"), "{change:?}: {text}");
        let reason = said(&output);
        assert!(reason.contains("it is succeeded"), "{change:?}: {reason}");
    }
    let help = program(&["task", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("5 too late"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_tree_is_too_late_when_all_of_it_has_ended() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let child = json!({"callback": "later", "delay": "1h"});
    let mut ids = Vec::new();
    for children in [json!([child]), json!([])] {
        let task = json!({"callback": "c", "children": children});
        let task = post(&server.url, "/v1/tasks", &task).await;
        let id = task["id"].as_str().expect("an id").to_owned();
        let poll = json!({"worker": "w", "callbacks": ["c"], "max_tasks": 1, "wait": "20s"});
        post(&server.url, "/v1/worker/poll", &poll).await;
        let report = json!({"id": id, "attempt": 1, "outcome": "succeeded"});
        let settle = json!({"worker": "w", "tasks": [report]});
        post(&server.url, "/v1/worker/settle", &settle).await;
        ids.push(id);
    }
    let cancel = |id: &str| program(&["task", "cancel", "--tree", id, "--server", &server.url]);
    for told in ["1 tasks below it cancelled", "0 tasks below it cancelled"] {
        let output = cancel(&ids[0]);
        let text = said(&output);
        assert!(text.contains(told) && !text.contains("too late"), "{text}");
        assert_eq!(output.status.code(), Some(0), "{text}");
    }
    let client = Client::connect(&server.url).expect("a client");
    let id = ids[1].parse().expect("an id");
    let waited = client.wait(id, Duration::from_secs(20)).await;
    waited.expect("the end of the tree");
    let output = cancel(&ids[1]);
    let text = said(&output);
    assert!(
        text.contains("too late: its tree has ended: it is completed"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(5), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_flags_that_give_names_and_texts() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let long = "x".repeat(5000);
    for (arguments, flag) in [
        (
            &["task", "register", "--callback", "c", "--key", &long][..],
            "--key",
        ),
        (
            &[
                "task",
                "register",
                "--callback",
                "c",
                "--idempotency-key",
                &long,
            ],
            "--idempotency-key",
        ),
        (
            &[
                "task",
                "register",
                "--callback",
                "c",
                "--at",
                "2030-01-31T09:00:00Z",
                "--id",
                "x",
            ],
            "--id",
        ),
        (&["task", "register", "--topic", "t"], "--topic"),
        (
            &["callback", "set", "c", "--description", &long],
            "--description",
        ),
        (&["callback", "pause", "c", "--reason", &long], "--reason"),
        (
            &["callback", "pause", "c", "--until", "2020-01-01T00:00:00Z"],
            "--until",
        ),
        (
            &["api-key", "create", "--role", "admin", "--name", &long],
            "--name",
        ),
        (
            &["api-key", "create", "--role", "worker", "--callback", "a/b"],
            "--callback",
        ),
        (
            &[
                "api-key",
                "create",
                "--role",
                "admin",
                "--expires",
                "2020-01-01T00:00:00Z",
            ],
            "--expires",
        ),
    ] {
        names_once(
            &program(&[arguments, &["--server", &server.url]].concat()),
            flag,
        );
    }
}

#[test]
fn every_command_that_reads_settings_names_a_mistyped_variable() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path is text");
    for arguments in [
        &["init"][..],
        &["doctor", "--data-dir", data],
        &["api-key", "list", "--data-dir", data],
        &["config", "explain", "store"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command.args(arguments).env("TICKWHEEL_STOER", "cassandra");
        let text = said(&command.output().expect("the program can be run"));
        let told = text.matches("did you mean TICKWHEEL_STORE?").count();
        assert_eq!(told, 1, "{arguments:?}: {text}");
    }
}

#[test]
fn a_command_that_does_not_exist_is_refused_before_it_costs_an_attempt() {
    let script = TempDir::new().expect("a directory");
    let script = script.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").expect("a file");
    let script = script.to_str().expect("a path is text");
    for (command, words) in [
        ("/no/such/command", "does not exist"),
        ("no-such-command-anywhere", "in no directory of PATH"),
        (script, "chmod +x"),
    ] {
        let output = program(&["worker", "--callback", "c", "--", command]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with("error: the command ") && text.contains(words),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_what_it_does_and_how_each_run_ended() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let mut worker = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
        .args([
            "worker",
            "--server",
            &server.url,
            "--callback",
            "greet",
            "--",
            "sh",
            "-c",
        ])
        .arg("read line; [ \"$line\" = 1 ] || { echo no such user >&2; exit 65; }")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be run");
    let (send, lines) = std::sync::mpsc::channel();
    let errors = BufReader::new(worker.stderr.take().expect("a pipe"));
    std::thread::spawn(move || {
        errors
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    let line_with = |words: &str| {
        let limit = Duration::from_secs(30);
        std::iter::from_fn(|| lines.recv_timeout(limit).ok()).find(|line| line.contains(words))
    };
    let first = line_with("polling greet").expect("it says what it polls");
    assert!(first.contains(&server.url), "{first}");
    for (payload, ended) in [(1, "succeeded"), (2, "failed for good")] {
        let task = json!({"callback": "greet", "payload": payload});
        let task = post(&server.url, "/v1/tasks", &task).await;
        let id = task["id"].as_str().expect("an id");
        let line = line_with(id).expect("a line for each run");
        assert!(line.contains(ended) && line.contains("attempt=1"), "{line}");
    }
    worker.kill().expect("the worker can be killed");
    worker.wait().expect("the worker can be waited for");
}

#[test]
fn an_embedded_store_needs_no_init() {
    let output = program(&["init"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("needs no init"), "{}", said(&output));
}
