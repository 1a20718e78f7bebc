//! `Trees` draws parents with children, some of which have children themselves, come late, or wait for the run of their parent.
//! In half of the scenes more tasks fail, and an operator has the failed part run again.

use super::scenes::{Scene, add, attempts, fate};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan},
    scene::{ScenePlan, Step, StepPlan},
};

pub(super) struct Trees;

impl Scene for Trees {
    fn name(&self) -> &'static str {
        "trees"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let root_start = begins + chance.between(500, 8000);
        let root = add(scene, begins, root_start);
        root.is_parent = true;
        root.attempts = attempts(3000, chance);
        let mut parents = vec![0];
        for number in 1..=usize::try_from(chance.between(1, 8)).unwrap_or(1) {
            let parent = parents[chance.index(parents.len())];
            let at = begins + chance.below(12_000);
            let start = at + chance.below(10_000);
            let item = add(scene, at, start);
            item.parent = Some(parent);
            item.attempts = attempts(2000, chance);
            item.after_parent = chance.percent(25);
            if chance.percent(30) {
                item.is_parent = true;
                parents.push(number);
            }
            fate(item, 8, chance);
        }
        if chance.percent(50) {
            again(scene, begins, chance);
        }
    }
}

/// Tasks fail at first, and the operator comes when the tree may have ended, and sometimes once more.
fn again(scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
    for item in &mut scene.items {
        let runs = chance.below(500);
        let fails = EndPlan::Fails;
        if item.attempts.iter().any(|attempt| attempt.ends == fails) {
            item.attempts.push(super::succeeds(runs));
        } else if chance.percent(25) {
            item.attempts.insert(0, AttemptPlan { runs, ends: fails });
        }
    }
    let mut at = begins + 5000;
    for _ in 0..chance.between(1, 3) {
        at += chance.below(15_000);
        let what = Step::Retry;
        scene.steps.push(StepPlan { at, what });
    }
}
