//! The server speaks HTTP/2 with prior knowledge on the port of HTTP/1.1, with bounds of its own
//! and an orderly end.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use axum::body::{Body, Bytes, to_bytes};
use futures_util::{StreamExt as _, future::join_all, stream};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

use super::{Site, request};
use crate::near_timer::keep_near;

use tickwheel::{
    http::serve,
    limits::{
        HTTP_ANSWER_WAIT_MAX, HTTP_BODY_STEP, HTTP_HEAD_WAIT_MAX, HTTP2_HEAD_BYTES_MAX,
        HTTP2_PING_INTERVAL, HTTP2_PING_WAIT_MAX, HTTP2_STREAMS_MAX,
    },
    time_source::Moment,
};

const SECOND: Duration = Duration::from_secs(1);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const NO_SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const GOAWAY: u8 = 7;

/// A site that is served over TCP.
struct Served {
    site: Site,
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Served {
    async fn start() -> Self {
        let site = Site::new();
        site.world.pass(3 * SECOND).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve(listener, site.router.clone(), site.shutdown.clone());
        keep_near(site.node.time.clone());
        Self {
            server: tokio::spawn(server),
            site,
            address,
        }
    }

    fn now(&self) -> Moment {
        self.site.node.time.moment()
    }

    async fn client(&self) -> (Client, JoinHandle<()>) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        // A paused clock does not wait for data that the system holds back.
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        let ended = tokio::spawn(async move { drop(connection.await) });
        (Client(sender), ended)
    }

    async fn stop(self) {
        self.site.shutdown.cancel();
        self.server.await.unwrap();
    }
}

/// A connection over HTTP/2.
#[derive(Clone)]
struct Client(SendRequest<Body>);

impl Client {
    async fn send(&self, request: axum::http::Request<Body>) -> (u16, Value) {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.to_string();
        parts.uri = format!("http://localhost{path}").parse().unwrap();
        let request = axum::http::Request::from_parts(parts, body);
        let response = self.0.clone().send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = Body::new(response.into_body());
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> (u16, Value) {
        self.send(request(axum::http::Method::POST, path, body))
            .await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(request(axum::http::Method::GET, path, "")).await
    }
}

/// A body that is sent piece by piece.
fn pieces() -> (mpsc::Sender<&'static str>, Body) {
    let (sender, receiver) = mpsc::channel::<&'static str>(8);
    let pieces = stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), receiver))
    });
    (sender, Body::from_stream(pieces.boxed()))
}

/// Reads until the other end closes the connection; returns what came and how long it took.
async fn read_to_end(served: &Served, stream: &mut TcpStream) -> (Vec<u8>, Duration) {
    let begun = served.now();
    let mut read = Vec::new();
    // A reset and a close both mean that the connection is gone.
    drop(stream.read_to_end(&mut read).await);
    (read, served.now().since(begun))
}

