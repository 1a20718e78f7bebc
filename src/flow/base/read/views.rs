//! The views are made here for the finder and the lister: a task as its entry, or its row, says.

use std::sync::Arc;

use crate::{
    flow::base::api::{TaskView, VisibleState},
    model::{
        action_task::first_claim,
        attempts,
        entry::{DoneReason, Entry, Kind},
        history::History,
        ids::TaskId,
        state::{State, TaskRow},
        target::Class,
        task::Spec,
        time::Millis,
    },
    store::Heartbeat,
};

/// A task without row as its entry says; `fired` tells whether it has been handed over.
pub(in crate::flow) fn view_of_entry(entry: &Entry, fired: bool) -> TaskView {
    let mut view = unwritten_view(entry.key.id, &entry.spec, entry.start);
    view.generation = entry.key.generation;
    view.run_generation = entry.key.generation;
    match entry.kind {
        Kind::Done {
            reason: DoneReason::Cancelled,
            at,
        } => {
            view.state = VisibleState::Cancelled;
            view.end_time = Some(at);
        }
        Kind::Done {
            reason: DoneReason::Published,
            at,
        } => {
            view.state = VisibleState::Published;
            view.fire_time = Some(at);
            view.end_time = Some(at);
        }
        Kind::Done {
            reason: DoneReason::Moved { .. },
            ..
        }
        | Kind::Look { .. }
        | Kind::Due { .. } => {
            if fired && !entry.spec.awaits() {
                view.state = match entry.spec.target.class() {
                    Class::Tracked => VisibleState::Enqueued,
                    Class::Record => VisibleState::Published,
                };
            }
        }
    }
    view
}

/// Returns a registered task to which nothing has happened yet.
pub(in crate::flow) fn unwritten_view(id: TaskId, spec: &Arc<Spec>, start: Millis) -> TaskView {
    TaskView {
        id,
        spec: Arc::clone(spec),
        content: None,
        state: VisibleState::of_registered(spec),
        start,
        effective_start: start,
        fire_time: None,
        claim_time: None,
        end_time: None,
        attempt: 0,
        generation: 0,
        run_generation: 0,
        worker: String::new(),
        progress: None,
        result: None,
        error: None,
        cancel_requested: false,
        history: History::default(),
        run_state: None,
        first_claim: None,
        tree: None,
        children_time_passed: false,
        replaced: false,
        waits: None,
    }
}

/// Returns a task as its row and the last sign of life of its attempt say. A task whose worker has stopped
/// sending heartbeats is shown as waiting for its next attempt, though no write says so.
pub(in crate::flow) fn view_of_attempt(
    row: TaskRow,
    heartbeat: Option<Heartbeat>,
    now: Millis,
    moved: Option<Millis>,
) -> TaskView {
    let sign = heartbeat.as_ref().map(|beat| beat.at).max(moved);
    let alive_until = row.alive_until(sign);
    let lost = row.state == State::Claimed && now >= alive_until;
    let runs_again = !row.cancel_requested && row.tries < row.detail.spec.max_attempts;
    let (ending, error) = row.unreported(alive_until);
    let mut view = view_of_row(row, heartbeat, now);
    if lost {
        view.error = Some(error.to_owned());
        if let Some(last) = view.history.attempts.last_mut() {
            (last.ended, last.ending) = (Some(alive_until), Some(ending));
        }
        if runs_again {
            view.state = VisibleState::Retrying;
            view.effective_start = alive_until;
        }
    }
    as_expired(view, now)
}

/// Shows a task as expired that waits and is of no more use, though no write says so: its next claim or look does.
pub(in crate::flow) fn as_expired(mut view: TaskView, now: Millis) -> TaskView {
    let waits = matches!(view.state, VisibleState::Enqueued | VisibleState::Retrying);
    if waits
        && view.spec.is_expired(view.start, now)
        && let Some(after) = view.spec.expire_after
    {
        view.state = VisibleState::Expired;
        view.end_time = Some(view.start.after(after));
    }
    view
}

/// A task as its row says.
pub(in crate::flow) fn view_of_row(
    row: TaskRow,
    heartbeat: Option<Heartbeat>,
    now: Millis,
) -> TaskView {
    let state = match row.state {
        _ if row.waits_for_children() => VisibleState::WaitingForChildren,
        _ if row.waits() => VisibleState::Waiting,
        State::New if now >= row.next => VisibleState::Enqueued,
        State::New => VisibleState::Scheduled,
        State::Claimed if heartbeat.is_some() => VisibleState::Processing,
        State::Claimed => VisibleState::Claimed,
        State::Retrying if now >= row.next => VisibleState::Enqueued,
        // Nothing has failed: it waits for a time again, as at first.
        State::Retrying if attempts::was_given_back(&row) => VisibleState::Scheduled,
        State::Retrying => VisibleState::Retrying,
        State::Succeeded => VisibleState::Succeeded,
        State::Failed => VisibleState::Failed,
        State::Cancelled => VisibleState::Cancelled,
        State::Expired => VisibleState::Expired,
        State::Dead => VisibleState::Dead,
    };
    let effective_start = if row.state == State::Retrying {
        row.next
    } else {
        row.detail.start
    };
    TaskView {
        first_claim: first_claim(&row).map(|claim| (row.first_attempt(), claim)),
        history: attempts::shown(&row),
        run_generation: row.run_generation(),
        id: row.id,
        spec: row.detail.spec,
        content: None,
        state,
        start: row.detail.start,
        effective_start,
        fire_time: row.detail.fire_time,
        claim_time: row.detail.claim_time,
        end_time: row.detail.end_time,
        attempt: row.attempt,
        generation: row.generation,
        worker: row.detail.worker,
        progress: heartbeat.and_then(|beat| beat.progress),
        result: row.detail.result,
        error: row.detail.error,
        cancel_requested: row.cancel_requested,
        run_state: Some(row.state).filter(|state| state.is_terminal()),
        tree: row.detail.tree,
        children_time_passed: row.detail.children_time_passed,
        replaced: row.detail.next.is_some(),
        waits: None,
    }
}
