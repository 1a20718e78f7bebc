//! `Keys` draws tasks that share keys, registered by several clients at about the same time, and requests that are sent twice.

use tickwheel::model::key::OnConflict;

use super::scenes::{Scene, add, attempts};
use crate::seeded::{chance::Chance, plan::Request, scene::ScenePlan};

pub(super) struct Keys;

impl Scene for Keys {
    fn name(&self) -> &'static str {
        "keys"
    }

    fn draw(&self, scene: &mut ScenePlan, begins: u64, chance: &mut Chance) {
        let keys = chance.between(1, 2);
        let replaces = chance.percent(50);
        for _ in 0..chance.between(3, 8) {
            let together = begins + 3000 * chance.below(4);
            let at = together + chance.below(60);
            let start = at + chance.below(6000);
            let item = add(scene, at, start);
            item.attempts = attempts(800, chance);
            let wish = match chance.below(if replaces { 4 } else { 2 }) {
                0 => OnConflict::Ignore,
                1 => OnConflict::Reject,
                _ => OnConflict::Replace,
            };
            item.key = Some((u8::try_from(chance.below(keys)).unwrap_or(0), wish));
            if chance.percent(25) {
                let near = super::about(start, chance).max(at + 1);
                item.calls.push(super::call(near, Request::Cancel));
            }
        }
        for _ in 0..chance.between(1, 3) {
            let at = begins + chance.below(10_000);
            let item = add(scene, at, at + chance.below(6000));
            item.marked = true;
            item.attempts = attempts(800, chance);
        }
    }
}
