//! The state machine computes for all stages the life cycle of a tracked task: one match of (state, event).
//! Everything else is refused. `docs/states.md` has a row for each arrow.
//!
//! ```text
//!   Reschedule, Release             Claim: its lease is over
//!      +------+                        +-----+
//!      v      |      Claim             v     |   Settle: a retry, a snooze
//!     New ----+----------------------> Claimed ------------------> Retrying --Claim--> Claimed; --Reschedule--> New
//!      | Cancel, Replace, Dropped,       | Settle, Abandoned          | Cancel, Replace, Dropped, Expire
//!      | Expire, WaitOver, ParentFailed  v                            v
//!      +-------> Succeeded, Failed, Cancelled, Expired, Dead <--------+    Redrive (dead), Again (trees): New
//!                Erase, TreeEnded, Again (its tree alone): the state stays
//! ```
//!
//! An absent row is a task that was registered and nothing more: registration writes no row. `attempt` counts claims and is the
//! fence: it never goes back, and a settle of another attempt is refused. `generation` counts reschedules and redrives.
//!
//! [`next`] computes a [`Transition`]: the row to write and the row it must replace. The store writes it only
//! if it still finds that row ([`Expect`]). A caller that loses that race reads again and asks again.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    adoption, again, attempts, dead_letter, erasure, history::Ending, ids::TaskId, kin::Rounds,
    look, replacement, restart, task::Spec, time::Millis, wait, wait::Wait,
};
use crate::flaw::{self, Flaw};

pub use super::{
    event::{Event, Outcome, Refusal},
    history::History,
    kin::PARENT_FAILED,
    row::{Detail, Expect, State, TaskRow, WORKER_LOST},
};

/// Terminal rows live at least this long behind the last entry of their task: an absent row means a new task, so a
/// row that vanished while an entry of it was still ahead would let it run again.
pub const TERMINAL_TTL_MIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The longest life that a store can give a row (Cassandra: 20 years); a row that must live longer is kept for ever.
const TERMINAL_TTL_MAX: Duration = Duration::from_secs(20 * 365 * 24 * 3600);

/// The error of a task that the gate of its callback has dropped begins so.
pub const DROPPED: &str = "dropped by the gate of its callback";

/// One conditional write of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The row that must be there.
    pub expect: Expect,
    /// The row that replaces it: every column.
    pub row: TaskRow,
    /// How long the row lives from now on; none is for ever. Only terminal rows have one, if `TERMINAL_TTL_MAX` is enough.
    pub ttl: Option<Duration>,
}

/// Computes what an event makes of a task.
///
/// `row` is what the caller last read (none: absent), `spec` the task, `now` the caller's wall clock, `nonce` a fresh
/// random id that names the write.
///
/// # Errors
/// A [`Refusal`] when the event does not apply to the state: an expected outcome, not a fault.
pub fn next(
    id: TaskId,
    row: Option<&TaskRow>,
    spec: &Arc<Spec>,
    event: Event,
    now: Millis,
    nonce: Uuid,
) -> Result<Transition, Refusal> {
    let base = row.map_or_else(|| unwritten(id, spec), TaskRow::clone);
    let expect = row.map_or(Expect::Absent, TaskRow::seen);
    let state = base.state;
    if state.is_terminal() && !applies_to_ended(&base, &event) {
        return Err(after_the_end(state, &event));
    }
    if row.is_some() && event == Event::Await {
        return Err(Refusal::Stale);
    }
    let (last, acts_until) = (base.last, acts_until(&base, now));
    let row = match event {
        Event::Adopt => adoption::adopted(base)?,
        event if base.waits() => waiting(base, &event, now)?,
        Event::Await | Event::Release { .. } | Event::ParentFailed | Event::WaitOver { .. } => {
            return Err(Refusal::Stale);
        }
        Event::Claim {
            generation,
            expected_attempt,
            worker,
            heartbeat,
            published,
        } => claim(
            base,
            (generation, expected_attempt),
            (worker, published),
            heartbeat,
            now,
        )?,
        event @ (Event::TreeEnded { .. } | Event::Again { .. }) if state.is_terminal() => {
            again::next(base, &event, now)?
        }
        event => moved(base, event, now)?,
    };
    let last = last.max(looked_at_until(id, acts_until.max(row.next)));
    let row = TaskRow { nonce, last, ..row };
    let ttl = terminal_ttl(&row, now);
    Ok(Transition { expect, row, ttl })
}

