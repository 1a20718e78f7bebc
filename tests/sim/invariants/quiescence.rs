//! I10: when all tasks have ended, every wheel has fired all open ticks and left nothing behind: no entry in
//! erased ticks, no task without a look ahead. (FoundationDB: check the whole database at quiescence.)
//!
//! An entry whose writer died before it could take it back lies in an erased tick until the sweep. Without
//! faults no writer dies, so there must be no such entry at any time.
//!
//! A mark that came after the eraser's look at its tick is left to its TTL, which a store in memory does not
//! have. So only entries that act are judged.

use super::{Ended, Findings, behind_max_ms};
use crate::seeded::world::Sim;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let behind_max = behind_max_ms(ended.plan.tick_ms.cast_signed());
    for (wheel, row) in &ended.contents.clocks {
        let fired = row.fired.due.0 - Sim::instant(0).0;
        if fired < ended.now - behind_max {
            findings.add(format!(
                "wheel {} has fired up to {fired} at {}",
                wheel.get(),
                ended.now
            ));
        }
    }
    for (wheel, key) in ended.contents.behind_erased() {
        let wheel = wheel.get();
        findings.add(format!("wheel {wheel} keeps {key:?} in what it has erased"));
    }
    for left in ended
        .history
        .leftovers
        .iter()
        .filter(|_| ended.plan.is_calm())
    {
        findings.add(format!("{left} until it is swept, and nothing went wrong"));
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
