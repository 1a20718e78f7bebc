//! `Schedules` draws a schedule with a short interval, which an operator pauses, resumes, triggers and deletes.

use tickwheel::model::schedule::life::Overlap;

use super::scenes::{Scene, attempts, template};
use crate::seeded::{
    chance::Chance,
    scene::{ScenePlan, SchedulePlan, Step, StepPlan},
};

pub(super) struct Schedules;

impl Scene for Schedules {
    fn name(&self) -> &'static str {
        "schedules"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let every = 1000 * chance.between(1, 8);
        let overlap = chance.one_of(&[
            Overlap::Allow,
            Overlap::Allow,
            Overlap::Skip,
            Overlap::BufferOne,
            Overlap::CancelOther,
        ]);
        let item = template(scene, begins);
        item.max_attempts = 5;
        item.attempts = attempts(if chance.percent(50) { 300 } else { 2 * every }, chance);
        let schedule = SchedulePlan {
            item: 0,
            every,
            overlap,
            all_missed: chance.percent(50),
            limit: chance.between(3, 10),
        };
        let mut at = begins;
        let mut order = |what, wait| {
            at += wait;
            scene.steps.push(StepPlan { at, what });
        };
        order(Step::Put(schedule), 0);
        if chance.percent(40) {
            order(Step::Pause, chance.between(1, 20_000));
            if chance.percent(30) {
                order(Step::Trigger, chance.below(3000));
            }
            order(Step::Resume, chance.between(1, 15_000));
        }
        if chance.percent(30) {
            order(Step::Trigger, chance.below(10_000));
        }
        if chance.percent(30) {
            order(Step::Delete, chance.between(1, 20_000));
        }
    }
}
