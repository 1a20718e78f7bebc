//! I16: tasks of one ordering key run one at a time and in the order of their starts. A task that was acknowledged
//! before the first claim of a later one was asked for does not run behind that claim. (The promises of a sequence; FIFO
//! queues with message groups.)
//!
//! The order holds while the clocks of nodes differ by no more than [`CLOCKS_APART`]. A node whose clock is further behind may
//! take a late row for one of the future, and does not touch the turn. So a pair is not judged then.

use std::collections::BTreeMap;

use tickwheel::model::ordering::CLOCKS_APART;

use super::{Ended, Findings, overlap::clocks_moved, scenes::Task};
use crate::seeded::{history::Run, plan::Request, scene::Step};

/// How long before its answer a registration may have written its row.
const REGISTERS: u64 = 10_000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let mut sequences: BTreeMap<(usize, u8), Vec<Task<'_>>> = BTreeMap::new();
    for task in ended.scene_tasks() {
        if let Some(key) = task.item.ordering_key {
            let sequence = sequences.entry((task.scene.number, key)).or_default();
            sequence.push(task);
        }
    }
    for tasks in sequences.values() {
        for (place, one) in tasks.iter().enumerate() {
            for other in tasks.iter().skip(place + 1) {
                together(ended, (one, other), findings);
                behind(ended, (one, other), findings);
                behind(ended, (other, one), findings);
            }
        }
    }
}

/// Two tasks may not run at once.
fn together(ended: &Ended<'_>, (one, other): (&Task<'_>, &Task<'_>), findings: &mut Findings) {
    for run in one.runs() {
        for beside in other.runs() {
            let (first, second) = if span(run) <= span(beside) {
                (run, beside)
            } else {
                (beside, run)
            };
            let end = first.ended.unwrap_or(ended.now);
            if second.began < end && !clocks_moved(ended, first, second) {
                let (one, other) = (one.name(), other.name());
                findings.add(format!(
                    "{one} and {other} run at once: {first:?} and {second:?}"
                ));
            }
        }
    }
}

/// When it began and ended. Of two runs that begin in one millisecond, the one that ends in it was first.
fn span(run: &Run) -> (i64, i64) {
    (run.began, run.ended.unwrap_or(i64::MAX))
}

/// The first of two may not run behind a claim of the second, if all claims of that came after its acknowledgement.
fn behind(ended: &Ended<'_>, (first, second): (&Task<'_>, &Task<'_>), findings: &mut Findings) {
    let (Some(known), false) = (first.known, may_move(first) || may_move(second)) else {
        return;
    };
    // Another task may have got the turn, and not be claimed yet, before one with a passed start was known. A node whose clock
    // is ahead gives it to a task whose start has not come.
    let claimed = second
        .claims()
        .first()
        .map_or(known, |claim| claim.answered);
    let ahead = ended.plan.skew_ms + clock_errors(ended, known, claimed);
    if first.item.start.max(known.unsigned_abs() + ahead) >= second.item.start {
        return;
    }
    // A task that had the turn keeps it until it has ended, so its later attempts come first.
    if second.claims().iter().any(|claim| claim.asked <= known) {
        return;
    }
    for claim in second.claims() {
        let behind = first.runs().iter().find(|run| run.began > claim.answered);
        if let Some(run) = behind {
            if clocks_apart(ended, known, claim.answered) {
                return;
            }
            let (first, second) = (first.name(), second.name());
            findings.add(format!(
                "{first} was known at {known} and runs at {}, behind {second}, claimed at {}",
                run.began, claim.answered
            ));
            return;
        }
    }
}

/// Tells whether faults may have set the clocks of two nodes too far apart for a claim behind a task that was known then.
fn clocks_apart(ended: &Ended<'_>, known: i64, claimed: i64) -> bool {
    let error = clock_errors(ended, known, claimed);
    let apart = error + 2 * ended.plan.skew_ms;
    error > 0 && u128::from(apart) > CLOCKS_APART.as_millis()
}

/// The errors of clocks, in milliseconds, that may count for a claim behind a task that was known then.
fn clock_errors(ended: &Ended<'_>, known: i64, claimed: i64) -> u64 {
    let errors = ended.plan.faults.iter().map(|fault| {
        let error = fault.clock_error();
        // A clock that was ahead may have said that no row before a time of the future counts. This holds until then.
        let over = (fault.ends() + error + REGISTERS).cast_signed();
        let counts = fault.at.cast_signed() <= claimed && over >= known;
        if counts { error } else { 0 }
    });
    errors.sum()
}

/// A task that is moved or redriven changes its place.
fn may_move(task: &Task<'_>) -> bool {
    let redriven =
        |step: &crate::seeded::scene::StepPlan| matches!(step.what, Step::Redrive | Step::Job(..));
    task.is_asked(|call| *call != Request::Cancel) || task.scene.steps.iter().any(redriven)
}
