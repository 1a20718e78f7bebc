//! `Ordering` draws tasks of a few sequences, which run one at a time: late ones, cancelled ones, moved ones and failing ones.

use super::scenes::{Scene, add, attempts};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request},
    scene::ScenePlan,
};

pub(super) struct Ordering;

impl Scene for Ordering {
    fn name(&self) -> &'static str {
        "ordering"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let sequences = chance.between(1, 2);
        for _ in 0..chance.between(3, 9) {
            let at = begins + chance.below(10_000);
            // Many of them are due at about the same time, registered in any order.
            let start = begins + chance.below(14_000);
            let item = add(scene, at, start);
            item.ordering_key = Some(u8::try_from(chance.below(sequences)).unwrap_or(0));
            item.attempts = attempts(1500, chance);
            match chance.below(8) {
                0 => {
                    let near = super::about(start, chance).max(at + 1);
                    item.calls.push(super::call(near, Request::Cancel));
                }
                1 => {
                    let near = super::about(start, chance).max(at + 1);
                    let to = near + chance.below(6000);
                    item.calls.push(super::call(near, Request::Reschedule(to)));
                }
                2 => {
                    let runs = chance.below(500);
                    let ends = EndPlan::Fails;
                    item.attempts = vec![AttemptPlan { runs, ends }];
                }
                _ => {}
            }
        }
    }
}
