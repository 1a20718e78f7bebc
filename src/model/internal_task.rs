//! The internal task gives the work that the service does for a task its form: tried until its own rule ends it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    backoff::{Backoff, Jitter},
    holder::Holder,
    ids::TaskId,
    look_step::LookStep,
    preference::mix,
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::Millis,
};

/// How long an internal task can be read once it has ended, if nothing else is said.
pub const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Returns the id of the internal task that is done for another one: for this generation of it, from this time on, for a purpose.
/// It is the same each time, so that stages that repeat their steps register it once.
pub(super) fn internal_id(task: TaskId, generation: u32, start: Millis, purpose: u64) -> TaskId {
    let (high, low) = task.uuid().as_u64_pair();
    let hash = mix(high ^ mix(low ^ mix(u64::from(generation) ^ mix(purpose))));
    TaskId::internal(start, task.wheel(), hash)
}

/// Returns an internal task of a callback of the service's own, with a payload, which is JSON.
#[must_use]
pub fn internal_task(id: TaskId, callback: &str, retention: Duration, payload: Bytes) -> Holder {
    let spec = Spec {
        target: Target::Callback {
            name: callback.to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        // The work ends by its own rule.
        max_attempts: u32::MAX,
        backoff: Backoff {
            initial: Duration::from_secs(1),
            factor_milli: 2000,
            max: Duration::from_secs(60),
            jitter: Jitter::Full,
        },
        claim_timeout: LookStep::INTERNAL.duration(),
        // A node that dies while it works is noticed soon.
        heartbeat_timeout: Duration::from_secs(15),
        attempt_timeout: None,
        expire_after: None,
        retention,
        dead_retention: None,
        create_time: id.first_start(),
        asked_start: None,
        scheduled: None,
        key: None,
        indexed: Vec::new(),
        ordering_key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content {
            payload,
            content_type: "application/json".to_owned(),
            ..Content::default()
        }),
    };
    Holder {
        id,
        generation: 0,
        spec: Arc::new(spec),
    }
}
