//! The rules of joins decide for checks what becomes of a task that waits for others.
//!
//! A task may wait for the ends of up to a thousand others, its dependencies. For each of them it has a row of the index, which
//! says how that one has ended, and each of them has a row that names the waiter. A registration writes both rows, then looks
//! at each dependency. The end of a dependency is durable first, then its end steps read the rows that name waiters. So one
//! of the two sees the other. The waiter itself has a row in the state `new` and of generation 0, as a child has that waits for
//! the run of its parent, and a look, which asks all dependencies again. `tests/model/join` searches all of this.
//!
//! A row of a waiter has two sides. A registration writes it at a fixed early time, the end of the dependency at the present
//! one. So the end stays, whichever arrives last.
//!
//! A dependency has ended when it reads so: with all of its tree. Without `later` nobody can wait for itself by a detour: a task
//! waits for tasks that were there before it. A tree would be an exception, as it waits for children that come later. So a
//! child waits for its siblings, and for tasks that wait for nothing, or else it has a deadline ([`check`]).

use std::time::Duration;

use uuid::Uuid;

use super::{
    dead_letter,
    family::Outcome,
    ids::TaskId,
    kin::TreeOutcome,
    state::{self, State, TERMINAL_TTL_MIN, TaskRow, Transition},
    task::Spec,
    time::Millis,
};

pub use super::{
    after::{After, Asked, Condition},
    join_marks::Marks,
};

/// The write time of a row by a registration, in microseconds: every end is later.
pub const ADDED_WRITTEN: i64 = 1;

/// The write time of such a row once it stays for as long as the wait, in microseconds. Before, it ends by itself: its
/// registration may never come to its end.
pub const KEPT_WRITTEN: i64 = ADDED_WRITTEN + 1;

/// How long behind its first start the row of a task is kept at least, once it has ended. One that has none can only be gone
/// after that.
pub const KEPT_MIN: Duration = TERMINAL_TTL_MIN.saturating_sub(Duration::from_secs(24 * 3600));

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long before the end of its life the row of a dependency is written anew for a waiter: there are two days for that.
const KEPT_LONGER_BEFORE: Duration = Duration::from_secs(2 * 24 * 3600);

/// No row of a task that has ended needs that before.
const KEPT_LONGER_AFTER: Duration = TERMINAL_TTL_MIN.saturating_sub(KEPT_LONGER_BEFORE);

/// The part of a day in which it is done: longer than the way between two looks of a waiter.
const KEPT_LONGER_WITHIN: Duration = Duration::from_secs(30 * 60);

/// The error of a task that waited for one that did not succeed begins so.
pub const DEPENDENCY_FAILED: &str = "a task that it waits for did not succeed";

/// The error of a task that waited for one that was not registered by its deadline begins so.
pub const DEPENDENCY_MISSING: &str = "dependency missing";

/// The error of a task that waited for one that had not ended by its deadline begins so.
pub const DEADLINE_PASSED: &str = "deadline passed";

/// The knowledge of a check about a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It has not ended.
    Open,
    /// It was never seen, or not at the registration of the waiter, or nobody understands it.
    Unknown,
    /// It was known, and has been forgotten: it had ended, and nobody knows how.
    Gone,
    /// It has ended.
    Ended(Outcome),
}

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on waiting.
    Waits,
    /// It starts. The last of its dependencies ended at this time, as far as that is known.
    Goes(Option<Millis>),
    /// It ends since this one has not succeeded.
    Failed(TaskId, Outcome),
    /// It ends since this one is not known.
    Missing(TaskId),
    /// It ends since nobody knows all that it waits for.
    Lost,
    /// It ends since this one has not ended.
    Late(TaskId),
}

impl Verdict {
    /// Returns how a wait ends that does not lead to a start: by an error, and whether as a failure. Else it is cancelled, as a
    /// child is whose parent has failed.
    #[must_use]
    pub fn end(&self) -> Option<(bool, String)> {
        match self {
            Self::Waits | Self::Goes(_) => None,
            Self::Failed(id, outcome) => {
                let how = match (outcome.state, outcome.tree) {
                    (State::Succeeded, TreeOutcome::Cancelled) => "its tree was cancelled",
                    (State::Succeeded, _) => "its tree is faulted",
                    (state, _) => name(state),
                };
                Some((false, format!("{DEPENDENCY_FAILED}: {id}: {how}")))
            }
            Self::Missing(id) => Some((true, format!("{DEPENDENCY_MISSING}: {id}"))),
            Self::Lost => {
                let error = format!("{DEPENDENCY_MISSING}: rows of the wait are gone");
                Some((true, error))
            }
            Self::Late(id) => {
                let error = format!("{DEADLINE_PASSED}: {id} has not ended");
                Some((true, error))
            }
        }
    }
}

const fn name(state: State) -> &'static str {
    match state {
        State::Succeeded => "succeeded",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
        State::Dead => "dead",
        State::New | State::Claimed | State::Retrying => "open",
    }
}

/// Returns the reason that people are told for a wait that ended with this error.
#[must_use]
pub fn reason(error: &str) -> Option<&'static str> {
    let reasons = [
        (DEPENDENCY_FAILED, "dependency_failed"),
        (DEPENDENCY_MISSING, "dependency_missing"),
        (DEADLINE_PASSED, "deadline_passed"),
    ];
    let known = reasons.into_iter().find(|(text, _)| {
        let rest = error.strip_prefix(text);
        rest.is_some_and(|rest| rest.starts_with(": "))
    });
    known.map(|(_, reason)| reason)
}

/// Tells whether a dependency that ended so has succeeded, with all of its tree.
#[must_use]
pub fn has_succeeded(outcome: &Outcome) -> bool {
    outcome.state == State::Succeeded && outcome.tree == TreeOutcome::Completed
}

