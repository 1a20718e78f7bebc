//! I26: at rest, the figures of a callback are what a reader of everything finds: so many tasks are dead, and none
//! is held, runs or waits. Figures that say of themselves that they are not exact are not judged.

use super::{Ended, Findings};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    if !ended.finished {
        return;
    }
    for (number, scene) in &ended.history.scenes {
        for (figure, told, found) in &scene.figures {
            if told != found {
                findings.add(format!(
                    "scene {number}: {told} tasks are {figure}, of {found}"
                ));
            }
        }
    }
}
