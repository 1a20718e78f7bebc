//! The task builder makes the task that every scenario sends: the harness's payload, the service's defaults.
//!
//! No look gets in the way of a measurement.

use std::time::Duration;

use serde_json::json;
use tickwheel::model::{
    backoff::Backoff,
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::Millis,
};

use crate::payload;

/// So long that no look at an unclaimed task comes during a measurement.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns the target that `kind` names.
pub(crate) fn target(kind: Kind, name: &str) -> Target {
    match kind {
        Kind::Kafka => Target::Kafka {
            topic: name.to_owned(),
            partition: None,
        },
        Kind::Callback => Target::Callback {
            name: name.to_owned(),
        },
    }
}

/// The kind of a task's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record in a topic.
    Kafka,
    /// A tracked task.
    Callback,
}

/// Returns a task in the service's own terms, with a unique payload.
pub(crate) fn spec(target: Target, created: Millis) -> Spec {
    Spec {
        indexed: Vec::new(),
        target,
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 5,
        backoff: Backoff::QUICK,
        claim_timeout: CLAIM_TIMEOUT,
        heartbeat_timeout: Duration::from_secs(45),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(24 * 3600),
        create_time: created,
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content {
            payload: payload::next().into(),
            content_type: "application/json".to_owned(),
            ..Content::default()
        }),
    }
}

/// Returns the fields of the task as a client sends them, without its start and its payload.
pub(crate) fn fields(kind: Kind, name: &str) -> serde_json::Value {
    match kind {
        Kind::Kafka => json!({ "kafka": { "topic": name } }),
        Kind::Callback => json!({
            "callback": name,
            "claim_timeout": format!("{}s", CLAIM_TIMEOUT.as_secs()),
            "max_attempts": 5,
        }),
    }
}
