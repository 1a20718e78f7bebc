//! A connection to a server with a small protocol: bytes out, and an answer as soon as a parser finds it complete.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// First size of the buffer; it grows to the largest answer.
const BUFFER_BYTES: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What lies before was parsed.
    at: usize,
}

impl Wire {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
        })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Tells whether bytes have come that were not parsed yet.
    pub(super) fn has_more(&self) -> bool {
        self.at < self.buffer.len()
    }

    /// Returns what the parser makes of the next bytes; it returns none as long as they are not enough. Cancel-safe.
    pub(super) async fn next<T>(
        &mut self,
        parser: impl Fn(&[u8]) -> anyhow::Result<Option<(T, usize)>>,
    ) -> anyhow::Result<T> {
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            if let Some((found, used)) = parser(rest)? {
                self.at += used;
                return Ok(found);
            }
            if self.at > 0 {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server closed the connection");
        }
    }
}

/// Splits off a line that ends in CR LF; returns it and its length with the end.
pub(super) fn line(bytes: &[u8]) -> anyhow::Result<Option<(&str, usize)>> {
    let Some(end) = memmem::find(bytes, b"\r\n") else {
        return Ok(None);
    };
    let text = bytes.get(..end).unwrap_or_default();
    Ok(Some((
        std::str::from_utf8(text).context("a line of text")?,
        end + 2,
    )))
}
