//! I19: a dead task that an operator was told to run does so, in a later attempt, and the list of the dead is that
//! of the rows. (No letter is lost, and none comes back by itself.)

use tickwheel::model::{job::JobKind, state::State};

use super::{Ended, Findings};
use crate::seeded::{history::Ordered, scene::Step};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for task in ended.scene_tasks() {
        let orders = ended.orders(task.scene).iter();
        for order in orders.filter(|order| runs(order) && order.tasks.contains(&task.id)) {
            let before = task
                .claims()
                .iter()
                .filter(|claim| claim.answered < order.asked);
            let before = before.map(|claim| claim.attempt).max().unwrap_or(0);
            let attempt = task.row.map_or(0, |row| row.attempt);
            let withdrawn = task.state() == Some(State::Cancelled);
            if attempt <= before && !withdrawn {
                let (name, at) = (task.name(), order.answered);
                findings.add(format!(
                    "{name} was made to run at {at} after attempt {before}, and had {attempt}"
                ));
            }
        }
    }
}

fn runs(order: &Ordered) -> bool {
    let kind = matches!(order.step, Step::Redrive | Step::Job(JobKind::Redrive, ..));
    kind && order.done
}
