//! `Retries` gives tasks attempts that fail and are tried again; some use up their attempts.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, TaskPlan},
};

pub(super) struct Retries;

impl Feature for Retries {
    fn name(&self) -> &'static str {
        "retries"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.max_attempts = u32::try_from(chance.between(2, 6)).unwrap_or(2);
        let failures = chance.between(1, 4);
        for _ in 0..failures {
            let failing = AttemptPlan {
                runs: chance.below(300),
                ends: EndPlan::Retries,
            };
            task.attempts.insert(0, failing);
        }
    }
}
