//! A node that listens beyond this machine needs a key or `--insecure`, warns its operator, and answers to its own names only.

use std::process::Command;

use tempfile::TempDir;

use tickwheel::{
    client::{Client, Task, TaskState},
    worker::{Context, Job, Outcome, Raw, Source, Worker},
};
use tokio_util::sync::CancellationToken;

use crate::server::{Server, free_port, program};

/// Asks for the list by a host's name; returns the status.
async fn status(url: &str, host: &str) -> u16 {
    let asked = reqwest::Client::new()
        .get(format!("{url}/v1/tasks"))
        .header("host", host);
    asked.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_node_on_all_addresses_warns_and_answers_to_addresses_and_configured_names() {
    let directory = TempDir::new().unwrap();
    let port = free_port();
    let mut command = Command::new("sh");
    // This address differs from that of all tests, whose address is shifted away.
    let program = env!("CARGO_BIN_EXE_tickwheel");
    command.arg("-c").arg(format!(
        "shift 2; exec {program} serve --listen 0.0.0.0:{port} --insecure \"$@\""
    ));
    let more = ["--allowed-hosts", "timer.example,other.example:443"];
    let data = directory.path().join("data");
    let mut server = Server::spawn_by(command, directory.path(), &data, port, &more);
    server.ready().await;
    let log = server.log();
    assert_eq!(log.matches("asks nobody for a key").count(), 1, "{log}");
    for (host, expected) in [
        ("localhost", 200),
        ("10.9.8.7:7420", 200),
        ("timer.example:9", 200),
        ("other.example", 200),
        ("evil.example", 403),
    ] {
        assert_eq!(status(&server.url, host).await, expected, "{host}");
    }
}

#[tokio::test]
async fn a_node_on_loopback_does_not_warn() {
    let directory = TempDir::new().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    assert!(!server.log().contains("asks nobody"), "{}", server.log());
    assert_eq!(status(&server.url, "10.9.8.7").await, 403);
    assert_eq!(status(&server.url, "timer.example").await, 403);
}

#[test]
fn a_node_on_all_addresses_without_a_key_does_not_start() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let address = format!("0.0.0.0:{}", free_port());
    let ended = program(&["serve", "--listen", &address, "--data-dir", data]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    for words in ["there is no API key", "api-key create", "--insecure"] {
        assert!(said.contains(words), "{said}");
    }
}

#[tokio::test]
async fn the_first_key_is_made_in_the_directory_and_opens_the_service_to_its_holder() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let refused = program(&["api-key", "create", "--role", "worker", "--data-dir", data]);
    assert_eq!(
        refused.status.code(),
        Some(2),
        "the first must be an admin's"
    );
    let made = program(&["api-key", "create", "--role", "admin", "--data-dir", data]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(0), "{said}");
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(key.starts_with("twk_") && !said.contains(&key), "{said}");

    let server = Server::start(directory.path(), &[]).await;
    assert_eq!(status(&server.url, "localhost").await, 401);
    let file = directory.path().join("key");
    std::fs::write(&file, &key).unwrap();
    let by_key = |words: &[&str], key: &[&str]| {
        let server = ["--server", &server.url];
        program(&[words, &server, key].concat())
    };
    let with_file = ["--api-key-file", file.to_str().unwrap()];
    let without = by_key(&["task", "list"], &[]);
    assert_eq!(without.status.code(), Some(2));
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("asks for an API key"), "{said}");
    let listed = by_key(&["api-key", "list", "-o", "jsonl"], &with_file);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["name"], &listed["role"]),
        (&"admin".into(), &"admin".into())
    );

    let words = [
        "api-key",
        "create",
        "--role",
        "worker",
        "--callback",
        "mail",
        "-o",
        "json",
    ];
    let made = by_key(&words, &["--api-key", &key]);
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let id = made["id"].as_str().unwrap();
    let revoked = by_key(&["api-key", "revoke", id], &with_file);
    assert_eq!(revoked.status.code(), Some(0));
    let again = by_key(&["api-key", "revoke", id], &with_file);
    assert_eq!(again.status.code(), Some(3));

    run_a_task(&server.url, &key).await;
    let revoked = client(&server.url, made["key"].as_str().unwrap());
    let wrong = revoked.whoami().await;
    assert!(wrong.unwrap_err().to_string().contains("revoked"));
    let secret = key.rsplit('_').next().unwrap();
    assert!(!server.log().contains(secret), "no key is in the log");
}

fn client(url: &str, key: &str) -> Client {
    let builder = Client::builder().server(url);
    builder.api_key(key).build().unwrap()
}

/// Registers a task with a key, and runs it by a worker of the SDK with the same key.
async fn run_a_task(url: &str, key: &str) {
    let client = client(url, key);
    assert_eq!(client.whoami().await.unwrap().name, "admin");
    let task = Task::callback("mail");
    let registered = client.register(task).await.unwrap();
    let done = CancellationToken::new();
    let stop = done.clone();
    let worker = Worker::builder()
        .callback("mail", move |_: Job<Raw>, _: Context| {
            done.cancel();
            async { Ok(Outcome::Done) }
        })
        .source(Source::poll(url))
        .server(url)
        .api_key(key)
        .build()
        .unwrap();
    worker.run_until(stop.cancelled_owned()).await.unwrap();
    let wait = std::time::Duration::from_secs(20);
    let ended = client.wait(registered.id, wait).await.unwrap();
    assert_eq!(ended.state, TaskState::Succeeded);
}
