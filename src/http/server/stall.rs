//! The watch over a connection closes it for the server when its client does not read what was written for
//! it.
//!
//! Answers wait in memory until their client reads them. A client that has gone to sleep, or never means to
//! read, would keep its answers and its connection for ever, since the library of HTTP/1.1 has no time limit
//! for writing. Progress is counted in bytes that the system takes, so a slow reader of a large answer is
//! left alone.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
};

use crate::time_source::{Moment, TimeSource};

/// Tells how long a connection has been waiting to write.
#[derive(Debug, Clone)]
pub(in crate::http) struct Watch {
    time: TimeSource,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when nothing more could be written; none while writing goes on.
    stuck_since: Mutex<Option<Moment>>,
    became_stuck: Notify,
    /// The first byte that was read.
    first: OnceLock<u8>,
}

/// A stream that is watched.
#[derive(Debug)]
pub(in crate::http) struct Watched<S> {
    stream: S,
    watch: Watch,
}

impl Watch {
    /// Watches a stream.
    pub(in crate::http) fn over<S>(stream: S, time: TimeSource) -> (Self, Watched<S>) {
        let watch = Self {
            time,
            state: Arc::default(),
        };
        let watched = Watched {
            stream,
            watch: watch.clone(),
        };
        (watch, watched)
    }

    /// Waits until nothing could be written for so long.
    pub(in crate::http) async fn stalled(&self, span: Duration) {
        loop {
            let since = *self.since();
            match since {
                None => self.state.became_stuck.notified().await,
                Some(since) => {
                    let end = since.after(span);
                    if end <= self.time.moment() {
                        return;
                    }
                    self.time.sleep_until(end).await;
                }
            }
        }
    }

    /// Tells whether the first byte that came was this one.
    pub(in crate::http) fn began_with(&self, byte: u8) -> bool {
        self.state.first.get() == Some(&byte)
    }

    fn since(&self) -> parking_lot::MutexGuard<'_, Option<Moment>> {
        self.state.stuck_since.lock()
    }

    fn note<T>(&self, written: &Poll<T>) {
        let mut since = self.since();
        match (written, since.is_some()) {
            (Poll::Ready(_), true) => *since = None,
            (Poll::Pending, false) => {
                *since = Some(self.time.moment());
                self.state.became_stuck.notify_one();
            }
            (Poll::Ready(_), false) | (Poll::Pending, true) => {}
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(first) = buffer.filled().get(before) {
            self.watch.state.first.get_or_init(|| *first);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch.note(&written);
        Poll::Ready(ready!(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch.note(&written);
        Poll::Ready(ready!(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::model::time::Millis;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_is_left_alone_and_one_that_has_stopped_is_not() {
        let time = TimeSource::simulated(Millis(0), 1);
        let (writer, mut reader) = duplex(16);
        let (watch, mut watched) = Watch::over(writer, time.clone());
        let begun = time.moment();
        let writing = async { watched.write_all(&[0; 64]).await };
        let reading = async {
            for _ in 0..8 {
                time.sleep(4 * SECOND).await;
                reader.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        let stalled = async {
            watch.stalled(5 * SECOND).await;
            time.moment().since(begun)
        };
        let both = async { tokio::join!(writing, reading).0 };
        tokio::select! {
            done = both => done.unwrap(),
            after = stalled => panic!("stalled after {after:?}"),
        }
        // When no bytes wait to be written, no time counts.
        assert!(
            time.within(60 * SECOND, watch.stalled(5 * SECOND))
                .await
                .is_none()
        );
        let begun = time.moment();
        tokio::select! {
            _ = watched.write_all(&[0; 64]) => panic!("nobody reads"),
            () = watch.stalled(5 * SECOND) => {}
        }
        assert_eq!(time.moment().since(begun), 5 * SECOND);
    }
}
