//! A process that cannot start tells its operator why in one sentence, and a process that is told
//! to stop does stop.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::json;
use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use crate::server::{Server, post, program};

/// The user `nobody`, who may write nothing.
const NOBODY: u32 = 65_534;

/// Checks that the program ended with 2 and one line that holds these words.
fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    // Lines of the database and the first line, which tells what the program starts, do not count.
    let is_ours = |line: &&str| !line.contains(" ERROR fjall") && !line.contains(" INFO tickwheel");
    let lines: Vec<&str> = said.lines().filter(is_ours).collect();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        lines.len() == 1 && lines[0].starts_with("error: "),
        "{said}"
    );
    for word in words {
        assert!(said.contains(word), "{word:?} is missing: {said}");
    }
}

fn serve(directory: &Path, more: &[&str]) -> Output {
    let directory = directory.to_str().expect("a path is text");
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data-dir", directory];
    arguments.extend(more);
    program(&arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_in_use_and_a_port_in_use_are_refused_and_harm_nobody() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let holder = format!("in use by process {}", server.id());
    refused(
        &serve(&directory.path().join("data"), &[]),
        &[&holder, "stop it"],
    );
    let other = directory.path().join("other");
    let address = server.url.trim_start_matches("http://").to_owned();
    let other = other.to_str().expect("a path is text");
    let output = program(&["serve", "--listen", &address, "--data-dir", other]);
    refused(&output, &[&address, "--listen"]);
    let ready = reqwest::get(format!("{}/readyz", server.url)).await;
    assert_eq!(ready.expect("the first lives").status().as_u16(), 200);
}

#[test]
fn a_directory_of_another_version_or_shape_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("a directory");
    for format in [3, 7] {
        let text = format!("tickwheel data directory\nformat={format}\n");
        fs::write(data.join("FORMAT"), text).expect("a file");
        let named = format!("has format {format}, and this program reads format 4");
        refused(&serve(&data, &[]), &[&named, "another data directory"]);
    }
    fs::write(data.join("FORMAT"), "something else\n").expect("a file");
    refused(&serve(&data, &[]), &["does not say which format"]);
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a file");
    refused(&serve(&file, &[]), &["is not a directory"]);
}

#[test]
fn a_directory_that_may_not_be_written_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("a directory");
    for (path, mode) in [(directory.path(), 0o755), (&data, 0o555)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).expect("a mode can be set");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data);
    if rustix::process::geteuid().is_root() {
        // The user root is never refused.
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    refused(
        &command.output().expect("the program can be run"),
        &["readable and writable"],
    );
}

#[test]
fn a_torn_journal_tail_is_dropped_and_a_hole_in_it_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let start = || {
        let mut server = runtime.block_on(Server::start(directory.path(), &[]));
        for _ in 0..5 {
            let task = json!({"callback": "a", "delay": "1h"});
            runtime.block_on(post(&server.url, "/v1/tasks", &task));
        }
        server.kill();
    };
    start();
    let journal = data.join("store").join("0.jnl");
    let bytes = fs::read(&journal).expect("a journal");
    let used = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("something")
        + 1;
    // A batch that was not synced was begun behind the last one.
    let torn = [&bytes[..used], &[0xa7; 100]].concat();
    fs::write(&journal, torn).expect("it can be torn");
    start();
    let mut bytes = fs::read(&journal).expect("a journal");
    bytes[used / 2] ^= 0x55;
    fs::write(&journal, bytes).expect("it can be broken");
    refused(&serve(&data, &[]), &["journal", "restore a copy"]);
}

