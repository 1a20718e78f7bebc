//! Handshakes of TLS that never end keep nobody out.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{limits::TLS_HANDSHAKES_MAX, time_source::TimeSource};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{ALONE, REST_BYTES, memory_bytes};
use crate::{server::Server, tls::identity::Authority};

/// More than may be under way at once.
const SLOW: usize = TLS_HANDSHAKES_MAX + 500;

/// The beginning of a handshake that announces 512 bytes.
const BEGUN: [u8; 8] = [0x16, 3, 1, 2, 0, 1, 0, 1];

async fn secured() -> (TempDir, Server, reqwest::Client) {
    let directory = TempDir::new().unwrap();
    let authority = Authority::new();
    let identity = authority.identity(&["localhost"]);
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("cert.pem"), &identity.certificate).unwrap();
    fs::write(path("key.pem"), &identity.key).unwrap();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let flags = ["--tls-cert", &certificate, "--tls-key", &key];
    let server = Server::start(directory.path(), &flags).await;
    let authority = reqwest::Certificate::from_pem(authority.certificate.as_bytes());
    let client = reqwest::Client::builder()
        .tls_certs_only([authority.unwrap()])
        // Each call makes a handshake of its own.
        .pool_max_idle_per_host(0)
        .build()
        .unwrap();
    (directory, server, client)
}

#[tokio::test]
async fn handshakes_that_never_end_keep_nobody_out() {
    let _alone = ALONE.lock().await;
    let (_directory, server, client) = secured().await;
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let url = format!("https://{}", address.replace("127.0.0.1", "localhost"));
    let time = TimeSource::real();
    let mut slow = Vec::new();
    for number in 0..SLOW {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(&BEGUN).await.unwrap();
        slow.push(stream);
        if number % 250 != 0 {
            continue;
        }
        let task = json!({"callback": "work", "delay": "1h"});
        let request = client
            .post(format!("{url}/v1/tasks"))
            .header("content-type", "application/json")
            .body(task.to_string());
        let answer = time.within(Duration::from_secs(5), request.send()).await;
        let answer = answer.expect("an answer in time").expect("an answer");
        assert_eq!(answer.status(), 201, "{number}");
        let task: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(task["state"], "scheduled");
    }
    assert!(memory_bytes(server.id()) < REST_BYTES);
    // The oldest had to go for the others.
    let mut rest = Vec::new();
    let ended = slow[0].read_to_end(&mut rest);
    let ended = time.within(Duration::from_secs(1), ended).await;
    assert!(ended.is_some(), "the oldest is still under way");
}
