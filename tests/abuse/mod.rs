//! The real program serves its other clients while some clients are careless, broken or hostile.

mod flood;
mod handshakes;
mod keys;
mod line;
mod names;
mod readers;
mod workers;

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{limits, time_source::TimeSource};
use tokio::{net::TcpStream, sync::Mutex};

use self::line::Line;
use crate::server::{Server, post};

/// The tests put load on the machine, so they run one at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Memory that a node may use beside bodies and its state of connections: the program, the
/// store's buffers, caches.
const REST_BYTES: usize = 256 * 1024 * 1024;

/// The node's own executor polls for each kind of internal task, and for deliveries: at most so many at once.
const EXECUTOR_POLLS: usize = 8;

async fn server() -> (TempDir, Server) {
    let directory = TempDir::new().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    (directory, server)
}

/// Memory of a process now.
fn memory_bytes(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<usize>().unwrap() * 1024
}

/// Another client registers a task that is due now, and gets and settles it.
async fn somebody_is_served(server: &Server) {
    let task = json!({"callback": "other", "delay": "0s", "payload": 1});
    post(&server.url, "/v1/tasks", &task).await;
    let poll = json!({"worker": "w", "callbacks": ["other"], "max_tasks": 1, "wait": "30s"});
    let handed = post(&server.url, "/v1/worker/poll", &poll).await;
    let task = &handed["tasks"][0];
    assert_eq!(task["callback"], "other", "{handed}");
    let settle = json!({"worker": "w", "tasks": [
        {"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"}]});
    let settled = post(&server.url, "/v1/worker/settle", &settle).await;
    assert_eq!(settled["results"][0]["status"], "ok");
}

#[tokio::test]
async fn a_thousand_heads_that_never_end_keep_nobody_out() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let mut slow = Vec::new();
    for _ in 0..1000 {
        let mut line = Line::open(&server.url).await;
        line.send(b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\nx-slow: ")
            .await;
        slow.push(line);
    }
    for round in 0..5 {
        for line in &mut slow {
            line.send(b"a").await;
        }
        somebody_is_served(&server).await;
        TimeSource::real().sleep(Duration::from_millis(200)).await;
        assert!(memory_bytes(server.id()) < REST_BYTES, "round {round}");
    }
}

#[tokio::test]
#[ignore = "waits for a minute: make test-all"]
async fn ten_thousand_idle_polls_keep_nobody_out() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let poll = json!({"worker": "idle", "callbacks": ["idle"], "max_tasks": 1, "wait": "60s"});
    let mut waiting = Vec::new();
    for _ in 0..10_000 {
        let mut line = Line::open(&server.url).await;
        line.send_post("/v1/worker/poll", poll.to_string().as_bytes())
            .await;
        waiting.push(line);
    }
    // Polls beyond the limit are refused, and their connections closed.
    let (time, mut refused) = (TimeSource::real(), 0);
    let until = time.moment().after(Duration::from_secs(40));
    // One callback has at most half of all places.
    let most = limits::POLLS_WAITING_MAX / 2;
    while waiting.len() > most && time.moment() < until {
        let mut still = Vec::new();
        for mut line in waiting {
            match line.answer_within(Duration::ZERO).await {
                None => still.push(line),
                Some(answer) => {
                    assert_eq!(answer.status, 429, "{}", answer.head);
                    assert!(answer.has("retry-after: 1") && answer.has("connection: close"));
                    refused += 1;
                }
            }
        }
        waiting = still;
        time.sleep(Duration::from_millis(100)).await;
    }
    // Polls of the executor take places of the node as well, and a callback has half of what others leave.
    let expected = 10_000 - most..=10_000 - most + EXECUTOR_POLLS.div_ceil(2);
    assert!(expected.contains(&refused), "{refused} were refused");
    somebody_is_served(&server).await;
    assert!(memory_bytes(server.id()) < 2 * REST_BYTES);
}

#[tokio::test]
async fn a_body_of_a_gigabyte_is_refused_before_it_is_there() {
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let before = memory_bytes(server.id());
    for path in ["/v1/tasks", "/v1/tasks:batchCreate", "/v1/worker/settle"] {
        // The length is announced, so nothing of the body is read.
        let mut line = Line::open(&server.url).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n"
        );
        line.send(head.as_bytes()).await;
        assert_eq!(line.answer().await.status, 413);
        // The length is not announced, so the body is read up to the limit.
        let mut line = Line::open(&server.url).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        line.send(head.as_bytes()).await;
        let sent = line.send_chunks(1024, 1024 * 1024).await;
        assert!(sent < 64, "{sent} MiB were taken");
        assert_eq!(line.answer().await.status, 413);
    }
    somebody_is_served(&server).await;
    let after = memory_bytes(server.id());
    assert!(after < before + 128 * 1024 * 1024, "{before} {after}");
}

/// Opens a connection.
async fn connect(url: &str) -> TcpStream {
    let address = url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// The id of a registered task.
fn id_of(answer: &Value) -> String {
    answer["id"].as_str().unwrap().to_owned()
}
