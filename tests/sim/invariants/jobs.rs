//! I24: a job that is completed has reached every task of its filter that was registered before it, and no other. A redrive
//! has reached those that were dead before it, each with its letter: it finds them by that.

use tickwheel::model::{job::JobKind, ordering::CLOCKS_APART, state::State};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{history::Ordered, plan::Fault, scene::Step};

/// A node that leaves is gone by then.
const LEAVES_MS: u64 = 12_000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for task in ended.scene_tasks() {
        for order in ended.orders(task.scene).iter().filter(|order| order.done) {
            let Step::Job(kind, collection, to) = order.step else {
                continue;
            };
            let matches = collection == task.item.collection;
            let before = task.known.filter(|known| *known < order.asked);
            if matches && before.is_some_and(|known| !clocks_apart(ended, known)) {
                let dead = kind == JobKind::Redrive && has_letter(ended, &task, order.asked);
                reached(&task, order, (kind, to), dead, findings);
            }
        }
        let others = task.scene.steps.iter().any(|step| match step.what {
            Step::Job(JobKind::Reschedule | JobKind::Redrive, of, _) => of != task.item.collection,
            _ => false,
        });
        if others && task.row.is_some_and(|row| row.generation > 0) {
            findings.add(format!("{} was changed by a job over others", task.name()));
        }
    }
}

/// Tells whether a clock was so wrong when a task was acknowledged that its entry may lie where no job looks for it: a node that
/// is an hour ahead puts the look of a near task an hour ahead.
fn clocks_apart(ended: &Ended<'_>, known: i64) -> bool {
    ended.plan.faults.iter().any(|fault| {
        let is_wrong = u128::from(fault.clock_error()) > CLOCKS_APART.as_millis();
        let (at, ends) = (fault.at.cast_signed(), fault.ends().cast_signed());
        is_wrong && at <= known && known <= ends
    })
}

fn reached(
    task: &Task<'_>,
    order: &Ordered,
    (kind, to): (JobKind, Option<u64>),
    dead: bool,
    findings: &mut Findings,
) {
    let (name, at) = (task.name(), order.answered);
    let begun = task
        .claims()
        .iter()
        .any(|claim| claim.attempt == 1 && claim.asked <= at);
    let later = task.claims().iter().find(|claim| claim.asked > at);
    match kind {
        JobKind::Cancel => {
            if let Some(claim) = later {
                let claimed = claim.answered;
                findings.add(format!(
                    "{name} was claimed at {claimed}, and cancelled by {at}"
                ));
            }
        }
        JobKind::Reschedule => {
            let to = to.unwrap_or(0).cast_signed();
            let early = later.filter(|claim| claim.attempt == 1 && claim.wall < to);
            if let Some(claim) = early.filter(|_| !begun) {
                let claimed = claim.answered;
                findings.add(format!(
                    "{name} was claimed at {claimed}, and was moved to {to}"
                ));
            }
        }
        JobKind::Redrive => {
            let state = task.state();
            let attempt = task.row.map_or(0, |row| row.attempt);
            if dead && attempt < 2 && state == Some(State::Dead) {
                findings.add(format!(
                    "{name} is {state:?} at attempt {attempt}, redriven by {at}"
                ));
            }
        }
        JobKind::Delete | JobKind::Backfill | JobKind::Run | JobKind::Reopen => {}
    }
}

/// Tells whether a task was dead for certain at this time, with its letter. A letter that a fault kept from being written is
/// written by the next look of its task; that none is missing at rest is for I26.
fn has_letter(ended: &Ended<'_>, task: &Task<'_>, at: i64) -> bool {
    let claims = task.claims().iter().filter(|claim| claim.attempt == 1);
    let begun = claims.map(|claim| claim.asked).min().unwrap_or(0);
    let reports = task.story().into_iter().flat_map(|story| &story.reports);
    let mut died = reports.filter(|report| report.taken && report.attempt == 1);
    task.item.max_attempts == 1
        && died.any(|report| {
            let answered = report.answered;
            answered < at && !is_hit(ended, begun, answered)
        })
}

/// Tells whether a fault may have kept a node from its writes at some time within an interval.
fn is_hit(ended: &Ended<'_>, from: i64, to: i64) -> bool {
    let faults = ended.plan.faults.iter();
    let faults = faults.filter(|fault| stops_writes(&fault.what));
    let faults = faults.map(|fault| (fault.at, fault.ends()));
    let left = ended.plan.nodes.iter().filter_map(|node| node.leaves);
    let left = left.map(|at| (at, at + LEAVES_MS));
    faults
        .chain(left)
        .any(|(begins, ends)| begins.cast_signed() <= to && ends.cast_signed() >= from)
}

const fn stops_writes(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Crash { .. }
            | Fault::Pause { .. }
            | Fault::StoreAway { .. }
            | Fault::StoreUnruly { .. }
            | Fault::StoreSlow { .. }
            | Fault::ReplicaDown { .. }
            | Fault::ReplicaCut { .. }
            | Fault::Off
    )
}
