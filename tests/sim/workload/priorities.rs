//! `Priorities` draws tasks for the other queues of a callback.

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Priorities;

impl Feature for Priorities {
    fn name(&self) -> &'static str {
        "priorities"
    }
    fn weight(&self) -> u64 {
        5
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.priority = chance.one_of(&[0, 2]);
        task.start = task.at + chance.below(10_000);
    }
}
