//! `Joins` draws tasks that wait for others: for their success or for any end, registered before those end and after.

use super::scenes::{Scene, add, attempts};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request},
    scene::ScenePlan,
};

pub(super) struct Joins;

impl Scene for Joins {
    fn name(&self) -> &'static str {
        "joins"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let first = chance.between(1, 3);
        for number in 0..first + chance.between(1, 5) {
            let at = begins + chance.below(10_000);
            let start = at + chance.below(6000);
            let others = scene.items.len();
            let item = add(scene, at, start);
            item.attempts = attempts(1500, chance);
            if number >= first {
                let mut after: Vec<usize> = (0..chance.between(1, 3))
                    .map(|_| chance.index(others))
                    .collect();
                after.sort_unstable();
                after.dedup();
                item.after = after;
                item.all_succeed = chance.percent(60);
            }
            match chance.below(8) {
                0 => {
                    let near = super::about(start, chance).max(at + 1);
                    item.calls.push(super::call(near, Request::Cancel));
                }
                1 => {
                    let runs = chance.below(500);
                    let ends = EndPlan::Fails;
                    item.attempts = vec![AttemptPlan { runs, ends }];
                }
                _ => {}
            }
        }
    }
}
