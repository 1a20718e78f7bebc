//! These are the answers of the claim stage, and what it asks the model for: the forms of a claim, without a decision.

use std::{collections::HashMap, sync::Arc};

use crate::{
    flow::base::{
        api::{ClaimAnswer, ClaimRequest, ClaimedTask, Dependency, Fault},
        labels,
    },
    limits,
    model::{
        state::{Event, Refusal, TaskRow},
        task::Content,
        time::Millis,
    },
};

/// Returns the claim of a message as an event of its task.
pub(super) fn event(request: &ClaimRequest, worker: &str, heartbeat: Option<Millis>) -> Event {
    Event::Claim {
        generation: request.generation,
        expected_attempt: request.expected_attempt,
        worker: worker.to_owned(),
        heartbeat,
        published: request.published,
    }
}

/// The answer of a node whose copy of the configuration is not current: a gate may have been closed meanwhile.
pub(super) fn gate_unknown() -> Fault {
    Fault::Unavailable {
        reason: "this node cannot tell whether a gate of the callback is open: it could not read the configuration lately"
            .to_owned(),
        retry_after: limits::STEP_PAUSE,
    }
}

/// The answer to a message whose claim was refused.
pub(super) const fn refused(refusal: &Refusal) -> ClaimAnswer {
    match refusal {
        Refusal::Early { not_before } => ClaimAnswer::Early {
            not_before: *not_before,
        },
        Refusal::Held { .. } | Refusal::Running => ClaimAnswer::Held,
        Refusal::Stale | Refusal::Ended { .. } | Refusal::HasTree => ClaimAnswer::Stale,
    }
}

/// The parts of an answer beside its task: the content, and the tasks that it waited for.
pub(super) type Parts = (Option<Content>, Arc<[Dependency]>);

/// The answer to a message whose task was claimed.
pub(super) fn claimed(row: &TaskRow, (content, dependencies): Parts) -> ClaimAnswer {
    ClaimAnswer::Claimed(Box::new(ClaimedTask {
        id: row.id,
        attempt: row.attempt,
        generation: row.generation,
        spec: Arc::clone(&row.detail.spec),
        content,
        dependencies,
        start: row.detail.start,
        expires: row.next,
    }))
}

/// Counts the attempts that were claimed, by callback.
pub(super) fn count_callbacks(answers: &[ClaimAnswer]) {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for answer in answers {
        if let ClaimAnswer::Claimed(task) = answer {
            *counts
                .entry(task.spec.callback().unwrap_or_default())
                .or_default() += 1;
        }
    }
    for (callback, attempts) in counts {
        let callback = labels::label(callback);
        metrics::counter!("tickwheel_callback_claimed_total", "callback" => callback)
            .increment(attempts);
    }
}

/// The name of an answer in metrics.
pub(super) const fn name(answer: &ClaimAnswer) -> &'static str {
    match answer {
        ClaimAnswer::Claimed(_) => "claimed",
        ClaimAnswer::Stale => "stale",
        ClaimAnswer::Held => "held",
        ClaimAnswer::Gated => "gated",
        ClaimAnswer::Behind => "behind",
        ClaimAnswer::Early { .. } => "early",
        ClaimAnswer::Limited { .. } => "limited",
        ClaimAnswer::Fault(_) => "fault",
    }
}
