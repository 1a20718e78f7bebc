//! `Limits` draws more tasks at once than the rate or the `max_in_flight` of their callback lets begin.

use super::scenes::{Scene, add};
use crate::seeded::{chance::Chance, scene::ScenePlan};

pub(super) struct Limits;

impl Scene for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let some = |chance: &mut Chance, most| u32::try_from(chance.between(1, most)).unwrap_or(1);
        if chance.percent(60) {
            // In ten seconds.
            scene.rate = Some((some(chance, 20), some(chance, 3)));
        }
        if scene.rate.is_none() || chance.percent(30) {
            scene.in_flight = Some(some(chance, 3));
        }
        for _ in 0..chance.between(6, 16) {
            let at = begins + chance.below(6000);
            let item = add(scene, at, at + chance.below(6000));
            item.attempts = vec![super::succeeds(chance.below(3000))];
        }
    }
}
