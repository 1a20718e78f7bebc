//! I13: entries do not multiply; when all tasks have ended, no entry is left, and no content that cannot be
//! needed. (Chains of looks that a crash leaves must meet: amplification lets schedulers fail from a fault
//! that is long over.)

use super::{Ended, Findings};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for broken in &ended.history.broken {
        findings.add(broken.clone());
    }
    if !ended.finished {
        return;
    }
    for entry in ended.contents.live() {
        findings.add(format!(
            "{:?} {:?} is left at {}",
            entry.key, entry.kind, ended.now
        ));
    }
    for (registered, _, plan) in ended.registered().filter(|(_, _, plan)| plan.record) {
        if ended.contents.bodies.contains(&registered.id) {
            findings.add(format!("the content of record {} is left", plan.number));
        }
    }
}
