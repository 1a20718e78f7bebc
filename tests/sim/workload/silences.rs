//! Silences let the attempts of some tasks be silent for minutes and for an hour, whatever feature drew them.
//!
//! A task whose worker dies waits for so long, and so does its run: other tasks end, wheels turn, and nodes forget meanwhile. The
//! draws come from a stream of their own.

use crate::seeded::{chance::Chance, plan::TaskPlan};

/// One task in so many may be silent for long.
const ONE_IN: u64 = 8;

/// How long, in milliseconds. Rare lengths cost most of the time of a search, so they are the longest.
const LENGTHS: [u64; 6] = [60_000, 60_000, 60_000, 600_000, 600_000, 3_600_000];

/// The longest run of an attempt that is to live by its heartbeats, in milliseconds.
const RUN_MAX: u64 = 1_000_000;

/// Perhaps lets a task be silent for long. An attempt that lives by its heartbeats does so still, unless that takes too long.
pub(crate) fn lengthen(task: &mut TaskPlan, chance: &mut Chance) {
    if task.record || chance.below(ONE_IN) != 0 {
        return;
    }
    let before = std::mem::replace(&mut task.heartbeat_timeout, chance.one_of(&LENGTHS));
    for attempt in &mut task.attempts {
        let grown = attempt.runs * task.heartbeat_timeout / before;
        if attempt.runs > before && grown <= RUN_MAX {
            attempt.runs = grown;
        }
    }
}
