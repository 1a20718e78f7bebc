//! The traffic count tells the server when nothing is under way on a connection, so that it can be closed.
//!
//! A connection over HTTP/1.1 is bounded by the time in which a head must arrive, but only once it is known
//! to be one. Over HTTP/2 no library closes an idle connection, and a head may come in pieces for ever.
//! Requests of both protocols are therefore counted here. Each counts from its head until its answer is
//! there, and from then on as long as bytes of the answer leave.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::Version,
};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::time_source::{Moment, TimeSource};

/// The traffic of one connection.
#[derive(Debug, Clone)]
pub(super) struct Traffic {
    time: TimeSource,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    open: usize,
    served: bool,
    http1: bool,
    /// Since when nothing has been under way; counts only while that is so.
    quiet_since: Moment,
}

impl Traffic {
    /// Begins with nothing under way.
    pub(in crate::http) fn new(time: TimeSource) -> Self {
        let state = State {
            open: 0,
            served: false,
            http1: false,
            quiet_since: time.moment(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            time,
        }
    }

    /// Counts a request until the returned value is dropped.
    pub(in crate::http) fn begin(&self, version: Version) -> Open {
        self.change(|state| {
            state.open += 1;
            state.served = true;
            state.http1 |= version != Version::HTTP_2;
        });
        Open(self.clone())
    }

    /// Tells whether there has been a request.
    pub(super) fn has_served(&self) -> bool {
        self.change(|state| state.served)
    }

    /// Waits until nothing has been under way for so long, from now on. After a request over HTTP/1.1 it
    /// waits for ever: the library of HTTP/1.1 closes idle connections better, as it also sees answers that
    /// it has taken and not sent yet.
    pub(in crate::http) async fn quiet(&self, span: Duration) {
        let from = self.time.moment();
        loop {
            let now = self.time.moment();
            let (since, http1) = self.change(|state| {
                let since = if state.open > 0 {
                    now
                } else {
                    state.quiet_since
                };
                (since, state.http1)
            });
            if http1 {
                std::future::pending::<()>().await;
            }
            let end = since.max(from).after(span);
            if end <= now {
                return;
            }
            self.time.sleep_until(end).await;
        }
    }

    /// Takes note that something of an answer has left.
    fn moved(&self) {
        let now = self.time.moment();
        self.change(|state| state.quiet_since = now);
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(in crate::http) struct Open(Traffic);

impl Open {
    /// Returns the answer. Over HTTP/2 its reader may keep it waiting for ever, so from here on only bytes
    /// that leave count.
    pub(in crate::http) fn answered(
        self,
        body: Body,
        share: Option<OwnedSemaphorePermit>,
    ) -> Answer {
        let traffic = self.0.clone();
        Answer {
            body,
            traffic,
            share,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let now = self.0.time.moment();
        self.0.change(|state| {
            state.open -= 1;
            state.quiet_since = now;
        });
    }
}

/// The body of an answer, with the values that are held until it is sent or given up.
#[derive(Debug)]
pub(in crate::http) struct Answer {
    body: Body,
    traffic: Traffic,
    #[allow(dead_code, reason = "held, not read")]
    share: Option<OwnedSemaphorePermit>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.traffic.moved();
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.traffic.moved();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_quiet_when_its_last_request_has_been_over_for_long() {
        let time = TimeSource::simulated(Millis(0), 1);
        let traffic = Traffic::new(time.clone());
        let begun = time.moment();
        let passed = || time.moment().since(begun);
        traffic.quiet(5 * SECOND).await;
        assert_eq!((passed(), traffic.has_served()), (5 * SECOND, false));
        let (one, other) = (
            traffic.begin(Version::HTTP_2),
            traffic.begin(Version::HTTP_2),
        );
        let requests = async {
            time.sleep(7 * SECOND).await;
            drop(one);
            time.sleep(3 * SECOND).await;
            drop(other);
        };
        tokio::join!(traffic.quiet(5 * SECOND), requests);
        assert_eq!((passed(), traffic.has_served()), (20 * SECOND, true));
        traffic.quiet(2 * SECOND).await;
        assert_eq!(passed(), 22 * SECOND, "counted from the call");
        // An answer that its client does not take does not keep the connection open.
        let answer = traffic
            .begin(Version::HTTP_2)
            .answered(Body::from("answer"), None);
        let begun = time.moment();
        traffic.quiet(5 * SECOND).await;
        assert_eq!(time.moment().since(begun), 5 * SECOND);
        drop(answer);
        let quiet = traffic.quiet(5 * SECOND);
        drop(traffic.begin(Version::HTTP_11));
        assert!(time.within(60 * SECOND, quiet).await.is_none());
    }
}
