//! The HTTP/2 client sends requests for the harness: some connections, many requests on each at once.
//!
//! It is as lean as its library allows: a request's head and body go in, and an answer's body comes out in a
//! buffer that is kept.

use std::{future::poll_fn, net::SocketAddr, pin::Pin};

use anyhow::{Context as _, bail};
use hyper::{
    Request,
    body::{Body as _, Incoming},
    client::conn::http2::{SendRequest, handshake},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A caller that shares its connection.
#[derive(Debug)]
pub(crate) struct Caller {
    connection: SendRequest<String>,
    authority: SocketAddr,
    answer: Vec<u8>,
}

impl Caller {
    /// Opens a connection and returns so many callers that share it.
    pub(crate) async fn open(address: SocketAddr, callers: usize) -> anyhow::Result<Vec<Self>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // The connection ends with the last caller; each call reports its fault.
        tokio::spawn(async move { drop(connection.await) });
        let caller = |_| Self {
            connection: sender.clone(),
            authority: address,
            answer: Vec::new(),
        };
        Ok((0..callers).map(caller).collect())
    }

    /// Posts JSON; returns the body of the answer, which must be a success.
    pub(crate) async fn post(&mut self, path: &str, body: String) -> anyhow::Result<&[u8]> {
        let request = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/json")
            .body(body)?;
        let called = self.connection.send_request(request).await;
        let (head, body) = called.with_context(|| format!("POST {path}"))?.into_parts();
        self.read(body).await?;
        if !head.status.is_success() {
            let said = String::from_utf8_lossy(&self.answer);
            bail!("POST {path}: status {}: {said}", head.status);
        }
        Ok(&self.answer)
    }

    async fn read(&mut self, mut body: Incoming) -> anyhow::Result<()> {
        self.answer.clear();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            if let Ok(data) = frame?.into_data() {
                self.answer.extend_from_slice(&data);
            }
        }
        Ok(())
    }
}
