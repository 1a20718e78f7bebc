//! `Records` draws records for a topic of the user's own, near and far, cancelled and moved.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{Request, TaskPlan},
};

pub(super) struct Records;

impl Feature for Records {
    fn name(&self) -> &'static str {
        "records"
    }
    fn weight(&self) -> u64 {
        20
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.record = true;
        task.start = task.at + chance.below(40_000);
        let near = super::about(task.start, chance);
        match chance.below(6) {
            0 => task.calls.push(super::call(near, Request::Cancel)),
            1 => {
                let to = near + chance.below(10_000);
                task.calls.push(super::call(near, Request::Reschedule(to)));
            }
            _ => {}
        }
        if chance.percent(30) {
            task.body_bytes = 1500;
        }
    }
}
