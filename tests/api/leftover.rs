//! The server answers a request without reading its whole body, and tells the sender whether the
//! connection stays open.

use std::time::Duration;

use axum::Router;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::Site;

use tickwheel::{http::serve, limits, time_source::TimeSource};

const MIB: usize = 1024 * 1024;

/// A site over TCP, by the clock of the system.
struct Served {
    _site: Site,
    stop: CancellationToken,
    server: JoinHandle<()>,
    address: std::net::SocketAddr,
}

impl Served {
    async fn start() -> Self {
        let site = Site::new();
        let router: Router = site.router.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        Self {
            server: tokio::spawn(serve(listener, router, stop.clone())),
            _site: site,
            stop,
            address,
        }
    }

    /// Sends all of a request, then reads the answer until the connection ends or is silent, as
    /// most clients do.
    async fn exchange(&self, parts: &[Vec<u8>]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        for part in parts {
            stream.write_all(part).await.expect("all of it is taken");
        }
        read(&mut stream).await
    }

    async fn stop(self) {
        self.stop.cancel();
        self.server.await.unwrap();
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    let silence = Duration::from_secs(1);
    if let Some(ended) = TimeSource::real().within(silence, reading).await {
        ended.expect("not reset");
    }
    String::from_utf8(answer).unwrap()
}

fn head(method: &str, path: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n").into_bytes()
}

fn sized(method: &str, path: &str, content_type: &str, bytes: usize) -> Vec<Vec<u8>> {
    let more = format!("content-type: {content_type}\r\ncontent-length: {bytes}\r\n");
    vec![head(method, path, &more), vec![b' '; bytes]]
}

/// Programs before a node may read such a head in another way than the node does (RFC 9112, 3.2 and 6.1).
#[tokio::test]
async fn a_head_that_http_does_not_allow_is_refused_whatever_its_path() {
    let served = Served::start().await;
    for path in ["/livez", "/v1/whoami"] {
        for (headers, says) in [
            ("", "no header `host`"),
            ("host: localhost\r\nhost: localhost\r\n", "more than one"),
            ("host: localhost:80a\r\n", "names a host that is none"),
            (
                "host: localhost\r\ntransfer-encoding: gzip, chunked\r\n",
                "transfer-encoding",
            ),
        ] {
            let body = if headers.contains("chunked") {
                "0\r\n\r\n"
            } else {
                ""
            };
            let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n{body}");
            let answer = served.exchange(&[request.into_bytes()]).await;
            assert!(
                answer.starts_with("HTTP/1.1 400"),
                "{path} {headers}: {answer}"
            );
            assert!(answer.contains(says), "{path} {headers}: {answer}");
        }
    }
    let old = b"GET /livez HTTP/1.0\r\n\r\n".to_vec();
    let answer = served.exchange(&[old]).await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn an_early_answer_is_read_and_the_connection_goes_on() {
    let served = Served::start().await;
    let json = "application/json";
    let large = limits::REQUEST_BYTES_MAX + 10 * MIB;
    for (method, path, content_type, bytes, status) in [
        ("POST", "/v1/tasks", json, large, 413),
        ("POST", "/v2/tasks", json, 3 * MIB, 404),
        ("PUT", "/v1/tasks", json, 3 * MIB, 405),
        ("POST", "/v1/tasks", "text/plain", 3 * MIB, 415),
        ("GET", "/livez", json, 3 * MIB, 200),
    ] {
        let mut parts = sized(method, path, content_type, bytes);
        parts.push(head("GET", "/livez", ""));
        let answer = served.exchange(&parts).await;
        let status = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&status), "{status}: {answer}");
        assert!(!answer.contains("connection: close"), "{status}: {answer}");
        assert!(answer.ends_with("\r\n\r\nok\n"), "{status}: {answer}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_is_taken_in_before_the_answer() {
    let served = Served::start().await;
    let more = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let mut parts = vec![head("POST", "/v1/tasks", more)];
    let mut chunk = format!("{MIB:x}\r\n").into_bytes();
    chunk.extend(std::iter::repeat_n(b' ', MIB));
    chunk.extend(b"\r\n");
    parts.extend(std::iter::repeat_n(chunk, 12));
    parts.push(b"0\r\n\r\n".to_vec());
    let answer = served.exchange(&parts).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(!answer.contains("connection: close"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn who_sends_far_too_much_or_waits_to_be_asked_is_told_that_the_connection_ends() {
    let served = Served::start().await;
    let length = 1024 * MIB;
    let json = "content-type: application/json\r\n";
    for more in [
        format!("{json}content-length: {length}\r\n"),
        format!("{json}content-length: {MIB}0\r\nexpect: 100-continue\r\n"),
    ] {
        let answer = served.exchange(&[head("POST", "/v1/tasks", &more)]).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }
    served.stop().await;
}
