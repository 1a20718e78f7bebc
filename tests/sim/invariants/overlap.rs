//! I4: two executions of one task never run at the same time. (Kleppmann's argument about leases and pauses:
//! a lease alone does not keep this; a worker that stops before its lease ends, by its own clock, does.)
//!
//! Leases are wall clock time of nodes. While two clocks differ by more than the workers' margin, one node
//! may take an attempt for dead that another has just granted, as the service says
//! (`src/flow/stages/cluster/clock_step.rs`). So a pair of executions is not judged if a fault moved a clock between
//! the beginnings of the two, or was in force then.

use super::{Ended, Findings};
use crate::seeded::history::Run;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for story in ended.history.stories.values() {
        for (place, one) in story.runs.iter().enumerate() {
            for other in story.runs.iter().skip(place + 1) {
                let (first, second) = if one.began <= other.began {
                    (one, other)
                } else {
                    (other, one)
                };
                if first.attempt == second.attempt {
                    findings.add(format!(
                        "attempt {} of {:?} ran twice",
                        first.attempt, story.registered
                    ));
                }
                let end = first.ended.unwrap_or(ended.now);
                if second.began < end && !clocks_moved(ended, first, second) {
                    let id = story.registered.as_ref().map(|registered| registered.id);
                    findings.add(format!(
                        "two live executions of {id:?}: {first:?} and {second:?}"
                    ));
                }
            }
        }
    }
}

pub(super) fn clocks_moved(ended: &Ended<'_>, first: &Run, second: &Run) -> bool {
    ended.plan.faults.iter().any(|fault| {
        let (begins, ends) = (fault.at.cast_signed(), fault.ends().cast_signed());
        // The claim came some time before the execution.
        fault.what.is_of_clocks() && begins <= second.began && ends + 10_000 >= first.began
    })
}