/// The row after the event, but for what every transition writes.
fn moved(base: TaskRow, event: Event, now: Millis) -> Result<TaskRow, Refusal> {
    Ok(match (base.state, event) {
        (
            State::Claimed,
            Event::Settle {
                attempt,
                outcome,
                answered,
                chance,
            },
        ) if attempt == base.attempt || flaw::is(Flaw::SettleWithoutAttempt) => {
            settle(attempts::answered(base, answered), outcome, chance, now)
        }
        (State::New | State::Retrying, Event::Cancel) => ended(base, State::Cancelled, now),
        (_, Event::Replace { next }) => replacement::replaced(base, next, now)?,
        (State::New | State::Retrying, Event::Dropped { reason }) => {
            ended_with(base, reason, State::Cancelled, now)
        }
        (State::Claimed, Event::Cancel) if base.cancel_requested => return Err(Refusal::Running),
        // Its worker is gone, as its look has found; the look ends it then.
        (State::Claimed, Event::Cancel | Event::Dropped { .. }) => TaskRow {
            cancel_requested: true,
            ..base
        },
        (State::New | State::Retrying, Event::Reschedule { start }) => {
            restart::rescheduled(base, start)
        }
        (State::Dead, Event::Redrive { start }) => restart::redriven(base, start),
        (State::New | State::Retrying, Event::Kept) => ended(base, State::Succeeded, now),
        (
            State::New | State::Retrying | State::Claimed,
            Event::Redrive { .. }
            | Event::Erase
            | Event::TreeEnded { .. }
            | Event::Again { .. }
            | Event::Kept,
        ) => return Err(Refusal::Stale),
        (state, Event::Erase) if state.is_terminal() => erasure::erased(&base),
        (State::New | State::Retrying, Event::Expire) => expired(base, now)?,
        (State::Claimed, Event::Abandoned { attempt, heartbeat }) if attempt == base.attempt => {
            abandoned(base, heartbeat, now)?
        }
        (
            _,
            Event::Settle { .. }
            | Event::Abandoned { .. }
            | Event::Claim { .. }
            | Event::Adopt
            | Event::Await
            | Event::Release { .. }
            | Event::WaitOver { .. }
            | Event::ParentFailed,
        ) => return Err(Refusal::Stale),
        (State::Claimed, Event::Reschedule { .. } | Event::Expire) => return Err(Refusal::Running),
        (
            State::Succeeded | State::Failed | State::Cancelled | State::Expired | State::Dead,
            event,
        ) => return Err(after_the_end(base.state, &event)),
    })
}

/// The row after the event of a task that waits for the own run of its parent, or for other tasks.
fn waiting(base: TaskRow, event: &Event, now: Millis) -> Result<TaskRow, Refusal> {
    Ok(match event {
        Event::Await => base,
        Event::Release { start } => restart::rescheduled(base, *start),
        Event::Cancel => ended(base, State::Cancelled, now),
        Event::Replace { next } => replacement::replaced(base, Arc::clone(next), now)?,
        Event::ParentFailed if base.waits_for_parent() => {
            unawaited(base, State::Cancelled, PARENT_FAILED, now)
        }
        Event::WaitOver { fails, error } if base.waits_for_tasks() => {
            let state = if *fails {
                State::Failed
            } else {
                State::Cancelled
            };
            unawaited(base, state, error, now)
        }
        // Its wait decides on its start.
        Event::Reschedule { .. } => return Err(Refusal::Running),
        Event::Claim { .. }
        | Event::Settle { .. }
        | Event::Adopt
        | Event::Dropped { .. }
        | Event::Kept
        | Event::Redrive { .. }
        | Event::Erase
        | Event::TreeEnded { .. }
        | Event::Again { .. }
        | Event::ParentFailed
        | Event::WaitOver { .. }
        | Event::Expire
        | Event::Abandoned { .. } => return Err(Refusal::Stale),
    })
}

/// The row of a task that waited in vain.
fn unawaited(base: TaskRow, state: State, error: &str, now: Millis) -> TaskRow {
    let detail = Detail {
        error: Some(error.to_owned()),
        ..base.detail
    };
    ended(TaskRow { detail, ..base }, state, now)
}