#[test]
fn bad_flags_and_files_are_refused_in_a_sentence_each() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    refused(&serve(&data, &["--wheels", "3"]), &["wheels"]);
    refused(&serve(&data, &["--drain-timeout", "soon"]), &["drain"]);
    refused(
        &program(&["serve", "--listen", "everywhere"]),
        &["everywhere"],
    );
    let unknown = program(&["serve", "--wheel", "4"]);
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        said.starts_with("error: unexpected argument '--wheel'"),
        "{said}"
    );
    assert_eq!(unknown.status.code(), Some(2), "{said}");
    let needed = if cfg!(feature = "cluster") {
        "needs its addresses"
    } else {
        "`cargo build --features cluster`"
    };
    refused(&serve(&data, &["--store", "cassandra"]), &[needed]);
    let missing = directory.path().join("missing.toml");
    let missing = missing.to_str().expect("a path is text");
    refused(&serve(&data, &["--config", missing]), &["missing.toml"]);
    let broken = directory.path().join("broken.toml");
    fs::write(&broken, "wheels = \"4\"\nlisten = [\n").expect("a file");
    let broken = broken.to_str().expect("a path is text");
    refused(
        &serve(&data, &["--config", broken]),
        &["broken.toml", "line 2"],
    );
    assert!(!data.exists(), "nothing was made of what was refused");
}

/// Tells the server to stop and returns how long that took.
async fn drained(server: &mut Server) -> Duration {
    let time = TimeSource::real();
    let told = time.moment();
    server.terminate();
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    assert!(server.log().contains("stopped"), "{}", server.log());
    time.moment().since(told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_told_to_stop_drains_in_time_and_goes_on_after_a_start() {
    const LIMIT: Duration = Duration::from_secs(2);
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &["--drain-timeout", "2s"]).await;
    let task = json!({"callback": "later", "delay": "1500ms", "heartbeat_timeout": "3s"});
    let registered = post(&server.url, "/v1/tasks", &task).await;
    let poll = json!({"worker": "w", "callbacks": ["nothing"], "wait": "60s"});
    let url = server.url.clone();
    let polling = tokio::spawn(async move { post(&url, "/v1/worker/poll", &poll).await });
    // A client that never ends its request delays the stop no longer than the limit.
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut stuck = std::net::TcpStream::connect(address).expect("it listens");
    stuck
        .write_all(b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        .expect("it reads");
    TimeSource::real().sleep(Duration::from_millis(300)).await;
    let took = drained(&mut server).await;
    assert!(
        took < LIMIT + Duration::from_secs(1),
        "{took:?}: {}",
        server.log()
    );
    let nothing = polling.await.expect("it was answered");
    assert_eq!(nothing["tasks"], json!([]));
    let server = Server::start(directory.path(), &[]).await;
    let poll = json!({"worker": "w", "callbacks": ["later"], "wait": "10s"});
    let answer = post(&server.url, "/v1/worker/poll", &poll).await;
    assert_eq!(answer["tasks"][0]["id"], registered["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_drain_delay_works_on_while_it_says_that_it_is_not_ready() {
    let delay = Duration::from_secs(3);
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &["--drain-delay", "3s"]).await;
    let time = TimeSource::real();
    let told = time.moment();
    server.terminate();
    let ready = loop {
        let answer = reqwest::get(format!("{}/readyz", server.url)).await;
        let answer = answer.expect("it answers");
        if answer.status() == 503 || time.moment().since(told) > delay / 2 {
            break answer;
        }
    };
    assert_eq!(ready.status(), 503);
    let text = ready.text().await.expect("a text");
    assert_eq!(text, "not ready\nprocess: it was told to stop\n");
    // A task is registered, handed out to a poll that waits, and settled.
    let task = json!({"callback": "soon", "delay": "500ms"});
    let registered = post(&server.url, "/v1/tasks", &task).await;
    let poll = json!({"worker": "w", "callbacks": ["soon"], "wait": "2s"});
    let answer = post(&server.url, "/v1/worker/poll", &poll).await;
    assert_eq!(answer["tasks"][0]["id"], registered["id"]);
    let settle = json!({"worker": "w", "tasks": [
        {"id": registered["id"], "attempt": 1, "outcome": "succeeded"}]});
    let answer = post(&server.url, "/v1/worker/settle", &settle).await;
    assert_eq!(answer["results"][0]["status"], "ok", "{answer}");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    let took = time.moment().since(told);
    assert!(took >= delay, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_stops_at_once_and_frees_its_port() {
    let directory = TempDir::new().expect("a directory");
    let mut server = Server::start(directory.path(), &[]).await;
    let took = drained(&mut server).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    // The port is free again.
    let address = server.url.trim_start_matches("http://").to_owned();
    drop(TcpListener::bind(address).expect("the port is free"));
}