/// Decides about a waiter by what was seen of all that it waits for.
#[must_use]
pub fn decide(after: &After, seen: &[(TaskId, Seen)], now: Millis) -> Verdict {
    let wants_success = after.condition == Condition::AllSucceeded;
    let mut last = None;
    let (mut open, mut unknown) = (None, None);
    for (id, seen) in seen {
        match seen {
            Seen::Ended(outcome) if wants_success && !has_succeeded(outcome) => {
                return Verdict::Failed(*id, *outcome);
            }
            Seen::Ended(outcome) => last = last.max(Some(outcome.at)),
            // It has ended, but nobody knows whether it succeeded.
            Seen::Gone if wants_success => return Verdict::Missing(*id),
            Seen::Gone => {}
            Seen::Open => open = open.or(Some(*id)),
            Seen::Unknown => unknown = unknown.or(Some(*id)),
        }
    }
    let is_late = after.deadline.is_some_and(|deadline| now >= deadline);
    match (unknown, open) {
        (Some(id), _) if is_late => Verdict::Missing(id),
        (None, Some(id)) if is_late => Verdict::Late(id),
        (None, None) if seen.len() >= after.tasks as usize => Verdict::Goes(last),
        // Rows that are not there. They came before the row of the waiter, so they do not come any more.
        (None, None) if is_late => Verdict::Lost,
        _ => Verdict::Waits,
    }
}

/// Why a task cannot wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// One of them is not known.
    #[error(
        "the task {1} is not known; give ids of tasks that this service has registered and still keeps, or set `later` and a `deadline`"
    )]
    NotFound(usize, TaskId),
    /// Nothing tells when one of them has ended.
    #[error(
        "the task {1} is a record of Kafka or the service's own: nothing tells when it has ended"
    )]
    NeverEnds(usize, TaskId),
    /// One of them is the parent of the task.
    #[error(
        "the task {1} is its parent, whose tree waits for it; use `after_parent` to wait for the run of the parent"
    )]
    Parent(usize, TaskId),
    /// One of them may wait for the task, by way of a tree.
    #[error(
        "the task {1} may wait for the tree of this one's parent: without a `deadline` a child waits for children of the same parent that have none themselves, and for tasks without children that wait for nothing"
    )]
    MayWait(usize, TaskId),
}

impl Refusal {
    /// Returns the place of the task that it is about, among those that are waited for.
    #[must_use]
    pub const fn place(&self) -> usize {
        match self {
            Self::NotFound(place, _)
            | Self::NeverEnds(place, _)
            | Self::Parent(place, _)
            | Self::MayWait(place, _) => *place,
        }
    }
}

/// Checks whether a task may wait for this one, which is at this place among its dependencies; none is one that is not known.
///
/// # Errors
/// [`Refusal`].
pub fn check(
    waiter: &Spec,
    (place, id): (usize, TaskId),
    dependency: Option<&Spec>,
) -> Result<(), Refusal> {
    let after = waiter.after.as_deref();
    if id.is_internal() {
        return Err(Refusal::NeverEnds(place, id));
    }
    if waiter.parent() == Some(id) {
        return Err(Refusal::Parent(place, id));
    }
    let Some(dependency) = dependency else {
        return if after.is_some_and(|after| after.later) {
            Ok(())
        } else {
            Err(Refusal::NotFound(place, id))
        };
    };
    if !dependency.target.is_tracked() {
        return Err(Refusal::NeverEnds(place, id));
    }
    let (Some(parent), None) = (waiter.parent(), after.and_then(|after| after.deadline)) else {
        return Ok(());
    };
    let is_sibling = dependency.parent() == Some(parent);
    let waits = dependency.after.is_some() || dependency.is_after_parent();
    if dependency.is_parent() || (!is_sibling && waits) {
        return Err(Refusal::MayWait(place, id));
    }
    Ok(())
}

/// Tells what a dependency is to its waiter whose row says nothing of its end: whether it was known when the waiter was
/// registered. A row that nobody understands says nothing at all, and without `later` all were known.
#[must_use]
pub const fn was_known(after: &After, by_row: bool) -> bool {
    by_row || !after.later
}

/// Tells whether the end of a dependency is one that its waiter passes over: it waits for the others still.
#[must_use]
pub fn passes(after: &After, outcome: &Outcome) -> bool {
    after.condition == Condition::AllEnded || has_succeeded(outcome)
}

/// Tells whether a look of a waiter writes the row of a dependency anew that ended then, so that the row lives on: in a part of
/// each day, from a few days behind the end on. A day whose looks did not come leaves another one.
#[must_use]
pub fn is_kept_longer(ended: Millis, now: Millis) -> bool {
    let since = now.since(ended);
    let in_day = since.as_secs() % DAY.as_secs();
    since >= KEPT_LONGER_AFTER && in_day < KEPT_LONGER_WITHIN.as_secs()
}

/// Returns the write that lets the row of a dependency that has ended live on as if it had ended now.
///
/// # Errors
/// [`Stale`](state::Refusal::Stale) when it goes on, was deleted, or lives for days to come.
pub fn kept_longer(row: &TaskRow, now: Millis, nonce: Uuid) -> Result<Transition, state::Refusal> {
    let ended = row.ended_at().filter(|_| !row.detail.erased);
    let ended = ended.ok_or(state::Refusal::Stale)?;
    let kept = dead_letter::kept(row).max(TERMINAL_TTL_MIN);
    if now.since(ended) + KEPT_LONGER_BEFORE < kept {
        return Err(state::Refusal::Stale);
    }
    Ok(Transition {
        expect: row.seen(),
        ttl: state::terminal_ttl(row, now),
        row: TaskRow {
            nonce,
            ..row.clone()
        },
    })
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
