//! `Chains` draws tasks that others follow, at a success or at another end, in their tree or not.

use super::scenes::{Scene, add, attempts, fate, template};
use crate::seeded::{
    chance::Chance,
    scene::{FollowPlan, ScenePlan},
};

pub(super) struct Chains;

impl Scene for Chains {
    fn name(&self) -> &'static str {
        "chains"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let count = usize::try_from(chance.between(1, 4)).unwrap_or(1);
        for _ in 0..count {
            let at = begins + chance.below(8000);
            let start = at + chance.below(8000);
            let item = add(scene, at, start);
            item.attempts = attempts(1500, chance);
            item.is_parent = chance.percent(30);
            fate(item, 6, chance);
        }
        // A template follows tasks of one generation only, so the depth is bounded.
        let mut before: Vec<usize> = (0..count).collect();
        for _ in 0..chance.between(1, 2) {
            let mut next = Vec::new();
            for place in before {
                for _ in 0..chance.between(0, 2) {
                    let number = scene.items.len();
                    let follow = template(scene, begins);
                    follow.attempts = attempts(1000, chance);
                    let in_tree = scene.items[place].is_parent && chance.percent(60);
                    scene.items[place].then.push(FollowPlan {
                        item: number,
                        success: chance.percent(70),
                        wait: chance.below(4000),
                        in_tree,
                    });
                    next.push(number);
                }
            }
            before = next;
        }
    }
}
