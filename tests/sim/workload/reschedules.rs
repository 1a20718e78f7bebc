//! `Reschedules` gives tasks reschedules about the moment of firing, to later and to earlier, and again.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{Request, TaskPlan},
};

pub(super) struct Reschedules;

impl Feature for Reschedules {
    fn name(&self) -> &'static str {
        "reschedules"
    }
    fn weight(&self) -> u64 {
        15
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        let mut at = super::about(task.start, chance).max(task.at + 1);
        for _ in 0..chance.between(1, 3) {
            let to = at + chance.below(12_000);
            task.calls.push(super::call(at, Request::Reschedule(to)));
            at = super::about(to, chance).max(at + 1);
        }
        if chance.percent(20) {
            task.calls.push(super::call(at, Request::Cancel));
        }
    }
}
