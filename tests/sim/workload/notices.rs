//! `Notices` draws tasks whose ends are told to a topic, by an e-mail, or not at all.

use super::scenes::{Scene, add, attempts};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request},
    scene::ScenePlan,
};

pub(super) struct Notices;

impl Scene for Notices {
    fn name(&self) -> &'static str {
        "notices"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        for _ in 0..chance.between(2, 7) {
            let at = begins + chance.below(8000);
            let start = at + chance.below(8000);
            let item = add(scene, at, start);
            item.attempts = attempts(1500, chance);
            item.told = chance.percent(60);
            item.mailed = chance.percent(50);
            match chance.below(6) {
                0 => {
                    let near = super::about(start, chance).max(at + 1);
                    item.calls.push(super::call(near, Request::Cancel));
                }
                1 => {
                    let runs = chance.below(500);
                    let ends = EndPlan::Fails;
                    item.attempts = vec![AttemptPlan { runs, ends }];
                }
                2 => {
                    item.max_attempts = 1;
                    let runs = chance.below(500);
                    let ends = EndPlan::Retries;
                    item.attempts = vec![AttemptPlan { runs, ends }];
                }
                _ => {}
            }
        }
    }
}
