//! The fixtures provide values that the tests of this folder share.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    model::{
        backoff::Backoff,
        dispatch::Dispatch,
        ids::TaskId,
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    queue::message::TaskMessage,
};

/// A message of a callback's task that is due at `start`.
pub(super) fn message(callback: &str, number: u64, start: Millis) -> TaskMessage {
    let id = TaskId::new(start, WheelNumber::from_low_bits(0), number);
    TaskMessage {
        dispatch: Dispatch::first(id, start),
        published: start,
        spec: Spec {
            target: Target::Callback {
                name: callback.to_owned(),
            },
            collection: String::new(),
            priority: Priority::Normal,
            max_attempts: 5,
            backoff: Backoff::QUICK,
            claim_timeout: Duration::from_secs(60),
            heartbeat_timeout: Duration::from_secs(30),
            expire_after: None,
            retention: Duration::from_secs(3600),
            create_time: start,
            asked_start: None,
            key: None,
            body: Body::Inline(Content {
                payload: Bytes::from_static(b"{}"),
                content_type: "application/json".to_owned(),
                ..Content::default()
            }),
        },
    }
}
