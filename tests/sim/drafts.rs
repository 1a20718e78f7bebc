//! Drafts of tasks for scenarios: of the callback `work`, and of records of Kafka.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::{
    flow::base::api::NewTask,
    model::{
        backoff::{Backoff, Jitter},
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
    },
};

/// Virtual time begins in the middle of a tick.
pub(crate) const EPOCH: Millis = Millis(1_800_000_000_437);

pub(crate) fn callback(start: Millis) -> NewTask {
    NewTask {
        start,
        draft: spec(Target::Callback {
            name: "work".to_owned(),
        })
        .into(),
    }
}

pub(crate) fn record(start: Millis) -> NewTask {
    NewTask {
        start,
        draft: spec(Target::Kafka {
            topic: "users".to_owned(),
            partition: None,
        })
        .into(),
    }
}

fn spec(target: Target) -> Spec {
    Spec {
        indexed: Vec::new(),
        target,
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 3,
        backoff: Backoff {
            jitter: Jitter::None,
            ..Backoff::QUICK
        },
        claim_timeout: Duration::from_secs(10),
        heartbeat_timeout: Duration::from_secs(10),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(86_400),
        create_time: EPOCH,
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content {
            payload: Bytes::from_static(b"{}"),
            content_type: "application/json".to_owned(),
            ..Content::default()
        }),
    }
}
