//! Clients that speak the other protocol than the port are told so.

use axum::Router;
use tickwheel::{
    client::{Client, Error},
    http::serve,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::Port;

#[tokio::test]
async fn http_without_tls_is_answered_with_what_to_do() {
    let port = Port::open().await;
    for request in [
        &b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{",
    ] {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{answer}"
        );
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains(r#""code":"tls_required""#), "{answer}");
        assert!(answer.contains("https://"), "{answer}");
    }
    let client = Client::connect(&format!("http://{}", port.address)).unwrap();
    let Err(Error::Refused { problem }) = client.stats().await else {
        panic!("the client understands the answer")
    };
    assert_eq!(problem.code, "tls_required");
    port.close().await;
}

#[tokio::test]
async fn a_client_with_tls_is_told_that_the_port_has_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, Router::new(), shutdown.clone()));
    let client = Client::connect(&format!("https://{address}")).unwrap();
    let error = client.ready().await.unwrap_err().to_string();
    assert!(error.contains("does not speak TLS: try http://"), "{error}");
    shutdown.cancel();
    serving.await.unwrap();
}
