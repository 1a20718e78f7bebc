//! Drafts of tasks for scenarios: of the callback `work`, and of records of Kafka.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::{
    flow::{
        base::{
            api::{ClaimRequest, NewTask, TaskView},
            level_memory::Levels,
        },
        stages::service::Service,
    },
    model::{
        backoff::{Backoff, Jitter},
        ids::TaskId,
        level::Level,
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

/// Levels that follow-ups and children that wait for their parent need, as long as every released program knows every task.
pub(crate) fn levels() -> Levels {
    Levels::needed_by(|spec| {
        if spec.is_after_parent() {
            Some((Level::FIRST, "after_parent"))
        } else {
            (!spec.then.is_empty()).then_some((Level::FIRST, "then"))
        }
    })
}

/// The first claim of a task, by its id alone.
pub(crate) fn first_claim(id: TaskId) -> ClaimRequest {
    ClaimRequest {
        id,
        generation: 0,
        expected_attempt: 0,
        spec: None,
        published: None,
        with_content: false,
        admitted: false,
    }
}

pub(crate) async fn register(service: &Service, tasks: Vec<NewTask>) -> Vec<TaskView> {
    service
        .register(tasks)
        .await
        .into_iter()
        .map(|task| task.unwrap())
        .collect()
}
