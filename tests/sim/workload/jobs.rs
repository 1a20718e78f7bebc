//! `Jobs` draws tasks of two collections, and a job that cancels, moves or redrives those of one.

use tickwheel::model::job::JobKind;

use super::scenes::{Scene, add, attempts};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan},
    scene::{ScenePlan, Step, StepPlan},
};

pub(super) struct Jobs;

impl Scene for Jobs {
    fn name(&self) -> &'static str {
        "jobs"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let kind = chance.one_of(&[JobKind::Cancel, JobKind::Reschedule, JobKind::Redrive]);
        for _ in 0..chance.between(4, 12) {
            let at = begins + chance.below(4000);
            // Most are far ahead; some are about to start when the job comes to them.
            let ahead = if chance.percent(70) { 60_000 } else { 8000 };
            let start = at + chance.below(4000) + if kind == JobKind::Redrive { 0 } else { ahead };
            let item = add(scene, at, start);
            item.collection = u8::try_from(chance.below(3).min(1)).unwrap_or(0);
            item.attempts = attempts(500, chance);
            if kind == JobKind::Redrive {
                let failing = AttemptPlan {
                    runs: chance.below(300),
                    ends: EndPlan::Retries,
                };
                item.max_attempts = 1;
                item.attempts.insert(0, failing);
            }
        }
        let at = begins + 4000 + chance.below(8000);
        let to = (kind == JobKind::Reschedule).then(|| at + 70_000 + chance.below(20_000));
        let what = Step::Job(kind, 1, to);
        scene.steps.push(StepPlan { at, what });
    }
}
