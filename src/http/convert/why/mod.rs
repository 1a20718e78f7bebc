//! This conversion turns the causes of a task into words and fields for clients.
//!
//! Of a task that the caller's key does not cover, nothing is told but that it is there.

mod words;

use self::words::{Covers, Words, limit_name, some};
use crate::{
    api::{
        text::DurationText,
        why::{Cause, CauseCode, CauseNode, WhyResponse},
    },
    flow::stages::query::why::Why,
    model::why::{self as model, End, What},
};

/// Converts the causes of a task, as a caller may see them.
#[must_use]
pub(in crate::http) fn why_response(why: &Why, covers: Covers<'_>) -> WhyResponse {
    let words = Words { why, covers };
    let causes: Vec<Cause> = why
        .causes
        .iter()
        .map(|cause| converted(&words, cause))
        .collect();
    WhyResponse {
        id: why.task.id.to_string(),
        callback: why.task.spec.callback().map(str::to_owned),
        state: why.task.state.into(),
        time: why.at.into(),
        sentence: words.sentence(&causes),
        causes,
    }
}

/// Returns the code of a cause.
#[must_use]
pub(in crate::http) const fn code(what: &What) -> CauseCode {
    match what {
        What::NotDue => CauseCode::NotDue,
        What::Gate(_) => CauseCode::Gate,
        What::Limit(_) => CauseCode::Limit,
        What::Turn(_) => CauseCode::Turn,
        What::Parent(_) => CauseCode::Parent,
        What::Tasks(_) => CauseCode::Tasks,
        What::Children => CauseCode::Children,
        What::NoWorker { .. } => CauseCode::NoWorker,
        What::Busy { .. } => CauseCode::Busy,
        What::Queued { .. } => CauseCode::Queued,
        What::Running { .. } => CauseCode::Running,
        What::WorkerLost { .. } => CauseCode::WorkerLost,
        What::Retry { .. } => CauseCode::Retry,
        What::TakeOver(_) => CauseCode::TakeOver,
        What::CatchingUp { .. } => CauseCode::CatchingUp,
        What::Topic => CauseCode::Topic,
        What::QueueAway(_) => CauseCode::QueueAway,
        What::Ended { end, .. } => match end {
            End::Succeeded => CauseCode::Succeeded,
            End::Published => CauseCode::Published,
            End::Failed => CauseCode::Failed,
            End::Cancelled => CauseCode::Cancelled,
            End::Dropped => CauseCode::Dropped,
            End::Expired => CauseCode::Expired,
            End::Dead => CauseCode::Dead,
        },
    }
}

/// Converts a cause.
fn converted(words: &Words<'_>, cause: &model::Cause) -> Cause {
    let what = &cause.what;
    let blank = Cause {
        code: code(what),
        detail: words.detail(cause),
        advice: words.advice(what),
        since: cause.since.map(Into::into),
        until: cause.until.map(Into::into),
        certain: cause.certain,
        who: None,
        collection: None,
        reason: None,
        limit: None,
        tasks: Vec::new(),
        count: None,
        attempt: None,
        heartbeat_time: None,
        last_poll_time: None,
        nearest: None,
        fired: None,
        behind: None,
        node: None,
        error: None,
    };
    let blank = Cause {
        node: node(words, cause),
        ..blank
    };
    with_fields(words, what, blank)
}

/// Returns the owner of the wheel, where a cause rests on it.
fn node(words: &Words<'_>, cause: &model::Cause) -> Option<CauseNode> {
    let is_of_wheel = matches!(cause.what, What::TakeOver(_) | What::CatchingUp { .. });
    let owner = words.why.owner.as_ref()?;
    let node = || CauseNode::new(owner.name.clone(), owner.address.clone());
    (is_of_wheel || !cause.certain).then(node)
}

fn with_fields(words: &Words<'_>, what: &What, cause: Cause) -> Cause {
    match what {
        What::Gate(gate) => Cause {
            who: some(&gate.who),
            collection: some(&gate.collection),
            reason: some(&gate.reason),
            ..cause
        },
        What::Limit(bound) => Cause {
            limit: Some(limit_name(*bound).to_owned()),
            ..cause
        },
        What::Turn(id) | What::Parent(Some(id)) => Cause {
            tasks: vec![words.task(*id)],
            count: Some(1),
            ..cause
        },
        What::Tasks(open) => Cause {
            tasks: open.first.iter().map(|id| words.task(*id)).collect(),
            count: Some(open.tasks),
            ..cause
        },
        What::NoWorker { last, nearest } => Cause {
            last_poll_time: last.map(Into::into),
            nearest: nearest.clone().filter(|name| (words.covers)(name)),
            ..cause
        },
        What::Busy { running } => Cause {
            count: Some(*running),
            ..cause
        },
        What::CatchingUp { place, before, .. } => Cause {
            fired: Some((*place).into()),
            behind: Some(DurationText::readable(words.why.at.since(*place))),
            count: *before,
            ..cause
        },
        What::QueueAway(problem) => Cause {
            error: Some(problem.clone()),
            ..cause
        },
        What::Ended { error, .. } => Cause {
            error: error.clone(),
            ..cause
        },
        _ => of_attempt(what, cause),
    }
}

fn of_attempt(what: &What, cause: Cause) -> Cause {
    match what {
        What::Running {
            worker,
            attempt,
            heartbeat,
            ..
        } => Cause {
            who: some(worker),
            attempt: Some(*attempt),
            heartbeat_time: heartbeat.map(Into::into),
            ..cause
        },
        What::WorkerLost { worker, attempt } => Cause {
            who: some(worker),
            attempt: Some(*attempt),
            ..cause
        },
        What::Retry { attempt, error } => Cause {
            attempt: Some(*attempt),
            error: error.clone(),
            ..cause
        },
        _ => cause,
    }
}

#[cfg(test)]
mod tests;
