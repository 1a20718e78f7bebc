//! Features draw the tasks and calls of clients, one file for each. A new feature is a new file
//! and a line in [`FEATURES`].

mod bodies;
mod cancels;
mod chains;
mod dead_letters;
mod deaths;
mod ends;
mod expiry;
mod far;
mod gates;
mod heartbeats;
mod jobs;
mod joins;
mod keys;
mod limits;
mod near;
mod notices;
mod ordering;
mod priorities;
mod records;
mod redrives;
mod reschedules;
mod retries;
mod runs;
pub(crate) mod scenes;
mod schedules;
pub(crate) mod silences;
mod trees;

use crate::seeded::{
    chance::Chance,
    plan::{AttemptPlan, CallPlan, EndPlan, Request, TaskPlan},
};

/// A feature of the service, as clients use it.
pub(crate) trait Feature: Sync {
    /// Its name in a printed plan.
    fn name(&self) -> &'static str;
    /// How often it is drawn, beside the others.
    fn weight(&self) -> u64 {
        10
    }
    /// Changes a plain task into one of this feature. A plain task is for a callback, succeeds at once and
    /// starts in some seconds.
    fn draw(&self, task: &mut TaskPlan, chance: &mut Chance);
}

/// All of them.
pub(crate) const FEATURES: [&dyn Feature; 14] = [
    &near::Near,
    &far::Far,
    &retries::Retries,
    &ends::Ends,
    &deaths::Deaths,
    &heartbeats::Heartbeats,
    &records::Records,
    &bodies::Bodies,
    &cancels::Cancels,
    &reschedules::Reschedules,
    &runs::Runs,
    &redrives::Redrives,
    &priorities::Priorities,
    &expiry::Expiry,
];

/// Draws a task that is registered within `horizon`.
pub(crate) fn draw(number: usize, horizon: u64, chance: &mut Chance) -> TaskPlan {
    let all: u64 = FEATURES.iter().map(|feature| feature.weight()).sum();
    let mut left = chance.below(all);
    let chosen = FEATURES.iter().find(|feature| {
        let found = left < feature.weight();
        left = left.saturating_sub(feature.weight());
        found
    });
    let feature = chosen.unwrap_or(&FEATURES[0]);
    let at = 2000 + chance.below(horizon);
    let mut task = TaskPlan {
        number,
        feature: feature.name(),
        at,
        start: at + chance.between(3000, 30_000),
        record: false,
        priority: 1,
        body_bytes: 8,
        max_attempts: 20,
        claim_timeout: 5000,
        heartbeat_timeout: chance.one_of(&[4000, 10_000]),
        expire_after: None,
        attempts: vec![succeeds(chance.below(500))],
        calls: Vec::new(),
    };
    feature.draw(&mut task, chance);
    task
}

/// An instant near the moment of firing, mostly exactly there or next to the edge of its tick.
fn about(moment: u64, chance: &mut Chance) -> u64 {
    match chance.below(5) {
        0 => moment,
        1 => moment.saturating_sub(chance.below(5)) + chance.below(10),
        2 => (moment / 1000 * 1000).saturating_sub(2000) + 563 + chance.below(20),
        3 => moment.saturating_sub(chance.below(3000)),
        _ => moment + chance.below(3000),
    }
}

const fn succeeds(runs: u64) -> AttemptPlan {
    AttemptPlan {
        runs,
        ends: EndPlan::Succeeds,
    }
}

const fn call(at: u64, what: Request) -> CallPlan {
    CallPlan { at, what }
}
