//! `Notices` draws tasks whose ends are told to a topic, by an e-mail, or not at all.

use super::scenes::{Scene, add, attempts, fate};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan},
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
            if fate(item, 6, chance) == 2 {
                item.max_attempts = 1;
                let runs = chance.below(500);
                let ends = EndPlan::Retries;
                item.attempts = vec![AttemptPlan { runs, ends }];
            }
        }
    }
}
