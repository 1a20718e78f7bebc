//! The causes tell people why a task does not run: what keeps it, since when, and until when.
//!
//! They are computed from what is durable, and from what nodes publish of their memory ([`Seen`]), by the same rules that hold
//! the task. Several may hold at once: all are told, in the order of time, and among equals in the order of the task's way. A
//! cause is certain unless only the memory of another node knows it.

mod cause;
mod seen;

use std::time::Duration;

pub use self::{
    cause::{Cause, End, Open, What},
    seen::{Ahead, Limited, Seen, Stands, Subject, Wheel, Workers},
};
use super::{
    attempts,
    clock::Position,
    row::{State, TaskRow},
    task::Spec,
    time::Millis,
    wait::{self, Wait},
};

/// How far behind a wheel must be to count as a cause: its owner reports about once a second.
pub const BEHIND_MIN: Duration = Duration::from_secs(3);

/// How long the owner of a wheel must have been silent to be taken for dead: it gives a sign of life each second, and the clocks
/// of nodes may be a second apart.
pub const SILENT_MAX: Duration = Duration::from_millis(4500);

/// How long no worker must have polled to count as a cause: workers may pause between polls.
pub const POLL_MISSED: Duration = Duration::from_secs(10);

/// Returns what keeps a task at `now`, in the order of time: at least one cause.
#[must_use]
pub fn causes(task: &Subject<'_>, seen: &Seen, now: Millis) -> Vec<Cause> {
    let create = Some(task.spec.create_time);
    let mut causes = match task.stands {
        Stands::Done { end, at } => {
            vec![What::Ended { end, error: None }.between(Some(at), None)]
        }
        Stands::Registered { .. } if Spec::awaits(task.spec) => {
            let (parent, tasks) = (task.spec.is_after_parent(), task.spec.after.is_some());
            waits(task, seen, parent, tasks)
        }
        Stands::Registered { start, .. } if now < start => {
            vec![What::NotDue.between(create, Some(start))]
        }
        Stands::Registered {
            start,
            again: Some(again),
            ..
        } if now < again => vec![What::Topic.between(Some(start), Some(again))],
        Stands::Registered { start, near, .. } => due(task, seen, (start, start), near, now),
        Stands::Row(row) => of_row(task, row, seen, now),
    };
    // The sort is stable: causes of one moment stay in the order of the task's way.
    causes.sort_by_key(|cause| cause.since);
    causes
}

fn of_row(task: &Subject<'_>, row: &TaskRow, seen: &Seen, now: Millis) -> Vec<Cause> {
    if row.waits_for_children() {
        return vec![What::Children.between(row.detail.end_time, None)];
    }
    if let Some(end) = End::of(row) {
        let error = row.detail.error.clone();
        return vec![What::Ended { end, error }.between(row.detail.end_time, None)];
    }
    match wait::of_row(row, seen.heartbeat, now) {
        Some(Wait::Parent | Wait::Tasks) => {
            waits(task, seen, row.waits_for_parent(), row.waits_for_tasks())
        }
        Some(Wait::Claimed { until }) => vec![running(row, seen, until)],
        Some(Wait::Retry { .. }) => vec![retry(row)],
        Some(Wait::Start { until }) => {
            // A move leaves no trace of when it was made.
            let since = (row.generation == 0).then_some(task.spec.create_time);
            vec![What::NotDue.between(since, Some(until))]
        }
        // The rest is told by what was read beside the row, and all of it.
        _ if row.state == State::Claimed => lost(task, row, seen, now),
        _ => due(task, seen, (row.detail.start, row.next), false, now),
    }
}

/// The cause of a task whose attempt is taken to live until then.
fn running(row: &TaskRow, seen: &Seen, until: Millis) -> Cause {
    let running = What::Running {
        worker: row.detail.worker.clone(),
        attempt: row.attempt,
        heartbeat: seen.heartbeat.max(row.detail.claim_time),
        cancel_requested: row.cancel_requested,
    };
    running.between(row.detail.claim_time, Some(until))
}

/// The causes of a task whose attempt has ended without a report.
fn lost(task: &Subject<'_>, row: &TaskRow, seen: &Seen, now: Millis) -> Vec<Cause> {
    let alive_until = row.alive_until(seen.heartbeat);
    let (worker, attempt) = (row.detail.worker.clone(), row.attempt);
    let mut causes = vec![What::WorkerLost { worker, attempt }.between(Some(alive_until), None)];
    let runs_again = !row.cancel_requested && row.tries < row.detail.spec.max_attempts;
    if runs_again {
        let rest = due(task, seen, (row.detail.start, alive_until), false, now);
        let is_more = |cause: &Cause| !matches!(cause.what, What::Queued { .. });
        causes.extend(rest.into_iter().filter(is_more));
    }
    causes
}

