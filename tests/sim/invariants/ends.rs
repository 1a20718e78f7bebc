//! I15: every task of a scene that was acknowledged comes to its end, and the end has a cause. (I1 of the operating model.)

use tickwheel::model::{
    gate::GateState,
    job::JobKind,
    state::{Outcome, State, TaskRow},
};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{plan::Request, scene::Step};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for task in ended.scene_tasks() {
        let Some(row) = task.row else {
            if task.known.is_some() {
                findings.add(format!("{} was never run", task.name()));
            }
            continue;
        };
        if let Some(what) = end(&task, row) {
            findings.add(format!("{} {what}", task.name()));
        }
        if row.waits_for_children() {
            findings.add(format!("the tree of {} has not ended", task.name()));
        }
    }
}

/// The error in the end of a task, if there is one.
fn end(task: &Task<'_>, row: &TaskRow) -> Option<String> {
    let reported = |wanted: fn(&Outcome) -> bool| {
        let mut runs = task.runs().iter();
        runs.any(|run| run.attempt == row.attempt && run.outcome.as_ref().is_some_and(wanted))
    };
    let founded = match row.state {
        State::New | State::Claimed | State::Retrying => {
            let (state, attempt) = (row.state, row.attempt);
            return Some(format!("has not ended: {state:?} since attempt {attempt}"));
        }
        State::Succeeded => reported(|outcome| matches!(outcome, Outcome::Succeeded { .. })),
        State::Failed => reported(|outcome| matches!(outcome, Outcome::Failed { .. })),
        State::Cancelled => may_be_cancelled(task, row),
        State::Expired => task.item.template,
        // Tries of an earlier life do not count.
        State::Dead => row.tries == task.item.max_attempts && row.attempt >= row.tries,
    };
    (!founded).then(|| format!("is {:?}, and nothing led to that", row.state))
}

fn may_be_cancelled(task: &Task<'_>, row: &TaskRow) -> bool {
    let collection = task.item.collection;
    let by_operator = task.scene.steps.iter().any(|step| match step.what {
        Step::Gate(gate, GateState::Dropping) => gate.is_none_or(|gate| gate == collection),
        Step::Job(JobKind::Cancel, of, _) => of == collection,
        // A schedule withdraws runs, and may cancel one for the next.
        Step::Put(_) => true,
        _ => false,
    });
    let by_others = task.item.after_parent || !task.item.after.is_empty();
    let replaced = row.detail.next.is_some();
    by_operator || by_others || replaced || task.is_asked(|call| *call == Request::Cancel)
}
