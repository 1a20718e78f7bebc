//! These tests show that clients with the largest heads, and clients that never read, do not
//! block other clients.

use std::time::Duration;

use serde_json::json;
use tickwheel::{limits, time_source::TimeSource};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::{ALONE, REST_BYTES, connect, id_of, memory_bytes, server, somebody_is_served};
use crate::server::post;

/// Writes what is taken within a moment.
async fn pour(stream: &mut TcpStream, bytes: &[u8]) {
    let writing = stream.write_all(bytes);
    // The head was taken in part, or the connection was cut off.
    drop(
        TimeSource::real()
            .within(Duration::from_millis(500), writing)
            .await,
    );
}

#[tokio::test]
#[ignore = "waits for half a minute: make test-all"]
async fn heads_as_large_as_they_may_be_have_a_bound_together() {
    const CONNECTIONS: usize = 2000;
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let mut held = Vec::new();
    for number in 0..CONNECTIONS {
        // Every second head is just below the limit. The others are as large as the server's library would
        // hold without a limit.
        let bytes = if number % 2 == 0 { 60_000 } else { 400_000 };
        let mut head = b"GET /v1/tasks HTTP/1.1\r\nhost: localhost\r\n".to_vec();
        while head.len() < bytes {
            head.extend(format!("x-{}: {}\r\n", head.len(), "v".repeat(4000)).bytes());
        }
        let mut stream = connect(&server.url).await;
        pour(&mut stream, &head).await;
        held.push(stream);
    }
    somebody_is_served(&server).await;
    let bound = REST_BYTES + CONNECTIONS / 2 * limits::HTTP1_HEAD_BYTES_MAX * 2;
    let memory = memory_bytes(server.id());
    assert!(memory < bound, "{memory} of {bound}");
    let mut answer = Vec::new();
    let read = held.remove(1).read_to_end(&mut answer).await;
    // Some of the request was not read, so the answer may be lost.
    assert!(
        read.is_err() || answer.starts_with(b"HTTP/1.1 431"),
        "{answer:?}"
    );
}

#[tokio::test]
#[ignore = "waits for half a minute: make test-all"]
async fn answers_that_nobody_reads_have_a_bound_and_keep_nobody_out() {
    const CONNECTIONS: usize = 1000;
    let _alone = ALONE.lock().await;
    let (_directory, server) = server().await;
    let task = json!({"callback": "large", "delay": "1h", "payload": "x".repeat(1_000_000)});
    let id = id_of(&post(&server.url, "/v1/tasks", &task).await);
    let address = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    let ask = format!("GET /v1/tasks/{id}?view=FULL HTTP/1.1\r\nhost: localhost\r\n\r\n");
    // The answers are more than the system buffers for a connection; the reader takes next to nothing.
    let asks = ask.repeat(20);
    let mut held = Vec::new();
    let mut peak = 0;
    for _ in 0..CONNECTIONS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        pour(&mut stream, asks.as_bytes()).await;
        held.push(stream);
        peak = peak.max(memory_bytes(server.id()));
    }
    let time = TimeSource::real();
    let until = time.moment().after(Duration::from_secs(20));
    while time.moment() < until {
        somebody_is_served(&server).await;
        peak = peak.max(memory_bytes(server.id()));
        time.sleep(Duration::from_millis(200)).await;
    }
    let bound = REST_BYTES + limits::ANSWERS_BYTES_MAX;
    assert!(peak < bound, "{peak} of {bound}");
    // Others may read again when those are gone.
    drop(held);
    let mut status = 429;
    while status == 429 && time.moment() < until.after(Duration::from_secs(20)) {
        time.sleep(Duration::from_millis(200)).await;
        let answer = reqwest::get(format!("{}/v1/tasks/{id}?view=FULL", server.url)).await;
        status = answer.unwrap().status().as_u16();
    }
    assert_eq!(status, 200);
}
