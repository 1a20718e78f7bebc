//! `Redrives` gives tasks that die calls that run them, before they are dead, while they die and after.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request, TaskPlan},
};

pub(super) struct Redrives;

impl Feature for Redrives {
    fn name(&self) -> &'static str {
        "redrives"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.start = task.at + chance.below(4000);
        task.max_attempts = u32::try_from(chance.between(1, 2)).unwrap_or(1);
        // The task may die in its second life, too.
        let failures = u64::from(task.max_attempts) * chance.between(1, 2);
        for _ in 0..failures {
            let failing = AttemptPlan {
                runs: chance.below(300),
                ends: chance.one_of(&[EndPlan::Retries, EndPlan::Retries, EndPlan::Vanishes]),
            };
            task.attempts.insert(0, failing);
        }
        let mut at = task.start;
        for _ in 0..chance.between(1, 2) {
            at += chance.below(15_000);
            task.calls.push(super::call(at, Request::Run));
        }
    }
}
