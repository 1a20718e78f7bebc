//! `Gates` draws tasks of a callback whose gates an operator closes and opens, for the callback and for one collection.

use tickwheel::model::gate::GateState;

use super::scenes::{Scene, add, attempts};
use crate::seeded::{
    chance::Chance,
    plan::Request,
    scene::{ScenePlan, Step, StepPlan},
};

pub(super) struct Gates;

impl Scene for Gates {
    fn name(&self) -> &'static str {
        "gates"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        for _ in 0..chance.between(3, 10) {
            let at = begins + chance.below(15_000);
            let start = at + chance.below(15_000);
            let item = add(scene, at, start);
            item.collection = u8::try_from(chance.below(2)).unwrap_or(0);
            item.attempts = attempts(1500, chance);
            match chance.below(8) {
                0 => {
                    let near = super::about(start, chance).max(at + 1);
                    item.calls.push(super::call(near, Request::Cancel));
                }
                1 => {
                    let near = super::about(start, chance).max(at + 1);
                    let to = near + chance.below(9000);
                    item.calls.push(super::call(near, Request::Reschedule(to)));
                }
                _ => {}
            }
        }
        let mut at = begins + chance.below(8000);
        let mut set = |gate, state, lasts| {
            let what = Step::Gate(gate, state);
            scene.steps.push(StepPlan { at, what });
            at += lasts;
        };
        for _ in 0..chance.between(1, 3) {
            let gate = chance.one_of(&[None, None, Some(0)]);
            let state = if chance.percent(20) {
                GateState::Dropping
            } else {
                GateState::Paused
            };
            set(gate, state, chance.between(1000, 14_000));
            set(gate, GateState::Open, chance.below(5000));
        }
    }
}
