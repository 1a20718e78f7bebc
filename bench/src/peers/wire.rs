//! The wire connects the harness to a server with a small protocol: bytes out, and an answer once a parser
//! finds it complete.
//!
//! Every wait for a peer has a time limit, and its error names the peer and the missing answer. A send cannot
//! stall on unread answers, because they are read while it sends.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tickwheel::time_source::TimeSource;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// First size of the buffer; it grows to the largest answer.
const BUFFER_BYTES: usize = 64 * 1024;
/// Longest time between two signs of life of a peer that owes one: far longer than a sync of a busy disk takes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How much is shown of an incomplete answer.
const SHOWN_BYTES: usize = 60;

/// Waits for an answer of a peer. The error of a failure or a time limit names the peer.
pub(super) async fn owed<T>(
    time: &TimeSource,
    peer: &str,
    what: &str,
    answer: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    within(time, ANSWER_LIMIT, peer, what, answer).await
}

async fn within<T>(
    time: &TimeSource,
    limit: Duration,
    peer: &str,
    what: &str,
    answer: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    match time.within(limit, answer).await {
        Some(answer) => answer.with_context(|| format!("{peer}: no {what}")),
        None => bail!("{peer}: no {what} within {limit:?}"),
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Wire {
    peer: &'static str,
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The bytes before it were parsed.
    at: usize,
    time: TimeSource,
    limit: Duration,
}

impl Wire {
    pub(super) async fn open(
        peer: &'static str,
        address: SocketAddr,
        time: &TimeSource,
    ) -> anyhow::Result<Self> {
        let connecting = async { Ok(TcpStream::connect(address).await?) };
        let stream = owed(time, peer, "connection", connecting).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            peer,
            stream,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
            time: time.clone(),
            limit: ANSWER_LIMIT,
        })
    }

    /// Sends, and reads answers meanwhile, so that a peer that takes no more before its answers are read goes
    /// on.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let (mut reader, mut writer) = self.stream.split();
        let buffer = &mut self.buffer;
        let mut rest = bytes;
        while !rest.is_empty() {
            let some = async {
                tokio::select! {
                    biased;
                    written = writer.write(rest) => anyhow::Ok(written?),
                    read = reader.read_buf(buffer) => {
                        ensure!(read? > 0, "the server closed the connection");
                        Ok(0)
                    }
                }
            };
            let what = "room for what is sent";
            let written = within(&self.time, self.limit, self.peer, what, some).await?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Tells whether bytes have come that were not parsed yet.
    pub(super) fn has_more(&self) -> bool {
        self.at < self.buffer.len()
    }

    /// Returns the parser's result for the next bytes; the parser returns none until they are enough.
    /// Cancel-safe.
    pub(super) async fn next<T>(
        &mut self,
        what: &str,
        parser: impl Fn(&[u8]) -> anyhow::Result<Option<(T, usize)>>,
    ) -> anyhow::Result<T> {
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            let parsed = parser(rest).with_context(|| format!("{}: no {what}", self.peer))?;
            if let Some((found, used)) = parsed {
                self.at += used;
                return Ok(found);
            }
            if self.at > 0 {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let buffer = &mut self.buffer;
            let some = async { Ok(self.stream.read_buf(buffer).await?) };
            let read = within(&self.time, self.limit, self.peer, what, some).await;
            if read.with_context(|| came(&self.buffer))? == 0 {
                bail!("{}: no {what}, it closed the connection", self.peer);
            }
        }
    }
}

/// Describes the part of an answer that has come.
fn came(part: &[u8]) -> String {
    let shown = part.get(..SHOWN_BYTES).unwrap_or(part);
    let (bytes, shown) = (part.len(), String::from_utf8_lossy(shown));
    format!("{bytes} bytes came of an answer: {shown:?}")
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Wire::open("a peer", address, &TimeSource::real()).await;
        (wire.unwrap(), listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn a_peer_that_owes_an_answer_is_named() {
        let (mut wire, mut server) = pair().await;
        wire.limit = Duration::from_millis(50);
        server.write_all(b"INSER").await.unwrap();
        let parser = |bytes: &[u8]| Ok(line(bytes)?.map(|(_, used)| ((), used)));
        let error = wire.next("INSERTED", parser).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("a peer: no INSERTED within 50ms"), "{text}");
        assert!(text.contains(r#"5 bytes came of an answer: "INSER""#));
        drop(server);
        let error = wire.next("INSERTED", parser).await.unwrap_err();
        assert!(format!("{error:#}").contains("closed"));
    }

    #[tokio::test]
    async fn answers_are_read_while_it_sends() {
        // More than the buffers of both sides hold; the server reads nothing before its own bytes are read.
        const BYTES: usize = 32 << 20;
        let (mut wire, mut server) = pair().await;
        let serving = tokio::spawn(async move {
            server.write_all(&vec![b'a'; BYTES]).await.unwrap();
            let mut taken = vec![0; BYTES];
            server.read_exact(&mut taken).await.unwrap();
        });
        wire.send(&vec![b'b'; BYTES]).await.unwrap();
        serving.await.unwrap();
        let whole = |bytes: &[u8]| Ok((bytes.len() == BYTES).then_some(((), BYTES)));
        wire.next("all of it", whole).await.unwrap();
    }
}
