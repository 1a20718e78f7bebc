//! Runs that were decided on ahead are decided on again when they would go out so late that their time was missed: the service
//! was down, or a clock has leapt.
//!
//! The record says first that such a run is void. Then it is withdrawn, and the write behind that counts it as missed. So a crash
//! in between repeats the withdrawal, and a run that has begun all the same stays a run.

use std::collections::BTreeSet;

use super::{
    advance::{Advanced, Around, Seen},
    life::{Missed, Schedule, State},
    missed::{is_late, is_made_up_for},
    run::Run,
};
use crate::model::{ids::TaskId, time::Millis};

/// Decides again on runs that have not gone out: `held` names them. Returns the write that says which of them are void; none when
/// all may go out.
#[must_use]
pub fn again(old: &Schedule, around: &Around<'_>, held: &BTreeSet<TaskId>) -> Option<Advanced> {
    if !matches!(old.state, State::Live | State::Ended) {
        return None;
    }
    let (_, valid) = old.void_and_valid();
    let is_open = |run: &&Run| {
        let seen = around.seen.get(&run.id).copied();
        held.contains(&run.id) && seen.unwrap_or(Seen::Unstarted) == Seen::Unstarted
    };
    let is_void = |run: &&Run| {
        let is_replaced = old.spec.missed == Missed::Latest && has_later(old, &valid, run, around);
        is_late(run.id.first_start(), around.now)
            && (is_replaced || !is_made_up_for(&old.spec, run.time, around.now))
    };
    let void = valid.iter().filter(is_open).filter(is_void);
    let void: BTreeSet<TaskId> = void.map(|run| run.id).collect();
    if void.is_empty() {
        return None;
    }
    let mut new = old.clone();
    for run in new.ahead.iter_mut().filter(|run| void.contains(&run.id)) {
        run.late = true;
    }
    if old.state == State::Ended {
        // It gets back what its limit has counted. If the last run that it has decided on is not in sight, that one has begun,
        // and there is nothing behind it.
        let last = valid.iter().find(|run| run.seq == old.seq);
        new.next = last.and_then(|run| around.plan.next(run.time));
        new.state = State::Live;
    }
    new.wake = Some(around.now);
    Some(Advanced {
        schedule: new,
        skipped: Vec::new(),
        stopped: Vec::new(),
        more: true,
    })
}

/// Tells whether a time behind that of a run has passed, and runs or has run.
fn has_later(schedule: &Schedule, valid: &[Run], run: &Run, around: &Around<'_>) -> bool {
    let is_later = |time: Millis| run.time < time && time <= around.now;
    schedule.next.is_some_and(is_later)
        || schedule.waiting.is_some()
        || valid.iter().any(|other| is_later(other.time))
        || schedule.begun.iter().any(|time| is_later(*time))
}
