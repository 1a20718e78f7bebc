//! I10: when everything has ended, every wheel has fired all that is open and nothing is left behind: no entry in what was
//! erased, no task without a look ahead. (FoundationDB: check the whole database at quiescence.)
//!
//! A mark that came after the eraser's look at its tick is left to its TTL, which a store in memory does not have: only
//! entries that act are judged.

use super::{Ended, Findings};
use crate::seeded::world::Sim;

/// How far a hand may be behind the clock when there is nothing to do: some ticks, and a takeover that is under way.
const BEHIND_MAX_MS: i64 = 15_000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tick = ended.rules.shape.tick();
    for (wheel, row) in &ended.contents.clocks {
        let fired = row.fired.due.0 - Sim::instant(0).0;
        if fired < ended.now - BEHIND_MAX_MS {
            findings.add(format!(
                "wheel {} has fired up to {fired} at {}",
                wheel.get(),
                ended.now
            ));
        }
        let live = ended.contents.live().map(|entry| entry.key);
        for key in live.filter(|key| key.wheel() == *wheel) {
            if tick.tick_of(key.due) <= row.erased {
                findings.add(format!(
                    "wheel {} keeps {key:?} in what it has erased",
                    wheel.get()
                ));
            }
        }
    }
    for (id, row) in &ended.contents.rows {
        let looked_at = ended.contents.live().any(|entry| entry.key.id == *id);
        if !row.state.is_terminal() && !looked_at {
            findings.add(format!(
                "task {id} is {:?}, and nothing comes back to it",
                row.state
            ));
        }
    }
}
