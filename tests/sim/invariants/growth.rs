//! I13: entries do not multiply, and none is left when all has ended; nor is a content that nobody can need. (The chains of
//! looks that a crash leaves behind must meet: amplification is how schedulers die of a fault that is long over.)

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
