//! `Heartbeats` gives tasks attempts that run longer than their lease and live by their heartbeats.

use super::Feature;
use crate::seeded::{chance::Chance, plan::TaskPlan};

pub(super) struct Heartbeats;

impl Feature for Heartbeats {
    fn name(&self) -> &'static str {
        "heartbeats"
    }

    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance) {
        task.heartbeat_timeout = 4000;
        task.attempts = vec![super::succeeds(chance.between(5000, 15_000))];
    }
}
