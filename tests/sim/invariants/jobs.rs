//! I24: a job that is completed has reached every task of its filter that was registered before it, and no other.

use tickwheel::model::{job::JobKind, state::State};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{history::Ordered, scene::Step};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for task in ended.scene_tasks() {
        for order in ended.orders(task.scene).iter().filter(|order| order.done) {
            let Step::Job(kind, collection, to) = order.step else {
                continue;
            };
            let matches = collection == task.item.collection;
            if matches && task.known.is_some_and(|known| known < order.asked) {
                reached(&task, order, (kind, to), findings);
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

fn reached(
    task: &Task<'_>,
    order: &Ordered,
    (kind, to): (JobKind, Option<u64>),
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
            // It was dead for certain when the job came.
            let reports = task.story().into_iter().flat_map(|story| &story.reports);
            let mut dead = reports.filter(|report| report.taken && report.answered < order.asked);
            let dies = task.item.max_attempts == 1 && dead.any(|report| report.attempt == 1);
            let state = task.state();
            let attempt = task.row.map_or(0, |row| row.attempt);
            if dies && attempt < 2 && state == Some(State::Dead) {
                findings.add(format!(
                    "{name} is {state:?} at attempt {attempt}, redriven by {at}"
                ));
            }
        }
        JobKind::Delete | JobKind::Backfill => {}
    }
}
