//! `Ends` gives tasks attempts that fail for good, and attempts that ask for a later call.

use super::Feature;
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, TaskPlan},
};

pub(super) struct Ends;

impl Feature for Ends {
    fn name(&self) -> &'static str {
        "ends"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.attempts = match chance.below(2) {
            0 => vec![AttemptPlan {
                runs: chance.below(900),
                ends: EndPlan::Fails,
            }],
            _ => {
                let after = chance.below(6000);
                let snoozing = AttemptPlan {
                    runs: 50,
                    ends: EndPlan::Snoozes(after),
                };
                vec![snoozing, super::succeeds(chance.below(100))]
            }
        };
    }
}
