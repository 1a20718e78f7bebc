//! I8: the hands of a clock row only move forward and in order, and one node writes each version. (The
//! protocol's own proof needs this; Temporal's queue level once moved back.)

use std::collections::BTreeMap;

use super::{Ended, Findings};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for broken in &ended.contents.clock_violations {
        findings.add(broken.clone());
    }
    let mut writers = BTreeMap::new();
    for swap in &ended.history.swaps {
        if !swap.from.may_become(&swap.to, &ended.rules.shape) {
            findings.add(format!(
                "wheel {}: {:?} became {:?}",
                swap.wheel.get(),
                swap.from,
                swap.to
            ));
        }
        let writer = (swap.to.owner, swap.to.wall);
        let before = writers.insert((swap.wheel, swap.to.version), writer);
        if before.is_some_and(|before| before != writer) {
            let (wheel, version) = (swap.wheel.get(), swap.to.version);
            findings.add(format!(
                "wheel {wheel}: version {version} was written twice"
            ));
        }
    }
    for (wheel, row) in &ended.contents.clocks {
        let known = ended
            .history
            .swaps
            .iter()
            .filter(|swap| swap.wheel == *wheel);
        let last = known.map(|swap| swap.to.version).max().unwrap_or(0);
        if !row.is_sound(&ended.rules.shape) || row.version < last {
            findings.add(format!(
                "wheel {}: {row:?} at the end, version {last} was seen",
                wheel.get()
            ));
        }
    }
}
