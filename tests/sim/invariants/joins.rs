//! I23: a task that waits for others does not begin before they have ended, runs if they have ended as it wants,
//! and else not at all.

use tickwheel::model::state::{Outcome, State};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::plan::Request;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    for task in tasks.iter().filter(|task| !task.item.after.is_empty()) {
        let is_other = |other: &&Task<'_>| {
            let here = other.scene.number == task.scene.number;
            here && task.item.after.contains(&other.item.number)
        };
        let others: Vec<&Task<'_>> = tasks.iter().filter(is_other).collect();
        for other in &others {
            before(task, other, findings);
        }
        let known = others.len() == task.item.after.len();
        let mut states = others.iter().map(|other| other.state());
        let all_succeeded = known && states.all(|state| state == Some(State::Succeeded));
        fate(task, known, all_succeeded, findings);
    }
}

/// Nothing of a dependency happens behind the beginning of the waiter.
fn before(task: &Task<'_>, other: &Task<'_>, findings: &mut Findings) {
    let Some(first) = task.claims().iter().min_by_key(|claim| claim.answered) else {
        return;
    };
    let late = other
        .claims()
        .iter()
        .find(|claim| claim.asked > first.answered);
    let ends = |run: &&crate::seeded::history::Run| {
        let end = matches!(
            run.outcome,
            Some(Outcome::Succeeded { .. } | Outcome::Failed { .. })
        );
        run.whole && end && run.ended.is_some_and(|end| end > first.answered)
    };
    let (name, other_name) = (task.name(), other.name());
    if late.is_some() || other.runs().iter().any(|run| ends(&run)) {
        let at = first.answered;
        findings.add(format!(
            "{name} was claimed at {at}, and {other_name} had not ended"
        ));
    }
}

fn fate(task: &Task<'_>, known: bool, all_succeeded: bool, findings: &mut Findings) {
    let cancelled = task.is_asked(|call| *call == Request::Cancel);
    let (name, state) = (task.name(), task.state());
    let succeeds = all_succeeded || known && !task.item.all_succeed;
    if succeeds && state == Some(State::Cancelled) && !cancelled && !task.item.after_parent {
        findings.add(format!(
            "{name} is {state:?}, and all that it waits for have ended well"
        ));
    }
    if task.item.all_succeed && known && !all_succeeded && !task.runs().is_empty() {
        findings.add(format!(
            "{name} ran, and not all that it waits for have succeeded"
        ));
    }
}