/// Tells whether an event applies to this task, whose own run has ended: a dead one may run again, its tree may end, and each may
/// be erased, once.
fn applies_to_ended(row: &TaskRow, event: &Event) -> bool {
    if row.detail.erased {
        return matches!(event, Event::Again { .. });
    }
    match event {
        // The end of a task of a tree was counted in that tree, and stays.
        Event::Redrive { .. } => row.state == State::Dead && row.detail.spec.kin.is_none(),
        Event::Erase => !row.waits_for_children(),
        Event::TreeEnded { .. } => row.waits_for_children(),
        Event::Again { .. } => true,
        _ => false,
    }
}

/// Why nothing applies to a terminal task.
const fn after_the_end(state: State, event: &Event) -> Refusal {
    match event {
        Event::Settle { .. } | Event::Claim { .. } => Refusal::Stale,
        Event::Cancel
        | Event::Replace { .. }
        | Event::Dropped { .. }
        | Event::Kept
        | Event::Reschedule { .. }
        | Event::Redrive { .. }
        | Event::Erase
        | Event::TreeEnded { .. }
        | Event::Again { .. }
        | Event::Adopt
        | Event::Await
        | Event::Release { .. }
        | Event::ParentFailed
        | Event::WaitOver { .. }
        | Event::Expire
        | Event::Abandoned { .. } => Refusal::Ended { state },
    }
}

/// The row that an absent one stands for.
pub(super) fn unwritten(id: TaskId, spec: &Arc<Spec>) -> TaskRow {
    let start = id.first_start();
    TaskRow {
        id,
        state: State::New,
        generation: 0,
        attempt: 0,
        tries: 0,
        next: start,
        last: looked_at_until(id, start),
        cancel_requested: false,
        nonce: Uuid::nil(),
        detail: Detail {
            spec: Arc::clone(spec),
            start,
            fire_time: None,
            claim_time: None,
            end_time: None,
            worker: String::new(),
            result: None,
            error: None,
            died: None,
            erased: false,
            tree: None,
            children_time_passed: false,
            rounds: Rounds::default(),
            lived: 0,
            history: History::default(),
            next: None,
        },
    }
}

fn claim(
    base: TaskRow,
    (generation, expected_attempt): (u32, u32),
    (worker, published): (String, Option<Millis>),
    heartbeat: Option<Millis>,
    now: Millis,
) -> Result<TaskRow, Refusal> {
    let any = flaw::is(Flaw::ClaimWithoutAttempt);
    if !any && (generation != base.generation || expected_attempt != base.attempt) {
        return Err(if base.state == State::Claimed {
            Refusal::Held {
                until: base.alive_until(heartbeat),
            }
        } else {
            Refusal::Stale
        });
    }
    match wait::of_row(&base, heartbeat, now) {
        Some(Wait::Claimed { until }) if !any => return Err(Refusal::Held { until }),
        Some(Wait::Start { until } | Wait::Retry { until }) => {
            return Err(Refusal::Early { not_before: until });
        }
        Some(_) | None => {}
    }
    // A cancelled or used-up attempt is ended by its look, never run again.
    if base.cancel_requested || base.tries >= base.detail.spec.max_attempts {
        return Err(Refusal::Stale);
    }
    let lease_end = now.after(base.detail.spec.heartbeat_timeout);
    // The attempt before ended without a report.
    let lost = base.state == State::Claimed;
    let (error, history) = if lost {
        let until = base.alive_until(heartbeat);
        let (ending, error) = base.unreported(until);
        let history = attempts::with_ended(&base, until, ending, None);
        (Some(error.to_owned()), history)
    } else {
        (base.detail.error, base.detail.history)
    };
    Ok(TaskRow {
        state: State::Claimed,
        attempt: base.attempt + 1,
        tries: base.tries + 1,
        next: lease_end,
        detail: Detail {
            worker,
            fire_time: published,
            claim_time: Some(now),
            error,
            history,
            ..base.detail
        },
        ..base
    })
}

