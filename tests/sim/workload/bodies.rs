//! `Bodies` gives tasks contents that are too large to travel with their entries.

use tickwheel::limits::CONTENT_BYTES_MAX_DEFAULT;

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Bodies;

impl Feature for Bodies {
    fn name(&self) -> &'static str {
        "bodies"
    }
    fn weight(&self) -> u64 {
        5
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.body_bytes =
            chance.one_of(&[1100, 1500, 5000, 5000, CONTENT_BYTES_MAX_DEFAULT - 4096]);
        task.start = task.at + chance.below(20_000);
    }
}
