//! A node that listens beyond this machine warns its operator, and answers to its own names only.

use std::process::Command;

use tempfile::TempDir;

use crate::server::{Server, free_port};

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
        "shift 2; exec {program} serve --listen 0.0.0.0:{port} \"$@\""
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
