//! `Cancels` gives tasks cancels, most of them about the moment of firing.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request, TaskPlan},
};

pub(super) struct Cancels;

impl Feature for Cancels {
    fn name(&self) -> &'static str {
        "cancels"
    }
    fn weight(&self) -> u64 {
        15
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        let at = super::about(task.start, chance).max(task.at + 1);
        task.calls.push(super::call(at, Request::Cancel));
        if chance.percent(30) {
            let failing = AttemptPlan {
                runs: chance.below(2000),
                ends: EndPlan::Retries,
            };
            task.attempts.insert(0, failing);
        }
    }
}
