//! I27: once the end of a tree was seen, and its failed part was then told to run again, each task that had failed does
//! so, in a later attempt. (Its new end is judged by I15, and that of the tree by I21.)
//!
//! Only the first call is judged: a task that fails in a round that goes on is left alone by the next one.

use tickwheel::model::{
    ids::TaskId,
    state::{Outcome, State},
};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{
    history::{Ordered, Reported},
    scene::{ScenePlan, Step},
};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    for root in tasks.iter().filter(|task| task.item.number == 0) {
        let Some(order) = first(ended, root.scene, root.id) else {
            continue;
        };
        let of_tree = tasks.iter().filter(|task| {
            let is_of_tree = task.item.is_parent || task.item.parent.is_some();
            task.scene.number == root.scene.number && is_of_tree
        });
        // A cancel may come between the call and the new attempt.
        for task in of_tree.filter(|task| task.state() != Some(State::Cancelled)) {
            left(task, order, findings);
        }
    }
}

/// The first call of a scene, if it came behind the end of the tree and was done.
fn first<'a>(ended: &'a Ended<'_>, scene: &ScenePlan, root: TaskId) -> Option<&'a Ordered> {
    let (_, seen) = ended.scene_story(scene)?.trees.get(&root)?;
    let mut orders = ended.orders(scene).iter();
    let order = orders.find(|order| order.step == Step::Retry)?;
    (order.done && order.asked > *seen).then_some(order)
}

fn left(task: &Task<'_>, order: &Ordered, findings: &mut Findings) {
    let failed = |report: &&Reported| {
        let fails = matches!(report.outcome, Outcome::Failed { .. });
        report.taken && fails && report.answered < order.asked
    };
    let reports = task.story().into_iter().flat_map(|story| &story.reports);
    let last = reports.filter(failed).map(|report| report.attempt).max();
    let attempt = task.row.map_or(0, |row| row.attempt);
    if let Some(last) = last.filter(|last| attempt <= *last) {
        let (name, at) = (task.name(), order.answered);
        findings.add(format!(
            "{name} failed at attempt {last}, was told to run again by {at}, and had {attempt}"
        ));
    }
}
