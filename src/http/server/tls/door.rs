//! The door lets connections in for the server after a handshake of TLS, and bounds handshakes in time and number.
//!
//! A client may begin a handshake and never end it. So each has a time limit. When too many are under way the oldest ends,
//! since an honest client is done long before. A client that speaks HTTP without TLS gets an answer that says so.

use std::{collections::BTreeMap, io, sync::Arc};

use metrics::counter;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::Tls;
use crate::{
    http::{
        error::{Code, Error},
        server::stall::{Watch, Watched},
    },
    limits::{
        HTTP_LEFTOVER_WAIT_MAX, HTTP1_HEAD_BYTES_MAX, TLS_HANDSHAKE_WAIT_MAX, TLS_HANDSHAKES_MAX,
    },
    telemetry::repeats::Repeats,
    time_source::TimeSource,
};

/// The first byte of a connection that begins with a handshake of TLS.
pub(in crate::http) const HANDSHAKE: u8 = 0x16;

/// A connection behind its handshake.
pub(in crate::http) type Opened = (Watch, TlsStream<Watched<TcpStream>>);

/// Lets connections in.
#[derive(Debug)]
pub(in crate::http) struct Door {
    tls: Arc<Tls>,
    time: TimeSource,
    places: Places,
    told: Repeats,
}

/// The end of a handshake.
enum Shaken {
    Opened(Box<Opened>),
    /// The client does not speak TLS.
    Plain,
}

impl Door {
    /// Lets connections in, of which the server holds so many.
    pub(in crate::http) fn new(tls: Arc<Tls>, time: TimeSource, connections_max: usize) -> Self {
        let most = TLS_HANDSHAKES_MAX.min(connections_max / 4).max(1);
        Self {
            tls,
            time,
            places: Places::new(most),
            told: Repeats::default(),
        }
    }

    /// Waits for the handshake. Returns nothing when there is none; the connection is closed then.
    pub(in crate::http) async fn open(&self, stream: TcpStream) -> Option<Box<Opened>> {
        let place = self.places.take();
        let peer = stream.peer_addr().ok();
        let shaken = tokio::select! {
            () = place.crowded.cancelled() => return self.count("crowded_out"),
            shaken = self.time.within(TLS_HANDSHAKE_WAIT_MAX, self.shake(stream)) => shaken,
        };
        match shaken {
            Some(Ok(Shaken::Opened(opened))) => {
                self.count("done");
                Some(opened)
            }
            Some(Ok(Shaken::Plain)) => {
                if self.told.say(self.time.moment()).is_some() {
                    tracing::warn!(
                        ?peer,
                        "a client speaks HTTP without TLS to this port: it needs https://"
                    );
                }
                self.count("plain")
            }
            // Checks of ports and of balancers end so.
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => self.count("left"),
            Some(Err(error)) => {
                if self.told.say(self.time.moment()).is_some() {
                    tracing::warn!(?peer, %error, "a handshake of TLS failed");
                }
                self.count("failed")
            }
            None => self.count("late"),
        }
    }

    fn count(&self, outcome: &'static str) -> Option<Box<Opened>> {
        counter!("tickwheel_tls_handshakes_total", "outcome" => outcome).increment(1);
        None
    }

    async fn shake(&self, stream: TcpStream) -> io::Result<Shaken> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first != [HANDSHAKE] {
            refuse_plain(stream, &self.time).await?;
            return Ok(Shaken::Plain);
        }
        let (watch, stream) = Watch::over(stream, self.time.clone());
        let stream = TlsAcceptor::from(self.tls.config()).accept(stream).await?;
        Ok(Shaken::Opened(Box::new((watch, stream))))
    }
}

/// Answers a client without TLS, and takes in what it is still sending: otherwise it would lose the answer.
async fn refuse_plain(mut stream: TcpStream, time: &TimeSource) -> io::Result<()> {
    let problem = Error::new(
        Code::TlsRequired,
        "this port speaks HTTP over TLS alone: begin the address with https://",
    );
    let body = serde_json::to_string(&problem.problem()).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        crate::api::problem::PROBLEM_JSON,
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut left = HTTP1_HEAD_BYTES_MAX;
    let mut buffer = [0; 1024];
    while left > 0 {
        match time
            .within(HTTP_LEFTOVER_WAIT_MAX, stream.read(&mut buffer))
            .await
        {
            Some(Ok(read @ 1..)) => left = left.saturating_sub(read),
            _ => break,
        }
    }
    Ok(())
}

/// The places of handshakes that are under way, the oldest first.
#[derive(Debug, Clone)]
struct Places {
    taken: Arc<Mutex<Taken>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    crowded: BTreeMap<u64, CancellationToken>,
}

/// A place, until it is dropped.
struct Place {
    number: u64,
    /// Cancelled when the handshake has to end for others.
    crowded: CancellationToken,
    places: Places,
}

impl Places {
    fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
        }
    }

    /// Takes a place. When there is none, the oldest handshake loses its own.
    fn take(&self) -> Place {
        let crowded = CancellationToken::new();
        let mut taken = self.lock();
        let number = taken.next;
        taken.next += 1;
        taken.crowded.insert(number, crowded.clone());
        if taken.crowded.len() > self.most
            && let Some((_, oldest)) = taken.crowded.pop_first()
        {
            oldest.cancel();
        }
        drop(taken);
        Place {
            number,
            crowded,
            places: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().crowded.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_ends_when_there_are_too_many() {
        let places = Places::new(2);
        let (first, second) = (places.take(), places.take());
        assert!(!first.crowded.is_cancelled());
        let third = places.take();
        assert!(first.crowded.is_cancelled());
        drop(second);
        let fourth = places.take();
        assert!(
            !third.crowded.is_cancelled(),
            "the second had left its place"
        );
        drop((first, third, fourth));
        assert!(places.lock().crowded.is_empty());
    }
}
