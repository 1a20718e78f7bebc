//! The rest of a request's body is taken in for the server when an answer comes before all of it was read.
//!
//! A client that is still sending when its connection is closed loses the answer that says why, because the
//! system resets the connection. The server therefore first reads and drops the rest of the body, within
//! bounds. Beyond these bounds the answer says that the connection is closed.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderValue, Version, header},
    response::Response,
};
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::{
    limits::{HTTP_BODY_WAIT_MAX, HTTP_LEFTOVER_BYTES_MAX, HTTP_LEFTOVER_WAIT_MAX},
    time_source::TimeSource,
};

/// The rest of a body.
#[derive(Debug)]
pub(super) struct Leftover {
    slot: Arc<Mutex<Option<Lent>>>,
    version: Version,
    /// The client sends its body only when the server asks for it.
    waits_to_be_asked: bool,
}

/// A body that comes back when its reader drops it.
#[derive(Debug)]
struct Lending {
    lent: Option<Lent>,
    slot: Arc<Mutex<Option<Lent>>>,
}

#[derive(Debug)]
struct Lent {
    body: Body,
    was_read: bool,
}

impl Leftover {
    /// Returns the request, and what will be left of its body.
    pub(in crate::http) fn of(request: Request) -> (Request, Self) {
        let leftover = Self {
            slot: Arc::default(),
            version: request.version(),
            waits_to_be_asked: request.headers().contains_key(header::EXPECT),
        };
        let slot = Arc::clone(&leftover.slot);
        let request = request.map(|body| {
            if body.is_end_stream() {
                return body;
            }
            let lent = Lent {
                body,
                was_read: false,
            };
            Body::new(Lending {
                lent: Some(lent),
                slot,
            })
        });
        (request, leftover)
    }

    /// Takes in the rest, and returns the answer; it says that the connection is closed when more is to come.
    pub(in crate::http) async fn take_in(self, answer: Response, time: &TimeSource) -> Response {
        let lent = {
            let mut slot = self.slot.lock();
            slot.take()
        };
        let Some(lent) = lent else {
            return answer;
        };
        let is_sent_unasked = lent.was_read || !self.waits_to_be_asked;
        let is_short = lent.body.size_hint().lower() <= HTTP_LEFTOVER_BYTES_MAX;
        let reading = read_to_end(lent.body, time);
        let is_whole = is_sent_unasked
            && is_short
            && time.within(HTTP_BODY_WAIT_MAX, reading).await == Some(true);
        let mut answer = answer;
        if !is_whole && self.version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(header::CONNECTION, close);
        }
        answer
    }
}

/// Tells whether a body has ended within the bounds.
async fn read_to_end(body: Body, time: &TimeSource) -> bool {
    let mut left = HTTP_LEFTOVER_BYTES_MAX;
    let mut stream = body.into_data_stream();
    while let Some(next) = time.within(HTTP_LEFTOVER_WAIT_MAX, stream.next()).await {
        match next {
            None => return true,
            Some(Ok(chunk)) if chunk.len() as u64 <= left => left -= chunk.len() as u64,
            Some(_) => return false,
        }
    }
    false
}

impl HttpBody for Lending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(lent) = &mut self.lent else {
            return Poll::Ready(None);
        };
        lent.was_read = true;
        let polled = Pin::new(&mut lent.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.lent = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let ended = |lent: &Lent| lent.body.is_end_stream();
        self.lent.as_ref().is_none_or(ended)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = |lent: &Lent| lent.body.size_hint();
        self.lent.as_ref().map_or_else(SizeHint::default, hint)
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        let unread = self.lent.take().filter(|lent| !lent.body.is_end_stream());
        if let Some(lent) = unread {
            let mut slot = self.slot.lock();
            *slot = Some(lent);
        }
    }
}
