//! `Near` draws tasks of the next seconds, most of which start inside slots that are closed already.

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Near;

impl Feature for Near {
    fn name(&self) -> &'static str {
        "near"
    }
    fn weight(&self) -> u64 {
        25
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.start = task.at + chance.below(3500);
    }
}
