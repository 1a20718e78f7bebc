//! `Expiry` draws tasks that are of no use some seconds after their start.

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Expiry;

impl Feature for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }
    fn weight(&self) -> u64 {
        3
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.expire_after = Some(chance.between(1, 8000));
        task.start = task.at + chance.below(20_000);
    }
}
