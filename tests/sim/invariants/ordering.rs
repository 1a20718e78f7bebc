//! I16: tasks of one ordering key run one at a time and in the order of their starts. A task that was acknowledged
//! before the first claim of a later one was asked for does not run behind that claim. (The promises of a sequence; FIFO
//! queues with message groups.)

use std::collections::BTreeMap;

use super::{Ended, Findings, overlap::clocks_moved, scenes::Task};
use crate::seeded::{plan::Request, scene::Step};

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
                behind(one, other, findings);
                behind(other, one, findings);
            }
        }
    }
}

/// Two tasks may not run at once.
fn together(ended: &Ended<'_>, (one, other): (&Task<'_>, &Task<'_>), findings: &mut Findings) {
    for run in one.runs() {
        for beside in other.runs() {
            let (first, second) = if run.began <= beside.began {
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

/// The first of two may not run behind a claim of the second, if all claims of that came after its acknowledgement.
fn behind(first: &Task<'_>, second: &Task<'_>, findings: &mut Findings) {
    let (Some(known), false) = (first.known, may_move(first) || may_move(second)) else {
        return;
    };
    // Another task may have got the turn, and not be claimed yet, before one with a passed start was known.
    if first.item.start.max(known.unsigned_abs()) >= second.item.start {
        return;
    }
    // A task that had the turn keeps it until it has ended, so its later attempts come first.
    if second.claims().iter().any(|claim| claim.asked <= known) {
        return;
    }
    for claim in second.claims() {
        let behind = first.runs().iter().find(|run| run.began > claim.answered);
        if let Some(run) = behind {
            let (first, second) = (first.name(), second.name());
            findings.add(format!(
                "{first} was known at {known} and runs at {}, behind {second}, claimed at {}",
                run.began, claim.answered
            ));
            return;
        }
    }
}

/// A task that is moved or redriven changes its place.
fn may_move(task: &Task<'_>) -> bool {
    let redriven =
        |step: &crate::seeded::scene::StepPlan| matches!(step.what, Step::Redrive | Step::Job(..));
    task.is_asked(|call| *call != Request::Cancel) || task.scene.steps.iter().any(redriven)
}
