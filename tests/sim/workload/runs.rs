//! `Runs` gives tasks calls that run them now, long before their time.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{Request, TaskPlan},
};

pub(super) struct Runs;

impl Feature for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }
    fn weight(&self) -> u64 {
        5
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.start = task.at + 60_000;
        let at = task.at + chance.between(1, 20_000);
        task.calls.push(super::call(at, Request::Reschedule(0)));
    }
}
