//! The HTTP client sends requests for the harness at the least cost: one keep-alive connection, bytes out, a
//! body back.
//!
//! It shares the cores with the service under test, so it does only what the figures need: no header map, no
//! connection pool, no copy of the body. It understands the answers of the service (`content-length`, never
//! chunks) and fails on all others.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::pki_types::ServerName};

/// Longest head of an answer: the service sends a few short headers.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// First size of the buffers; they grow to the largest answer.
const BUFFER_BYTES: usize = 16 * 1024;

/// An answer with any status.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) has_retry_after: bool,
    pub(crate) body: &'a [u8],
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// Further headers of every request.
    headers: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// Where a service is, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    /// With it the connections have TLS; the certificate must name `localhost`.
    pub(crate) tls: Option<TlsConnector>,
    /// The API key of every request.
    pub(crate) key: Option<String>,
}

impl From<SocketAddr> for Door {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            key: None,
        }
    }
}

impl std::fmt::Debug for Door {
    // Without the key, which must not get into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("address", &self.address)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    async fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    async fn read_buf(&mut self, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read_buf(buffer).await,
            Self::Tls(stream) => stream.read_buf(buffer).await,
        }
    }
}

impl Connection {
    pub(crate) async fn open(door: impl Into<Door>) -> anyhow::Result<Self> {
        let door = door.into();
        let stream = TcpStream::connect(door.address).await?;
        stream.set_nodelay(true)?;
        let stream = match door.tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let name = ServerName::try_from("localhost")?;
                Stream::Tls(Box::new(tls.connect(name, stream).await?))
            }
        };
        let headers = door.key.map_or_else(String::new, |key| {
            format!("authorization: Bearer {key}\r\n")
        });
        Ok(Self {
            stream,
            headers,
            request: Vec::with_capacity(BUFFER_BYTES),
            answer: Vec::with_capacity(BUFFER_BYTES),
        })
    }

    /// Reads a path; returns the body of the answer, which must be a success.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.request.clear();
        let headers = &self.headers;
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        self.request.extend_from_slice(head.as_bytes());
        self.exchange().await.with_context(|| format!("GET {path}"))
    }

    /// Posts JSON; returns the body of the answer, which must be a success.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.write("POST", path, body);
        self.exchange()
            .await
            .with_context(|| format!("POST {path}"))
    }

    /// Puts JSON; returns the body of the answer, which must be a success.
    pub(crate) async fn put(&mut self, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.write("PUT", path, body);
        self.exchange().await.with_context(|| format!("PUT {path}"))
    }

    /// Posts JSON that may be refused.
    pub(crate) async fn offer(&mut self, path: &str, body: &[u8]) -> anyhow::Result<Answer<'_>> {
        self.write("POST", path, body);
        self.answered()
            .await
            .with_context(|| format!("POST {path}"))
    }

    fn write(&mut self, method: &str, path: &str, body: &[u8]) {
        self.request.clear();
        let (headers, length) = (&self.headers, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n",
        );
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
    }

    async fn exchange(&mut self) -> anyhow::Result<&[u8]> {
        let Answer { status, body, .. } = self.answered().await?;
        if !(200..300).contains(&status) {
            bail!("status {status}: {}", String::from_utf8_lossy(body));
        }
        Ok(body)
    }

    async fn answered(&mut self) -> anyhow::Result<Answer<'_>> {
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let (status, has_retry_after, body_at, length) = loop {
            self.read_some().await?;
            if let Some(end) = memmem::find(&self.answer, b"\r\n\r\n") {
                let head = self.answer.get(..end).unwrap_or_default();
                let has_retry_after = memmem::find(head, b"\r\nretry-after: ").is_some();
                break (
                    status(head)?,
                    has_retry_after,
                    end + 4,
                    content_length(head)?,
                );
            }
            ensure!(self.answer.len() < HEAD_BYTES_MAX, "an endless head");
        };
        self.answer
            .reserve((body_at + length).saturating_sub(self.answer.len()));
        while self.answer.len() < body_at + length {
            self.read_some().await?;
        }
        Ok(Answer {
            status,
            has_retry_after,
            body: self.answer.get(body_at..).unwrap_or_default(),
        })
    }

    async fn read_some(&mut self) -> anyhow::Result<()> {
        let read = self.stream.read_buf(&mut self.answer).await?;
        ensure!(read > 0, "the service closed the connection");
        Ok(())
    }
}

/// Reads `HTTP/1.1 200 OK`.
fn status(head: &[u8]) -> anyhow::Result<u16> {
    let digits = head.get(9..12).context("a short status line")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = memmem::find(head, NAME).context("an answer without length")?;
    let digits = head.get(at + NAME.len()..).unwrap_or_default();
    let digits = digits.split(|byte| *byte == b'\r').next();
    Ok(std::str::from_utf8(digits.unwrap_or_default())?.parse()?)
}