fn retry(row: &TaskRow) -> Cause {
    let last = row.detail.history.attempts.last();
    let ended = last.and_then(|last| last.ended);
    let given_back = attempts::was_given_back(row);
    let error = row.detail.error.clone().filter(|_| !given_back);
    let attempt = row.attempt;
    What::Retry { attempt, error }.between(ended, Some(row.next))
}

/// The causes of a task that waits for the own run of its parent, or for other tasks.
fn waits(task: &Subject<'_>, seen: &Seen, parent: bool, tasks: bool) -> Vec<Cause> {
    let create = Some(task.spec.create_time);
    let mut causes = Vec::new();
    if parent {
        causes.push(What::Parent(task.spec.parent()).between(create, None));
    }
    if let Some(after) = task.spec.after.as_ref().filter(|_| tasks) {
        let open = seen.open.clone().unwrap_or_default();
        causes.push(What::Tasks(open).between(create, after.deadline));
    }
    causes
}

/// The causes of a task that is due since `due`; `start` is the time by which it expires.
fn due(
    task: &Subject<'_>,
    seen: &Seen,
    (start, due): (Millis, Millis),
    near: bool,
    now: Millis,
) -> Vec<Cause> {
    if let Some(after) = task.spec.expire_after
        && task.spec.is_expired(start, now)
    {
        let (end, error) = (End::Expired, None);
        return vec![What::Ended { end, error }.between(Some(start.after(after)), None)];
    }
    let since = |at: Option<Millis>| Some(at.map_or(due, |at| at.max(due)));
    let mut causes = Vec::new();
    if let Some(gate) = &seen.gate {
        causes.push(What::Gate(gate.clone()).between(since(Some(gate.since)), gate.until));
    }
    let place = Position { due, id: task.id };
    if let Some(wheel) = seen.wheel.filter(|wheel| !near && wheel.fired < place) {
        causes.extend(behind(&wheel, due, now));
    }
    if let Some(problem) = &seen.queue_problem {
        causes.push(What::QueueAway(problem.clone()).between(since(None), None));
    }
    if let Some(ahead) = &seen.turn {
        causes.push(What::Turn(ahead.id).between(since(ahead.since), None));
    }
    if let Some(Limited { bound, certain }) = seen.limit {
        let cause = What::Limit(bound).between(since(None), None);
        causes.push(Cause { certain, ..cause });
    }
    causes.extend(untaken(seen.workers.as_ref(), causes.is_empty(), due, now));
    causes
}

/// The cause of a task that nothing else keeps (`is_free`), or that no worker would take if nothing did.
fn untaken(workers: Option<&Workers>, is_free: bool, due: Millis, now: Millis) -> Option<Cause> {
    if let Some(workers) = workers.filter(|workers| workers.are_missing(now)) {
        let (last, nearest) = (workers.last, workers.nearest.clone());
        let since = last.map_or(due, |last| last.max(due));
        return Some(What::NoWorker { last, nearest }.between(Some(since), None));
    }
    let what = match workers {
        Some(workers) if workers.polling == 0 && workers.running > 0 => {
            let running = workers.running;
            What::Busy { running }
        }
        workers => What::Queued {
            polling: workers.map(|workers| workers.polling),
        },
    };
    is_free.then(|| what.between(Some(due), None))
}

/// The cause of a wheel that has not come to a task that is due; none when it is about to.
fn behind(wheel: &Wheel, due: Millis, now: Millis) -> Option<Cause> {
    if now.since(wheel.fired.due) <= BEHIND_MIN {
        return None;
    }
    let owner = wheel.owner;
    let silent = wheel.owner_seen.is_none_or(|at| now.since(at) > SILENT_MAX);
    if owner.is_none() || silent || wheel.lease_until < now {
        let since = Some(wheel.owner_seen.unwrap_or(wheel.lease_until).max(due));
        return Some(What::TakeOver(owner).between(since, None));
    }
    let (place, before) = (wheel.fired.due, wheel.before);
    let what = What::CatchingUp {
        owner,
        place,
        before,
    };
    Some(what.between(Some(due), None))
}

#[cfg(test)]
mod tests;
