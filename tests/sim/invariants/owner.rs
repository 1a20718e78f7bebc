//! I9: the stored end is that of the attempt that reported it, an acknowledged report is stored, and a worker
//! gets the task as it was registered. (Fencing: a zombie must not overwrite a newer attempt.)
//!
//! A failure ends a task for good unless the failed part of its tree is told to run again afterwards.

use std::collections::BTreeSet;

use tickwheel::model::{
    ids::TaskId,
    state::{Outcome, State},
};

use super::{Ended, Findings};
use crate::seeded::{history::Reported, scene::Step};

/// The attempts that failed before a call that may have had their tasks run again.
fn told_again(ended: &Ended<'_>) -> BTreeSet<(TaskId, u32)> {
    let mut again = BTreeSet::new();
    for task in ended.scene_tasks() {
        let calls = ended.orders(task.scene).iter();
        // A call without an answer may have its effect at any time.
        let until = calls
            .filter(|order| order.step == Step::Retry)
            .map(|order| if order.done { order.answered } else { i64::MAX })
            .max();
        let Some(until) = until else { continue };
        let failed = |report: &&Reported| {
            matches!(report.outcome, Outcome::Failed { .. }) && report.answered <= until
        };
        let reports = task.story().into_iter().flat_map(|story| &story.reports);
        again.extend(
            reports
                .filter(failed)
                .map(|report| (task.id, report.attempt)),
        );
    }
    again
}

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (registered, story, plan) in ended.registered() {
        for claim in story
            .claims
            .iter()
            .filter(|claim| claim.body != Some(plan.body_bytes))
        {
            let (number, id, body) = (registered.number, registered.id, claim.body);
            findings.add(format!(
                "task {number} ({id}) came with a content of {body:?} bytes, registered {}",
                plan.body_bytes
            ));
        }
    }
    let again = told_again(ended);
    for (id, story) in &ended.history.stories {
        let Some(row) = ended.contents.rows.get(id) else {
            continue;
        };
        if row.state == State::Succeeded && row.detail.spec.target.is_tracked() {
            let stored = &row.detail.result;
            let run = story.runs.iter().find(|run| run.attempt == row.attempt);
            let made = run.and_then(|run| run.outcome.clone());
            let its_own = matches!(&made, Some(Outcome::Succeeded { result }) if result == stored);
            if !its_own {
                let attempt = row.attempt;
                findings.add(format!(
                    "task {id} holds {stored:?}; attempt {attempt} made {made:?}"
                ));
            }
        }
        let terminal = story.reports.iter().filter(|report| {
            let ends = matches!(
                report.outcome,
                Outcome::Succeeded { .. } | Outcome::Failed { .. }
            );
            report.taken && ends
        });
        for report in terminal {
            let state = match report.outcome {
                Outcome::Succeeded { .. } => State::Succeeded,
                _ => State::Failed,
            };
            let runs_again = row.attempt > report.attempt && again.contains(&(*id, report.attempt));
            if (row.state != state || row.attempt != report.attempt) && !runs_again {
                let (is, attempt) = (row.state, row.attempt);
                findings.add(format!(
                    "task {id} is {is:?} by attempt {attempt}; acknowledged was {report:?}"
                ));
            }
        }
    }
}
