//! The bound of answers limits the memory of a node for clients that do not read: it counts bytes of answers
//! until they are sent.
//!
//! Reads are refused when their part is used up: they have changed nothing and may be repeated. Calls that
//! had an effect are always answered, because the answer tells the effect. Those with large answers are
//! accepted only while there is room. Answers below [`limits::ANSWER_BYTES_COUNTED`] are not counted: all
//! connections together hold little of them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::{IntoResponse as _, Response},
};
use hyper::body::{Frame, SizeHint};

use super::admission::{Bound, Share, refused};
use crate::{http::error::Error, limits};

/// The bytes that answers take.
#[derive(Debug)]
pub(in crate::http) struct Answers(Arc<Bound>);

/// Bytes that are counted as long as somebody holds them; the server holds them until the system has taken
/// them.
struct Counted {
    bytes: Bytes,
    #[allow(dead_code, reason = "held, not read")]
    share: Share,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body whose bytes are counted once they leave it.
struct Counting {
    body: Body,
    share: Option<Share>,
}

impl HttpBody for Counting {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        polled.map_ok(|frame| {
            frame.map_data(|bytes| match self.share.take() {
                Some(share) => Bytes::from_owner(Counted { bytes, share }),
                None => bytes,
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self(Bound::of(limits::ANSWERS_BYTES_MAX))
    }
}

impl Answers {
    /// Lets a call in whose answer may be large.
    ///
    /// # Errors
    /// 429 when answers take all that they may.
    pub(in crate::http) fn is_open(&self) -> Result<(), Error> {
        if self.0.has_room() {
            Ok(())
        } else {
            Err(no_room())
        }
    }

    /// Accepts a call whose answer will hold so many tasks, and counts these before any of the answer exists.
    /// The caller holds the returned share until the answer is made, which is then counted by itself.
    ///
    /// # Errors
    /// 429 when it would be more than answers may take.
    pub(in crate::http) fn expect(&self, tasks: usize) -> Result<Share, Error> {
        self.expect_bytes(tasks * limits::ANSWER_TASK_BYTES)
    }

    /// The same for an answer of about so many bytes.
    ///
    /// # Errors
    /// As of [`Self::expect`].
    pub(in crate::http) fn expect_bytes(&self, bytes: usize) -> Result<Share, Error> {
        let mut share = Share::of(&self.0);
        if share.grow(bytes) {
            Ok(share)
        } else {
            Err(no_room())
        }
    }

    /// Counts an answer that can still be taken back.
    ///
    /// # Errors
    /// 429 when it would be more than answers may take.
    pub(in crate::http) fn count(&self, bytes: Bytes) -> Result<Bytes, Error> {
        if bytes.len() < limits::ANSWER_BYTES_COUNTED {
            return Ok(bytes);
        }
        let mut share = Share::of(&self.0);
        if !share.grow(bytes.len()) {
            return Err(no_room());
        }
        Ok(Bytes::from_owner(Counted { bytes, share }))
    }

    /// Counts an answer; a read that would be too much is refused.
    pub(in crate::http) fn hold(&self, is_read: bool, response: Response) -> Response {
        let length = response.body().size_hint().exact();
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length >= limits::ANSWER_BYTES_COUNTED) else {
            return response;
        };
        let mut share = Share::of(&self.0);
        if is_read {
            if !share.grow_within(
                length,
                limits::ANSWERS_BYTES_MAX - limits::ANSWERS_BYTES_CALLS,
            ) {
                return no_room().into_response();
            }
        } else {
            share.grow_anyway(length);
        }
        let share = Some(share);
        response.map(|body| Body::new(Counting { body, share }))
    }
}

fn no_room() -> Error {
    refused(&format!(
        "answers of {} MiB wait to be read at this node",
        limits::ANSWERS_BYTES_MAX / (1024 * 1024)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    async fn bytes_of(response: Response) -> Bytes {
        axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap()
    }

    fn answer(bytes: usize) -> Response {
        vec![b'x'; bytes].into_response()
    }

    #[tokio::test]
    async fn large_answers_are_counted_before_they_are_made() {
        let answers = Answers::default();
        let most = limits::ANSWERS_BYTES_MAX / (1000 * limits::ANSWER_TASK_BYTES);
        let made: Vec<_> = (0..most).map(|_| answers.expect(1000)).collect();
        assert!(made.iter().all(Result::is_ok) && (10..100).contains(&most));
        assert!(answers.expect(1000).is_err());
        assert!(answers.expect(1).is_ok(), "a small one finds room");
        drop(made);
        let claims = limits::ANSWERS_BYTES_MAX / limits::POLL_BYTES_MAX;
        let made: Vec<_> = (0..claims)
            .map(|_| answers.expect_bytes(limits::POLL_BYTES_MAX).unwrap())
            .collect();
        assert!(answers.expect_bytes(1).is_err() && answers.expect_bytes(0).is_ok());
        drop(made);
        assert_eq!(answers.0.used(), 0);
    }

    #[tokio::test]
    async fn answers_are_counted_until_they_are_gone_and_reads_leave_room_for_calls() {
        let answers = Answers::default();
        let mut held = Vec::new();
        let reads = limits::ANSWERS_BYTES_MAX - limits::ANSWERS_BYTES_CALLS;
        for _ in 0..reads / MIB {
            held.push(bytes_of(answers.hold(true, answer(MIB))).await);
        }
        assert_eq!(answers.hold(true, answer(MIB)).status(), 429);
        let small = answers.hold(true, answer(limits::ANSWER_BYTES_COUNTED - 1));
        assert_eq!(small.status(), 200);
        let handed_out = answers.count(Bytes::from(vec![b'x'; 8 * MIB])).unwrap();
        assert!(answers.is_open().is_ok());
        let done = answers.hold(false, answer(limits::ANSWERS_BYTES_CALLS));
        assert_eq!(done.status(), 200, "it has happened");
        assert!(answers.is_open().is_err());
        assert!(answers.count(Bytes::from(vec![b'x'; MIB])).is_err());
        // Not read by the client, but given up.
        drop(done);
        assert!(answers.is_open().is_ok());
        let part = handed_out.slice(5..7);
        drop(handed_out);
        held.truncate(1);
        assert_eq!(answers.0.used(), 9 * MIB);
        drop((part, held));
        assert_eq!(answers.0.used(), 0);
    }
}
