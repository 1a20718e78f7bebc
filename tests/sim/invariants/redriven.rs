//! I14: a task runs now, in a new attempt, once a client was told so, and earlier attempts do not count
//! afterwards. (A dead task ends again only by a later attempt.) Events in the instant of the call may lie
//! before or behind it.

use tickwheel::model::state::{Outcome, State};

use super::{Ended, Findings};
use crate::seeded::{
    history::{Story, Told},
    plan::Request,
};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (registered, story, plan) in ended.registered().filter(|(_, _, plan)| !plan.record) {
        let (number, id) = (registered.number, registered.id);
        for before in told_to_run(story) {
            let row = ended.contents.rows.get(&id);
            let withdrawn = plan.expire_after.is_some()
                || story
                    .calls
                    .iter()
                    .any(|call| call.request == Request::Cancel)
                || row.is_some_and(|row| row.state == State::Expired);
            let attempt = row.map_or(0, |row| row.attempt);
            if attempt <= before && !withdrawn {
                findings.add(format!(
                    "task {number} ({id}) was told to run after attempt {before}, and had {attempt}"
                ));
            }
            for report in &story.reports {
                let ends = matches!(
                    report.outcome,
                    Outcome::Succeeded { .. } | Outcome::Failed { .. }
                );
                if report.taken && ends && report.attempt <= before {
                    let (old, at) = (report.attempt, report.answered);
                    findings.add(format!(
                        "task {number} ({id}) runs after attempt {before}, and attempt {old} ended it at {at}"
                    ));
                }
            }
        }
    }
}

/// For each call that made the task run, as its client was told: the last attempt that was given
/// out before the call.
fn told_to_run(story: &Story) -> impl Iterator<Item = u32> {
    let told = |call: &&crate::seeded::history::Called| {
        call.request == Request::Run && matches!(call.told, Told::Rescheduled(_))
    };
    story.calls.iter().filter(told).map(|call| {
        let before = story
            .claims
            .iter()
            .filter(|claim| claim.answered < call.asked);
        before.map(|claim| claim.attempt).max().unwrap_or(0)
    })
}
