//! `Far` draws tasks some turns of the wheel away.

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Far;

impl Feature for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.start = task.at + chance.between(20_000, 120_000);
    }
}
