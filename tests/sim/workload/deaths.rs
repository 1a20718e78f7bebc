//! `Deaths` gives tasks workers that take them and never report.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, TaskPlan},
};

pub(super) struct Deaths;

impl Feature for Deaths {
    fn name(&self) -> &'static str {
        "deaths"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.heartbeat_timeout = 4000;
        let vanishing = AttemptPlan {
            runs: chance.below(3000),
            ends: EndPlan::Vanishes,
        };
        task.attempts.insert(0, vanishing);
    }
}
