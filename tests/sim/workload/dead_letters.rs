//! `DeadLetters` draws tasks that die, and an operator who lists the dead ones and makes them run again.

use super::scenes::{Scene, add};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request},
    scene::{ScenePlan, Step, StepPlan},
};

pub(super) struct DeadLetters;

impl Scene for DeadLetters {
    fn name(&self) -> &'static str {
        "dead letters"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        for _ in 0..chance.between(2, 7) {
            let at = begins + chance.below(6000);
            let start = at + chance.below(5000);
            let item = add(scene, at, start);
            item.max_attempts = u32::try_from(chance.between(1, 2)).unwrap_or(1);
            // Some die in every life.
            let lives = chance.between(1, 3);
            for _ in 0..u64::from(item.max_attempts) * lives {
                let failing = AttemptPlan {
                    runs: chance.below(300),
                    ends: EndPlan::Retries,
                };
                item.attempts.insert(0, failing);
            }
            if chance.percent(20) {
                item.ordering_key = Some(0);
            }
            if chance.percent(20) {
                let near = start + chance.below(12_000);
                item.calls.push(super::call(near, Request::Run));
            }
        }
        let mut at = begins + 6000;
        for _ in 0..chance.between(1, 3) {
            at += chance.below(9000);
            let what = Step::Redrive;
            scene.steps.push(StepPlan { at, what });
        }
    }
}