fn settle(base: TaskRow, outcome: Outcome, chance: u64, now: Millis) -> TaskRow {
    let (error, ending, wait) = match outcome {
        Outcome::Succeeded { result } => {
            let detail = Detail {
                result,
                error: None,
                ..base.detail
            };
            return ended(TaskRow { detail, ..base }, State::Succeeded, now);
        }
        Outcome::Failed { error } => return ended_with(base, error, State::Failed, now),
        Outcome::Retry { error, after } => {
            let wait = after.unwrap_or_else(|| backed_off(&base, chance));
            (Some(error), Ending::Retry, wait)
        }
        Outcome::RetryNoSooner { error, least } => {
            let wait = backed_off(&base, chance).max(least);
            (Some(error), Ending::Retry, wait)
        }
        Outcome::Snoozed { after } => (base.detail.error.clone(), Ending::Snoozed, after),
    };
    let counts = ending == Ending::Retry;
    let row = TaskRow {
        detail: Detail {
            error,
            ..base.detail
        },
        ..base
    };
    if row.cancel_requested {
        return ended(row, State::Cancelled, now);
    }
    if counts && row.tries >= row.detail.spec.max_attempts {
        return ended(row, State::Dead, now);
    }
    // A clock that was ahead may have let it begin before its start; the next attempt is not to.
    let next = now.after(wait).max(row.detail.start);
    let said = row.detail.error.clone().filter(|_| counts);
    let history = attempts::with_ended(&row, now, ending, said);
    let detail = Detail {
        history,
        ..row.detail
    };
    TaskRow {
        detail,
        state: State::Retrying,
        tries: if counts {
            row.tries
        } else {
            row.tries.saturating_sub(1)
        },
        next,
        ..row
    }
}

/// Returns the wait behind a failed attempt by the rule of the task.
fn backed_off(base: &TaskRow, chance: u64) -> Duration {
    base.detail.spec.backoff.wait(base.tries, chance)
}

fn ended_with(base: TaskRow, error: String, end: State, now: Millis) -> TaskRow {
    let detail = Detail {
        error: Some(error),
        ..base.detail
    };
    ended(TaskRow { detail, ..base }, end, now)
}

/// Expires a task. The caller that found it too late may have read it before it was rescheduled.
fn expired(base: TaskRow, now: Millis) -> Result<TaskRow, Refusal> {
    if base.detail.spec.is_expired(base.detail.start, now) {
        Ok(ended(base, State::Expired, now))
    } else {
        Err(Refusal::Stale)
    }
}

fn abandoned(base: TaskRow, heartbeat: Option<Millis>, now: Millis) -> Result<TaskRow, Refusal> {
    let until = base.alive_until(heartbeat);
    if now < until {
        return Err(Refusal::Held { until });
    }
    if base.cancel_requested {
        return Ok(ended(base, State::Cancelled, now));
    }
    if base.tries < base.detail.spec.max_attempts {
        return Err(Refusal::Stale);
    }
    let (_, error) = base.unreported(until);
    let detail = Detail {
        error: Some(error.to_owned()),
        ..base.detail
    };
    Ok(ended(TaskRow { detail, ..base }, State::Dead, now))
}

fn ended(base: TaskRow, state: State, now: Millis) -> TaskRow {
    TaskRow {
        state,
        detail: Detail {
            end_time: Some(now),
            ..base.detail
        },
        ..base
    }
}

/// Returns until when a look of this row may have to wait: the last sign of life may have been given now.
fn acts_until(row: &TaskRow, now: Millis) -> Millis {
    if row.state == State::Claimed {
        now.after(row.detail.spec.heartbeat_timeout)
    } else {
        now
    }
}

/// Returns a bound on the looks that were written while the task was to act at `at` or before. They lie at
/// most one and a half intervals later, and one more step where slots had closed meanwhile.
fn looked_at_until(id: TaskId, at: Millis) -> Millis {
    at.after(id.look_step().duration().max(look::INTERVAL_MAX) * 3)
}

/// Tells whether a look at a task that has ended may be the last one that finds its row: another comes a step later, and the row
/// may expire a day before that by the clock of another node.
#[must_use]
pub fn is_last_look(row: &TaskRow, now: Millis) -> bool {
    let looked_at = row.detail.start.max(row.last).max(row.id.first_start());
    let end = row.detail.end_time.unwrap_or(looked_at).max(looked_at);
    let next = now.after(row.id.look_step().duration());
    next >= end.after(TERMINAL_TTL_MIN.saturating_sub(Duration::from_secs(24 * 3600)))
}

/// How long the row lives from now on: none, unless it is terminal and a store can keep that time.
pub(super) fn terminal_ttl(row: &TaskRow, now: Millis) -> Option<Duration> {
    let ahead = now.until(row.detail.start.max(row.last).max(row.id.first_start()));
    if flaw::is(Flaw::TerminalRowExpiresEarly) && row.state.is_terminal() {
        return Some(Duration::from_secs(1));
    }
    let ttl = dead_letter::kept(row).max(TERMINAL_TTL_MIN) + ahead;
    // The row of a parent stays until its tree has ended.
    (row.has_ended() && ttl <= TERMINAL_TTL_MAX).then_some(ttl)
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
