//! Features of the operating model draw scenes, one file for each: tasks that belong together, and calls about
//! them.
//!
//! Only seeds of the second family ([`crate::seeded::draw::OPERATING`]) have scenes, and these are drawn from
//! streams of their own. So the plans of the first family are what they were, and findings of it replay. A new
//! feature is a new file and a line in [`SCENES`], which gives most seeds of the second family other scenes.

use super::{
    chains, dead_letters, gates, jobs, joins, keys, limits, notices, ordering, schedules, trees,
};
use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, EndPlan, Request},
    scene::{ItemPlan, ScenePlan},
};

/// A feature of the operating model, as clients and operators use it.
pub(crate) trait Scene: Sync {
    /// Its name in a printed plan.
    fn name(&self) -> &'static str;
    /// Draws the tasks and calls of a scene that begins at this time.
    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance);
}

/// All of them.
pub(crate) const SCENES: [&dyn Scene; 11] = [
    &ordering::Ordering,
    &keys::Keys,
    &gates::Gates,
    &dead_letters::DeadLetters,
    &schedules::Schedules,
    &trees::Trees,
    &chains::Chains,
    &joins::Joins,
    &jobs::Jobs,
    &limits::Limits,
    &notices::Notices,
];

/// Draws a scene.
pub(crate) fn draw(number: usize, chance: &mut Chance) -> ScenePlan {
    let feature = SCENES[chance.index(SCENES.len())];
    let mut scene = ScenePlan {
        number,
        feature: feature.name(),
        ..ScenePlan::default()
    };
    let begins = 4000 + chance.below(25_000);
    feature.draw(&mut scene, begins, chance);
    scene
}

/// Adds a task that succeeds at once, and returns it.
pub(super) fn add(scene: &mut ScenePlan, at: u64, start: u64) -> &mut ItemPlan {
    let number = scene.items.len();
    scene.items.push(ItemPlan {
        number,
        at,
        start,
        max_attempts: 20,
        attempts: vec![super::succeeds(50)],
        ..ItemPlan::default()
    });
    &mut scene.items[number]
}

/// Adds a task that is not registered: the service makes tasks of it.
pub(super) fn template(scene: &mut ScenePlan, at: u64) -> &mut ItemPlan {
    let item = add(scene, at, at);
    item.template = true;
    item
}

/// Draws one of so many fates of a task, and returns its number: 0 is a cancel near the start, 1 a failure for good, and the
/// others change nothing.
pub(super) fn fate(item: &mut ItemPlan, of: u64, chance: &mut Chance) -> u64 {
    let fate = chance.below(of);
    match fate {
        0 => {
            let near = super::about(item.start, chance).max(item.at + 1);
            item.calls.push(super::call(near, Request::Cancel));
        }
        1 => {
            let runs = chance.below(500);
            let ends = EndPlan::Fails;
            item.attempts = vec![AttemptPlan { runs, ends }];
        }
        _ => {}
    }
    fate
}

/// Draws the attempts of a handler: most succeed, some fail or vanish before.
pub(super) fn attempts(longest: u64, chance: &mut Chance) -> Vec<AttemptPlan> {
    let mut attempts = vec![super::succeeds(chance.below(longest))];
    if chance.percent(30) {
        let ends = chance.one_of(&[EndPlan::Retries, EndPlan::Retries, EndPlan::Vanishes]);
        let runs = chance.below(longest);
        attempts.insert(0, AttemptPlan { runs, ends });
    }
    attempts
}