#[tokio::test(start_paused = true)]
async fn calls_are_those_of_http1_and_many_share_a_connection() {
    let served = Served::start().await;
    let (client, _) = served.client().await;
    let body = r#"{"callback":"work","delay":"1h","payload":1}"#;
    let more = 2 * HTTP2_STREAMS_MAX as usize;
    let registered = join_all((0..more).map(|_| client.post("/v1/tasks", body))).await;
    let ids: Vec<&str> = registered
        .iter()
        .map(|(status, task)| {
            assert_eq!(*status, 201, "{task}");
            task["id"].as_str().unwrap()
        })
        .collect();
    for id in &ids[..3] {
        let path = format!("/v1/tasks/{id}?view=FULL");
        let (status, task) = client.get(&path).await;
        assert_eq!((status, &task), (200, &served.site.get(&path).await.ok()));
    }
    let (_, cancelled) = client
        .post("/v1/tasks:batchCancel", json!({"ids": ids}).to_string())
        .await;
    let results = cancelled["results"].as_array().unwrap();
    assert_eq!(results.len(), ids.len());
    assert!(results.iter().all(|one| one["outcome"] == "cancelled"));
    let (status, problem) = client.get("/v1/none").await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
    let mut large = request(axum::http::Method::GET, "/livez", "");
    let value = "x".repeat(HTTP2_HEAD_BYTES_MAX as usize);
    large
        .headers_mut()
        .insert("x-large", value.parse().unwrap());
    assert_eq!(client.send(large).await.0, 431);
    assert_eq!(client.get("/livez").await.0, 200, "and goes on");
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bodies_are_bounded_one_by_one() {
    let served = Served::start().await;
    let (client, _) = served.client().await;
    let begun = served.now();
    let (slow, body) = pieces();
    slow.send("{").await.unwrap();
    let never = {
        let client = client.clone();
        tokio::spawn(async move { client.post("/v1/tasks", body).await })
    };
    let large = vec![b' '; 3 * 1024 * 1024];
    let (status, problem) = client.post("/v1/tasks", large).await;
    assert_eq!((status, &problem["code"]), (413, &json!("too_large")));
    let (status, _) = client.post("/v1/tasks", r#"{"callback":"work"}"#).await;
    assert_eq!(status, 201, "one that hangs holds up no other");
    let (status, problem) = never.await.unwrap();
    assert_eq!((status, &problem["code"]), (408, &json!("request_timeout")));
    assert!(served.now().since(begun) >= HTTP_BODY_STEP);
    drop(slow);
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_get_to_a_request_is_closed() {
    let served = Served::start().await;
    let (half, _) = PREFACE.split_at(10);
    for beginning in [b"".as_slice(), b"P", half, &PREFACE[..23], b"POST / HT"] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        let (answer, took) = read_to_end(&served, &mut stream).await;
        assert_eq!(answer, b"", "{beginning:?}");
        let bounds = HTTP_HEAD_WAIT_MAX - SECOND..HTTP_HEAD_WAIT_MAX + SECOND;
        assert!(bounds.contains(&took), "{beginning:?}: {took:?}");
    }
    // A client that is gone does not answer a ping.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&NO_SETTINGS).await.unwrap();
    let (_, took) = read_to_end(&served, &mut stream).await;
    assert!(
        took <= HTTP2_PING_INTERVAL + HTTP2_PING_WAIT_MAX + SECOND,
        "{took:?}"
    );
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_told_to_go_and_one_that_waits_for_an_answer_is_not() {
    let served = Served::start().await;
    let (client, ended) = served.client().await;
    let (_, task) = client
        .post("/v1/tasks", r#"{"callback":"work","delay":"1h"}"#)
        .await;
    let path = format!("/v1/tasks/{}?wait=60s", task["id"].as_str().unwrap());
    let (begun, mut last) = (served.now(), served.now());
    for _ in 0..3 {
        assert_eq!(client.get(&path).await.0, 200);
        last = served.now();
    }
    assert!(served.now().since(begun) >= 180 * SECOND);
    ended.await.unwrap();
    let idle = served.now().since(last);
    let most = HTTP_HEAD_WAIT_MAX + SECOND;
    assert!(
        idle >= HTTP_HEAD_WAIT_MAX - SECOND && idle <= most,
        "{idle:?}"
    );
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_finishes_the_requests_of_a_connection() {
    let served = Served::start().await;
    let (client, ended) = served.client().await;
    let (_, task) = client
        .post("/v1/tasks", r#"{"callback":"work","delay":"1h"}"#)
        .await;
    let path = format!("/v1/tasks/{}?wait=60s", task["id"].as_str().unwrap());
    let poll = r#"{"worker":"w","callbacks":["other"],"max_tasks":1,"wait":"60s"}"#;
    let (slow, body) = pieces();
    slow.send(r#"{"callback":"work","#).await.unwrap();
    let of = |client: &Client| client.clone();
    let (reader, poller, writer) = (of(&client), of(&client), of(&client));
    let waits = tokio::spawn(async move { reader.get(&path).await });
    let polls = tokio::spawn(async move { poller.post("/v1/worker/poll", poll).await });
    let writes = tokio::spawn(async move { writer.post("/v1/tasks", body).await });
    // All three requests are at the server.
    served.site.world.pass(SECOND).await;
    served.site.node.node.leave();
    served.site.shutdown.cancel();
    slow.send(r#""delay":"1h"}"#).await.unwrap();
    drop(slow);
    assert_eq!(waits.await.unwrap().0, 200);
    let (status, answer) = polls.await.unwrap();
    assert_eq!((status, &answer["tasks"]), (200, &json!([])), "{answer}");
    assert_eq!(writes.await.unwrap().0, 201);
    ended.await.unwrap();
    served.server.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_http1_that_nobody_takes_ends_its_connection() {
    let served = Served::start().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    // The answers are more than the system buffers for a connection.
    let ask = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(ask.repeat(50).as_bytes()).await.unwrap();
    served
        .site
        .world
        .pass(HTTP_ANSWER_WAIT_MAX - 10 * SECOND)
        .await;
    let time = &served.site.node.time;
    let mut some = vec![0; 1024 * 1024];
    stream.read_exact(&mut some).await.unwrap();
    // The answer has moved on, so the time limit starts again.
    served
        .site
        .world
        .pass(HTTP_ANSWER_WAIT_MAX - 10 * SECOND)
        .await;
    stream.read_exact(&mut some).await.unwrap();
    // The system may still move buffered data while virtual time passes; nothing moves in the later spans.
    for _ in 0..4 {
        let span = HTTP_ANSWER_WAIT_MAX + 10 * SECOND;
        served.site.world.pass(span).await;
    }
    let mut rest = Vec::new();
    let reading = stream.read_to_end(&mut rest);
    let ended = time.within(10 * SECOND, reading).await;
    assert!(ended.is_some(), "closed, or reset");
    assert!(rest.len() < 30 * 1024 * 1024, "{} were sent", rest.len());
    served.stop().await;
}

/// A frame of the protocol.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Tells whether the other end announced the end before it closed the connection.
fn took_leave(answer: &[u8]) -> bool {
    let mut rest = answer;
    while let [a, b, c, kind, ..] = *rest {
        if kind == GOAWAY {
            return true;
        }
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    false
}

#[tokio::test]
async fn floods_end_their_connection_only() {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    const CONTINUATION: u8 = 9;
    // GET http / of the static table.
    let head = [0x82, 0x86, 0x84];
    let taken_back = (0..2000).flat_map(|n| {
        let stream = 2 * n + 1;
        let open = frame(HEADERS, 0x5, stream, &head);
        [open, frame(RESET, 0, stream, &8_u32.to_be_bytes())]
    });
    let begun = std::iter::once(frame(HEADERS, 0x1, 1, &head));
    let endless = (0..2000).map(|_| frame(CONTINUATION, 0, 1, &[0x84; 1024]));
    let floods: [Vec<u8>; 2] = [
        taken_back.flatten().collect(),
        begun.chain(endless).flatten().collect(),
    ];
    let served = Served::start().await;
    let (client, _) = served.client().await;
    for flood in floods {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let (mut reading, mut writing) = stream.split();
        let mut answer = Vec::new();
        let flooding = async {
            let beginning = [PREFACE, &NO_SETTINGS, &flood].concat();
            // The connection is cut off before all is written.
            drop(writing.write_all(&beginning).await);
        };
        let reads = async { drop(reading.read_to_end(&mut answer).await) };
        let both = async { tokio::join!(flooding, reads) };
        let both = served.site.node.time.within(20 * SECOND, both);
        assert!(both.await.is_some(), "it is cut off");
        assert!(took_leave(&answer), "{answer:?}");
        assert_eq!(client.get("/livez").await.0, 200);
    }
    served.stop().await;
}
