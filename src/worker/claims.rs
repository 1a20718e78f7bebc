//! A round of claims asks the service for some messages of a runner, and decides by each answer how to go on.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    attempt::{Attempt, Key},
    dependency,
    intake::Waiting,
    job::{Job, Raw},
    poller::{content, scheduled_time},
    server::Server,
};
use crate::{
    api::{
        text::{InstantText, system_time},
        worker::{
            ClaimItem, ClaimRequest, ClaimResponse, ClaimResult, ClaimStatus, ClaimedTask, View,
        },
    },
    client,
    limits::EARLY_HELD_MAX,
    model::time::Millis,
    time_source::{Moment, TimeSource},
};

/// How often a message is claimed again after the service could not answer; then its look comes back to the
/// task.
const FAILURES_MAX: u32 = 5;

/// Least time for which a message that came too early is held.
const EARLY_WAIT_MIN: Duration = Duration::from_millis(20);

/// Messages that are being claimed, and the slots for them.
pub(super) struct Round {
    pub(super) batch: Vec<Waiting>,
    pub(super) slots: OwnedSemaphorePermit,
    /// The moment before the claim was sent: leases begin here.
    pub(super) lease_start: Moment,
    pub(super) answer: Result<ClaimResponse, client::Error>,
}

/// Claims a batch.
pub(super) async fn claim(
    server: Arc<dyn Server>,
    worker: String,
    batch: Vec<Waiting>,
    slots: OwnedSemaphorePermit,
    time: TimeSource,
) -> Round {
    let apart = |waiting: &Waiting| waiting.message.spec.content().is_none();
    let messages = batch.iter().map(|waiting| ClaimItem {
        id: waiting.message.dispatch.id.to_string(),
        generation: waiting.message.dispatch.generation,
        expected_attempt: waiting.message.dispatch.expected_attempt,
        message: Some(STANDARD.encode(&waiting.value)),
    });
    let request = ClaimRequest {
        worker,
        messages: messages.collect(),
        // Without a content kept apart, the contents came with the messages and need not be sent again.
        view: if batch.iter().any(apart) {
            View::Full
        } else {
            View::Basic
        },
    };
    let lease_start = time.moment();
    let answer = server.claim(&request).await;
    Round {
        batch,
        slots,
        lease_start,
        answer,
    }
}

/// The decision about a message after its claim.
pub(super) enum Verdict {
    /// Run it.
    Run(Arc<Attempt>, Box<Job<Raw>>),
    /// Forget it, for this reason.
    Forget(&'static str),
    /// Hold it until then.
    Hold(Millis),
    /// Claim it again after a while.
    Again,
}

/// Decides about a message.
pub(super) fn judge(
    waiting: &Waiting,
    result: ClaimResult,
    lease_start: Moment,
    now: Millis,
) -> Verdict {
    match result.status {
        ClaimStatus::Claimed => match result.task {
            Some(task) => run(waiting, task, lease_start),
            None => {
                tracing::error!(id = %waiting.message.dispatch.id, "a claimed task came without the task");
                Verdict::Forget("error")
            }
        },
        ClaimStatus::Stale => Verdict::Forget("stale"),
        ClaimStatus::Held => Verdict::Forget("held"),
        ClaimStatus::Gated => Verdict::Forget("gated"),
        ClaimStatus::Behind => Verdict::Forget("behind"),
        ClaimStatus::Early => match not_before(result.not_before, now) {
            far if far.since(now) > EARLY_HELD_MAX => Verdict::Forget("early by far"),
            near => Verdict::Hold(near),
        },
        ClaimStatus::Limited => {
            let until = not_before(result.not_before, now);
            Verdict::Hold(until.min(now.after(EARLY_HELD_MAX)))
        }
        ClaimStatus::Error => {
            let retryable = result
                .error
                .as_ref()
                .is_some_and(|problem| problem.retryable);
            if retryable && waiting.failures < FAILURES_MAX {
                return Verdict::Again;
            }
            let detail = result
                .error
                .map_or_else(String::new, |problem| problem.detail);
            tracing::warn!(id = %waiting.message.dispatch.id, detail, "could not claim a task: the service comes back to it");
            Verdict::Forget("error")
        }
    }
}

fn run(waiting: &Waiting, mut task: ClaimedTask, lease_start: Moment) -> Verdict {
    let message = &waiting.message;
    let spec = &message.spec;
    let key = Key {
        id: message.dispatch.id,
        attempt: task.attempt,
    };
    let attempt = Attempt::new(key, spec.heartbeat_timeout, lease_start)
        .limited(spec.attempt_timeout, lease_start);
    let job = Job {
        id: message.dispatch.id,
        attempt: task.attempt,
        generation: task.generation,
        max_attempts: spec.max_attempts,
        callback: spec.callback().unwrap_or_default().to_owned(),
        collection: spec.collection.clone(),
        priority: spec.priority.into(),
        start_time: system_time(message.dispatch.start),
        ordering_key: spec.ordering_key.clone(),
        parent: spec.parent(),
        schedule: task.schedule.clone(),
        scheduled_time: scheduled_time(&task),
        labels: Vec::new(),
        content_type: String::new(),
        previous: None,
        dependencies: dependency::read(std::mem::take(&mut task.dependencies)),
        trace_parent: None,
        payload: Raw::default(),
    };
    // The content came with the message, or with the claim of a message without content.
    let content = spec.content().cloned().unwrap_or_else(|| content(task));
    Verdict::Run(Arc::new(attempt), Box::new(job.with_content(content)))
}

/// Returns when to try again. The service's clock may be behind this one, so there is a least wait.
fn not_before(text: Option<InstantText>, now: Millis) -> Millis {
    let at = text.and_then(|InstantText(text)| text.parse::<jiff::Timestamp>().ok());
    let at = at.map_or(Millis(0), |at| {
        Millis(at.as_millisecond().saturating_add(1))
    });
    at.max(now.after(EARLY_WAIT_MIN))
}
